"""A crawl of many sites, of which many are not well."""
