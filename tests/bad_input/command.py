"""The real commands, run in a folder as a user types them, and what they answer."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from tests.crash.harvest import Harvest, fates
from tests.forking import Begun, run
from tests.root import ROOT
from tests.sandbox.process import Sandbox

PROGRAMS = Path(sys.executable).parent
SECONDS = 240
"""After which a command hangs."""
NO_WAITING = ("-s", "HARVESTER_BACKOFF_FACTOR=0.02")
"""For what is tried again and again."""

_is_fault = re.compile(
    r"Traceback|Exception ignored|never (?:retrieved|awaited)|Unhandled|[a-z]Warning: |py\.warnings|object at 0x"
).search
"""What a person at a terminal must never see."""


class Answer(NamedTuple):
    """What a command answered."""

    code: int
    text: str
    """All it wrote to the terminal."""

    @property
    def said(self) -> str:
        """All it wrote, on one line, so that words are found however they were wrapped."""
        return " ".join(self.text.split())

    def is_for_people(self) -> bool:
        """Whether there is no traceback and no warning of Python's."""
        return not _is_fault(self.text)


class Place:
    """A folder, a database and environment variables in which commands are run."""

    def __init__(self, folder: Path, database: Database[dict[str, Any]], variables: dict[str, str]) -> None:
        self.folder = folder
        self.database = database
        self.variables = variables

    def run(self, *command: str, stdin: bytes = b"", prefix: Sequence[str] = (), wrapper: Sequence[str] = ()) -> Answer:
        """`scrapy ...` or `harvester ...`, with a terminal of 100 columns. Only what has a prefix loads anew.

        `wrapper`: a module that runs it.
        """
        program = str(PROGRAMS / command[0])
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **self.variables}
        if not prefix:
            words = [*wrapper, program, *command[1:]]
            ran = run(*words, cwd=self.folder, env=environment, stdin=stdin, within_s=SECONDS)
            return Answer(ran.returncode, ran.stdout + ran.stderr)
        words = [*prefix, program, *command[1:]]
        loaded = subprocess.run(
            words, cwd=self.folder, env=environment, input=stdin, capture_output=True, timeout=SECONDS
        )
        return Answer(loaded.returncode, (loaded.stdout + loaded.stderr).decode(errors="replace"))

    def crawl(
        self,
        site: Sandbox,
        *options: str,
        stdin: bytes = b"",
        prefix: Sequence[str] = (),
        wrapper: Sequence[str] = (),
        **arguments: object,
    ) -> Answer:
        """`scrapy crawl bluesky`: the seeds alone, without pictures, unless arguments say otherwise."""
        given = {"seeds": site.did(0), "depth": 0, "media": "no", "service": site.url} | arguments
        words = [word for name, value in given.items() for word in ("-a", f"{name}={value}")]
        return self.run("scrapy", "crawl", "bluesky", *words, *options, stdin=stdin, prefix=prefix, wrapper=wrapper)

    def set_breaker(self, site: Sandbox, rules: str) -> None:
        """By an entry of the site, for the runs that follow."""
        sites = self.folder / "sites"
        sites.mkdir(exist_ok=True)
        hosts = f'hosts = ["{site.url.removeprefix("http://")}"]'
        (sites / "sandbox.toml").write_text(f"[sandbox]\n{hosts}\n[sandbox.breaker]\n{rules}\n")
        self.variables["HARVESTER_SITES_DIR"] = str(sites)

    def stages(self) -> dict[str, tuple[str, str]]:
        """What became of the accounts of all jobs: DID -> how it ended (see `fates`), and why."""
        return fates(self.database)["account"]

    def posts_of(self, did: str) -> set[str]:
        """Addresses of the posts that are stored of an account."""
        return {row["_id"] for row in self.database["posts"].find({"did": did}, {})}


@contextmanager
def begun(harvest: Harvest) -> Iterator[Begun]:
    """A harvest that runs meanwhile, and no longer."""
    process = harvest.start()
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def unprivileged() -> list[str]:
    """A wrapper that makes file permissions count for root, too. Skips the test where there is none."""
    if os.name != "posix":
        pytest.skip("permissions of POSIX")
    if os.geteuid():
        return []
    if sys.platform != "linux":
        pytest.skip("root may read and write everything")
    return ["tests.bad_input.without_rights"]
