"""Cards that look otherwise than those before are not stored until another one, which is known, was asked for again."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from scrapy import Request
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector

from harvester.exceptions import ParseError
from harvester.meta import JOB, NO_PROOF, STEP
from harvester.parsers.counties.drift import Pages, Signature, difference
from harvester.spiders.labels import note_new_labels

FIRST = 100
"""Priority of what finds out whether the site has changed: it goes before cards that would be in doubt, too."""


class Doubt(NamedTuple):
    """It goes along, as a list, with the requests that find out whether a card is of the site's layout."""

    parcel_id: str
    """Whose card it is."""
    look: Sequence[str]
    """What it looked like."""
    shown: Sequence[str] = ()
    """What the witness looked like, as long as it was not asked for again."""


class Witnesses:
    """Those of all jobs of a process."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._pages: defaultdict[str, Pages] = defaultdict(Pages)

    def ask(
        self, page: Response | Request, parcel_id: str, look: Signature, doubt: Sequence[Any] | None
    ) -> tuple[str, list[Any]] | None:
        """Which parcel's card is to be asked for now, and with what `doubt`; None: this one is to be stored.

        A card is in doubt; then its witness is asked for; if that looks as before, the card is asked for once more, and
        stored. Raises ParseError when the witness does not.
        """
        pages, of = self._pages[str(page.meta[JOB])], Doubt(*doubt) if doubt else None
        is_witness = bool(of and of.shown)
        if of and not is_witness and difference(of.look, look):
            of = None  # it has changed since, and is in doubt again
        if is_witness or (of is None and pages.is_strange(look)):
            page.meta[STEP] = True
            if of is None and parcel_id != pages.witness:
                if pages.changed:
                    raise ParseError(pages.changed)
                return pages.witness, [parcel_id, sorted(look), sorted(pages.shown)]
            before = frozenset(of.shown) if of else pages.shown
            if said := difference(before, look):
                pages.has_changed(f"the parcel {parcel_id}, which was read before, {said}", before - look)
                raise ParseError(pages.changed)
            pages.is_as_before()
            if of:
                return of.parcel_id, [of.parcel_id, of.look]
        note_new_labels(self._stats, pages.learn(parcel_id, look, is_right=of is not None))
        if pages.changed:
            page.meta[NO_PROOF] = True
        return None

    def forget(self, page: Request | Response) -> None:
        """A witness is not there any more: the pages of the job are learnt anew."""
        self._pages.pop(str(page.meta[JOB]), None)
