"""The spider `vgsi`: parcels of towns whose records Vision Government Solutions publishes."""

import string
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

import msgspec
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import PageFailed, ParseError, UsageError
from harvester.internal_meta import ITEMS, STEP
from harvester.items import Found, ItemResult, Provenance, Record
from harvester.jobs.documents import JobItem
from harvester.meta import EXPECTS
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.counties.addresses import AddressQuery
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.platform import NO_RESULTS, SITE, Jurisdiction
from harvester.spiders.counties.searches import ADDRESS, OWNER, SearchArguments, SearchingSpider
from harvester.spiders.counties.vgsi import parser as parse
from harvester.spiders.counties.vgsi.records import read_card, records_of
from harvester.spiders.counties.witness import FIRST, Doubt
from harvester.spiders.job import errback

LETTER, STREET = "letter", "street"
"""Kinds of items: streets that begin with a letter or a digit, and parcels of a street."""
LETTERS = "123456789" + string.ascii_uppercase
NO_STREET = "(no street)"
"""Key of the item for the street without a name: a town may list parcels without a street there."""
NO_SUCH_PARCEL = "no-such-parcel"
"""The outcome rule for the page that replaces a missing card."""
MOST_SUGGESTED = 3
"""Maximum number of similar addresses in the message when no address matches."""
_SEARCHES: Mapping[str, tuple[str, str]] = {
    ADDRESS: ("GetDataAddress", "i_address"),
    OWNER: ("GetData2", "i_owner"),
}


class VgsiSpider(SearchingSpider):
    """Harvests parcels of a town or a county at gis.vgsi.com: cards with values by year, sales, buildings and land.

    Domain: the base_url of the site's entry. Caveats: a parcel's number is its PID, as in Parcel.aspx?pid=975, and
    neither its account nor its map and lot; all=yes finds the parcels on the lists of streets. Arguments: see
    `harvester spiders show vgsi`.
    """

    name = "vgsi"
    Arguments = SearchArguments
    ITEM_KINDS = (PARCEL, ADDRESS, OWNER)
    ALL: ClassVar[str] = LETTER
    arguments: SearchArguments

    @classmethod
    def first_items(cls, arguments: Any) -> Iterator[Found]:
        if arguments.all:
            yield from (Found(LETTER, letter, {SITE: arguments.site}, depth=0) for letter in LETTERS)
        else:
            yield from super().first_items(arguments)

    @classmethod
    def check_item(cls, found: Found) -> Found:
        found = super().check_item(found)
        if found.kind not in _SEARCHES and not parse.is_pid(found.key):
            raise UsageError(_no_pid(found.key))
        return found

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        read = read_card(parse.parse_staged(raw), cls.staged_source(key), provenance)
        return next((record for record in read.records if (record.KIND, record.key) == (kind, key)), None)

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        item = items[0]
        if item.kind == LETTER:
            yield self._streets(jurisdiction, "Letter", item.key)
        elif item.kind == STREET:
            yield self._streets(jurisdiction, "Name", item.input["name"])
        elif item.kind in _SEARCHES:
            yield self._search(jurisdiction, item.kind, item.key)
        elif parse.is_pid(item.key):
            yield self._card(jurisdiction, item.key)
        else:
            yield ItemResult(item.id, "failed", Outcome.INVALID, _no_pid(item.key))

    # A parcel ---------------------------------------------------------------------------------------------------

    def parse_parcel(self, response: Response, pid: str, doubt: list[Any] | None = None) -> Iterator[Any]:
        """Yields the records of a card. Raises ParseError for a bad card, another parcel's, or a changed layout."""
        card, jurisdiction = parse.parse_card(response.body), self.jurisdiction_of(response)
        read = records_of(card, jurisdiction.source, self.provenance(response))
        (shown,) = read.parcel_ids
        if int(shown) != int(pid):
            raise ParseError(f"the parcel {pid} was asked for, and the card is that of {shown}")
        yield from self.checked(response, pid, parse.signature(card), read, doubt, partial(self._card, jurisdiction))

    def _card(self, jurisdiction: Jurisdiction, pid: str, doubt: list[Any] | None = None) -> Request:
        url = f"{jurisdiction.page('Parcel.aspx')}?{urlencode({'pid': pid})}"
        arguments = {"pid": pid, "doubt": doubt}
        request = Request(url, self.parse_parcel, errback=self.parcel_failed, cb_kwargs=arguments, dont_filter=True)
        return request.replace(priority=FIRST if doubt else 0)

    @errback
    def parcel_failed(self, failure: Failure) -> Iterator[Any]:
        """Reports a parcel as missing when the page says so; a missing page only means that the site has moved."""
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        request: Request = failure.request  # type: ignore[attr-defined]
        ((item, _),) = request.meta[ITEMS]
        pid, doubt = request.cb_kwargs["pid"], request.cb_kwargs.get("doubt")
        if verdict.rule == NO_SUCH_PARCEL and doubt and Doubt(*doubt).shown:
            yield self.witness_gone(request, item, pid)
        elif verdict.rule == NO_SUCH_PARCEL:
            yield from self.missing([(item, pid)], self.jurisdiction_of(request))
        elif get_policy(verdict.outcome).absent:
            yield self.site_is_gone(request, verdict.reason)

    # All parcels ------------------------------------------------------------------------------------------------

    def parse_letter(self, response: Response) -> Iterator[Any]:
        """Yields the streets that begin with a letter."""
        streets = parse.parse_streets(response.body)
        if not streets:
            raise PageFailed(Outcome.EMPTY, "no street begins with it")
        site = self.jurisdiction_of(response).id
        for name in streets:
            yield Found(STREET, name.strip() or NO_STREET, {SITE: site, "name": name})

    def parse_street(self, response: Response) -> Iterator[Any]:
        """Yields the parcels of a street."""
        pids = parse.parse_street(response.body)
        if not pids:
            raise PageFailed(Outcome.EMPTY, "no parcel is listed at this street")
        yield from (Found(PARCEL, pid) for pid in pids)

    def _streets(self, jurisdiction: Jurisdiction, parameter: str, value: str) -> Request:
        callback = self.parse_letter if parameter == "Letter" else self.parse_street
        url = f"{jurisdiction.page('Streets.aspx')}?{urlencode({parameter: value})}"
        return Request(url, callback, errback=self.list_failed, meta={STEP: True}, dont_filter=True)

    # Searches ---------------------------------------------------------------------------------------------------

    def parse_search(self, response: Response, kind: str, words: str) -> Iterator[Any]:
        """Yields the parcels found: for an owner all results, for an address only the exact matches."""
        found = parse.parse_suggestions(response.body)
        kept = [True] * len(found)
        if kind == ADDRESS:
            kept = AddressQuery.of(words).matches([each.value for each in found])
        yield from (Found(PARCEL, each.pid) for each, is_it in zip(found, kept, strict=True) if is_it)
        if not any(kept):
            near = ", ".join(each.value for each in found[:MOST_SUGGESTED])
            near = f"; the search suggests {near}" if near else ""
            said = f"{self.jurisdiction_of(response).records.name} has no parcel of the {kind} {words!r}{near}"
            yield ItemResult(self.item_of(response).id, "done", NO_RESULTS, said)

    def _search(self, jurisdiction: Jurisdiction, kind: str, words: str) -> Request:
        call, source = _SEARCHES[kind]
        asked = AddressQuery.of(words).asked if kind == ADDRESS else words
        return Request(
            jurisdiction.page(f"async.asmx/{call}"),
            self.parse_search,
            method="POST",
            body=msgspec.json.encode({"inVal": asked, "src": source}),
            headers={
                "Content-Type": "application/json; charset=utf-8",
                "X-Requested-With": "XMLHttpRequest",
                "Referer": jurisdiction.page("Search.aspx"),
            },
            meta={EXPECTS: "json", STEP: True},
            errback=self.list_failed,
            cb_kwargs={"kind": kind, "words": words},
            dont_filter=True,
        )


def _no_pid(given: str) -> str:
    return (
        f"{given!r} is no number by which VGSI knows a parcel: that is its PID, as in Parcel.aspx?pid=975."
        " Parcels of which it is not known are found by their address (-a address=...) or owner"
    )
