"""What the stats of a crawl say at one moment, and how fast it goes. Nothing here draws."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Stats = Mapping[str, Any]

STAGES = ("queued", "profile_collected", "posts_collected", "failed", "skipped")
"""Stages of accounts, in their natural order."""

ACCOUNT_WINDOW_SECONDS = 120.0
"""Accounts come to their end in bursts; the time that is left is told from so long a while."""

GIVEN_UP = ("failed", "skipped")
"""Stages of accounts of which nothing more is collected."""


def below(stats: Stats, path: str) -> dict[str, int]:
    """The counts directly below a path, without zeros, the largest first."""
    prefix = path + "/"
    start = len(prefix)
    found = {
        key[start:]: value
        for key, value in stats.items()
        if key.startswith(prefix) and value and "/" not in key[start:]
    }
    return _largest_first(found)


def two_below(stats: Stats, path: str) -> dict[str, dict[str, int]]:
    """The counts two steps below a path: first step -> second step -> count, the largest first."""
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
class Accounts:
    """Accounts by stage."""

    by_stage: dict[str, int]
    last_stage: str
    """The stage at which an account of this crawl is complete."""

    @classmethod
    def of(cls, stats: Stats) -> "Accounts":
        counts = below(stats, "harvester/accounts")
        by_stage = {stage: counts[stage] for stage in STAGES if stage in counts}
        guess = "posts_collected" if "posts_collected" in by_stage else "profile_collected"
        return cls(by_stage, stats.get("harvester/last_stage") or guess)

    @property
    def total(self) -> int:
        return sum(self.by_stage.values())

    @property
    def complete(self) -> int:
        return self.by_stage.get(self.last_stage, 0)

    @property
    def settled(self) -> int:
        """Complete, failed or skipped."""
        return self.complete + sum(self.by_stage.get(stage, 0) for stage in GIVEN_UP)

    @property
    def left(self) -> int:
        return max(0, self.total - self.settled)


@dataclass(frozen=True)
class Progress:
    """One look at the stats."""

    crawl: str
    accounts: Accounts
    threads: dict[str, int]
    pages: int
    records: dict[str, int]
    """Stored, by kind."""
    images_stored: int
    images_failed: int
    staged_bytes: int
    errors: dict[str, int]
    """By outcome."""
    waiting: dict[str, float]
    """Host -> unix time until which it is left alone, only those of the future."""
    mongodb_away: bool

    @classmethod
    def of(cls, stats: Stats, now: float) -> "Progress":
        """Reads the stats. `now` is unix time."""
        waiting = below(stats, "harvester/waiting")
        return cls(
            crawl=stats.get("harvester/crawl", ""),
            accounts=Accounts.of(stats),
            threads=below(stats, "harvester/threads"),
            pages=stats.get("harvester/pages", 0),
            records=below(stats, "harvester/records/stored"),
            images_stored=stats.get("harvester/images/stored", 0),
            images_failed=sum(below(stats, "harvester/images/failed").values()),
            staged_bytes=stats.get("harvester/staging/bytes", 0),
            errors=errors_by_outcome(stats),
            waiting={host: until for host, until in sorted(waiting.items()) if until > now},
            mongodb_away=bool(stats.get("harvester/waiting_for/mongodb")),
        )

    @property
    def records_total(self) -> int:
        return sum(self.records.values())


def errors_by_outcome(stats: Stats) -> dict[str, int]:
    """Errors of all hosts, by outcome, the most frequent first."""
    hosts = two_below(stats, "harvester/errors")
    return _largest_first({outcome: sum(counts.values()) for outcome, counts in hosts.items()})


@dataclass(frozen=True)
class Pace:
    """How fast a crawl goes."""

    pages_per_second: float
    records_per_second: float
    accounts_per_second: float
    """Completed, failed or skipped."""

    def seconds_left(self, progress: Progress) -> float | None:
        """Until no known account is left; None when that cannot be said."""
        if progress.accounts.left == 0 or self.accounts_per_second <= 0:
            return None
        return progress.accounts.left / self.accounts_per_second


class Speedometer:
    """Measures the pace of a crawl from looks at it, over the last `window_seconds`."""

    def __init__(self, window_seconds: float) -> None:
        self._records = Meter(window_seconds)
        self._accounts = Meter(ACCOUNT_WINDOW_SECONDS)

    def measure(self, progress: Progress, now: float) -> Pace:
        """The pace, after noting this look. `now` is a clock in seconds that does not go back."""
        pages, records = self._records.rates(now, (progress.pages, progress.records_total))
        accounts = 0.0
        if progress.accounts.total:  # a continued crawl begins with those of its earlier runs
            (accounts,) = self._accounts.rates(now, (progress.accounts.settled,))
        return Pace(pages, records, accounts)


class Meter:
    """How fast some counters grow, over the last `window_seconds`."""

    def __init__(self, window_seconds: float) -> None:
        self.window_seconds = window_seconds
        self._samples: deque[tuple[float, tuple[float, ...]]] = deque()

    def rates(self, now: float, counters: Iterable[float]) -> tuple[float, ...]:
        """Growth per second of each counter, after noting its present value. `now` must not go back."""
        values = tuple(counters)
        samples = self._samples
        samples.append((now, values))
        while len(samples) > 2 and samples[1][0] <= now - self.window_seconds:
            samples.popleft()
        then, before = samples[0]
        if now <= then:
            return (0.0,) * len(values)
        return tuple((value - old) / (now - then) for value, old in zip(values, before, strict=True))
