"""What the demonstrations have in common: commands that are shown and run, and questions that are answered."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo.database import Database
from rich.console import Console
from rich.text import Text

from harvester.config import load_config
from harvester.exceptions import HarvesterError
from harvester.stores.mongodb import connect_sync
from tests.demo.queries import answer
from tests.root import ROOT

console = Console(highlight=False, soft_wrap=True)


class Failed(Exception):
    """A step of the demonstration did not do what it should."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


@contextmanager
def anew(variables: dict[str, str]) -> Iterator[Database[dict[str, Any]]]:
    """Sets the variables, and takes away what an earlier demonstration left, so that this one begins at the start."""
    os.environ |= variables
    os.chdir(ROOT)
    config = load_config()
    database = connect_sync(config)
    with database.client:
        database.client.drop_database(database.name)
        shutil.rmtree(config.data_dir, ignore_errors=True)
        yield database


def run(command: list[str]) -> None:
    """Shows a command and runs it. Raises Failed."""
    show(shlex.join(command))
    program = Path(sys.executable).with_name(command[0])
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the command, which ends in good order
    code = subprocess.run([program, *command[1:]]).returncode
    signal.signal(signal.SIGINT, before)
    if code:
        raise Failed(f"{command[0]} ended with exit code {code}.", code)


def ask(database: Database[dict[str, Any]], title: str, query: str) -> None:
    """Shows a query with its answer. Raises Failed when it has none."""
    console.print(f"\n{title}", style="bold")
    show(*query.splitlines())
    rows = answer(database, query)
    if not rows:
        raise Failed("The query found nothing.", 1)
    cells = [[name.replace("_", " ") for name in rows[0]]]
    cells += [[str(value).replace("\n", " | ") for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [isinstance(value, int) for value in rows[0].values()]
    for number, line in enumerate(cells):
        padded = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, numeric, strict=True)
        ]
        console.print(Text(f"  {'   '.join(padded).rstrip()}", style="" if number else "bold"))


def say(number: int, text: str) -> None:
    console.print(f"\n=== {number}. {text}", style="bold green", markup=False)


def show(*lines: str) -> None:
    """Something that can be typed."""
    for line in lines:
        console.print(Text(f"  {line}", style="cyan"))


def demonstrate(main: Callable[[str, int], None], folder: str, size: int) -> None:
    """Runs a demonstration with the folder and the size that were typed, or else these."""
    given = [*sys.argv[1:], *(folder, str(size))[len(sys.argv) - 1 :]]
    try:
        main(given[0], int(given[1]))
    except Failed as failure:
        console.print(f"\nThe demonstration failed: {failure}", style="bold red", markup=False)
        sys.exit(failure.exit_code)
    except HarvesterError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
