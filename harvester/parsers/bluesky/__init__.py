"""Answers of Bluesky's API, repositories and DID documents."""
