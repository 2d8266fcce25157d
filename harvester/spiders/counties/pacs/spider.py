"""The spider `pacs`: parcels of counties that publish their records with Harris PACS (True Automation)."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import PageFailed, ParseError, UsageError
from harvester.internal_meta import STEP
from harvester.items import Found
from harvester.items.property import normalized
from harvester.outcomes import Outcome, get_policy
from harvester.parsers.counties.addresses import AddressQuery
from harvester.parsers.counties.sections import records_of, signature
from harvester.sites import load_sites
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.pacs import parser as parse
from harvester.spiders.counties.pacs.parser import Hit
from harvester.spiders.counties.platform import Jurisdiction
from harvester.spiders.counties.searches import ADDRESS, OWNER, SearchArguments
from harvester.spiders.counties.sessions import Search, SessionSpider


class PacsSpider(SessionSpider):
    """Harvests parcels of a county on Harris PACS (True Automation): owners, values by year and deeds.

    Domain: the base_url of the site's entry. Caveats: a parcel's number is its property id, or its geographic id, which
    takes a search; estimated taxes are not bills; deeds in Texas have no price; parcels are not listed, so all=yes is
    refused. Arguments: see `harvester spiders show pacs`.
    """

    name = "pacs"
    Arguments = SearchArguments
    ITEM_KINDS = (PARCEL, OWNER, ADDRESS)
    arguments: SearchArguments

    @classmethod
    def check_jurisdiction(cls, jurisdiction: Jurisdiction) -> None:
        if "cid" not in jurisdiction.records.parameters:
            raise UsageError(
                f"{jurisdiction.records.name} is a client of the platform, and the entry [{jurisdiction.id}] does not"
                " say which: write parameters = { cid = 12 }, with the number in the site's addresses, into its table"
                " `property`."
            )
        cls.check_session(jurisdiction)

    def begin(self, jurisdiction: Jurisdiction, search: Search) -> Request:
        """Requests the property's page directly, or the search form, which switches the session to this county.

        The form is needed where a host serves several counties: its session may belong to another one.
        """
        is_direct = search.kind == PARCEL and parse.is_property_id(search.key)
        if is_direct and load_sites().of(jurisdiction.records.base_url).name == jurisdiction.id:
            return self._property(jurisdiction, search, search.key)
        return self._form(jurisdiction, search, is_direct=is_direct)

    # A parcel ---------------------------------------------------------------------------------------------------

    def parse_property(
        self, response: Response, search: list[Any], property_id: str, is_found: bool, is_again: bool
    ) -> Iterator[Any]:
        """Yields the records of a property, or searches for it when the page has none. `is_found`: the search has found
        it.

        A search form instead of the property starts a session; the page is then requested once more.
        """
        wanted, jurisdiction = Search(*search), self.jurisdiction_of(response)
        page = parse.read_property(response.body, response.url, jurisdiction.source.synonyms)
        if page is None:
            response.meta[STEP] = True
        if page is None and not is_again and parse.is_search(response.body):
            yield self._property(jurisdiction, wanted, property_id, is_found=is_found, is_again=True)
        elif page is None and not is_found:
            yield self._form(jurisdiction, wanted)
        elif page is None:
            raise ParseError(f"the search finds the property {property_id}, and its page says nothing of it")
        elif normalized(page.parcel_id) != normalized(property_id):
            raise ParseError(f"the property {property_id} was asked for, and the page is that of {page.parcel_id}")
        else:
            found = records_of(page, jurisdiction.source, self.provenance(response))
            yield from self.checked_in_session(response, wanted, property_id, signature(page), found)

    def after(self, request: Request, search: Search, outcome: Outcome, jurisdiction: Jurisdiction) -> Iterator[Any]:
        if get_policy(outcome).no_content and request.cb_kwargs.get("is_found") is False:
            yield self._form(jurisdiction, search)
        else:
            yield from super().after(request, search, outcome, jurisdiction)

    def _property(
        self,
        jurisdiction: Jurisdiction,
        search: Search,
        property_id: str,
        *,
        is_found: bool = False,
        is_again: bool = False,
    ) -> Request:
        url = _page(jurisdiction, "Property.aspx", prop_id=property_id)
        known = {"property_id": property_id, "is_found": is_found, "is_again": is_again}
        return self.ask(url, self.parse_property, search, **known)

    # Searches ---------------------------------------------------------------------------------------------------

    def _form(self, jurisdiction: Jurisdiction, search: Search, *, is_direct: bool = False) -> Request:
        return self.ask(_page(jurisdiction, ""), self.parse_form, search, is_direct=is_direct)

    def parse_form(self, response: Response, search: list[Any], is_direct: bool) -> Iterator[Any]:
        """Submits the search; `is_direct`: requests the property's page instead."""
        wanted = Search(*search)
        if is_direct:
            yield self._property(self.jurisdiction_of(response), wanted, wanted.key)
            return
        words = AddressQuery.of(wanted.key).asked if wanted.kind == ADDRESS else wanted.key
        action, body = parse.read_search(response.body, response.url, words)
        yield self.post(action, body, self.parse_results, wanted, number=1, first="", found=0)

    def parse_results(
        self, response: Response, search: list[Any], number: int, first: str, found: int
    ) -> Iterator[Any]:
        """Yields a page of results. `first`: first property on page 1; `found`: number of properties before this."""
        wanted, jurisdiction = Search(*search), self.jurisdiction_of(response)
        results = parse.read_results(response.body, response.url)
        if number > 1 and results.hits and results.hits[0].property_id == first:
            raise PageFailed(Outcome.LAYOUT_CHANGED, "whatever page is asked for, the site gives the first one")
        fits = fitting(results.hits, wanted)
        if wanted.kind == PARCEL and len(fits) > 1:
            yield from self.several(response, wanted, fits)
        elif wanted.kind == PARCEL and fits:
            yield self._property(jurisdiction, wanted, fits[0], is_found=True)
        else:
            yield from (Found(PARCEL, property_id) for property_id in fits)
            found += len(fits)
            if results.next_url:
                first = first or results.hits[0].property_id
                kept = {"number": number + 1, "first": first, "found": found}
                yield self.ask(results.next_url, self.parse_results, wanted, **kept)
            elif found:
                self.end(response)
            else:
                yield from self.nothing(response, wanted, jurisdiction)


def _page(jurisdiction: Jurisdiction, name: str, **query: str) -> str:
    return jurisdiction.page(f"{name}?{urlencode({'cid': jurisdiction.records.parameters['cid'], **query})}")


def fitting(hits: Sequence[Hit], search: Search) -> list[str]:
    """Selects the properties that match the search. The site searches all columns: a name may match a street."""
    if search.kind == OWNER:
        found = [hit for hit in hits if normalized(search.key) in normalized(hit.owner)]
    elif search.kind == ADDRESS:
        query = AddressQuery.of(search.key)
        found = [hit for hit in hits if any(query.matches([hit.address]))]
    else:
        found = [hit for hit in hits if search.key in (hit.property_id, *hit.numbers)] or [
            hit for hit in hits if _plain(search.key) in filter(None, map(_plain, (hit.property_id, *hit.numbers)))
        ]
    return list(dict.fromkeys(hit.property_id for hit in found))


def _plain(number: str) -> str:
    """Normalises a number: sites write it with and without hyphens and leading zeros."""
    return normalized(number).lstrip("0")
