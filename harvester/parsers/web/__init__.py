"""Parsers for the files and headers of any site: robots.txt, sitemaps, feeds, rate limits, usage of content."""
