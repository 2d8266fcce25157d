"""Decides whether a breaker opens or closes, from nothing but the counts of all workers.

Redis adds up the counts (frontier/lua/breaker.lua). A worker that reports gets the counts that may decide something,
judges them here, and has the decision applied if the breaker is still in the state that was judged.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

MISREAD = 0.8
"""Share of wrong layouts among the first pages above which the site counts as changed."""
FAR_LESS = 0.2
"""Share of the usual number below which the last pages have too little content."""
LEAST_EXPECTED = 10
"""Full pages that must be expected among the last ones before a smaller number proves anything."""
USUALLY_THERE, NEARLY_GONE = 0.8, 0.1
"""A field is lost if more than the first share of the earlier records had it, and less than the second share of the
last."""

Pages = tuple[int, tuple[int, int]]
"""A sample of pages: all pages, then those with content and those with a wrong layout."""
Records = tuple[int, dict[str, int]]
"""A sample of the records of a kind: all records, then the number of records with each field."""


class BreakerRules(msgspec.Struct, frozen=True, array_like=True):
    """The thresholds that SiteBreaker.rules gives. A 0 in `least_tries`, the rows or `sample` switches that rule
    off."""

    window_ms: float
    least_tries: int
    failure_ratio: float
    refusals_in_a_row: int
    failures_in_a_row: int
    open_ms: float
    most_open_ms: float
    probes: int
    sample: int
    most_misread: int = 0
    """0 also for a breaker that the version before has stored."""


class Breaker(msgspec.Struct, frozen=True):
    """A breaker as breaker.lua returns it. Times are milliseconds of Redis's clock; the latest sample is the last."""

    name: str
    rules: BreakerRules
    state: str = "closed"
    version: int = 0
    """Number of changes of the state."""
    parked: int = 0
    """Parked requests of the site; 0 for the breaker of a tier."""
    since: float = 0
    opened: float = 0
    """Time when the breaker last left the closed state."""
    closed: float | None = None
    due: float | None = None
    """Time when its state may change by itself."""
    opens: int = 0
    """Number of openings in a row."""
    cause: str = ""
    said: str = ""
    """The reason of the last failure, or the reason that a person gave."""
    window: list[tuple[int, int, int, Any]] = []
    """Buckets of tries: number, tries, failures, tries by outcome."""
    refusals: int = 0
    """Refusals in a row, as `failures` counts failures."""
    failures: int = 0
    misread: float = 0
    """Pages with a wrong layout, minus those that correct pages made good."""
    pages: list[Pages] = []
    records: dict[str, list[Records]] = {}
    lost: list[tuple[str, str]] = []
    """Kind and field of the lost fields that opened it."""
    granted: int = 0
    """Probes of the current trial that are out or answered. The counts below are about the same probes."""
    good: int = 0
    """Probes that went well. If drift opened the breaker: probes whose page had content."""
    blank: int = 0
    """Probes whose page was empty, counted if drift opened the breaker."""
    ill: int = 0
    proved: dict[str, list[Records]] = {}
    trial: int = 0
    """Number of half-open trials so far."""

    @classmethod
    def read(cls, record: Mapping[str, Any], name: str = "") -> Self:
        """Reads a breaker from Lua, which returns empty tables as lists."""
        return msgspec.convert({"name": name} | {key: value for key, value in record.items() if value != []}, cls)

    def tries(self) -> tuple[int, int]:
        """Returns the tries in the window, and how many failed."""
        return sum(bucket[1] for bucket in self.window), sum(bucket[2] for bucket in self.window)


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The change of a breaker. None in a field leaves the stored value unchanged."""

    to: str
    """The new state."""
    wait: float | None = None
    """Milliseconds until the state may change by itself; None if it does not."""
    cause: str | None = None
    opens: int | None = None
    by: str = ""
    """The person who wants the change."""
    said: str | None = None
    lost: list[tuple[str, str]] | None = None
    drift: tuple[int, int] | None = None
    """The last pages, and the number of empty pages among them."""
    pages: list[Pages] | None = None
    """Samples that still count as usual."""
    records: dict[str, list[Records]] | None = None


def judge(breaker: Breaker, now_ms: float) -> Decision | None:
    """Returns the decision that the counts require, None for no change."""
    if breaker.state == "half_open":
        return _judge_probes(breaker, now_ms)
    if breaker.state != "closed":
        return None
    rules, (tried, failed) = breaker.rules, breaker.tries()
    if 0 < rules.refusals_in_a_row <= breaker.refusals:
        return _open(breaker, now_ms, cause="refusals", lost=[])
    if 0 < rules.failures_in_a_row <= breaker.failures:
        return _open(breaker, now_ms, cause="failures", lost=[])
    if 0 < rules.most_misread <= breaker.misread:
        return _open(breaker, now_ms, cause="layout", lost=[])
    if 0 < rules.least_tries <= tried and failed > rules.failure_ratio * tried:
        return _open(breaker, now_ms, cause="ratio", lost=[])
    return _judge_content(breaker, now_ms) if rules.sample else None


def by_hand(
    breaker: Breaker, state: str, who: str, now_ms: float, why: str = "", for_ms: float | None = None
) -> Decision | None:
    """Returns the decision for a person who wants the breaker open, closed or held.

    `for_ms` limits open and held. None is returned if the breaker is in that state already.
    """
    because: dict[str, Any] = {"cause": "person", "said": why, "lost": [], "by": who}
    if state == "open":
        opened = _open(breaker, now_ms, **because)
        return opened if for_ms is None else msgspec.structs.replace(opened, wait=for_ms)
    if breaker.state == state and (state == "closed" or (not for_ms and not breaker.due and why in ("", breaker.said))):
        return None
    return Decision(state, for_ms, **because)


def drifted(samples: Sequence[Pages]) -> int:
    """Returns how many of the last samples have far less content than those before.

    0 means no drift, or no usual content to compare with. It takes as many samples as LEAST_EXPECTED full pages need.
    """
    if len(samples) == 1 and samples[0][1][1] > MISREAD * samples[0][0]:
        return 1
    for number in range(1, len(samples)):
        (pages, full), (usual_pages, usually_full) = _sums(samples[-number:]), _sums(samples[:-number])
        expected = pages * usually_full / usual_pages
        if expected >= LEAST_EXPECTED:
            return number if full < FAR_LESS * expected else 0
    return 0


def lost_fields(samples: Sequence[Records]) -> list[str]:
    """Returns the fields that nearly all earlier records had, and nearly none of the last sample has."""
    *before, (number, having) = samples or [(0, {})]
    least = USUALLY_THERE * sum(each[0] for each in before)
    gone = (field for field, times in having.items() if times < NEARLY_GONE * number)
    return [field for field in gone if sum(each[1].get(field, 0) for each in before) > least]


def _judge_content(breaker: Breaker, now_ms: float) -> Decision | None:
    samples = _full(breaker, breaker.pages)
    if number := drifted(samples):
        pages, full = _sums(samples[-number:])
        return _open(breaker, now_ms, cause="drift", lost=[], drift=(pages, pages - full), pages=samples[:-number])
    of_kind = {kind: _full(breaker, records) for kind, records in breaker.records.items()}
    if lost := [(kind, field) for kind, records in of_kind.items() for field in lost_fields(records)]:
        before = {kind: records[:-1] for kind, records in of_kind.items()}
        return _open(breaker, now_ms, cause="fields", lost=lost, records=before)
    return None


def _judge_probes(breaker: Breaker, now_ms: float) -> Decision | None:
    wanted, good = breaker.rules.probes, None
    if not breaker.parked and "\0" not in breaker.name:  # no other request waits for the probes
        wanted = min(wanted, breaker.granted)
    if breaker.cause == "fields":
        proved = [having.get(field) for kind, field in breaker.lost for _, having in breaker.proved.get(kind, ())]
        good = all(proved) if proved else None
    elif 0 < breaker.good + breaker.blank >= wanted:
        good = breaker.good > 0
    if breaker.ill or good is False:
        return _open(breaker, now_ms)
    return Decision("closed") if good else None


def _open(breaker: Breaker, now_ms: float, **because: Any) -> Decision:
    """Opens for twice as long as the last time, unless the breaker was closed for a whole window in between."""
    rules, closed = breaker.rules, breaker.closed
    again = breaker.state == "half_open" or (closed is not None and now_ms - closed < rules.window_ms)
    opens = breaker.opens + 1 if again else 1
    return Decision("open", min(rules.open_ms * 2.0 ** min(opens - 1, 30), rules.most_open_ms), opens=opens, **because)


def _full(breaker: Breaker, samples: Sequence[Any]) -> list[Any]:
    return [each for each in samples if each[0] >= breaker.rules.sample]


def _sums(samples: Sequence[Pages]) -> tuple[int, int]:
    """Returns the sum of the pages, and of the pages with content."""
    return sum(each[0] for each in samples), sum(each[1][0] for each in samples)
