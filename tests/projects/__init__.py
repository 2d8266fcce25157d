"""Public Scrapy projects under plain Scrapy and under harvester: docs/suites.md."""
