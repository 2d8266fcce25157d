"""The platform Patriot WebPro: its spider, and the parser of its pages."""
