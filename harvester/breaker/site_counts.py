"""The counts for one site since this worker's last report."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from harvester.items import Record
from harvester.outcomes import Outcome, Policy, Verdict, get_policy

MOST_SAID = 200
"""Maximum number of characters of the last failure's reason."""
MAKES_GOOD = 0.25
"""Share of a page with a wrong layout that each correct page makes good. A change that shows on a fifth of the pages is
noticed with it."""
MOST_RECORDS = 5
"""Maximum number of records of a page that are counted."""


class SiteCounts:
    """The tries, pages and records for one site, or for one tier of proxies there."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()
        self._broken = False
        """True if a try went well, which ends a row of failures."""
        self._refusals = self._failures = 0
        """Refusals and failures in a row, up to the last try."""
        self._read = self._new_misread = 0.0
        """Misread pages of earlier reports that correct pages made good; the misread pages of this report, less those
        made good."""
        self._said = ""
        self._pages = self._full = self._misread = 0
        self._trial = 0
        self._probes = [0, 0, 0, 0]
        """Probes of the latest trial: went well, failed, page with content, page without content."""
        self._kinds: dict[str, tuple[int, Counter[str]]] = {}
        self._proved: dict[str, tuple[int, Counter[str]]] = {}
        """The fields of the records of probes, in the form of `_kinds`."""

    def add_try(self, verdict: Verdict, policy: Policy, probe: int, *, is_new: bool = True) -> None:
        """Counts one try. A try is good if the policy neither counts it against the site nor as an error.

        `probe` is the trial that the try belongs to, 0 for no probe. `is_new` is True for the first try of a request: a
        few requests that fail repeatedly, while nothing else is sent, must not count as a row of failures.
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
        """Counts a page with the expected layout."""
        if self._new_misread:
            self._new_misread = max(0.0, self._new_misread - MAKES_GOOD)
        else:
            self._read += MAKES_GOOD

    def add_misread(self, verdict: Verdict, probe: int, *, is_new: bool) -> None:
        """Counts a page with a wrong layout; `add_try` counts the try itself. `is_new` is True for the first try of a
        request."""
        self._new_misread += is_new
        self._say(verdict)
        self._probes[1] += self._is_probe(probe)

    def add_page(self, outcome: str, probe: int) -> None:
        """Counts a request that ended with a page."""
        self._pages += 1
        self._full += outcome == Outcome.OK
        self._misread += outcome == Outcome.LAYOUT_CHANGED
        if self._is_probe(probe):
            self._probes[2 if outcome == Outcome.OK else 3] += 1

    def add_records(self, records: Iterable[Record], probe: int) -> None:
        """Counts which covered fields the records of a page have."""
        is_probe = self._is_probe(probe)
        for record in records:
            if fields := record.COVERED:
                for kinds in (self._kinds, self._proved) if is_probe else (self._kinds,):
                    number, found = kinds.get(record.KIND) or (0, Counter(dict.fromkeys(fields, 0)))
                    found.update(name for name in fields if getattr(record, name) not in (None, "", (), []))
                    kinds[record.KIND] = (number + 1, found)

    def row(self, name: str, rules: list[float]) -> list[Any]:
        """Returns the counts in the form that breaker.lua takes."""
        tail = [self._broken, self._refusals, self._failures, self._said]
        pages = [self._pages, [self._full, self._misread]]
        probes = [self._trial, *self._probes]
        kinds, misread = (self._kinds, self._proved), (self._read, self._new_misread)
        return [name, rules, self._outcomes, self._bad, *tail, pages, probes, *kinds, *misread]

    def _say(self, verdict: Verdict) -> None:
        self._said = verdict.reason[:MOST_SAID].encode("utf-8", "replace").decode()

    def _is_probe(self, trial: int) -> bool:
        """Returns True for a probe of the latest trial. A probe of a newer trial resets the counts; older ones are
        ignored."""
        if trial > self._trial:
            self._trial, self._probes, self._proved = trial, [0, 0, 0, 0], {}
        return trial > 0 and trial == self._trial


def _is_turned_away(outcome: Outcome) -> bool:
    """Returns True if the site refuses requests as such, not only one page."""
    common = get_policy(outcome)
    return common.refusal and common.site
