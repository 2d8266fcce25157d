"""Replacements for commands of `scrapy`, used in a project that has the add-on."""
