"""Scrapyd, the egg, and the files of deploy/."""
