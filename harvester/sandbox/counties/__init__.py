"""Three made-up jurisdictions whose pages have the markup of iasWorld, Patriot WebPro and VGSI."""
