"""Tells people: an alert goes out through every channel that is configured."""
