"""The spider of hashtags and trends: `asking` is what all its sources share, each source has a module of its own."""
