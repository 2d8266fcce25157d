"""Layout checks: a card with a new layout is stored only after a known control parcel was requested again."""

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
from harvester.internal_meta import NO_PROOF, STEP
from harvester.items.property import CountyRecord
from harvester.meta import JOB
from harvester.parsers.counties.drift import MAX_CONTROLS, MOST_NAMED, Controls, KnownCard, Pages, Signature, difference
from harvester.parsers.counties.facts import different, facts_of
from harvester.spiders.labels import note_new_labels

logger = logging.getLogger(__name__)

FIRST = 100
"""Priority of layout checks: they go before cards that may have the changed layout, too."""
CONTROLS_ASKED = "harvester/counties/control_parcels"
"""Stat: number of requests for control parcels."""
STORED_IN_DOUBT = "harvester/counties/stored_in_doubt"
"""Stat: parcels stored between the last good check of control parcels and a failed one. The monitors read it."""


class Doubt(NamedTuple):
    """The state of a layout check; carried, as a list, by the requests of the check."""

    parcel_id: str
    """Number of the parcel whose card waits for the check; empty in a routine check, which takes turns."""
    look: Sequence[str]
    """The layout of the card that waits."""
    shown: Sequence[str] = ()
    """The expected layout of the control parcel; empty after the check."""
    digests: Mapping[str, str] = {}
    """Digests of the expected facts of the control parcel."""
    asked: tuple[str, int] | Sequence[Any] = ("", 0)
    """The process that requested the control parcel, and the number of pages it had stored."""
    differs: Mapping[str, str] = {}
    """Field -> message about its change, in the control parcels checked so far."""
    seen: Sequence[str] = ()
    """Control parcels checked so far."""
    is_old: bool = False
    """True if the control parcel was stored days ago."""
    strange: str = ""
    """The reason for a check of facts; empty in a check of the layout."""


class ControlCheck(NamedTuple):
    """A decision about a card."""

    is_right: bool = False
    """True if its records are to be stored."""
    asks: tuple[str, list[Any]] | None = None
    """The parcel to request next, and the doubt to pass on."""


class ControlParcelStore(Protocol):
    """A store of control parcels, shared by processes."""

    def load(self, jurisdiction: str) -> list[KnownCard]: ...

    def save(self, jurisdiction: str, known: Sequence[KnownCard]) -> None: ...


class Witnesses:
    """The layout checks of all jobs in a process."""

    def __init__(self, stats: StatsCollector, kept: ControlParcelStore | None = None) -> None:
        self._stats = stats
        self._kept = kept
        self._gone: set[str] = set()
        """Former control parcels that are now missing."""
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
        """Decides whether the card of a parcel is stored, and which parcel is requested next.

        A strange card waits while a control parcel is requested. If that one is unchanged, the card is requested once
        more and stored. Raises ParseError when the control parcels have changed.
        """
        jurisdiction = records[0].jurisdiction if records else ""
        pages, of = self._pages_of(str(page.meta[JOB]), jurisdiction), Doubt(*doubt) if doubt else None
        facts = facts_of(records)
        if of and of.shown:
            check = self._check_control(page, pages, KnownCard.of(parcel_id, look, facts), of)
            self._keep(pages, jurisdiction)
            return check
        if of and difference(of.look, look):
            of = None  # the card has changed again, and needs another check
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
        """Drops a control parcel that is missing from the site. The job learns the layouts of its pages again."""
        self._gone.add(parcel_id)
        self._pages.pop(str(page.meta[JOB]), None)

    def _pages_of(self, job: str, jurisdiction: str) -> Pages:
        """Returns the layouts of a job, with the control parcels that another process has stored."""
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
        """Adds the parcels stored since the last good check to a message, and to the stat that the monitors read."""
        if not (parcels := pages.controls.unproven):
            return said
        listed = self._stats.get_value(STORED_IN_DOUBT, [])
        if new := [each for each in parcels if each not in listed]:
            self._stats.set_value(STORED_IN_DOUBT, [*listed, *new])
            logger.error("Parcels stored since a control parcel was as before: %s", ", ".join(new))
        return f"{said} Stored since a control parcel was as before: {', '.join(parcels)}"
