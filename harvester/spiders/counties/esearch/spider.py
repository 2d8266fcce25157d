"""The spider `esearch`: parcels of districts of Texas that publish their records with BIS eSearch."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import replace
from pydantic import Field
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import PageFailed, ParseError
from harvester.internal_meta import ITEMS, STEP
from harvester.items import Found, ItemResult
from harvester.items.property import normalized
from harvester.jobs.documents import JobItem
from harvester.meta import EXPECTS, SESSION_CHAIN
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.counties.addresses import AddressQuery
from harvester.parsers.counties.sections import ParcelPage, records_of, signature
from harvester.spiders.base import YesOrNo
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.esearch import parser as parse
from harvester.spiders.counties.platform import AGAIN, NO_RESULTS, Jurisdiction
from harvester.spiders.counties.searches import ADDRESS, OWNER, SearchArguments, SearchingSpider, number_and_street
from harvester.spiders.counties.witness import FIRST, Doubt
from harvester.spiders.job import errback

PAGE_ROWS = 100
"""Number of search results per page."""
BEGUN = 1
"""Priority of all requests except a parcel's page: a started search ends first, while its token is valid."""
MOST_REPLAYS = 3
"""Maximum number of restarts of a search whose token has expired."""
_XHR = {"X-Requested-With": "XMLHttpRequest"}
_ERROR = "esearch-error"
"""The outcome rule for the error page that replaces a parcel; missing parcels get it, too."""


class _Search(NamedTuple):
    """A search. Each request for its pages carries it in cb_kwargs."""

    item: str
    kind: str
    key: str
    replays: int = 0
    token: str = ""
    """Token that the site expects; empty: the site needs no token."""
    page: str = ""
    """Address of the page that the token is from."""


class EsearchArguments(SearchArguments):
    """Arguments of the spider `esearch`."""

    taxes: YesOrNo = Field(True, description="whether the taxes that are due are asked for: yes or no")

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"taxes": self.taxes}


class EsearchSpider(SearchingSpider):
    """Harvests parcels of an appraisal district on BIS eSearch: owner, values by year, deeds, and the taxes due.

    Domain: the base_url of the site's entry. Caveats: a site that wants a captcha is not searched; parcels are not
    listed, so all=yes is refused; when a parcel has several owners, only the one on its page is stored. Arguments: see
    `harvester spiders show esearch`.
    """

    name = "esearch"
    Arguments = EsearchArguments
    ITEM_KINDS = (PARCEL, ADDRESS, OWNER)
    arguments: EsearchArguments

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        for item in items:
            if item.kind == PARCEL:
                yield self._view(jurisdiction, item.key)
            else:
                yield self._begin(jurisdiction, _Search(item.id, item.kind, item.key))

    # A parcel ---------------------------------------------------------------------------------------------------

    def parse_parcel(
        self, response: Response, parcel_id: str, doubt: list[Any] | None, is_found: bool
    ) -> Iterator[Any]:
        """Yields the request for the taxes due. When the page shows no parcel, searches for it.

        `is_found`: True if the search has already found the parcel.
        """
        jurisdiction = self.jurisdiction_of(response)
        page = parse.read_parcel(response.body, parcel_id, jurisdiction.source.synonyms)
        if page is None and is_found:
            raise ParseError(f"the search finds the parcel {parcel_id}, and its page says nothing of it")
        if page is None:
            response.meta[STEP] = True
            yield self._unknown(response, self.item_of(response).id, parcel_id, doubt)
        elif normalized(page.parcel_id) != normalized(parcel_id):
            raise ParseError(f"the parcel {parcel_id} was asked for, and the page is that of {page.parcel_id}")
        else:
            found = records_of(page, jurisdiction.source, self.provenance(response))
            check = self.witnesses.check(response, parcel_id, signature(page), found.records, doubt)
            if check.is_right:
                yield self._rest(response, page, parcel_id)
            if check.asks:
                yield self._view(jurisdiction, *check.asks)

    def _rest(self, response: Response, page: ParcelPage, parcel_id: str) -> Any:
        """Returns the records of a parcel, or the request for the taxes due."""
        jurisdiction = self.jurisdiction_of(response)
        if self.arguments_of(response).taxes:
            asked_for = urlencode({"id": parcel_id, "year": page.tax_year})
            return Request(
                f"{jurisdiction.page('Property/GetPropertyTaxDueModalResult')}?{asked_for}",
                self.parse_taxes,
                errback=self.taxes_failed,
                headers=_XHR,
                cb_kwargs={"read": msgspec.to_builtins(page), "url": response.url},
                priority=BEGUN,
                dont_filter=True,
            )
        return self._read(response, page, response.url)

    def parse_taxes(self, response: Response, read: dict[str, Any], url: str) -> Iterator[Any]:
        """Yields the records of a parcel. `read`: the parsed page of the parcel, from `url`."""
        page, taxes = msgspec.convert(read, ParcelPage), parse.read_taxes(response.body)
        yield self._read(response, replace(page, sections=[*page.sections, *([taxes] if taxes else [])]), url)

    @errback
    def taxes_failed(self, failure: Failure) -> Iterator[Any]:
        """Stores a parcel without taxes: many districts do not collect them or do not show them."""
        request: Request = failure.request  # type: ignore[attr-defined]
        outcome = verdict_of(failure.value).outcome  # type: ignore[arg-type]
        policy = get_policy(outcome)
        if policy.no_content or (policy.refusal and not policy.site):  # it refuses this page, and not us
            self.crawler.stats.inc_value(f"harvester/counties/taxes_not_shown/{outcome}")
            page = msgspec.convert(request.cb_kwargs["read"], ParcelPage)
            yield self._read(request, page, request.cb_kwargs["url"])

    @errback
    def parcel_failed(self, failure: Failure) -> Iterator[Any]:
        """Searches for a parcel whose page is missing: only the search proves that the parcel is missing."""
        request: Request = failure.request  # type: ignore[attr-defined]
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        ((item, _),) = request.meta[ITEMS]
        parcel_id, doubt, is_found = (request.cb_kwargs[name] for name in ("parcel_id", "doubt", "is_found"))
        if not is_found and (get_policy(verdict.outcome).no_content or verdict.rule == _ERROR):
            yield self._unknown(request, item, parcel_id, doubt)
        elif get_policy(verdict.outcome).no_content:
            said = f"the search finds the parcel {parcel_id}, and its page is not there: {verdict.reason}"
            yield ItemResult(item, "failed", Outcome.NOT_FOUND, said)

    def _view(
        self, jurisdiction: Jurisdiction, parcel_id: str, doubt: list[Any] | None = None, *, is_found: bool = False
    ) -> Request:
        return Request(
            jurisdiction.page(f"Property/View/{quote(parcel_id, safe='')}"),
            self.parse_parcel,
            errback=self.parcel_failed,
            cb_kwargs={"parcel_id": parcel_id, "doubt": doubt, "is_found": is_found},
            priority=FIRST if doubt else BEGUN if is_found else 0,
            dont_filter=True,
        )

    def _unknown(
        self, page: Response | Request, item: str, parcel_id: str, doubt: list[Any] | None
    ) -> Request | ItemResult:
        if doubt and Doubt(*doubt).shown:
            return self.witness_gone(page, item, parcel_id)
        return self._begin(self.jurisdiction_of(page), _Search(item, PARCEL, parcel_id))

    def _read(self, page: Response | Request, read: ParcelPage, url: str) -> list[Any]:
        provenance = replace(self.provenance(page), url=url)
        found = records_of(read, self.jurisdiction_of(page).source, provenance)
        return self.stored(found)

    # Searches ---------------------------------------------------------------------------------------------------

    def parse_captcha(self, response: Response, search: list[Any]) -> Iterator[Any]:
        """Continues the search: the site wants no captcha, or else its outcome would be `challenge`."""
        yield self._session(self.jurisdiction_of(response), _Search(*search))

    def parse_session(self, response: Response, search: list[Any]) -> Iterator[Any]:
        """Yields the request for the search page, with the session's token."""
        wanted = _Search(*search)._replace(token=parse.read_session_token(response.body))
        query = urlencode({"keywords": _keywords(wanted), "searchSessionToken": wanted.token}, quote_via=quote)
        url = f"{self.jurisdiction_of(response).page('search/result')}?{query}"
        yield self._ask(url, self.parse_search, wanted, is_json=False)

    def parse_search(self, response: Response, search: list[Any]) -> Iterator[Any]:
        """Yields the request for the results, with the search's token."""
        token = parse.read_search_token(response.body)
        wanted = _Search(*search)._replace(token=token, page=response.url)
        yield self._results(self.jurisdiction_of(response), wanted)

    def parse_results(self, response: Response, search: list[Any], number: int, first: str, seen: int) -> Iterator[Any]:
        """Yields parcels. `number`: page of results; `first`: first result on page 1; `seen`: rows on earlier pages."""
        wanted, jurisdiction, found = (
            _Search(*search),
            self.jurisdiction_of(response),
            parse.read_results(response.body),
        )
        if number > 1 and found.parcel_ids and found.parcel_ids[0] == first:
            raise PageFailed(Outcome.LAYOUT_CHANGED, "whatever page is asked for, the site gives the first one")
        seen += len(found.parcel_ids)
        if wanted.kind != PARCEL:
            yield from (Found(PARCEL, parcel_id) for parcel_id in found.parcel_ids)
        elif any(normalized(parcel_id) == normalized(wanted.key) for parcel_id in found.parcel_ids):
            yield self._view(jurisdiction, wanted.key, is_found=True)
            return
        if seen < found.total and found.parcel_ids:
            yield self._results(jurisdiction, wanted, number + 1, first or found.parcel_ids[0], seen)
            return
        if seen < found.total:
            said = f"{found.total} are found by {wanted.key!r}, and the site shows {seen} of them"
            yield ItemResult(wanted.item, "failed", Outcome.TOO_MANY, said)
        elif wanted.kind == PARCEL:
            yield from self.missing([[wanted.item, wanted.key]], jurisdiction)
        elif not seen:
            said = f"{jurisdiction.records.name} has no parcel of the {wanted.kind} {wanted.key!r}"
            yield ItemResult(wanted.item, "done", NO_RESULTS, said)

    @errback
    def captcha_failed(self, failure: Failure) -> Iterator[Any]:
        """Continues the search: a site without the captcha page has no captcha."""
        if request := _not_there(failure):
            yield self._session(self.jurisdiction_of(request), _Search(*request.cb_kwargs["search"]))

    @errback
    def session_failed(self, failure: Failure) -> Iterator[Any]:
        """Continues the search without a token: a site without the token page needs no token."""
        if request := _not_there(failure):
            yield self._results(self.jurisdiction_of(request), _Search(*request.cb_kwargs["search"]))

    @errback
    def search_failed(self, failure: Failure) -> Iterator[Any]:
        """Restarts a search whose token has expired."""
        request: Request = failure.request  # type: ignore[attr-defined]
        wanted = _Search(*request.cb_kwargs["search"])
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        if get_policy(verdict.outcome).not_served and wanted.replays < MOST_REPLAYS:
            again = _Search(wanted.item, wanted.kind, wanted.key, wanted.replays + 1)
            yield self._begin(self.jurisdiction_of(request), again)
        elif get_policy(verdict.outcome).no_content and wanted.token:
            said = f"the site does not know the token that it gave: {verdict.reason}."
            if self.item_of(request).attempt < self.ATTEMPTS:
                yield ItemResult(wanted.item, "waiting", Outcome.SESSION_EXPIRED, said, datetime.now(UTC) + AGAIN)
                return
            said += " It may want its cookies back: see docs/county-records.md#esearch"
            yield ItemResult(wanted.item, "failed", Outcome.SESSION_EXPIRED, said)
        elif get_policy(verdict.outcome).no_content:
            yield self.site_is_gone(request, verdict.reason)

    def _begin(self, jurisdiction: Jurisdiction, search: _Search) -> Request:
        url = jurisdiction.page("search/shouldUseRecaptcha")
        return self._ask(url, self.parse_captcha, search).replace(errback=self.captcha_failed)

    def _session(self, jurisdiction: Jurisdiction, search: _Search) -> Request:
        url = jurisdiction.page("search/requestSessionToken")
        return self._ask(url, self.parse_session, search).replace(errback=self.session_failed)

    def _results(
        self, jurisdiction: Jurisdiction, search: _Search, number: int = 1, first: str = "", seen: int = 0
    ) -> Request:
        """Requests a page of results: by POST with the token, or by GET where the site needs no token."""
        asked = {"page": number, "pageSize": PAGE_ROWS, "recaptchaToken": ""}
        query = {"keywords": _keywords(search)} | ({} if search.token else asked)
        url = f"{jurisdiction.page('search/SearchResults')}?{urlencode(query, quote_via=quote)}"
        request = self._ask(url, self.parse_results, search, number=number, first=first, seen=seen)
        if not search.token:
            return request
        return request.replace(
            method="POST",
            body=msgspec.json.encode(asked | {"isArb": False, "searchToken": search.token}),
            headers={**_XHR, "Content-Type": "application/json; charset=utf-8", "Referer": search.page},
        )

    def _ask(self, url: str, callback: Any, search: _Search, *, is_json: bool = True, **arguments: Any) -> Request:
        return Request(
            url,
            callback,
            errback=self.search_failed,
            headers=_XHR if is_json else {},
            cb_kwargs={"search": list(search), **arguments},
            priority=BEGUN,
            meta={SESSION_CHAIN: search.item, STEP: True, **({EXPECTS: "json"} if is_json else {})},
            dont_filter=True,
        )


def _keywords(search: _Search) -> str:
    if search.kind == ADDRESS:
        number, street = number_and_street(AddressQuery.of(search.key).asked)
        return parse.keywords({"StreetNumber": number, "StreetName": street})
    return parse.keywords({"OwnerName" if search.kind == OWNER else "PropertyId": search.key})


def _not_there(failure: Failure) -> Request | None:
    """Returns the request if its page is missing."""
    outcome = verdict_of(failure.value).outcome  # type: ignore[arg-type]
    request: Request = failure.request  # type: ignore[attr-defined]
    return request if get_policy(outcome).no_content else None
