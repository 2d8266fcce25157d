"""Spiders of property records, one a platform: `platform` is what all share, `table` what those of tables share."""
