"""Pages that only a browser can show: Chromium, driven by scrapy-playwright."""
