"""A crawler of public data that loses nothing and explains every failure."""

from importlib.metadata import version

__version__ = version("harvester")
