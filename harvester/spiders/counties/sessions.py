"""The base of spiders whose searches need a session: all requests of an item use the same one."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import NotAccepted
from harvester.identities.chains import end_chain
from harvester.internal_meta import STEP
from harvester.items import ItemResult
from harvester.jobs.documents import JobItem
from harvester.meta import SESSION_CHAIN
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.counties.drift import Signature
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.platform import NO_RESULTS, Jurisdiction
from harvester.spiders.counties.searches import SearchingSpider
from harvester.spiders.counties.witness import Doubt
from harvester.spiders.job import errback

MOST_EXPIRED = 3
"""Maximum number of restarts of a search whose session has expired, before the item waits for a retry."""
MOST_REPLAYS = 1
"""Maximum number of restarts because the session shows another parcel, or none."""
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Search(NamedTuple):
    """A search, carried as a list by the requests of the chain."""

    item: str
    kind: str
    key: str
    replays: int = 0
    doubt: Sequence[Any] | None = None
    """The Doubt to resolve, if the search is a layout check."""
    expired: int = 0


class SessionSpider(SearchingSpider, ABC):
    """Base class: implement `begin`, and callbacks that take a `search` and call `end` after the last request."""

    IN_SESSIONS: ClassVar[bool] = True

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        for item in items:
            yield self.begin(jurisdiction, Search(item.id, item.kind, item.key))

    @abstractmethod
    def begin(self, jurisdiction: Jurisdiction, search: Search) -> Request:
        """Returns the first request of a chain."""

    @errback
    def failed(self, failure: Failure) -> Iterator[Any]:
        """Restarts a search whose session has expired; reports other outcomes as results of the item."""
        request: Request = failure.request  # type: ignore[attr-defined]
        search = Search(*request.cb_kwargs["search"])
        outcome = verdict_of(failure.value).outcome  # type: ignore[arg-type]
        try:
            jurisdiction = self.jurisdiction_of(request)
        except NotAccepted as error:  # acceptance was withdrawn after the request
            yield ItemResult(search.item, "skipped", Outcome.POLICY_DENIED, str(error))
            return
        if outcome is Outcome.SESSION_EXPIRED and search.expired < MOST_EXPIRED:
            yield self.begin(jurisdiction, search._replace(expired=search.expired + 1))
        else:
            yield from self.after(request, search, outcome, jurisdiction)

    def after(self, request: Request, search: Search, outcome: Outcome, jurisdiction: Jurisdiction) -> Iterator[Any]:
        """Yields the results for an outcome that its policy does not handle."""
        if outcome is Outcome.EMPTY:
            yield from self.nothing(request, search, jurisdiction)
            return
        if get_policy(outcome).absent:
            yield self.site_is_gone(request, f"there is no {request.url}")
        self.end(request)

    def checked_in_session(
        self, page: Response | Request, search: Search, parcel_id: str, look: Signature, found: PageRows
    ) -> Iterator[Any]:
        """Yields the records of a parcel if its card is right, and the request for a layout check."""
        check = self.witnesses.check(page, parcel_id, look, found.records, search.doubt)
        if check.is_right:
            yield self.stored(found)
        if check.asks:
            parcel_id, doubt = check.asks
            yield self.begin(self.jurisdiction_of(page), search._replace(key=parcel_id, replays=0, doubt=doubt))
        else:
            self.end(page)

    def nothing(self, page: Response | Request, search: Search, jurisdiction: Jurisdiction) -> Iterator[ItemResult]:
        """Yields the result of a search that finds nothing."""
        if search.kind != PARCEL:
            yield ItemResult(search.item, "done", NO_RESULTS, f"no {search.kind} is found by {search.key!r}")
        elif search.doubt and Doubt(*search.doubt).shown:
            yield self.witness_gone(page, search.item, search.key)
        else:
            yield from self.missing([[search.item, search.key]], jurisdiction)
        self.end(page)

    def several(self, page: Response, search: Search, numbers: Sequence[str]) -> Iterator[ItemResult]:
        """Fails an item whose number matches several parcels."""
        said = f"{len(numbers)} parcels are written so but for blanks and dashes: {', '.join(numbers)}; name one"
        yield ItemResult(search.item, "failed", Outcome.TOO_MANY, said)
        self.end(page)

    def end(self, page: Response | Request) -> None:
        """Releases the session for another parcel."""
        request = page.request if isinstance(page, Response) else page
        assert request
        end_chain(self.crawler, request)

    def ask(self, url: str, callback: Any, search: Search, **arguments: Any) -> Request:
        """Returns a request of the chain."""
        return Request(
            url,
            callback,
            errback=self.failed,
            cb_kwargs={"search": list(search), **arguments},
            meta={SESSION_CHAIN: search.item, STEP: True},
            dont_filter=True,
        )

    def post(self, url: str, body: str, callback: Any, search: Search, **arguments: Any) -> Request:
        """Returns a request of the chain that submits a form."""
        return self.ask(url, callback, search, **arguments).replace(method="POST", body=body, headers=_FORM)
