"""The progress and pace of a crawl, read from its stats. This module draws nothing."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from harvester.jobs.documents import UNFINISHED, ItemState
from harvester.masking import mask

Stats = Mapping[str, Any]

UNSTORED = "harvester/records/unstored"
"""Prefix of stats: records and items, by kind, that passed the pipelines of a project without harvester's pipelines."""
MAX_UNREAD_NAMED = 5
"""Maximum number of unread labels in a sentence."""
ITEM_WINDOW_SECONDS = 120.0
"""Seconds over which the remaining time is estimated, because items end in bursts."""


def below(stats: Stats, path: str) -> dict[str, int]:
    """Returns the counts directly below a path, without zeros, the largest first."""
    prefix = path + "/"
    start = len(prefix)
    found = {
        key[start:]: value
        for key, value in stats.items()
        if key.startswith(prefix) and value and "/" not in key[start:]
    }
    return _largest_first(found)


def unread_labels(stats: Stats) -> dict[str, int]:
    """Returns label that no field was read from -> number of pages or rows with it, the most frequent first."""
    prefix = "harvester/unread_labels/"
    return _largest_first({key.removeprefix(prefix): value for key, value in stats.items() if key.startswith(prefix)})


def named_unread(labels: Mapping[str, int], most: int = MAX_UNREAD_NAMED) -> str:
    """Names the most frequent labels for people: `'Land Sq Ft' 300 times, 'Flood Zone' once`."""
    shown = [f"{mask(label)!r} {'once' if number == 1 else f'{number:,} times'}" for label, number in labels.items()]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most:,} more" if len(shown) > most else "")


def two_below(stats: Stats, path: str) -> dict[str, dict[str, int]]:
    """Returns the counts two steps below a path: first step -> second step -> count, the largest first."""
    prefix = path + "/"
    found: dict[str, dict[str, int]] = {}
    for key, value in stats.items():
        if key.startswith(prefix) and value:
            first, _, second = key[len(prefix) :].partition("/")
            if second:
                found.setdefault(first, {})[second] = value
    return {first: _largest_first(counts) for first, counts in sorted(found.items())}


def _largest_first(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


@dataclass(frozen=True)
class ItemCounts:
    """The items of a kind, over all jobs of the run."""

    kind: str
    by_state: dict[str, int]
    """Number of items by state, in the order of ItemState."""
    by_stage: dict[str, int]
    """Number of items by the stage that they reached last."""

    @classmethod
    def of(cls, stats: Stats) -> "list[ItemCounts]":
        """Returns the counts by kind, the kind with the most items first."""
        stages = two_below(stats, "harvester/stages")
        counts = [
            cls(kind, {state: states[state] for state in ItemState if state in states}, stages.get(kind, {}))
            for kind, states in two_below(stats, "harvester/items").items()
        ]
        return sorted(counts, key=lambda items: -items.total)

    @property
    def total(self) -> int:
        return sum(self.by_state.values())

    @property
    def done(self) -> int:
        return self.by_state.get(ItemState.DONE, 0)

    @property
    def left(self) -> int:
        return sum(self.by_state.get(state, 0) for state in UNFINISHED)

    @property
    def ended_otherwise(self) -> list[str]:
        """Returns the numbers of failed and skipped items in words, if there are any."""
        return [
            f"{self.by_state[state]:,} {state}"
            for state in (ItemState.FAILED, ItemState.SKIPPED)
            if state in self.by_state
        ]

    def told(self, of_total: str, done: str) -> str:
        """Selects the text about progress: `45 of 83` while items are left, at the end the numbers by state."""
        if self.left or self.done == self.total:
            return of_total
        return ", ".join([done, *self.ended_otherwise])


FILES = {"images": "images", "pdfs": "PDFs"}
"""Kind of file -> name for people."""


class FileCounts(NamedTuple):
    """Number of files of a kind."""

    stored: int
    unchanged: int
    failed: dict[str, int]
    """Reason -> number of files."""


@dataclass(frozen=True)
class Progress:
    """The stats at a moment."""

    job: str
    """Id of the job; empty without a job."""
    items: list[ItemCounts]
    next_due: float | None
    """Unix time when the first retry of an item is due; None if no retry lies ahead."""
    pages: int
    records: dict[str, int]
    """Kind -> number of stored records, each counted once."""
    files: dict[str, FileCounts]
    """Counts of files by kind, only for kinds with files."""
    staged_bytes: int
    errors: dict[str, int]
    """Outcome -> number of errors."""
    limits: dict[str, float]
    """Site -> current limit in requests per second, only for sites with a limit."""
    waiting: dict[str, float]
    """Host -> Unix time when its wait ends, only future times."""
    mongodb_away: bool

    @classmethod
    def of(cls, stats: Stats, now: float) -> "Progress":
        """Reads the stats. `now`: Unix time."""
        waiting = below(stats, "harvester/waiting")
        next_due = stats.get("harvester/next_due", 0)
        return cls(
            job=stats.get("harvester/job", ""),
            items=ItemCounts.of(stats),
            next_due=next_due if next_due > now else None,
            pages=stats.get("harvester/pages", 0),
            records=records_stored(stats),
            files=_files(stats),
            staged_bytes=stats.get("harvester/staging/bytes", 0),
            errors=errors_by_outcome(stats),
            limits=_limits(stats),
            waiting={host: until for host, until in sorted(waiting.items()) if until > now},
            mongodb_away=bool(stats.get("harvester/waiting_for/mongodb")),
        )

    @property
    def records_total(self) -> int:
        return sum(self.records.values())

    @property
    def items_total(self) -> int:
        return sum(items.total for items in self.items)

    @property
    def items_left(self) -> int:
        """Returns the number of waiting and active items."""
        return sum(items.left for items in self.items)

    @property
    def items_settled(self) -> int:
        """Returns the number of done, failed and skipped items."""
        return self.items_total - self.items_left


def _limits(stats: Stats) -> dict[str, float]:
    """Returns the limits: as configured, or lower if `harvester/interval/<site>` shows that the site is slowed down."""
    slowed = below(stats, "harvester/interval")
    return {
        site: min(rate, 1 / slowed[site]) if site in slowed else rate
        for site, rate in below(stats, "harvester/limit").items()
    }


def _files(stats: Stats) -> dict[str, FileCounts]:
    """Returns the counts of files by the name for people, only for kinds with files."""
    counts = {
        name: FileCounts(
            stats.get(f"harvester/{kind}/stored", 0),
            stats.get(f"harvester/{kind}/unchanged", 0),
            below(stats, f"harvester/{kind}/failed"),
        )
        for kind, name in FILES.items()
    }
    return {name: files for name, files in counts.items() if any(files)}


def records_stored(stats: Stats) -> dict[str, int]:
    """Returns kind -> number of records that the run stored; repeated records count once."""
    known, earlier = below(stats, "harvester/records/known"), below(stats, "harvester/records/seen_again")
    stored = below(stats, "harvester/records/stored")
    once = {kind: count - known.get(kind, 0) + earlier.get(kind, 0) for kind, count in stored.items()}
    return _largest_first({kind: count for kind, count in once.items() if count > 0})


def errors_by_outcome(stats: Stats) -> dict[str, int]:
    """Returns the errors of all hosts by outcome, the most frequent first."""
    hosts = two_below(stats, "harvester/errors")
    return _largest_first({outcome: sum(counts.values()) for outcome, counts in hosts.items()})


@dataclass(frozen=True)
class CrawlPace:
    """The speed of a crawl."""

    pages_per_second: float
    records_per_second: float
    items_per_second: float
    """Done, failed or skipped items per second."""

    def seconds_left(self, progress: Progress) -> float | None:
        """Returns the seconds until no known item is left; None if unknown."""
        if progress.items_left == 0 or self.items_per_second <= 0:
            return None
        return progress.items_left / self.items_per_second


class Speedometer:
    """Measures the pace of a crawl by repeated reads, over the last `window_seconds`."""

    def __init__(self, window_seconds: float) -> None:
        self._records = Meter(window_seconds)
        self._items = Meter(ITEM_WINDOW_SECONDS)

    def measure(self, progress: Progress, now: float) -> CrawlPace:
        """Records this progress and returns the pace. `now`: seconds of a monotonic clock."""
        pages, records = self._records.rates(now, (progress.pages, progress.records_total))
        items = 0.0
        if progress.items:  # a continued job starts with the counts of earlier runs
            (items,) = self._items.rates(now, (progress.items_settled,))
        return CrawlPace(pages, records, items)


class Meter:
    """Measures the growth of counters over the last `window_seconds`."""

    def __init__(self, window_seconds: float) -> None:
        self.window_seconds = window_seconds
        self._samples: deque[tuple[float, tuple[float, ...]]] = deque()

    def rates(self, now: float, counters: Iterable[float]) -> tuple[float, ...]:
        """Records the current values and returns the growth per second of all counters. `now` must not go back."""
        values = tuple(counters)
        samples = self._samples
        samples.append((now, values))
        while len(samples) > 2 and samples[1][0] <= now - self.window_seconds:
            samples.popleft()
        then, before = samples[0]
        if now <= then:
            return (0.0,) * len(values)
        return tuple((value - old) / (now - then) for value, old in zip(values, before, strict=True))
