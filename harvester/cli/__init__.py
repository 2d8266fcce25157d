"""The command line: `harvester <command>`."""

from harvester.worker import interrupts

__all__ = ["main"]


def main() -> None:
    """Entry point. A signal while it is imported ends it without a traceback; then commands have their own way."""
    with interrupts.ending_on_signals("Stopped before the command began."):
        from harvester.cli.app import main as run_command

    run_command()
