"""Whether a site is to be left alone, or asked again: from what all its workers counted, and nothing else.

The counts are added up in Redis (frontier/lua/breaker.lua). Whoever reports gets those that may decide something,
judges them here, and has the decision applied if the breaker is still in the state that was judged.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

MISREAD = 0.8
"""Of the first pages so many do not look as they should: the site has changed."""
FAR_LESS = 0.2
"""The share of what is usual below which the last pages have too little in them."""
LEAST_EXPECTED = 10
"""Pages with something in them that must be expected among the last ones, before fewer of them say anything."""
USUALLY_THERE, NEARLY_GONE = 0.8, 0.1
"""A field that more of the records had is lost when fewer of the last ones have it."""

Pages = tuple[int, tuple[int, int]]
"""A sample of pages: how many, those with something in them, those that do not look as they should."""
Records = tuple[int, dict[str, int]]
"""A sample of the records of a kind: how many, and how many have each field."""


class BreakerRules(msgspec.Struct, frozen=True, array_like=True):
    """As SiteBreaker.rules gives them. Of `least_tries`, rows and `sample` 0 stands for never."""

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
    """0, too, of a breaker that the program's version before has kept."""


class Breaker(msgspec.Struct, frozen=True):
    """A breaker as breaker.lua shows it. Times in milliseconds of Redis's clock; samples, the latest last."""

    name: str
    rules: BreakerRules
    state: str = "closed"
    version: int = 0
    """How often its state has changed."""
    parked: int = 0
    """Requests of its site; none of a tier."""
    since: float = 0
    opened: float = 0
    """When the site was last not left alone."""
    closed: float | None = None
    due: float | None = None
    """When it may change by itself."""
    opens: int = 0
    """How often in a row it was opened."""
    cause: str = ""
    said: str = ""
    """Why the last failure failed, or why a person wants it so."""
    window: list[tuple[int, int, int, Any]] = []
    """Buckets of tries: number, tries, failures, tries by outcome."""
    refusals: int = 0
    """In a row, as failures."""
    failures: int = 0
    misread: float = 0
    """Pages that were not as they should be, less what others made good."""
    pages: list[Pages] = []
    records: dict[str, list[Records]] = {}
    lost: list[tuple[str, str]] = []
    """Kind and field, of the fields for which it was opened."""
    granted: int = 0
    """Probes of the present trial that are out or have answered; the following are counts of these."""
    good: int = 0
    """They did well; if it was opened for drift, their page had something in it."""
    blank: int = 0
    """If it was opened for drift: their page had nothing in it."""
    ill: int = 0
    proved: dict[str, list[Records]] = {}
    trial: int = 0
    """How often it was half open."""

    @classmethod
    def read(cls, record: Mapping[str, Any], name: str = "") -> Self:
        """From Lua, whose empty tables come as lists."""
        return msgspec.convert({"name": name} | {key: value for key, value in record.items() if value != []}, cls)

    def tries(self) -> tuple[int, int]:
        """Tries in the window, and how many of them failed."""
        return sum(bucket[1] for bucket in self.window), sum(bucket[2] for bucket in self.window)


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What becomes of a breaker. What is None stays as it is."""

    to: str
    """Its state."""
    wait: float | None = None
    """Milliseconds until it may change by itself; None: it does not."""
    cause: str | None = None
    opens: int | None = None
    by: str = ""
    """The person who wants it so."""
    said: str | None = None
    lost: list[tuple[str, str]] | None = None
    drift: tuple[int, int] | None = None
    """The last pages, and how many of them had nothing in them."""
    pages: list[Pages] | None = None
    """What is usual still."""
    records: dict[str, list[Records]] | None = None


def judge(breaker: Breaker, now_ms: float) -> Decision | None:
    """What its counts lead to; None: nothing."""
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
    """A person wants it open, closed or held; open or held for a time, if one is given. None: it is so already."""
    because: dict[str, Any] = {"cause": "person", "said": why, "lost": [], "by": who}
    if state == "open":
        opened = _open(breaker, now_ms, **because)
        return opened if for_ms is None else msgspec.structs.replace(opened, wait=for_ms)
    if breaker.state == state and (state == "closed" or (not for_ms and not breaker.due and why in ("", breaker.said))):
        return None
    return Decision(state, for_ms, **because)


def drifted(samples: Sequence[Pages]) -> int:
    """How many of the last samples have far less in them than those before; 0: none, or it is not known what is usual.

    As many are taken as it needs to expect LEAST_EXPECTED pages with something in them.
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
    """Fields that nearly all records had, and nearly none of the last sample has."""
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
    if not breaker.parked and "\0" not in breaker.name:  # there are no others
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
    """For twice as long as the last time, unless it was closed for a whole window since."""
    rules, closed = breaker.rules, breaker.closed
    again = breaker.state == "half_open" or (closed is not None and now_ms - closed < rules.window_ms)
    opens = breaker.opens + 1 if again else 1
    return Decision("open", min(rules.open_ms * 2.0 ** min(opens - 1, 30), rules.most_open_ms), opens=opens, **because)


def _full(breaker: Breaker, samples: Sequence[Any]) -> list[Any]:
    return [each for each in samples if each[0] >= breaker.rules.sample]


def _sums(samples: Sequence[Pages]) -> tuple[int, int]:
    """Pages, and those with something in them."""
    return sum(each[0] for each in samples), sum(each[1][0] for each in samples)
