"""Spiders of property records, one for each platform. All share the base `platform`; table spiders share `table`."""
