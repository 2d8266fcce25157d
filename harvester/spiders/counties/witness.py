"""Cards that look otherwise than those before are not stored until another one, which is known, was asked for again."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from scrapy import Request
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector

from harvester.exceptions import ParseError
from harvester.items.property import CountyRecord
from harvester.meta import JOB, NO_PROOF, STEP
from harvester.parsers.counties.drift import MOST_NAMED, Known, Pages, Signature, difference
from harvester.parsers.counties.facts import cut, different, facts_of
from harvester.spiders.labels import note_new_labels

logger = logging.getLogger(__name__)

FIRST = 100
"""Priority of what finds out whether the site has changed: it goes before cards that would be in doubt, too."""
CONTROLS_ASKED = "harvester/counties/control_parcels"
"""Stat: how often a control parcel was asked for."""
STORED_IN_DOUBT = "harvester/counties/stored_in_doubt"
"""Stat, which the monitors read: parcels that were stored since control parcels were as before, when they were not."""


class Doubt(NamedTuple):
    """It goes along, as a list, with the requests that find out whether a card is of the site's layout."""

    parcel_id: str
    """Whose card it is; empty: none is in doubt, and a control parcel is asked for by turns."""
    look: Sequence[str]
    """What it looked like."""
    shown: Sequence[str] = ()
    """What the control parcel looked like, as long as it was not asked for again."""
    facts: Mapping[str, str] = {}
    """What it said."""
    asked: tuple[str, int] | Sequence[Any] = ("", 0)
    """Which process asked for it, and how many pages that had stored."""
    differs: Mapping[str, str] = {}
    """Field -> what was said of another control parcel that was not as before."""
    strange: str = ""
    """Why a control parcel is asked for."""


class Check(NamedTuple):
    """What is to be done with a card."""

    is_right: bool = False
    """True if its records are to be stored."""
    asks: tuple[str, list[Any]] | None = None
    """The parcel whose card is to be asked for now, and the doubt that goes along."""


class Witnesses:
    """Those of all jobs of a process."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._pages: defaultdict[str, Pages] = defaultdict(Pages)
        self._name = uuid4().hex[:8]

    def check(
        self,
        page: Response | Request,
        parcel_id: str,
        look: Signature,
        records: Iterable[CountyRecord],
        doubt: Sequence[Any] | None,
    ) -> Check:
        """Tells whether the card of a parcel is to be stored, and what is to be asked for.

        A card that is strange is in doubt: a control parcel is asked for; if that is as before, the card is asked for
        once more, and stored. Raises ParseError when control parcels are not as before.
        """
        pages, of, facts = self._pages[str(page.meta[JOB])], Doubt(*doubt) if doubt else None, facts_of(records)
        if of and of.shown:
            return self._check_control(page, pages, Known(parcel_id, look, facts), of)
        if of and difference(of.look, look):
            of = None  # it has changed since, and is in doubt again
        if of is None:
            if pages.is_strange(look):
                if pages.changed and parcel_id != pages.witness:
                    page.meta[STEP] = True
                    raise ParseError(pages.changed)
                witness = Known(pages.witness, pages.shown, pages.facts)
                return self._ask(page, pages, witness, Doubt(parcel_id, sorted(look)))
            if (strange := pages.controls.why_strange(facts)) and (control := pages.controls.next(parcel_id)):
                return self._ask(page, pages, control, Doubt(parcel_id, sorted(look), strange=strange))
        elif of.strange:
            pages.controls.allow(facts)
        note_new_labels(self._stats, pages.learn(parcel_id, look, facts, is_right=of is not None))
        if pages.changed:
            page.meta[NO_PROOF] = True
        if pages.controls.is_due and (control := pages.controls.next(parcel_id)):
            return self._ask(None, pages, control, Doubt("", ()))._replace(is_right=True)
        return Check(is_right=True)

    def forget(self, page: Request | Response) -> None:
        """A witness is not there any more: the pages of the job are learnt anew."""
        self._pages.pop(str(page.meta[JOB]), None)

    def _ask(self, page: Response | Request | None, pages: Pages, control: Known, of: Doubt) -> Check:
        if page is not None:
            page.meta[STEP] = True
        self._stats.inc_value(CONTROLS_ASKED)
        asked = (self._name, pages.controls.stored)
        of = of._replace(shown=sorted(control.look), facts=cut(control.facts), asked=asked)
        return Check(asks=(control.parcel_id, list(of)))

    def _check_control(self, page: Response | Request, pages: Pages, now: Known, of: Doubt) -> Check:
        page.meta[STEP] = True
        if said := difference(of.shown, now.look):
            pages.has_changed(
                f"the parcel {now.parcel_id}, which was read before, {said}", frozenset(of.shown) - now.look
            )
            raise ParseError(self._with_list(pages, pages.changed))
        fields = different(of.facts, now.facts)
        if of.differs:
            fields = {field: said for field, said in fields.items() if field in of.differs}
        elif fields and (other := pages.controls.next(now.parcel_id)):
            pages.controls.is_changed(now)
            return self._ask(page, pages, other, of._replace(differs=fields))
        if fields:
            said = "; ".join(list(fields.values())[:MOST_NAMED])
            because = f" It was asked for because {of.strange}." if of.strange else ""
            pages.controls.have_changed(
                f"the parcel {now.parcel_id}, which was read before, says something else: {said}.{because}"
            )
            raise ParseError(self._with_list(pages, pages.controls.doubt))
        if pages.shows_lost(now.look):
            pages.is_as_before()
        process, stored = of.asked
        pages.controls.are_as_before(stored if process == self._name else 0)
        return (
            Check(asks=(of.parcel_id, list(of._replace(shown=(), facts={}, differs={})))) if of.parcel_id else Check()
        )

    def _with_list(self, pages: Pages, said: str) -> str:
        """With the parcels that were stored since control parcels were as before; people hear of these."""
        if not (parcels := pages.controls.unproven):
            return said
        listed = self._stats.get_value(STORED_IN_DOUBT, [])
        if new := [each for each in parcels if each not in listed]:
            self._stats.set_value(STORED_IN_DOUBT, [*listed, *new])
            logger.error("Parcels stored since a control parcel was as before: %s", ", ".join(new))
        return f"{said} Stored since a control parcel was as before: {', '.join(parcels)}"
