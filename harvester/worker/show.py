"""Shows the state of the workers: a live table on a terminal, log lines elsewhere, and a summary at the end."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harvester import logs
from harvester.dashboard.progress import ItemCounts
from harvester.dashboard.screen import wants_panel
from harvester.formatting import counted, duration, number, plural, size, spaced
from harvester.worker.process import Totals, WorkerProcess

logger = logging.getLogger("harvester.worker")

LINES_SECONDS, FIRST_LINES_SECONDS = 60.0, 10.0
"""Seconds between two rounds of log lines, and before the first round."""
LOG_FORMAT = "%(asctime)s [%(name)s] %(levelname)s: %(message)s"
DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
"""Formats like Scrapy's, because the log mixes both kinds of lines."""
_COLUMNS = ("worker", "pid", "state", "age", "memory", "pages/s", "records", "errors", "in flight", "restarts")
_FIRST_TO_GO = ("pid", "restarts", "in flight", "age", "memory")
"""Columns that a narrow terminal hides, the first one first."""
_MOST_LINES = 6
"""Maximum number of lines about job items, and about waiting hosts."""

Items = Mapping[str, Mapping[str, int]]
"""Kind -> state -> number of items."""


class Shown:
    """The observations of all workers, for the summary."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._items: dict[str, Items] = {}
        """Items by spider: a worker that changes its spider reports only the new spider's items."""
        self._workers: Sequence[WorkerProcess] = ()

    def note(self, workers: Sequence[WorkerProcess]) -> None:
        """Records the workers' reports. Call it once per round."""
        self._workers = workers
        for spider in {worker.spider for worker in workers}:
            reports = [worker.report for worker in workers if worker.spider == spider and worker.report]
            if items := max((report.items for report in reports), key=_total, default={}):
                self._items[spider] = items

    @property
    def progress(self) -> list[str]:
        """Returns the progress of the jobs, a line for each spider and kind of item, and the numbers of files."""
        lines = []
        for spider, items in sorted(self._items.items()):
            of_spider = f" of {spider}" if spider and len(self._items) > 1 else ""
            lines += [f"{plural(kind).capitalize()}{of_spider}: {_progress(kind, items[kind])}" for kind in items]
        return lines + _files(_sum(self._workers).files)

    def summary(self) -> str:
        """Returns the results of all workers, after the end."""
        totals = _sum(self._workers)
        errors = sum(totals.errors.values())
        kinds = ", ".join(f"{count:,} {spaced(name)}" for name, count in totals.errors.most_common(_MOST_LINES))
        restarts = sum(worker.restarts for worker in self._workers)
        parts = [
            counted(totals.pages, "page"),
            counted(totals.records, "record"),
            counted(errors, "error") + (f" ({kinds})" if kinds else ""),
            counted(restarts, "restart"),
        ]
        took = duration(time.monotonic() - self._began)
        return "\n".join([f"{counted(len(self._workers), 'worker')} in {took}: {', '.join(parts)}.", *self.progress])


class WorkerLines(Shown):
    """Logs a line for each worker from time to time."""

    show_line = None
    """None, because the workers write to standard error themselves."""

    def __init__(self) -> None:
        super().__init__()
        self._next = time.monotonic() + FIRST_LINES_SECONDS

    def __call__(self, workers: Sequence[WorkerProcess]) -> None:
        self.note(workers)
        rates = {worker.number: worker.pages_per_second() for worker in workers}
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LINES_SECONDS
        for worker in workers:
            logger.info("%s", line(worker, rates[worker.number]))
        for said in self.progress:
            logger.info("%s", said)


class LiveTable(Shown):
    """Shows a row for each worker at the bottom of the terminal; log lines, also from workers, appear above it."""

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live

    def __call__(self, workers: Sequence[WorkerProcess]) -> None:
        self.note(workers)
        with suppress(OSError):  # the terminal was closed
            self._live.update(WorkerView(workers, self.progress, time.time()), refresh=True)

    def show_line(self, text: str) -> None:
        """Prints a line above the table."""
        with suppress(OSError):
            self._live.console.out(text, highlight=False)


@contextmanager
def display(stream: TextIO = sys.stderr) -> Iterator[WorkerLines | LiveTable]:
    """Sets up logging, and yields the display that suits the stream."""
    if logs.is_json() or not wants_panel(stream, os.environ):
        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, datefmt=DATE_FORMAT, stream=stream)
        yield WorkerLines()
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
    """Returns the state of a worker in words."""
    records = counted(worker.totals.records, "record")
    if not worker.alive:
        return f"{worker}: {worker.state}, {records}"
    return (
        f"{worker}: pid {worker.pid}, {worker.state}, for {duration(worker.age_s, rough=True)}, "
        f"{size(worker.rss)}, {number(pages_per_second)} pages/s, {records}, "
        f"{counted(sum(worker.totals.errors.values()), 'error')}, "
        f"{worker.in_flight:,} in flight, {counted(worker.restarts, 'restart')}"
    )


class WorkerView:
    """Rows for each worker and for all together, as the terminal has space; below them jobs and waiting hosts.

    The cursor stands on an empty line below: a terminal writes `^C` there.
    """

    def __init__(self, workers: Sequence[WorkerProcess], progress: Sequence[str], now: float) -> None:
        rates = [worker.pages_per_second() for worker in workers]
        self._rows = [_row(worker, rate) for worker, rate in zip(workers, rates, strict=True)]
        self._sum = _row_of_all(workers, sum(rates)) if len(workers) > 1 else {}
        self._below = [Text(said) for said in (*progress, *_waits(workers, now))[: 2 * _MOST_LINES]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = max(2, options.size.height - 4)
        below = self._below[: max(lines - len(self._rows), lines // 2)]
        room = lines - len(below)
        hidden = len(self._rows) - room
        rows = self._rows[:room] if hidden > 0 else self._rows
        columns = list(_COLUMNS)
        for name in (*_FIRST_TO_GO, ""):
            drawn = self._table(rows, columns)
            if console.measure(drawn, options=options.update(width=1000)).maximum <= options.max_width or not name:
                break
            columns.remove(name)
        yield drawn
        if hidden > 0:
            yield Text(f"and {counted(hidden, 'more worker', 'more workers')}")
        yield from below
        yield Text()

    def _table(self, rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> Table:
        drawn = Table(box=None, pad_edge=False)
        for name in columns:
            drawn.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
        for row in rows:
            drawn.add_row(*(row[name] for name in columns))
        if self._sum:
            drawn.add_row(*(self._sum.get(name, "") for name in columns), style="bold")
        return drawn


def _row(worker: WorkerProcess, pages_per_second: float) -> dict[str, str]:
    totals = worker.totals
    return {
        "worker": str(worker).removeprefix("Worker "),
        "pid": str(worker.pid or "-"),
        "state": worker.state,
        "age": duration(worker.age_s) if worker.alive else "-",
        "memory": size(worker.rss) if worker.alive else "-",
        "pages/s": number(pages_per_second),
        "records": f"{totals.records:,}",
        "errors": f"{sum(totals.errors.values()):,}",
        "in flight": f"{worker.in_flight:,}",
        "restarts": f"{worker.restarts:,}",
    }


def _row_of_all(workers: Sequence[WorkerProcess], pages_per_second: float) -> dict[str, str]:
    totals = _sum(workers)
    return {
        "worker": "all",
        "memory": size(sum(worker.rss for worker in workers)),
        "pages/s": number(pages_per_second),
        "records": f"{totals.records:,}",
        "errors": f"{sum(totals.errors.values()):,}",
        "in flight": f"{sum(worker.in_flight for worker in workers):,}",
        "restarts": f"{sum(worker.restarts for worker in workers):,}",
    }


def _sum(workers: Sequence[WorkerProcess]) -> Totals:
    return sum((worker.totals for worker in workers), Totals())


def _waits(workers: Sequence[WorkerProcess], now: float) -> list[str]:
    """Returns lines about waiting hosts, each host once."""
    until: dict[str, float] = {}
    for worker in workers:
        if worker.alive and worker.report:
            for host, at in worker.report.waiting.items():
                until[host] = max(at, until.get(host, 0.0))
    ahead = [(host, at) for host, at in sorted(until.items()) if at > now][:_MOST_LINES]
    return [f"Waiting: {host} asked to wait {duration(at - now)}" for host, at in ahead]


def _progress(kind: str, by_state: Mapping[str, int]) -> str:
    items = ItemCounts(kind, {state: count for state, count in by_state.items() if count}, {})
    if not items.left:
        return items.told(f"{items.done:,} of {items.total:,} done", f"{items.done:,} done")
    return ", ".join([f"{items.done:,} of {items.total:,} done", *items.ended_otherwise, f"{items.left:,} left"])


def _files(counts: Mapping[str, int]) -> list[str]:
    """Returns a line for each kind of file: `PDFs: 1,940 stored, 60 failed`."""
    lines: dict[str, list[str]] = {}
    for name, count in counts.items():
        kind, _, what = name.rpartition(" ")
        lines.setdefault(kind, []).append(f"{count:,} {what}")
    return [f"{kind[0].upper()}{kind[1:]}: {', '.join(each)}" for kind, each in lines.items()]


def _total(items: Items) -> int:
    return sum(sum(by_state.values()) for by_state in items.values())
