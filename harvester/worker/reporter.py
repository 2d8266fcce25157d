"""The reports of a worker to its supervisor: a line of JSON on standard output each second, without any server."""

import math
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple, Self

import msgspec
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from harvester.dashboard.progress import Progress
from harvester.exceptions import INTERRUPTED
from harvester.shutdown import end

MARK = b"harvester-worker "
"""The beginning of a report's line; other lines are the spider's own output."""
REPORT_SECONDS = 1.0
MOST_HOSTS = 10
_SET_PARENT_DEATH_SIGNAL = 1


class Report(NamedTuple):
    """The state of a worker."""

    pages: int = 0
    records: int = 0
    in_flight: int = 0
    """Number of requests in progress."""
    waiting_for: str = ""
    """The server that it cannot reach; empty if all are reachable."""
    errors: Mapping[str, int] = {}
    """Outcome -> number of errors."""
    waiting: Mapping[str, float] = {}
    """Host -> Unix time when its wait ends; at most MOST_HOSTS hosts."""
    items: Mapping[str, Mapping[str, int]] = {}
    """Kind -> state -> number of items in its jobs, over all runs."""
    files: Mapping[str, int] = {}
    """Number of stored and of failed files, by name: `PDFs stored`, `PDFs failed`."""


class WorkerReporter:
    """Scrapy extension in processes of `harvester worker`. Ends the crawl when the supervisor has died.

    Reads the settings HARVESTER_WORKER (the worker's number), HARVESTER_SUPERVISOR_PID and HARVESTER_DRAIN_SECONDS.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.out = os.dup(sys.stdout.fileno())
        if os.name == "posix":
            os.set_blocking(self.out, False)  # a suspended supervisor must not block its workers
        self.task = create_looping_call(self.report)
        self.orphaned = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.getint("HARVESTER_WORKER"):
            raise NotConfigured
        _die_with(crawler.settings.getint("HARVESTER_SUPERVISOR_PID"))
        reporter = cls(crawler)
        crawler.signals.connect(reporter.spider_opened, signals.spider_opened)
        crawler.signals.connect(reporter.spider_closed, signals.spider_closed)
        return reporter

    def spider_opened(self) -> None:
        self.task.start(REPORT_SECONDS)

    def spider_closed(self) -> None:
        if self.task.running:
            self.task.stop()
        self.report()

    def report(self) -> None:
        """Writes a report of the current state."""
        line = MARK + msgspec.json.encode(self.look()._asdict()) + b"\n"
        try:
            os.write(self.out, line)
        except BlockingIOError:
            pass
        except OSError:  # the supervisor has died
            self._drain()

    def _drain(self) -> None:
        """Drains the crawl as the supervisor would, within the same time limit."""
        if not self.orphaned:
            self.orphaned = True
            if os.name == "posix":
                signal.alarm(math.ceil(self.crawler.settings.getfloat("HARVESTER_DRAIN_SECONDS")) or 1)
            end(self.crawler, "shutdown", INTERRUPTED)

    def look(self) -> Report:
        stats = self.crawler.stats.get_stats()
        slot = self.crawler.engine._slot if self.crawler.engine else None
        away = [server for server in ("MongoDB", "Redis") if stats.get(f"harvester/waiting_for/{server.lower()}")]
        progress = Progress.of(stats, time.time())
        return Report(
            pages=progress.pages,
            records=progress.records_total,
            in_flight=len(slot.inprogress) if slot else 0,
            waiting_for=away[0] if away else "",
            errors=progress.errors,
            waiting=dict(list(progress.waiting.items())[:MOST_HOSTS]),
            items={items.kind: items.by_state for items in progress.items},
            files=_files(progress),
        )


def _files(progress: Progress) -> dict[str, int]:
    found = {}
    for name, files in progress.files.items():
        found[f"{name} stored"], found[f"{name} failed"] = files.stored, sum(files.failed.values())
    return {name: count for name, count in found.items() if count}


def read(line: bytes) -> Report | None:
    """Returns the report on a line, or None for another line."""
    if not line.startswith(MARK):
        return None
    try:
        return Report(**msgspec.json.decode(line[len(MARK) :]))
    except (msgspec.DecodeError, TypeError):
        return None


def _die_with(supervisor: int) -> None:
    """On Linux, requests SIGTERM for this process when its supervisor is killed.

    Elsewhere the broken pipe shows it.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.name == "posix" and os.getppid() != supervisor:  # the supervisor died before the call
        os.kill(os.getpid(), signal.SIGTERM)
