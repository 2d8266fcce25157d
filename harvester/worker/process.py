"""A worker process: its lives from start to start, and its current state."""

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import IO

import psutil

from harvester.config import TOLD
from harvester.dashboard.progress import Meter
from harvester.worker.endings import as_stopped
from harvester.worker.reporter import Report, read

POLL_SECONDS = 0.1
RATE_SECONDS = 10.0
"""Seconds over which the pages per second are measured."""
AT_ONCE_SECONDS = 8.0
"""Seconds that a process has to end at once: it stores that it was interrupted."""
MAY_LINGER_SECONDS = 2.0
"""Seconds to wait for the last output of an ended process: a child process may still hold the pipe open."""


@dataclass(frozen=True)
class Totals:
    """The results of a worker's lives."""

    pages: int = 0
    records: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Outcome -> number of errors."""
    files: Counter[str] = field(default_factory=Counter)
    """Number of files by result."""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.pages + other.pages, self.records + other.records, self.errors + other.errors, self.files + other.files
        )


class WorkerProcess:
    """A worker as a process of `scrapy crawl`. Each call of `live` starts a new process."""

    def __init__(
        self, number: int, drain_seconds: float, show_line: Callable[[str], None] | None, command: Sequence[str] = ()
    ) -> None:
        self.number = number
        self.command = command
        """Arguments of `scrapy`, without the settings that identify the worker."""
        self.spider = ""
        """The assigned spider, if the worker may run several."""
        self.retired = False
        """True if it must not be restarted."""
        self.variables: Mapping[str, str] = {}
        """Additional environment variables."""
        self.drain_seconds = drain_seconds
        """Seconds that a drained process may take to end by itself."""
        self.show_line = show_line
        """Receives the lines of the process's standard error.

        None: the process shares this process's standard error.
        """
        self.report: Report | None = None
        """The last report of this life. None: the crawl has not begun."""
        self.state = "starting"
        self.pid = 0
        self.rss = 0
        self.starts = 0
        """Number of starts since it was assigned to its spider."""
        self.draining = False
        self.killed = False
        """True if it was killed because it did not drain in time."""
        self._before = Totals()
        """The totals of earlier lives."""
        self._restarts_before = 0
        """Number of restarts with earlier spiders."""
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._given = 0.0
        self._kill_at: float | None = None
        self._meter = Meter(RATE_SECONDS)

    def __str__(self) -> str:
        return f"Worker {self.number}{f' ({self.spider})' if self.spider else ''}"

    def give_to(self, spider: str, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Assigns a spider and command to a worker that is not running."""
        self._restarts_before = self.restarts
        self.spider, self.command, self.variables = spider, command, variables
        self.retired, self.starts, self.state = False, 0, "starting"
        self._given = time.monotonic()

    async def live(self, started: Callable[[], None]) -> int:
        """Starts the process and waits for its end. Returns the exit code, negative for a signal. Raises OSError."""
        self._before = self.totals
        self.report, self.state, self.draining, self.killed, self._kill_at = None, "starting", False, False, None
        self._meter = Meter(RATE_SECONDS)
        self._began = time.monotonic()
        process = self._process = self._start()
        self.pid = process.pid
        self.starts += 1
        readers = [Thread(target=self._read_reports, args=(process.stdout,), daemon=True)]
        if self.show_line:
            readers.append(Thread(target=self._pass_on, args=(process.stderr, self.show_line), daemon=True))
        for reader in readers:
            reader.start()
        started()
        while process.poll() is None:
            if self._kill_at is not None and time.monotonic() > self._kill_at:
                self._kill_at = None
                self.kill()
            await asyncio.sleep(POLL_SECONDS)
        self._process, self.rss = None, 0
        for reader in readers:
            await asyncio.to_thread(reader.join, MAY_LINGER_SECONDS)
        return as_stopped(process.returncode)

    def _start(self) -> "subprocess.Popen[bytes]":
        own = ["-s", f"HARVESTER_WORKER={self.number}", "-s", f"HARVESTER_SUPERVISOR_PID={os.getpid()}"]
        own += ["-s", f"HARVESTER_DRAIN_SECONDS={self.drain_seconds}"]
        own += ["-s", f"LOG_FORMAT=%(asctime)s [worker {self.number}] [%(name)s] %(levelname)s: %(message)s"]
        return subprocess.Popen(
            [sys.executable, "-m", "scrapy", *self.command, *own],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self.show_line else None,
            env={"SCRAPY_SETTINGS_MODULE": "harvester.settings", **os.environ, **self.variables, TOLD: "1"},
            start_new_session=True,  # Ctrl-C at the terminal reaches only the supervisor
        )

    def drain(self) -> None:
        """Asks the process to finish requests in flight and end. It is killed if this takes too long."""
        if self._process and not self.draining:
            self.draining, self.state = True, "draining"
            self._kill_at = time.monotonic() + self.drain_seconds
            self._process.terminate()

    def interrupt(self) -> None:
        """Ends a draining process at once. It is killed if it does not end."""
        if self._process:
            self._kill_at = time.monotonic() + AT_ONCE_SECONDS
            self._process.terminate()

    def kill(self) -> None:
        """Kills the process."""
        if self._process:
            self.killed = True
            self._process.kill()

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def age_s(self) -> float:
        """Returns the seconds since the start of this life."""
        return time.monotonic() - self._began

    @property
    def turn_s(self) -> float:
        """Returns the seconds since the worker was assigned to its spider, over all lives."""
        return time.monotonic() - self._given

    @property
    def pages(self) -> int:
        """Returns the number of pages in this life."""
        return self.report.pages if self.report else 0

    @property
    def totals(self) -> "Totals":
        """Returns the totals of this worker, over all restarts of its process."""
        report = self.report or Report()
        return self._before + Totals(report.pages, report.records, Counter(report.errors), Counter(report.files))

    @property
    def restarts(self) -> int:
        return self._restarts_before + max(0, self.starts - 1)

    @property
    def in_flight(self) -> int:
        return self.report.in_flight if self.report and self.alive else 0

    def pages_per_second(self) -> float:
        """Records the current count and returns the rate. Call it once per round."""
        return self._meter.rates(time.monotonic(), (self.pages,))[0] if self.alive else 0.0

    def _read_reports(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                report = read(line)
                if report is None:
                    with suppress(OSError):  # standard output is full or closed
                        sys.stdout.buffer.write(line)
                        sys.stdout.buffer.flush()
                    continue
                self.report = report
                if not self.draining:
                    self.state = f"waiting for {report.waiting_for}" if report.waiting_for else "running"

    def _pass_on(self, stream: IO[bytes], show_line: Callable[[str], None]) -> None:
        with stream:
            for line in stream:
                show_line(line.decode(errors="replace").rstrip("\n"))


def memory_of(roots: Sequence[int]) -> dict[int, int]:
    """Returns the resident bytes of the processes, each with its descendants."""
    processes = {process.pid: process for process in psutil.process_iter(["ppid"])}
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.info["ppid"], []).append(pid)
    sums = {}
    for root in roots:
        total, family = 0, [root]
        while family:
            pid = family.pop()
            family += children.get(pid, [])
            try:
                total += processes[pid].memory_info().rss
            except (KeyError, psutil.Error):  # the process has ended meanwhile
                continue
        sums[root] = total
    return sums
