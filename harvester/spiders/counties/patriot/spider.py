"""The spider `patriot`: parcels of towns whose records Patriot Properties publishes with WebPro."""

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, ClassVar
from urllib.parse import urlencode

from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import PageFailed, ParseError, UsageError
from harvester.items import Found, ItemResult
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome
from harvester.parsers.counties.addresses import AddressQuery
from harvester.parsers.counties.sections import records_of, signature
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.patriot import parser as parse
from harvester.spiders.counties.platform import Jurisdiction
from harvester.spiders.counties.searches import ADDRESS, number_and_street
from harvester.spiders.counties.sessions import MOST_REPLAYS, Search, SessionSpider

TOWN = "town"
"""Kind of the item that stands for all parcels."""


class PatriotSpider(SessionSpider):
    """Harvests parcels of a town on Patriot Properties WebPro: the card with owner, values and the last sale.

    Domain: the base_url of the site's entry. Caveats: a parcel's number is its account, as in
    Summary.asp?AccountNumber=7; a session requests one parcel at a time. Arguments: see `harvester spiders show
    patriot`.
    """

    name = "patriot"
    ALL: ClassVar[str] = TOWN

    @classmethod
    def check_jurisdiction(cls, jurisdiction: Jurisdiction) -> None:
        cls.check_session(jurisdiction)

    @classmethod
    def check_item(cls, found: Found) -> Found:
        found = super().check_item(found)
        if found.kind == PARCEL and not parse.is_account(found.key):
            raise UsageError(_no_account(found.key))
        return found

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        for item in items:
            if item.kind == PARCEL and not parse.is_account(item.key):
                yield ItemResult(item.id, "failed", Outcome.INVALID, _no_account(item.key))
            else:
                yield from super().requests_for(jurisdiction, [item])

    def begin(self, jurisdiction: Jurisdiction, search: Search) -> Request:
        """Selects a parcel or a search in the session: the following pages show it."""
        if search.kind == PARCEL:
            page = f"Summary.asp?{urlencode({'AccountNumber': search.key})}"
            request = self.ask(jurisdiction.page(page), self.parse_loaded, search)
        else:
            body, results = urlencode(_form(search)), jurisdiction.page("SearchResults.asp")
            request = self.post(results, body, self.parse_results, search, page=1, found=[])
        request.headers["Referer"] = jurisdiction.page("default.asp")
        return request

    # A parcel ---------------------------------------------------------------------------------------------------

    def parse_loaded(self, response: Response, search: list[Any]) -> Iterator[Any]:
        """Requests the card: the session now shows this parcel."""
        card = self.jurisdiction_of(response).page("summary-bottom.asp")
        yield self.ask(card, self.parse_card, Search(*search))

    def parse_card(self, response: Response, search: list[Any]) -> Iterator[Any]:
        """Yields the records of a card. Requests it again in the same session when it is empty or another parcel's."""
        wanted, jurisdiction = Search(*search), self.jurisdiction_of(response)
        card = parse.read_card(response.body, jurisdiction.source.synonyms)
        is_wanted = card is not None and card.parcel_id.lstrip("0") == wanted.key.lstrip("0")
        if not is_wanted and wanted.replays < MOST_REPLAYS:
            yield self.begin(jurisdiction, wanted._replace(replays=wanted.replays + 1))
        elif card is None:
            yield from self.nothing(response, wanted, jurisdiction)
        elif not is_wanted:
            raise ParseError(parse.why_other(wanted.key, card.parcel_id))
        else:
            found = records_of(card, jurisdiction.source, self.provenance(response))
            yield from self.checked_in_session(response, wanted, wanted.key, signature(card), found)

    # Searches ---------------------------------------------------------------------------------------------------

    def parse_results(self, response: Response, search: list[Any], page: int, found: list[list[str]]) -> Iterator[Any]:
        """Yields a page of the results. `found`: accounts and addresses on the pages before."""
        wanted, results = Search(*search), parse.read_results(response.body)
        if found and results.parcels and found[0][0] == results.parcels[0].account:
            raise ParseError("whatever page of the results is asked for, the site gives the first one")
        if wanted.kind == TOWN:
            yield from (Found(PARCEL, parcel.account) for parcel in results.parcels)
        found = [*found, *map(list, results.parcels)]
        if results.last > page:
            kept = found[:1] if wanted.kind == TOWN else found
            following = self.jurisdiction_of(response).page(f"SearchResults.asp?page={page + 1}")
            yield self.ask(following, self.parse_results, wanted, page=page + 1, found=kept)
        elif wanted.kind == ADDRESS:
            yield from self._at_address(response, wanted, found)
        elif found:
            self.end(response)
        else:
            raise PageFailed(Outcome.EMPTY, "the site lists no parcel")

    def _at_address(self, response: Response, wanted: Search, found: Sequence[Sequence[str]]) -> Iterator[Any]:
        kept = AddressQuery.of(wanted.key).matches([address for _, address in found])
        yield from (Found(PARCEL, account) for account, _ in compress(found, kept))
        if any(kept):
            self.end(response)
        else:
            yield from self.nothing(response, wanted, self.jurisdiction_of(response))


def _form(search: Search) -> dict[str, str]:
    """Returns the search form's values: house number and first word of the street; both empty for a whole town."""
    number, street = number_and_street(AddressQuery.of(search.key).asked) if search.kind == ADDRESS else ("", "")
    return {
        "SearchStreetNum": number,
        "SearchStreetName": street.partition(" ")[0],
        "SearchStreetNameCompare": "Starts With",
        "SearchSubmitted": "yes",
        "cmdGo": "Go",
    }


def _no_account(given: str) -> str:
    return (
        f"{given!r} is no number by which WebPro knows a parcel: that is its account, as in"
        " Summary.asp?AccountNumber=7. Parcels of which it is not known are found by their address (-a address=...)"
    )
