"""The spider `beacon`: parcels of counties that publish their records with Schneider Beacon or qPublic."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import UsageError
from harvester.frontier.messages import ItemRef
from harvester.internal_meta import ITEMS, ITEMS_OF, STEP
from harvester.items import ItemResult
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.counties.sections import records_of, signature
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.beacon import parser as parse
from harvester.spiders.counties.platform import Jurisdiction, PlatformSpider
from harvester.spiders.counties.witness import FIRST, Doubt
from harvester.spiders.job import errback


class BeaconSpider(PlatformSpider):
    """Harvests parcels of a county on Schneider Beacon or qPublic: their reports, with values by year and sales.

    Domain: the base_url of the site's entry. Caveats: the vendor refuses many programs, and is then not asked again;
    parcels are not listed, so all=yes is refused. Arguments: see `harvester spiders show beacon`.
    """

    name = "beacon"
    ITEMS_A_REQUEST: ClassVar[Mapping[str, int]] = {PARCEL: 50}
    """Number of parcels that share one request for the site's search page."""

    @classmethod
    def check_jurisdiction(cls, jurisdiction: Jurisdiction) -> None:
        if not {"App", "AppID"} & jurisdiction.records.parameters.keys():
            raise UsageError(
                f"The entry [{jurisdiction.id}] does not say which county it is: write App, or AppID and LayerID, into"
                " its parameters, as they stand in the site's addresses."
            )

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        yield Request(
            _site_url(jurisdiction),
            self.parse_site,
            errback=self.site_failed,
            cb_kwargs={"parcels": [[item.id, item.key] for item in items]},
            meta={STEP: True},
            dont_filter=True,
        )

    def parse_site(self, response: Response, parcels: list[list[str]]) -> Iterator[Request]:
        """Yields the requests for the parcels' reports, whose address the site's search page contains."""
        template = parse.read_template(response.body, response.url)
        for item, parcel_id in parcels:
            request = self._report(template, parcel_id)
            request.meta[ITEMS_OF] = [item]
            yield request

    @errback
    def site_failed(self, failure: Failure) -> Iterator[ItemResult]:
        """Fails the items when the site's page is missing: that says nothing about the parcels."""
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        if get_policy(verdict.outcome).absent:
            request: Request = failure.request  # type: ignore[attr-defined]
            said = f"the site is not at {request.url} any more: {verdict.reason}. Look for its new address"
            yield from (ItemResult(ItemRef(*item).id, "failed", verdict.outcome, said) for item in request.meta[ITEMS])

    def parse_report(
        self, response: Response, template: str, parcel_id: str, doubt: list[Any] | None = None
    ) -> Iterator[Any]:
        """Yields the records of a parcel. Raises ParseError for another parcel's report or a changed layout."""
        here = self.jurisdiction_of(response).source.synonyms
        page = parse.read_report(response.body, parcel_id, response.url, here)
        if page is None:
            yield from self._missing(response, parcel_id, doubt)
            return
        found = records_of(page, self.jurisdiction_of(response).source, self.provenance(response))
        yield from self.checked(response, parcel_id, signature(page), found, doubt, partial(self._report, template))

    @errback
    def report_failed(self, failure: Failure) -> Iterator[ItemResult]:
        """Reports a parcel as missing when the page says so; a missing page only means that the site has moved."""
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        request: Request = failure.request  # type: ignore[attr-defined]
        if verdict.outcome is Outcome.EMPTY:
            yield from self._missing(request, request.cb_kwargs["parcel_id"], request.cb_kwargs["doubt"])
        elif get_policy(verdict.outcome).absent:
            yield self.site_is_gone(request, verdict.reason)

    def _missing(self, page: Response | Request, parcel_id: str, doubt: Sequence[Any] | None) -> Iterator[ItemResult]:
        ((item, _),) = page.meta[ITEMS]
        if doubt and Doubt(*doubt).shown:
            yield self.witness_gone(page, item, parcel_id)
        else:
            yield from self.missing([[item, parcel_id]], self.jurisdiction_of(page))

    def _report(self, template: str, parcel_id: str, doubt: Sequence[Any] | None = None) -> Request:
        return Request(
            template.replace(parse.KEY, quote(parcel_id, safe="")),
            self.parse_report,
            errback=self.report_failed,
            cb_kwargs={"template": template, "parcel_id": parcel_id, "doubt": doubt},
            priority=FIRST if doubt else 0,
            dont_filter=True,
        )


def _site_url(jurisdiction: Jurisdiction) -> str:
    """Returns the address of the search page, as visitors open it."""
    asked = dict(jurisdiction.records.parameters)
    if "App" in asked:
        asked["PageType"] = "Search"
    elif "PageID" in asked:
        asked["PageTypeID"] = 2
    return f"{jurisdiction.page('Application.aspx')}?{urlencode(asked)}"
