"""How long an event loop does nothing else, and how much memory processes take at most."""

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import psutil
from scrapy import signals
from scrapy.crawler import Crawler

TICK_S = 0.02
MB = 1 << 20


class Measuring:
    """Extension: writes the longest gap between two turns of the loop to the file COSTLY_GAP.

    In seconds of computing in the loop's thread: on a machine that is busy with others each gap is longer.
    """

    def __init__(self) -> None:
        self._longest = 0.0
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        measuring = cls()
        crawler.signals.connect(measuring.begin, signals.response_received)
        crawler.signals.connect(measuring.end, signals.spider_closed)
        return measuring

    def begin(self) -> None:
        """When the first answer came: before it, the process is starting."""
        self._task = self._task or asyncio.create_task(self._tick())

    def end(self) -> None:
        if self._task:
            self._task.cancel()
        Path(os.environ["COSTLY_GAP"]).write_text(json.dumps(self._longest))

    async def _tick(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(TICK_S)
            self._longest = max(self._longest, time.thread_time() - before)


class Peak(NamedTuple):
    """Megabytes, at most."""

    own: int
    """Of the process."""
    of_all: int
    """Of it and those that it has started, at one time."""


class Watched:
    """Looks at a process and its children from a thread."""

    def __init__(self, pid: int) -> None:
        self.own = self.of_all = 0
        self._pid = pid

    @property
    def peak(self) -> Peak:
        return Peak(self.own // MB, self.of_all // MB)

    def look(self) -> None:
        with suppress(psutil.Error):
            process = psutil.Process(self._pid)
            own = process.memory_info().rss
            others = 0
            for child in process.children(recursive=True):
                with suppress(psutil.Error):
                    others += child.memory_info().rss
            self.own, self.of_all = max(self.own, own), max(self.of_all, own + others)


@contextmanager
def watched(pid: int) -> Iterator[Watched]:
    watched, ended = Watched(pid), threading.Event()

    def look() -> None:
        while not ended.wait(TICK_S):
            watched.look()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield watched
    finally:
        ended.set()
        thread.join()


MAX_MB = 600
MAX_GAP_S = 1.0


class Cost(NamedTuple):
    """Of a body."""

    name: str
    peak: Peak
    gap_s: float
    outcome: str
    reason: str

    @property
    def is_borne(self) -> bool:
        said = self.outcome == "ok" or bool(self.reason)
        return self.peak.own < MAX_MB and self.gap_s < MAX_GAP_S and bool(self.outcome) and said

    def __str__(self) -> str:
        mark = "  " if self.is_borne else "! "
        numbers = f"{self.peak.own:5d} {self.peak.of_all:5d} {self.gap_s:6.2f}"
        return f"{mark}{self.name:32s} {numbers}  {self.outcome:14s} {self.reason[:110]}"


def show(cost: Cost) -> Cost:
    """Prints a line of the table."""
    print(cost, flush=True)
    return cost


def head() -> None:
    print(f"\n  {'body':32s}    MB   all  gap s  outcome        reason")


def check(costs: list[Cost]) -> None:
    assert all(cost.is_borne for cost in costs), [cost.name for cost in costs if not cost.is_borne]
