"""The command line: `harvester <command>`."""

import sys

from harvester import __version__
from harvester.worker import interrupts

__all__ = ["main"]


def main() -> None:
    """Entry point. A signal while it is imported ends it without a traceback; then commands have their own way."""
    if sys.argv[1:] == ["--version"]:  # at once: deployments and shells ask often
        print(__version__)
        return
    with interrupts.ending_on_signals("Stopped before the command began."):
        from harvester.cli.app import main as run_command

    run_command()
