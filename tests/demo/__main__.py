"""`make demo`: harvests a local copy of Bluesky with the real command, and shows what came of it.

It needs no internet. `python -m tests.demo FOLDER ACCOUNTS` keeps its files elsewhere than in data/demo, and makes the
network larger or smaller.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pymongo.database import Database
from rich.console import Console
from rich.text import Text

from harvester.config import Config, load_config
from harvester.dashboard.summary import OPENED_BY
from harvester.exceptions import HarvesterError
from harvester.sandbox.environment import settings
from harvester.stores.mongodb import connect_sync
from tests.demo.queries import QUERIES, answer
from tests.sandbox.process import Sandbox

ROOT = Path(__file__).resolve().parents[2]
console = Console(highlight=False, soft_wrap=True)


class Failed(Exception):
    """A step of the demonstration did not do what it should."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def main(folder: str, accounts: int) -> None:
    """Runs the demonstration with a network of so many accounts, its files in `folder`. Raises Failed."""
    report = f"{folder}/report.html"
    with Sandbox(accounts=accounts, seed=7) as site:
        variables = settings(site.url, ROOT / folder) | {"HARVESTER_DATABASE": "harvester_demo"}
        os.environ |= variables
        os.chdir(ROOT)
        config = load_config()
        database = connect_sync(config)
        with database.client:
            _say(1, f"A local copy of Bluesky answers at {site.url}: {accounts} accounts")
            _forget(database, config)
            _say(2, "Harvesting it, with the command that harvests the real one")
            for name, value in variables.items():
                console.print(f"  {name}={value}", style="dim")
            harvest = ["scrapy", "crawl", "bluesky", "-a", f"seeds={site.handle(0)}", "-a", "depth=2"]
            harvest += ["-a", "collect=graph,profiles,posts,threads", "-a", "media=yes"]
            _run(harvest)
            _say(3, "Drawing a picture of it")
            _run(["harvester", "report", "--out", report])
            _say(4, "Asking MongoDB, in Python")
            _show(f"db = {OPENED_BY}")
            for title, query in QUERIES:
                _ask(database, title, query)
    _say(5, "Now the real thing")
    _show("scrapy crawl bluesky -a seeds=bsky.app -a max_accounts=200", "harvester report")
    console.print(f"\nThe picture of this harvest lies in {report}: open it in a browser.")


def _forget(database: Database[dict[str, Any]], config: Config) -> None:
    """Takes away what an earlier demonstration left, so that this one shows a harvest from its start."""
    database.client.drop_database(database.name)
    shutil.rmtree(config.data_dir, ignore_errors=True)


def _run(command: list[str]) -> None:
    """Shows a command and runs it. Raises Failed."""
    _show(shlex.join(command))
    program = Path(sys.executable).with_name(command[0])
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the command, which ends in good order
    code = subprocess.run([program, *command[1:]]).returncode
    signal.signal(signal.SIGINT, before)
    if code:
        raise Failed(f"{command[0]} ended with exit code {code}.", code)


def _ask(database: Database[dict[str, Any]], title: str, query: str) -> None:
    """Shows a query with its answer. Raises Failed when it has none."""
    console.print(f"\n{title}", style="bold")
    _show(*query.splitlines())
    rows = answer(database, query)
    if not rows:
        raise Failed("The query found nothing.", 1)
    for row in rows:
        console.print(Text("  " + "   ".join(str(value) for value in row.values())))


def _say(number: int, text: str) -> None:
    console.print(f"\n=== {number}. {text}", style="bold green", markup=False)


def _show(*lines: str) -> None:
    """Something that can be typed."""
    for line in lines:
        console.print(Text(f"  {line}", style="cyan"))


if __name__ == "__main__":
    try:
        _given = [*sys.argv[1:], *("data/demo", "120")[len(sys.argv) - 1 :]]
        main(_given[0], int(_given[1]))
    except Failed as failure:
        console.print(f"\nThe demonstration failed: {failure}", style="bold red", markup=False)
        sys.exit(failure.exit_code)
    except HarvesterError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
