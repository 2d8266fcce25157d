"""`make demo`: harvests a local copy of Bluesky with the real command, and shows what came of it. Needs no internet."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pymongo.database import Database
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.mongodb import connect_sync
from tests.demo.queries import QUERIES, answer
from tests.sandbox.process import Sandbox

ACCOUNTS = 120
ROOT = Path(__file__).resolve().parents[2]
console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Runs the demonstration; returns the exit code, which is not 0 when any step failed."""
    with Sandbox(accounts=ACCOUNTS, seed=7) as site:
        environ = {
            "HARVESTER_PLC_URL": site.url,
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_DATABASE": "harvester_demo",
            "HARVESTER_DATA_DIR": "data/demo",
            "HARVESTER_IMAGES_STORE": "",
        }
        os.environ |= environ
        os.chdir(ROOT)
        config = Config()
        database = connect_sync(config)
        with database.client:
            _say("1", f"A local copy of Bluesky with {ACCOUNTS} accounts answers at {site.url}")
            _forget(database, config)
            arguments = {
                "seeds": site.handle(0),
                "depth": "2",
                "collect": "graph,profiles,posts,threads",
                "media": "yes",
                "service": site.url,
            }
            command = ["scrapy", "crawl", "bluesky"]
            command += [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
            _say("2", "Harvesting it with the command that harvests the real one")
            _type(shlex.join(command), *(f"{name}={value}" for name, value in environ.items() if value))
            if code := _run(command):
                return _failed("The harvest", code)
            _say("3", "Drawing a picture of it")
            command = ["harvester", "report", "--out", "data/demo/report.html"]
            _type(shlex.join(command))
            if code := _run(command):
                return _failed("The report", code)
            _say("4", "Asking MongoDB about it (in Python; the same in mongosh)")
            if not _ask(database):
                return _failed("A query", 1)
    _say("5", "Now the real thing")
    _type("scrapy crawl bluesky -a seeds=bsky.app -a max_accounts=200", "harvester report")
    console.print("The report of this demonstration lies in data/demo/report.html.")
    return 0


def _forget(database: Database[dict[str, Any]], config: Config) -> None:
    """Takes away what an earlier demonstration left, so that this one shows a harvest from its start."""
    database.client.drop_database(database.name)
    shutil.rmtree(config.data_dir, ignore_errors=True)


def _run(command: list[str]) -> int:
    """Runs a command of this installation; returns its exit code."""
    program = Path(sys.executable).with_name(command[0])
    return subprocess.run([program, *command[1:]]).returncode


def _ask(database: Database[dict[str, Any]]) -> bool:
    """Shows the example queries with their answers; says whether each had one."""
    for title, query in QUERIES:
        console.print(Text(f"\n{title}", style="bold"))
        _type(query)
        rows = answer(database, query)
        for row in rows:
            console.print(Text("  " + "   ".join(str(value) for value in row.values())))
        if not rows:
            return False
    return True


def _say(number: str, text: str) -> None:
    console.print()
    console.print(Rule(Text(f"{number}. {text}", style="bold"), align="left", characters="-"), soft_wrap=False)


def _type(command: str, *more: str) -> None:
    for line in (*more[:0], *command.splitlines()):
        console.print(Text(f"  {line}", style="cyan"))
    for line in more:
        console.print(Text(f"  {line}", style="dim cyan"))


def _failed(what: str, code: int) -> int:
    console.print(Text(f"{what} failed with exit code {code}.", style="bold red"))
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HarvesterError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
