"""Answers of sources of hashtags and trends: bytes in, records out."""
