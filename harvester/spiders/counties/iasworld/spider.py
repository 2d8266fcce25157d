"""The spider `iasworld`: parcels of Tyler's iasWorld Public Access."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from string import ascii_uppercase, digits
from typing import Any

import msgspec
from pydantic import Field
from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import NotAccepted, PageFailed
from harvester.identities.chains import stay_in_session
from harvester.items import Found, ItemResult
from harvester.items.property import normalized
from harvester.outcomes import Outcome, get_policy
from harvester.parsers.counties.sections import ParcelPage, joined, records_of, signature
from harvester.sites.agreements import root_of
from harvester.spiders.base import YesOrNo
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.iasworld import parser as parse
from harvester.spiders.counties.iasworld.parser import IasWorldResults, IasWorldRow, Tab
from harvester.spiders.counties.platform import Jurisdiction
from harvester.spiders.counties.searches import ADDRESS, OWNER, SearchArguments, number_and_street
from harvester.spiders.counties.sessions import MOST_REPLAYS, Search, SessionSpider

MODES = {PARCEL: "parid", OWNER: "owner", ADDRESS: "address"}
"""Kind of an item -> the search that finds it."""
NEXT_LETTERS = ascii_uppercase + digits + " ,.&'-/#("
"""Characters that may follow the beginning of a name."""
MOST_BEGINNING = 12
"""Maximum number of letters in a beginning that is narrowed because it has too many parcels."""
SHARDED = "sharded"
"""Outcome of a beginning of names that was replaced by longer ones."""


class IasworldArguments(SearchArguments):
    """Arguments of the spider `iasworld`."""

    media: YesOrNo = Field(True, description="whether PDFs of tax bills are fetched: yes or no")

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"media": self.media}


class IasworldSpider(SessionSpider):
    """Harvests parcels from Tyler iasWorld Public Access: its search, and all datalets of a parcel.

    Domain: the base_url of the site's entry. Caveats: the site's disclaimer is agreed to only if its entry names the
    person who accepted it; a session requests one parcel at a time; parcels are not listed, so all=yes is refused.
    Arguments: see `harvester spiders show iasworld`.
    """

    name = "iasworld"
    Arguments = IasworldArguments
    ITEM_KINDS = (PARCEL, OWNER, ADDRESS)
    arguments: IasworldArguments

    @classmethod
    def check_jurisdiction(cls, jurisdiction: Jurisdiction) -> None:
        records = jurisdiction.records
        if not records.disclaimer:
            raise NotAccepted(
                f"{records.name} shows a disclaimer first, and nobody has accepted it. Read"
                f" {root_of(records.base_url)}search/Disclaimer.aspx. If you may agree to it, copy the entry"
                f" [{jurisdiction.id}] into a file in HARVESTER_SITES_DIR, and write into its table `property`:"
                f' disclaimer = "accepted by YOUR NAME on {date.today()}". See docs/counties.md.'
            )
        cls.check_session(jurisdiction)

    # The search -------------------------------------------------------------------------------------------------

    def begin(self, jurisdiction: Jurisdiction, search: Search) -> Request:
        """Requests the search form. The site accepts only the newest form of a session."""
        town = jurisdiction.records.parameters.get("sjur")
        of_town = f"&sjur={town}" if town else ""
        page = f"search/commonsearch.aspx?mode={MODES[search.kind]}{of_town}"
        return self.ask(root_of(jurisdiction.records.base_url) + page, self.parse_form, search)

    def parse_form(self, response: Response, search: list[Any]) -> Iterator[Any]:
        """Fills in the search form with its hidden fields, and yields the request that submits it."""
        wanted = Search(*search)
        asked = _asked(wanted)
        form, names = parse.read_search(response.body, response.url, list(asked))
        given = dict(zip(names, asked.values(), strict=True))
        yield self._post(form.action, parse.search_body(form, given), wanted, given)

    def parse_answer(
        self, response: Response, search: list[Any], given: dict[str, str], number: int, first: str
    ) -> Iterator[Any]:
        """Yields results, or the only parcel. `number`: page of results; `first`: address of page 1's first row."""
        wanted = Search(*search)
        answer = parse.read_answer(response.body, response.url)
        if isinstance(answer, str):
            yield self.ask(answer, self.parse_datalet, wanted)
        elif isinstance(answer, IasWorldResults):
            yield from self._rows(response, wanted, answer, given, number, first)
        elif wanted.kind == PARCEL:
            yield from self._next(response, wanted, [answer.page], answer.tabs)
        else:
            yield Found(PARCEL, answer.page.parcel_id)
            self.end(response)

    def _rows(
        self, response: Response, wanted: Search, found: IasWorldResults, given: dict[str, str], number: int, first: str
    ) -> Iterator[Any]:
        if number > 1 and found.rows[0].url == first:
            raise PageFailed(Outcome.LAYOUT_CHANGED, "whatever page is asked for, the site gives the first one")
        jurisdiction = self.jurisdiction_of(response)
        own = str(jurisdiction.records.parameters.get("jur", ""))
        rows = [row for row in found.rows if own in ("", row.jurisdiction)]
        if wanted.kind != PARCEL:
            yield from (Found(PARCEL, row.parcel_id) for row in rows)
        elif fits := _fitting(rows, wanted.key):
            yield from self._chosen(response, wanted, fits)
            return
        if found.goes_on:
            if found.form is None:
                raise PageFailed(Outcome.LAYOUT_CHANGED, "there are more results, and no form to ask for them")
            body = parse.search_body(found.form, given, number + 1)
            yield self._post(found.form.action, body, wanted, given, number + 1, first or found.rows[0].url)
            return
        if wanted.kind == PARCEL:
            yield from self.nothing(response, wanted, jurisdiction)
        else:
            self.end(response)

    def _chosen(self, response: Response, wanted: Search, fits: Sequence[IasWorldRow]) -> Iterator[Any]:
        """Yields the request for the parcel's own row; the latest when there are several years."""
        numbers = sorted({row.parcel_id for row in fits})
        if len(numbers) > 1:
            yield from self.several(response, wanted, numbers)
        else:
            yield self.ask(max(fits, key=lambda row: row.tax_year).url, self.parse_datalet, wanted)

    # The parcel -------------------------------------------------------------------------------------------------

    def parse_datalet(self, response: Response, search: list[Any]) -> Iterator[Any]:
        """Reads the first datalet of a parcel, and yields the request for the next one."""
        first = parse.read_first(response.body, response.url)
        yield from self._next(response, Search(*search), [first.page], first.tabs)

    def parse_tab(self, response: Response, search: list[Any], read: list[Any], tabs: list[Any]) -> Iterator[Any]:
        """Reads a further datalet. `read`: the datalets before it; `tabs`: the tabs after it."""
        datalets = [*msgspec.convert(read, list[ParcelPage]), parse.read_datalet(response.body, response.url)]
        yield from self._next(response, Search(*search), datalets, [Tab(*tab) for tab in tabs])

    def _next(
        self, page: Response | Request, wanted: Search, read: Sequence[ParcelPage], tabs: Sequence[Tab]
    ) -> Iterator[Any]:
        """Yields the request for the next tab, or the records after the last one."""
        jurisdiction = self.jurisdiction_of(page)
        if any(normalized(datalet.parcel_id) != normalized(wanted.key) for datalet in read):
            if wanted.replays >= MOST_REPLAYS:
                raise PageFailed(Outcome.SESSION_EXPIRED, f"the site shows {read[-1].parcel_id!r} in its place")
            yield self.begin(jurisdiction, wanted._replace(replays=wanted.replays + 1))
        elif tabs:
            kept = {"read": msgspec.to_builtins(read), "tabs": [list(tab) for tab in tabs[1:]]}
            yield self.ask(tabs[0].url, self.parse_tab, wanted, **kept)
        else:
            whole = joined(read[0], read[1:])
            found = records_of(whole, jurisdiction.source, self.provenance(page))
            yield from self.checked_in_session(page, wanted, wanted.key, signature(whole), found)

    def after(self, request: Request, search: Search, outcome: Outcome, jurisdiction: Jurisdiction) -> Iterator[Any]:
        if "tabs" in request.cb_kwargs and (get_policy(outcome).no_content or outcome is Outcome.POLICY_DENIED):
            self.crawler.stats.inc_value(f"harvester/counties/tabs_not_shown/{outcome}")
            read = msgspec.convert(request.cb_kwargs["read"], list[ParcelPage])
            for output in self._next(request, search, read, [Tab(*tab) for tab in request.cb_kwargs["tabs"]]):
                if isinstance(output, Request):
                    stay_in_session(output, request)
                yield output
            return
        if outcome is Outcome.TOO_MANY:
            yield from _narrowed(search)
        yield from super().after(request, search, outcome, jurisdiction)

    def _post(
        self, url: str, body: str, search: Search, given: Mapping[str, str], number: int = 1, first: str = ""
    ) -> Request:
        return self.post(url, body, self.parse_answer, search, given=dict(given), number=number, first=first)


def _asked(search: Search) -> dict[str, str]:
    """Returns the texts for the search form, by the parser's FIELDS."""
    if search.kind != ADDRESS:
        return {search.kind: search.key}
    number, street = number_and_street(search.key)
    return {"number": number, "street": street} if number else {"street": street}


def _fitting(rows: Sequence[IasWorldRow], parcel_id: str) -> list[IasWorldRow]:
    """Returns the rows of a parcel: with the same number, or else with one that differs in blanks and dashes only."""
    exact = [row for row in rows if row.parcel_id == parcel_id]
    return exact or [row for row in rows if normalized(row.parcel_id) == normalized(parcel_id)]


def _narrowed(search: Search) -> Iterator[Found | ItemResult]:
    """Replaces a beginning of names that has more parcels than the site shows by all longer beginnings."""
    if search.kind != OWNER or len(search.key) >= MOST_BEGINNING:
        yield ItemResult(
            search.item, "failed", Outcome.TOO_MANY, f"more are found by {search.key!r} than the site shows"
        )
        return
    yield from (Found(OWNER, search.key + letter) for letter in NEXT_LETTERS)
    yield ItemResult(
        search.item, "skipped", SHARDED, "it has more parcels than the site shows: longer names are asked for"
    )
