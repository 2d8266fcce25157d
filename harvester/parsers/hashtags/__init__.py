"""Parsers for sources of hashtags and trends: bytes in, records out."""
