"""The spider `devnet`: parcels of counties that publish their records with DEVNET wEdge."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import ParseError
from harvester.internal_meta import STEP
from harvester.items import Found, ItemResult
from harvester.items.property import normalized
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.counties.addresses import AddressQuery
from harvester.parsers.counties.sections import ParcelPage, records_of, signature
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.devnet import parser as parse
from harvester.spiders.counties.platform import NO_RESULTS, Jurisdiction
from harvester.spiders.counties.searches import ADDRESS, SearchingSpider, number_and_street
from harvester.spiders.counties.witness import FIRST, Doubt
from harvester.spiders.job import errback

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class DevnetSpider(SearchingSpider):
    """Harvests parcels of a county on DEVNET wEdge: owner, values, sales and tax bills of the year that it shows.

    Domain: the base_url of the site's entry. Caveats: parcels are not listed, so all=yes is refused; some counties'
    robots.txt forbids the pages of parcels, which are skipped then. Arguments: see `harvester spiders show devnet`.
    """

    name = "devnet"

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        for item in items:
            if item.kind == ADDRESS:
                yield self._search(jurisdiction, item.kind, item.key)
            else:
                yield self._view(jurisdiction, item.key)

    # A parcel ---------------------------------------------------------------------------------------------------

    def parse_parcel(self, response: Response, parcel_id: str, doubt: list[Any] | None = None) -> Iterator[Any]:
        """Yields the records of a parcel. Searches when the page shows no parcel: only the search proves it missing."""
        here = self.jurisdiction_of(response).source.synonyms
        page = parse.read_parcel(response.body, response.url, here)
        if page is None:
            response.meta[STEP] = True
            yield self._search(self.jurisdiction_of(response), PARCEL, parcel_id, doubt)
        elif not _is_of(page, parcel_id):
            raise ParseError(f"the parcel {parcel_id} was asked for, and the page is that of {page.parcel_id}")
        else:
            yield from self._read(response, page, parcel_id, doubt)

    @errback
    def parcel_failed(self, failure: Failure) -> Iterator[Any]:
        """Searches for a parcel whose page is missing: only the search proves that the parcel is missing."""
        request: Request = failure.request  # type: ignore[attr-defined]
        if get_policy(verdict_of(failure.value).outcome).no_content:  # type: ignore[arg-type]
            asked = request.cb_kwargs
            yield self._search(self.jurisdiction_of(request), PARCEL, asked["parcel_id"], asked["doubt"])

    def _read(self, response: Response, page: ParcelPage, parcel_id: str, doubt: list[Any] | None) -> Iterator[Any]:
        jurisdiction = self.jurisdiction_of(response)
        found = records_of(page, jurisdiction.source, self.provenance(response))
        yield from self.checked(response, parcel_id, signature(page), found, doubt, partial(self._view, jurisdiction))

    def _view(self, jurisdiction: Jurisdiction, parcel_id: str, doubt: list[Any] | None = None) -> Request:
        return Request(
            jurisdiction.page(f"parcel/view/{quote(parse.view_of(parcel_id), safe='')}"),
            self.parse_parcel,
            errback=self.parcel_failed,
            cb_kwargs={"parcel_id": parcel_id, "doubt": doubt},
            priority=FIRST if doubt else 0,
            dont_filter=True,
        )

    # Searches ---------------------------------------------------------------------------------------------------

    def parse_search(self, response: Response, kind: str, key: str, doubt: list[Any] | None) -> Iterator[Any]:
        """Yields the only result, whose page the site shows at once, or the items of a list of results."""
        jurisdiction = self.jurisdiction_of(response)
        only = parse.viewed(response.url)
        found = [only] if only else parse.read_search(response.body)
        if kind == ADDRESS:
            yield from (Found(PARCEL, number) for number in found)
            if not found:
                said = f"{jurisdiction.records.name} has no parcel of the address {key!r}"
                yield ItemResult(self.item_of(response).id, "done", NO_RESULTS, said)
        elif any(normalized(number) == normalized(key) for number in found):
            page = parse.read_parcel(response.body, response.url, jurisdiction.source.synonyms)
            if not page or not _is_of(page, key):
                raise ParseError(f"the search finds the parcel {key}, and its page says nothing of it")
            yield from self._read(response, page, key, doubt)
        elif doubt and Doubt(*doubt).shown:
            yield self.witness_gone(response, self.item_of(response).id, key)
        else:
            yield from self.missing([[self.item_of(response).id, key]], jurisdiction)

    @errback
    def search_failed(self, failure: Failure) -> Iterator[ItemResult]:
        """Distinguishes a search that leads to a missing parcel page from a site that has moved."""
        verdict, answer = verdict_of(failure.value), getattr(failure.value, "response", None)  # type: ignore[arg-type]
        request: Request = failure.request  # type: ignore[attr-defined]
        if not get_policy(verdict.outcome).absent:
            return
        if answer is not None and parse.viewed(answer.url):
            said = f"the search leads to its page, which is not there: {verdict.reason}"
            yield ItemResult(self.item_of(request).id, "failed", Outcome.NOT_FOUND, said)
        else:
            yield self.site_is_gone(request, verdict.reason)

    def _search(self, jurisdiction: Jurisdiction, kind: str, key: str, doubt: list[Any] | None = None) -> Request:
        """Searches by number, or by house number and street without its type."""
        form = {"property_key": parse.view_of(key)}
        if kind == ADDRESS:
            number, street = number_and_street(AddressQuery.of(key).asked)
            form = {"property_list": "", "house_number": number, "street_name": street, "street_suffix": ""}
        return Request(
            jurisdiction.page("Search/ExecuteSearch"),
            self.parse_search,
            method="POST",
            body=urlencode(form),
            headers=_FORM,
            errback=self.search_failed,
            cb_kwargs={"kind": kind, "key": key, "doubt": doubt},
            priority=FIRST if kind == PARCEL else 0,
            dont_filter=True,
        )


def _is_of(page: ParcelPage, parcel_id: str) -> bool:
    return normalized(page.parcel_id) == normalized(parcel_id)
