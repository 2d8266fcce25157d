"""Made-up sources of hashtags and trends. The popular tags change with the sandbox's clock."""
