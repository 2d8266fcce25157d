"""Cards that look otherwise than those before are not stored until another one, which is known, was asked for again."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from scrapy.statscollectors import StatsCollector

from harvester.exceptions import ParseError
from harvester.parsers.counties.drift import Pages, Signature, difference

NEW_LABELS = "harvester/new_labels"
"""Stat, which the monitors read: labels that no page of the job had before, of a layout that is else as before."""
MOST_KEPT = 20
"""Of them."""


def note_new_labels(stats: StatsCollector, labels: Sequence[str]) -> None:
    """Has the monitors tell of them."""
    if labels:
        stats.set_value(NEW_LABELS, [*stats.get_value(NEW_LABELS, []), *labels][:MOST_KEPT])


class Doubt(NamedTuple):
    """It goes along with the requests that find out whether a card is of the site's layout."""

    parcel_id: str
    """Whose card it is."""
    shown: Sequence[str] = ()
    """What the witness looked like, as long as it was not asked for again."""


class Witnesses:
    """Those of all jobs of a process."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._pages: defaultdict[str, Pages] = defaultdict(Pages)

    def ask(self, job: str, parcel_id: str, page: Signature, doubt: Doubt | None) -> tuple[str, Doubt] | None:
        """Which card is to be asked for now, and with what; None: this one is right.

        A card is in doubt; then its witness is asked for; if that looks as before, the card is asked for once more and
        taken. Raises ParseError when the witness does not.
        """
        pages = self._pages[job]
        if doubt and doubt.shown:
            if said := difference(doubt.shown, page):
                raise ParseError(f"the parcel {parcel_id}, which was read before, {said}")
            return doubt.parcel_id, Doubt(doubt.parcel_id)
        if doubt is None and pages.is_strange(page):
            if parcel_id != pages.witness:
                return pages.witness, Doubt(parcel_id, sorted(pages.shown))
            if said := difference(pages.shown, page):
                raise ParseError(f"the parcel {parcel_id}, which was read before, {said}")
        note_new_labels(self._stats, pages.learn(parcel_id, page, is_right=doubt is not None))
        return None

    def forget(self, job: str) -> None:
        """A witness is not there any more: the pages of the job are learnt anew."""
        self._pages.pop(job, None)
