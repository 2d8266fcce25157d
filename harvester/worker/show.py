"""How the workers are doing, for people: a live table on a terminal, log lines elsewhere."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from harvester.dashboard.screen import wants_panel
from harvester.formatting import counted, duration, number, size
from harvester.worker.process import WorkerProcess

logger = logging.getLogger("harvester.worker")

LINES_SECONDS = 60.0
"""Between two rounds of lines in the log."""
LOG_FORMAT = "%(asctime)s [%(name)s] %(levelname)s: %(message)s"
DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
"""Both as Scrapy's, since the lines of the workers stand between these."""
_COLUMNS = ("worker", "pid", "state", "age", "memory", "pages/s", "records", "in flight", "restarts")


class Lines:
    """A line for each worker in the log, now and then."""

    show_line = None
    """Workers write to standard error themselves."""

    def __init__(self) -> None:
        self._next = time.monotonic() + LINES_SECONDS

    def __call__(self, workers: Sequence[WorkerProcess]) -> None:
        rates = {worker.number: worker.pages_per_second() for worker in workers}
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LINES_SECONDS
        for worker in workers:
            logger.info("%s", line(worker, rates[worker.number]))


class LiveTable:
    """A row for each worker at the foot of the terminal; log lines, the workers' too, run above it."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def __call__(self, workers: Sequence[WorkerProcess]) -> None:
        with suppress(OSError):  # the terminal was closed
            self._live.update(table(workers), refresh=True)

    def show_line(self, text: str) -> None:
        """Above the table."""
        with suppress(OSError):
            self._live.console.out(text, highlight=False)


@contextmanager
def display(stream: TextIO = sys.stderr) -> Iterator[Lines | LiveTable]:
    """Sets up logging, and what suits the stream."""
    if not wants_panel(stream, os.environ):
        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, datefmt=DATE_FORMAT, stream=stream)
        yield Lines()
        return
    console = Console(file=stream, highlight=False)
    live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    shown = LiveTable(live)
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, datefmt=DATE_FORMAT, handlers=[_Above(shown)])
    live.start()
    try:
        yield shown
    finally:
        with suppress(OSError):
            live.stop()


class _Above(logging.Handler):
    def __init__(self, shown: LiveTable) -> None:
        super().__init__()
        self._shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        self._shown.show_line(self.format(record))


def line(worker: WorkerProcess, pages_per_second: float) -> str:
    """One worker in words."""
    if not worker.alive:
        return f"{worker}: {worker.state}, {counted(worker.records, 'record')}"
    return (
        f"{worker}: pid {worker.pid}, {worker.state}, for {duration(worker.age_s, rough=True)}, "
        f"{size(worker.rss)}, {number(pages_per_second)} pages/s, {counted(worker.records, 'record')}, "
        f"{worker.in_flight:,} in flight, {counted(worker.restarts, 'restart')}"
    )


def table(workers: Sequence[WorkerProcess]) -> Table:
    """A row for each."""
    drawn = Table(box=None, pad_edge=False)
    for name in _COLUMNS:
        drawn.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    for worker in workers:
        drawn.add_row(
            str(worker).removeprefix("Worker "),
            str(worker.pid or "-"),
            worker.state,
            duration(worker.age_s) if worker.alive else "-",
            size(worker.rss) if worker.alive else "-",
            number(worker.pages_per_second()),
            f"{worker.records:,}",
            f"{worker.in_flight:,}",
            f"{worker.restarts:,}",
        )
    return drawn
