"""The command line: `harvester <command>`."""

import sys

from harvester import __version__
from harvester.worker import interrupts

__all__ = ["main"]


def main() -> None:
    """Entry point. A signal during the imports ends the process without a traceback; commands handle later ones."""
    if sys.argv[1:] == ["--version"]:  # before the slow imports, because deployments and shells call this often
        print(__version__)
        return
    with interrupts.ending_on_signals("Stopped before the command began."):
        from harvester.cli.app import main as run_command

    run_command()
