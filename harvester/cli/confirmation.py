"""Questions before changes that cannot be undone."""

import sys

import typer

from harvester.exceptions import INTERRUPTED, UsageError
from harvester.worker.interrupts import ending_on_signals

NOTHING_DONE = "Stopped: nothing was done."


def confirm(question: str) -> None:
    """Ends the command when the answer is no. Raises UsageError when nobody can answer."""
    answer = _answer(question)
    if answer is None:
        raise UsageError(f"There is nobody to answer; give --yes. {question}")
    if not answer:
        typer.echo(NOTHING_DONE, err=True)
        raise typer.Exit(INTERRUPTED)


def _answer(question: str) -> bool | None:
    """Returns the answer; None when standard input is closed or at its end."""
    if sys.stdin is None:
        return None
    try:
        with ending_on_signals(NOTHING_DONE):
            return typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo(err=True)
        return None
