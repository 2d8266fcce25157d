"""Spiders of property records, one for each platform. All share the base `platform`; spiders of tables share `table`."""
