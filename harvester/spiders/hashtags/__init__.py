"""The spider of hashtags and trends: all sources share `requests`; every source is a module."""
