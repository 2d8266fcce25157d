"""Commands of `scrapy` in a project that has the add-on."""
