"""Harvests that are killed, and servers that are killed below them: nothing is lost."""
