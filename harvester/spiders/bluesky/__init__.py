"""The spider of Bluesky's social graph."""
