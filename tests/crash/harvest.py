"""The same harvest, run as a user runs it, killed and continued, and what it left behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from pymongo.database import Database

from tests.forking import Begun, begin
from tests.pipelines.records import KINDS
from tests.root import ROOT

Document = dict[str, Any]
RUN_SECONDS = 1800


class Site(Protocol):
    """The sandbox, or whoever answers as it does."""

    @property
    def url(self) -> str: ...

    def handle(self, name: int, /) -> str: ...


class Harvest:
    """One command, `scrapy crawl bluesky ...` from the hub of the site, to be started again and again in one folder."""

    def __init__(
        self,
        site: Site,
        folder: Path,
        mongodb_uri: str,
        database: str,
        variables: Mapping[str, str] = {},
        **wishes: str,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = folder / "log"
        arguments = {
            "seeds": site.handle(0),
            "depth": "10",
            "direction": "both",
            "collect": "graph,profiles,posts,threads",
            "media": "no",
            "service": site.url,
        } | wishes
        self.command = ["crawl", "bluesky"]
        self.command += [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCRAPY_SETTINGS_MODULE": "harvester.settings",
            "HARVESTER_MONGODB_URI": mongodb_uri,
            "HARVESTER_DATABASE": database,
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_PLC_URL": site.url,
            **variables,
        }
        self.process: Begun | None = None

    def start(self, stdin: int | None = None) -> Begun:
        with self.log.open("ab") as log:
            files = [stdin, log.fileno(), log.fileno()]
            self.process = begin("scrapy", *self.command, cwd=self.folder, env=self.environment, files=files)
        return self.process

    def run(self) -> int:
        """To its end; the exit code."""
        self.start()
        return self.wait()

    def wait(self, seconds: float = RUN_SECONDS) -> int:
        """The exit code. A run that does not end in time is killed."""
        assert self.process
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not end in {seconds} s:\n{self.said[-3000:]}") from None

    def end(self, number: signal.Signals, seconds: float = RUN_SECONDS) -> int:
        """Sends the signal and waits; the exit code."""
        assert self.process
        self.process.send_signal(number)
        return self.wait(seconds)

    def running_until(self, condition: Callable[[], bool]) -> bool:
        """Waits until the condition holds; False when the process ended before."""
        assert self.process
        while self.process.poll() is None:
            if condition():
                return True
            time.sleep(0.05)
        return False

    @property
    def said(self) -> str:
        """The log of all runs."""
        return self.log.read_text(errors="replace")


def stored(database: Database[Document]) -> dict[str, dict[str, Document]]:
    """All records: collection -> key -> document without its provenance."""
    return {
        kind.COLLECTION: {
            document.pop("_id"): document for document in database[kind.COLLECTION].find({}, {"provenance": 0})
        }
        for kind in KINDS
    }


def fates(database: Database[Document]) -> dict[str, dict[str, tuple[str, str]]]:
    """Accounts and threads of the last job: how each ended, and why if it was not done.

    How it ended is the stage of an item that is done, else its state.
    """
    return {
        kind: {item["key"]: fate(item) for item in database["job_items"].find({"kind": kind})}
        for kind in ("account", "thread")
    }


def fate(item: Mapping[str, Any]) -> tuple[str, str]:
    if item["state"] == "done":
        return item.get("stage", "done"), ""
    return item["state"], item.get("reason", "")


def documents(database: Database[Document]) -> int:
    """How many records are stored, as the server knows without looking; one that was killed may know it wrongly."""
    return sum(database[kind.COLLECTION].estimated_document_count() for kind in KINDS)


def after(seconds: float) -> Callable[[], bool]:
    """A condition that holds from then on."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until
