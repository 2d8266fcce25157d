"""Whether a site is to be left alone, or asked again: from what all its workers counted, and nothing else.

The counts are added up in Redis (frontier/lua/breaker.lua). Whoever reports gets those that may decide something,
judges them here, and has the decision applied if the breaker is still in the state that was judged.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

MISREAD = 0.8
"""Of the first pages so many look as they should not: the site has changed."""
FAR_LESS = 0.2
"""The share of what is usual below which the last pages have too little in them."""
LEAST_EXPECTED = 10
"""Pages with something in them that must be expected among the last ones, before less of them say anything."""
USUALLY_THERE, NEARLY_GONE = 0.8, 0.1
"""A field that more of the records had is lost when fewer of the last ones have it."""
MOST_DOUBLED = 30


class Rules(msgspec.Struct, frozen=True, array_like=True):
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


class Pages(NamedTuple):
    """A sample of the pages that came."""

    number: int
    blank: tuple[int, int]
    """Those that were empty, and those that did not look as they should."""

    @property
    def full(self) -> int:
        """Pages with something in them."""
        return self.number - sum(self.blank)


class Records(NamedTuple):
    """A sample of the records of a kind."""

    number: int
    having: dict[str, int]
    """Field -> how many have it."""


class Breaker(msgspec.Struct, frozen=True):
    """A breaker as breaker.lua keeps it. Times in milliseconds of Redis's clock."""

    state: str
    """closed, open, half_open or held."""
    since: float
    rules: Rules
    version: int = 0
    """How often its state has changed."""
    cause: str = ""
    """Of the last opening."""
    said: str = ""
    """Why the last failure failed."""
    opens: int = 0
    """How often in a row it was opened."""
    opened: float = 0
    """When the site was last not left alone."""
    closed: float | None = None
    """When it was last closed."""
    due: float | None = None
    """When it may change by itself."""
    window: list[tuple[int, int, int, Any]] = []
    """Buckets of tries: number, tries, failures, tries by outcome."""
    refusals: int = 0
    """In a row."""
    failures: int = 0
    pages: list[Pages] = []
    """Samples while it was closed, the latest last."""
    records: dict[str, list[Records]] = {}
    """The same by kind of record."""
    lost: list[tuple[str, str]] = []
    """Kind and field, of the fields that it was opened for."""
    trial: int = 0
    """How often it was half open. What follows is of the last time."""
    granted: int = 0
    """Probes that are out or have answered."""
    good: int = 0
    """Probes that did well; if it was opened for drift, whose page had something in it."""
    blank: int = 0
    """If it was opened for drift: probes whose page had nothing in it."""
    ill: int = 0
    """Probes that failed."""
    proved: dict[str, list[Records]] = {}
    """Records of probes, in one sample of each kind."""

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Breaker":
        """From Lua, whose empty tables come as lists."""
        return msgspec.convert({name: value for name, value in record.items() if value != []}, cls)

    @property
    def tried(self) -> int:
        """Tries in the window."""
        return sum(bucket[1] for bucket in self.window)

    @property
    def failed(self) -> int:
        """Failures in the window."""
        return sum(bucket[2] for bucket in self.window)

    @property
    def outcomes(self) -> dict[str, int]:
        """Tries in the window by outcome."""
        return dict(sum((Counter(dict(bucket[3])) for bucket in self.window), Counter()))


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """As breaker.lua takes it. What is None stays as it is."""

    to: str
    """The state that it comes into."""
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
    """Those from before the drift, which are still what is usual."""
    records: dict[str, list[Records]] | None = None
    """Those from before fields were lost."""


def judge(breaker: Breaker, now_ms: float, *, more: bool) -> Decision | None:
    """What its counts lead to; None: nothing. `more`: whether there are other requests that can become probes."""
    if breaker.state == "closed":
        return _judge_tries(breaker, now_ms) or _judge_content(breaker, now_ms)
    return _judge_probes(breaker, now_ms, more=more) if breaker.state == "half_open" else None


def by_hand(breaker: Breaker, state: str, who: str, now_ms: float) -> Decision | None:
    """A person wants it open, closed or held. None: it is so already."""
    if state == "open":
        return _open(breaker, now_ms, cause="person", said="", lost=[], by=who)
    return None if breaker.state == state else Decision(state, cause="person", said="", lost=[], by=who)


def drifted(samples: Sequence[Pages]) -> int:
    """How many of the last samples have far less in them than those before; 0: none, or it is not known what is usual.

    As many are taken as it needs to expect LEAST_EXPECTED pages with something in them. The first sample is of a site
    that has changed when nearly all of it does not look as it should.
    """
    if len(samples) == 1 and samples[0].blank[1] > MISREAD * samples[0].number:
        return 1
    for number in range(1, len(samples)):
        usual, last = samples[:-number], samples[-number:]
        (pages, full), (usual_pages, usually_full) = _sums(last), _sums(usual)
        expected = pages * usually_full / usual_pages
        if expected >= LEAST_EXPECTED:
            return number if full < FAR_LESS * expected else 0
    return 0


def lost_fields(samples: Sequence[Records]) -> list[str]:
    """Fields that nearly all records had, and nearly none of the last sample has."""
    *before, last = samples or [Records(0, {})]
    number = sum(sample.number for sample in before)
    return [
        field
        for field, having in last.having.items()
        if sum(sample.having.get(field, 0) for sample in before) > USUALLY_THERE * number
        and having < NEARLY_GONE * last.number
    ]


def _judge_tries(breaker: Breaker, now_ms: float) -> Decision | None:
    rules, tried = breaker.rules, breaker.tried
    causes = {
        "refusals": 0 < rules.refusals_in_a_row <= breaker.refusals,
        "failures": 0 < rules.failures_in_a_row <= breaker.failures,
        "ratio": 0 < rules.least_tries <= tried and breaker.failed > rules.failure_ratio * tried,
    }
    cause = next((name for name, is_so in causes.items() if is_so), None)
    return _open(breaker, now_ms, cause=cause, lost=[]) if cause else None


def _judge_content(breaker: Breaker, now_ms: float) -> Decision | None:
    size = breaker.rules.sample
    if not size:
        return None
    samples = [sample for sample in breaker.pages if sample.number >= size]
    if number := drifted(samples):
        pages, full = _sums(samples[-number:])
        return _open(breaker, now_ms, cause="drift", lost=[], drift=(pages, pages - full), pages=samples[:-number])
    records = {
        kind: [sample for sample in of_kind if sample.number >= size] for kind, of_kind in breaker.records.items()
    }
    lost = [(kind, field) for kind, of_kind in records.items() for field in lost_fields(of_kind)]
    before = {kind: of_kind[:-1] for kind, of_kind in records.items()}
    return _open(breaker, now_ms, cause="fields", lost=lost, records=before) if lost else None


def _judge_probes(breaker: Breaker, now_ms: float, *, more: bool) -> Decision | None:
    if breaker.cause == "fields":
        good = _has_fields(breaker)
    else:
        answered = breaker.good + breaker.blank
        wanted = breaker.rules.probes if more else min(breaker.granted, breaker.rules.probes)
        good = breaker.good > 0 if 0 < answered >= wanted else None
    if breaker.ill or good is False:
        return _open(breaker, now_ms)
    return Decision("closed") if good else None


def _sums(samples: Sequence[Pages]) -> tuple[int, int]:
    """Pages, and those with something in them."""
    return sum(sample.number for sample in samples), sum(sample.full for sample in samples)


def _has_fields(breaker: Breaker) -> bool | None:
    """Whether the records of probes have the fields again; None while there are none."""
    seen = [(sample, field) for kind, field in breaker.lost for sample in breaker.proved.get(kind, ())]
    return all(sample.having.get(field) for sample, field in seen) if seen else None


def _open(breaker: Breaker, now_ms: float, **because: Any) -> Decision:
    """For longer each time that it was not closed for a whole window since."""
    rules = breaker.rules
    is_new = breaker.state != "half_open" and (breaker.closed is None or now_ms - breaker.closed >= rules.window_ms)
    opens = 1 if is_new else breaker.opens + 1
    wait = min(rules.open_ms * 2 ** min(opens - 1, MOST_DOUBLED), rules.most_open_ms)
    return Decision("open", wait=wait, opens=opens, **because)
