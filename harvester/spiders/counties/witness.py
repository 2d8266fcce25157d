"""Cards that look otherwise than those before are not stored until another one, which is known, was asked for again."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from scrapy import Request
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector

from harvester.exceptions import ParseError
from harvester.items.property import CountyRecord
from harvester.meta import JOB, NO_PROOF, STEP
from harvester.parsers.counties.drift import MAX_CONTROLS, MOST_NAMED, Controls, KnownCard, Pages, Signature, difference
from harvester.parsers.counties.facts import different, facts_of
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
    digests: Mapping[str, str] = {}
    """Of what it said."""
    asked: tuple[str, int] | Sequence[Any] = ("", 0)
    """Which process asked for it, and how many pages that had stored."""
    differs: Mapping[str, str] = {}
    """Field -> what was said of other control parcels that were not as before."""
    seen: Sequence[str] = ()
    """These."""
    is_old: bool = False
    """True if it was stored days ago."""
    strange: str = ""
    """Why a control parcel is asked for."""


class ControlCheck(NamedTuple):
    """What is to be done with a card."""

    is_right: bool = False
    """True if its records are to be stored."""
    asks: tuple[str, list[Any]] | None = None
    """The parcel whose card is to be asked for now, and the doubt that goes along."""


class ControlParcelStore(Protocol):
    """Where control parcels are kept for other processes."""

    def load(self, jurisdiction: str) -> list[KnownCard]: ...

    def save(self, jurisdiction: str, known: Sequence[KnownCard]) -> None: ...


class Witnesses:
    """Those of all jobs of a process."""

    def __init__(self, stats: StatsCollector, kept: ControlParcelStore | None = None) -> None:
        self._stats = stats
        self._kept = kept
        self._gone: set[str] = set()
        """Parcels that were control parcels and are not there any more."""
        self._pages: defaultdict[str, Pages] = defaultdict(Pages)
        self._name = uuid4().hex[:8]

    def check(
        self,
        page: Response | Request,
        parcel_id: str,
        look: Signature,
        records: Sequence[CountyRecord],
        doubt: Sequence[Any] | None,
    ) -> ControlCheck:
        """Tells whether the card of a parcel is to be stored, and what is to be asked for.

        A card that is strange is in doubt: a control parcel is asked for; if that is as before, the card is asked for
        once more, and stored. Raises ParseError when control parcels are not as before.
        """
        jurisdiction = records[0].jurisdiction if records else ""
        pages, of = self._pages_of(str(page.meta[JOB]), jurisdiction), Doubt(*doubt) if doubt else None
        facts = facts_of(records)
        if of and of.shown:
            check = self._check_control(page, pages, KnownCard.of(parcel_id, look, facts), of)
            self._keep(pages, jurisdiction)
            return check
        if of and difference(of.look, look):
            of = None  # it has changed since, and is in doubt again
        if of is None:
            if pages.is_strange(look):
                if pages.changed and parcel_id != pages.witness:
                    page.meta[STEP] = True
                    raise ParseError(pages.changed)
                witness = KnownCard.of(pages.witness, pages.shown, pages.facts)
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
        return ControlCheck(is_right=True)

    def forget(self, page: Request | Response, parcel_id: str) -> None:
        """A witness is not there any more: the pages of the job are learnt anew."""
        self._gone.add(parcel_id)
        self._pages.pop(str(page.meta[JOB]), None)

    def _pages_of(self, job: str, jurisdiction: str) -> Pages:
        """With the control parcels that another process has left."""
        if job not in self._pages and self._kept and jurisdiction:
            known = [each for each in self._kept.load(jurisdiction) if each.parcel_id not in self._gone]
            self._pages[job].controls = Controls.begun_with(known)
        return self._pages[job]

    def _keep(self, pages: Pages, jurisdiction: str) -> None:
        controls = pages.controls
        if self._kept and jurisdiction and not controls.doubt and not controls.is_kept and not pages.changed:
            controls.is_kept = True
            self._kept.save(jurisdiction, controls.known)

    def _ask(self, page: Response | Request | None, pages: Pages, control: KnownCard, of: Doubt) -> ControlCheck:
        if page is not None:
            page.meta[STEP] = True
        self._stats.inc_value(CONTROLS_ASKED)
        asked = (self._name, pages.controls.stored)
        of = of._replace(shown=sorted(control.look), digests=control.digests, asked=asked, is_old=control.is_old)
        return ControlCheck(asks=(control.parcel_id, list(of)))

    def _check_control(self, page: Response | Request, pages: Pages, now: KnownCard, of: Doubt) -> ControlCheck:
        page.meta[STEP] = True
        said = difference(of.shown, now.look)
        if said and not of.is_old:
            pages.has_changed(
                f"the parcel {now.parcel_id}, which was read before, {said}", frozenset(of.shown) - now.look
            )
            raise ParseError(self._with_list(pages, pages.changed))
        before = next((each.facts for each in pages.controls.known if each.parcel_id == now.parcel_id), {})
        fields = different(of.digests, now.facts, before, is_old=of.is_old) | ({"labels": f"it {said}"} if said else {})
        if of.seen:
            fields = {field: said for field, said in fields.items() if field in of.differs}
        seen = [*of.seen, now.parcel_id]
        if fields and len(seen) < (MAX_CONTROLS if of.is_old else 2) and (other := pages.controls.next(*seen)):
            pages.controls.is_changed(now)
            return self._ask(page, pages, other, of._replace(differs=fields, seen=seen))
        if fields:
            said = "; ".join(list(fields.values())[:MOST_NAMED])
            pages.controls.have_changed(
                f"the parcel {now.parcel_id}, which was read before, says something else: {said}. If it is so from now"
                f" on, write changed = {date.today()} into the table `property` of the site's entry."
            )
            raise ParseError(self._with_list(pages, pages.controls.doubt))
        if pages.shows_lost(now.look):
            pages.is_as_before()
        process, stored = of.asked
        pages.controls.are_as_before(now, stored if process == self._name else 0)
        return (
            ControlCheck(asks=(of.parcel_id, list(Doubt(of.parcel_id, of.look, strange=of.strange))))
            if of.parcel_id
            else ControlCheck()
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
