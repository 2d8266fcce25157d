"""What a worker saw of one site since it last told the frontier. Counts only."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from harvester.items import Record
from harvester.outcomes import Outcome, Policy, Verdict

REFUSALS = frozenset({Outcome.BLOCKED, Outcome.CHALLENGE})
"""Outcomes by which a site turns a crawler away."""
NOTHING_THERE = frozenset({Outcome.EMPTY, Outcome.LAYOUT_CHANGED})
"""Outcomes of pages that came, and in which there was nothing."""
MOST_SAID = 200
"""Characters of the last failure's reason."""
MOST_RECORDS = 5
"""Records of a page that are looked at."""


class Observed:
    """Tries, pages and records of one site, or of one tier of proxies there."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()
        self._broken = False
        """Whether any try went well: it ends a row of failures."""
        self._refusals = self._failures = 0
        """In a row, at the end."""
        self._said = ""
        self._pages = self._empty = self._misread = 0
        self._probes = [0, 0, 0, 0]
        """Those that did well, that failed, whose page had something in it, had nothing."""
        self._kinds: dict[str, tuple[int, Counter[str]]] = {}
        self._proved: dict[str, tuple[int, Counter[str]]] = {}
        """The same of probes."""

    def add_try(self, verdict: Verdict, policy: Policy, probe: bool) -> None:
        """One try. Good is what the policy neither holds against the site nor counts as an error."""
        outcome = verdict.outcome
        self._outcomes[outcome] += 1
        if policy.breaker:
            self._bad[outcome] += 1
            self._failures += 1
            self._refusals += outcome in REFUSALS
            self._said = verdict.reason[:MOST_SAID].encode("utf-8", "replace").decode()
            self._probes[1] += probe
        elif not policy.error:
            self._broken, self._refusals, self._failures = True, 0, 0
            self._probes[0] += probe

    def add_page(self, outcome: str, probe: bool) -> None:
        """One request that came to its end with a page."""
        self._pages += 1
        self._empty += outcome == Outcome.EMPTY
        self._misread += outcome == Outcome.LAYOUT_CHANGED
        if probe:
            self._probes[3 if outcome in NOTHING_THERE else 2] += 1

    def add_records(self, records: Iterable[Record], probe: bool) -> None:
        """What a page yielded: which of the fields that are watched it has."""
        for record in records:
            if fields := record.COVERED:
                for kinds in (self._kinds, self._proved) if probe else (self._kinds,):
                    number, found = kinds.get(record.KIND) or (0, Counter(dict.fromkeys(fields, 0)))
                    found.update(name for name in fields if getattr(record, name) not in (None, "", (), []))
                    kinds[record.KIND] = (number + 1, found)

    def row(self, name: str, rules: list[float]) -> list[Any]:
        """As breaker.lua takes it."""
        tail = [self._broken, self._refusals, self._failures, self._said]
        pages = [self._pages, self._empty, self._misread]
        return [name, rules, self._outcomes, self._bad, *tail, pages, self._probes, self._kinds, self._proved]
