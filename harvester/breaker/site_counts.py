"""What a worker saw of one site since it last told the frontier. Counts only."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from harvester.items import Record
from harvester.outcomes import Outcome, Policy, Verdict, get_policy

MOST_SAID = 200
"""Characters of the last failure's reason."""
MAKES_GOOD = 0.25
"""Of a page that was not as it should be, each that is. A change that only some pages show is noticed, too: a fifth."""
MOST_RECORDS = 5
"""Records of a page that are looked at."""


class SiteCounts:
    """Tries, pages and records of one site, or of one tier of proxies there."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()
        self._broken = False
        """Whether any try went well: it ends a row of failures."""
        self._refusals = self._failures = 0
        """In a row, at the end."""
        self._read = self._new_misread = 0.0
        """What pages that could be read make good of those before, and then those that could not."""
        self._said = ""
        self._pages = self._full = self._misread = 0
        self._trial = 0
        self._probes = [0, 0, 0, 0]
        """Of the latest trial: those that did well, that failed, whose page had something in it, had nothing."""
        self._kinds: dict[str, tuple[int, Counter[str]]] = {}
        self._proved: dict[str, tuple[int, Counter[str]]] = {}
        """The same of probes."""

    def add_try(self, verdict: Verdict, policy: Policy, probe: int, *, is_new: bool = True) -> None:
        """One try. Good is what the policy neither holds against the site nor counts as an error.

        `probe`: the trial whose probe it was; 0: it was none. `is_new`: it is the first of its request: a few requests
        that fail again and again, with nothing else to be asked meanwhile, make no row of failures.
        """
        outcome, is_probe = verdict.outcome, self._is_probe(probe)
        self._outcomes[outcome] += 1
        if policy.breaker:
            self._bad[outcome] += 1
            self._failures += is_new
            self._refusals += _is_turned_away(outcome)
            self._say(verdict)
            self._probes[1] += is_probe
        elif not policy.error:
            self._broken, self._refusals, self._failures = True, 0, 0
            self._probes[0] += is_probe

    def add_read(self) -> None:
        """A page was as it should be."""
        if self._new_misread:
            self._new_misread = max(0.0, self._new_misread - MAKES_GOOD)
        else:
            self._read += MAKES_GOOD

    def add_misread(self, verdict: Verdict, probe: int, *, is_new: bool) -> None:
        """A page was not; the try itself is told besides. `is_new`: it was not tried before."""
        self._new_misread += is_new
        self._say(verdict)
        self._probes[1] += self._is_probe(probe)

    def add_page(self, outcome: str, probe: int) -> None:
        """One request that came to its end with a page."""
        self._pages += 1
        self._full += outcome == Outcome.OK
        self._misread += outcome == Outcome.LAYOUT_CHANGED
        if self._is_probe(probe):
            self._probes[2 if outcome == Outcome.OK else 3] += 1

    def add_records(self, records: Iterable[Record], probe: int) -> None:
        """What a page yielded: which of the fields that are watched it has."""
        is_probe = self._is_probe(probe)
        for record in records:
            if fields := record.COVERED:
                for kinds in (self._kinds, self._proved) if is_probe else (self._kinds,):
                    number, found = kinds.get(record.KIND) or (0, Counter(dict.fromkeys(fields, 0)))
                    found.update(name for name in fields if getattr(record, name) not in (None, "", (), []))
                    kinds[record.KIND] = (number + 1, found)

    def row(self, name: str, rules: list[float]) -> list[Any]:
        """As breaker.lua takes it."""
        tail = [self._broken, self._refusals, self._failures, self._said]
        pages = [self._pages, [self._full, self._misread]]
        probes = [self._trial, *self._probes]
        kinds, misread = (self._kinds, self._proved), (self._read, self._new_misread)
        return [name, rules, self._outcomes, self._bad, *tail, pages, probes, *kinds, *misread]

    def _say(self, verdict: Verdict) -> None:
        self._said = verdict.reason[:MOST_SAID].encode("utf-8", "replace").decode()

    def _is_probe(self, trial: int) -> bool:
        """Whether it is one of the latest trial; those of earlier ones are of no interest any more."""
        if trial > self._trial:
            self._trial, self._probes, self._proved = trial, [0, 0, 0, 0], {}
        return trial > 0 and trial == self._trial


def _is_turned_away(outcome: Outcome) -> bool:
    """Returns whether a site refuses whatever it is asked for, wherever its entry counts that."""
    common = get_policy(outcome)
    return common.refusal and common.site
