"""The layout of a crawl's progress: a panel for terminals, a line for logs."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from harvester.dashboard.progress import CrawlPace, Progress
from harvester.formatting import counted, duration, number, plural, size, spaced
from harvester.items import RECORDS

_LONGEST_LIST = 6
"""Maximum number of kinds of items, errors and waits to show."""

_WIDEST_COLUMNS = 110
"""Maximum width of the panel: longer lines are hard to read."""


def panel(
    progress: Progress, pace: CrawlPace, *, now: float, elapsed: float, memory: int, in_flight: int | None
) -> RenderableType:
    """Returns the live view. `now`: Unix time; `elapsed`: seconds; `memory`: bytes.

    `in_flight`: number of requests that a stopping crawl still finishes; None if it is not stopping.
    """
    rows = list(_rows(progress, pace, now, memory))
    hint = "Ctrl-C: finish what is in flight and stop"
    if in_flight is not None:
        hint = "Ctrl-C again: stop at once"
        said = Text(f"finishing {counted(in_flight, 'request')} in flight", style="bold yellow")
        rows.append(_Row("Stopping", said, _NEVER_LEFT_OUT))
    title = Text.assemble((progress.job or "harvester", "bold"), f"  {duration(elapsed)}")
    return _Fitted(rows, title, Text(hint, style="dim"))


class _Row(NamedTuple):
    label: str
    content: RenderableType
    rank: int
    """On a low terminal the rows with the highest rank are left out first."""


_NEVER_LEFT_OUT = 0


class _Fitted:
    """The panel with as many rows as fit the terminal, and an empty line below it.

    The cursor stands on that line: a terminal writes `^C` there, which would otherwise break the last line in two.
    """

    def __init__(self, rows: Sequence[_Row], title: Text, hint: Text) -> None:
        self._rows, self._title, self._hint = rows, title, hint

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows, most = list(self._rows), options.size.height - 1
        while len(lines := console.render_lines(self._draw(rows), options)) > most and len(rows) > 1:
            rows.remove(max(reversed(rows), key=lambda row: row.rank))
        for line in lines[:most]:
            yield from line
            yield Segment.line()
        yield Segment.line()

    def _draw(self, rows: Sequence[_Row]) -> RenderableType:
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(ratio=1)
        for row in rows:
            grid.add_row(row.label, row.content)
        return Panel(
            grid,
            title=self._title,
            title_align="left",
            subtitle=self._hint,
            subtitle_align="right",
            border_style="cyan",
            width=_WIDEST_COLUMNS,
        )


def _rows(progress: Progress, pace: CrawlPace, now: float, memory: int) -> Iterator[_Row]:
    if progress.items:
        yield _Row("Items", Text(", ".join([*_items(progress), *_left(progress, pace)]), style="bold"), _NEVER_LEFT_OUT)
        yield _Row("", ProgressBar(total=progress.items_total, completed=progress.items_settled), 4)
    for items in progress.items[:_LONGEST_LIST]:
        yield _Row(plural(items.kind).capitalize(), Text(_listed(items.by_state)), 3)
        if items.by_stage:
            yield _Row("", Text(_listed(items.by_stage)), 6)
    pages = f"{progress.pages:,}  ({number(pace.pages_per_second)}/s{_limit(progress.limits)})"
    yield _Row("Pages", Text(pages), 1)
    yield _Row("Records", Text(f"{progress.records_total:,}  ({number(pace.records_per_second)}/s)"), 2)
    if progress.records:
        yield _Row("", Text(records_listed(progress.records)), 5)
    if progress.errors:
        yield _Row("Errors", Text(_listed(progress.errors), style="red"), _NEVER_LEFT_OUT)
    for rank, wait in enumerate(_waits(progress, now)):
        yield _Row("Waiting", Text(wait, style="yellow"), min(rank, 1))
    for name, files in progress.files.items():
        failed = f", {sum(files.failed.values()):,} failed" if files.failed else ""
        yield _Row(name[0].upper() + name[1:], Text(f"{files.stored:,} stored{failed}"), 7)
    yield _Row("Staged", Text(f"{size(progress.staged_bytes)} on disk, {size(memory)} of memory in use"), 8)


def _limit(limits: Mapping[str, float]) -> str:
    """Returns the current rate limits of sites in few words: with several sites the lowest and the highest."""
    if not limits:
        return ""
    least, most = f"{min(limits.values()):.3g}", f"{max(limits.values()):.3g}"
    span = most if least == most else f"{least} to {most}"
    return f"; at most {span}/s{' a site' if len(limits) > 1 else ''}"


def line(progress: Progress, pace: CrawlPace) -> str:
    """Returns the progress on one line, for a log."""
    parts = [
        *_items(progress),
        f"{counted(progress.pages, 'page')} ({number(pace.pages_per_second)}/s)",
        f"{counted(progress.records_total, 'record')} ({number(pace.records_per_second)}/s)",
    ]
    errors = sum(progress.errors.values())
    if errors:
        parts.append(f"{counted(errors, 'error')} ({_listed(progress.errors)})")
    if progress.mongodb_away:
        parts.append("waiting for MongoDB")
    for host, until in list(progress.waiting.items())[:_LONGEST_LIST]:
        parts.append(f"waiting for {host} until {datetime.fromtimestamp(until):%H:%M:%S}")
    if progress.next_due:
        parts.append(f"items to be tried again from {datetime.fromtimestamp(progress.next_due):%H:%M:%S} on")
    return ", ".join([*parts, *_left(progress, pace)])


def _items(progress: Progress) -> list[str]:
    """Returns texts such as `1,204 of 5,310 accounts`; for a completed kind `45 accounts done, 5 failed`."""
    return [
        items.told(f"{items.done:,} of {counted(items.total, items.kind)}", f"{counted(items.done, items.kind)} done")
        for items in progress.items[:_LONGEST_LIST]
    ]


def _left(progress: Progress, pace: CrawlPace) -> list[str]:
    seconds = pace.seconds_left(progress)
    if seconds is None:
        return []
    return [f"about {duration(seconds, rough=True)} left"]


def records_listed(records: Mapping[str, int]) -> str:
    """Returns a text such as `80,200 follows, 1 post`."""
    return ", ".join(counted(count, _one_of(kind), plural_of_records(kind)) for kind, count in records.items())


def _one_of(kind: str) -> str:
    return "item" if plural_of_records(kind) == "items" else kind  # the kind of a plain item is its spider's name


def plural_of_records(kind: str) -> str:
    """Returns the plural of a kind of record, from its type if that is known."""
    return RECORDS[kind].PLURAL if kind in RECORDS else plural(kind)


def _listed(counts: Mapping[str, int]) -> str:
    shown = [f"{count:,} {spaced(name)}" for name, count in list(counts.items())[:_LONGEST_LIST]]
    more = len(counts) - len(shown)
    return ", ".join([*shown, f"{more} more kinds"] if more > 0 else shown)


def _waits(progress: Progress, now: float) -> list[str]:
    waits = []
    if progress.mongodb_away:
        waits.append("MongoDB is away; nothing is lost, the crawl goes on when it is back")
    hosts = list(progress.waiting.items())
    waits.extend(f"{host} asked to wait {duration(until - now)}" for host, until in hosts[:_LONGEST_LIST])
    if len(hosts) > _LONGEST_LIST:
        waits.append(f"{len(hosts) - _LONGEST_LIST} more hosts")
    if progress.next_due:
        waits.append(f"items to be tried again, the first in {duration(progress.next_due - now)}")
    return waits
