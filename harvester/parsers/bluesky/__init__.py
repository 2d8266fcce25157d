"""Parsers for Bluesky: responses of the API, repositories and DID documents."""
