"""The command line: `harvester <command>`."""

from harvester.cli.app import main

__all__ = ["main"]
