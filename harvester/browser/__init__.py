"""Pages that need a browser: Chromium, driven by scrapy-playwright."""
