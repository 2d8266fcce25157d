"""The base of spiders of platforms that publish a table of all parcels with pagination."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import PageFailed
from harvester.frontier.messages import ItemRef
from harvester.internal_meta import ITEMS, ITEMS_OF
from harvester.items import Found, ItemResult
from harvester.items.property import normalized
from harvester.jobs.documents import JobItem
from harvester.meta import EXPECTS, JOB
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.counties import contract
from harvester.parsers.counties.drift import KnownTable
from harvester.parsers.counties.table import Layout, PageRows
from harvester.spiders.counties.arguments import PARCEL, PropertyArguments
from harvester.spiders.counties.conditions import Parcels, all_of, matching
from harvester.spiders.counties.platform import SITE, Jurisdiction, PlatformSpider
from harvester.spiders.job import errback
from harvester.spiders.labels import note_new_labels

TABLE, PAGE = "table", "page"
"""Kinds of items: all rows of a table, and a page of rows."""


class TableArguments(PropertyArguments):
    """Arguments of spiders of tables."""

    page_rows: int = Field(1000, ge=1, le=50_000, description="the most rows that are asked for at once")


class TableSpider(PlatformSpider):
    """Base class: a platform implements the requests for a table's description, count, pages, and parcels by number.

    With all=yes the job begins with one item, the table; it leads to pages, which are items, too. So a crawl that is
    killed continues with the remaining pages.
    """

    Arguments = TableArguments
    ITEMS_A_REQUEST: ClassVar[Mapping[str, int]] = {PARCEL: 50}
    ALL = TABLE
    arguments: TableArguments

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._described: dict[str, Any] = {}
        """Jurisdiction -> the table's description, once this process has requested it."""
        self._tables: defaultdict[str, KnownTable] = defaultdict(KnownTable)
        """Job -> the columns and records that its table had before."""

    @abstractmethod
    def table_url(self, jurisdiction: Jurisdiction) -> str:
        """Returns the address of the table's description."""

    @abstractmethod
    def parse_description(self, body: bytes) -> Any:
        """Parses the description, with its `columns`. Raises ParseError."""

    @abstractmethod
    def begin(self, jurisdiction: Jurisdiction, described: Any) -> Request:
        """Returns the request that leads to a table's pages: for the count of rows, or for their ids."""

    @abstractmethod
    def page_request(self, jurisdiction: Jurisdiction, page: Mapping[str, Any]) -> Request:
        """Returns the request for a page of rows, with the callback `parse_page`. `page` is the item's input."""

    @abstractmethod
    def parcels_request(self, jurisdiction: Jurisdiction, condition: str, **arguments: Any) -> Request:
        """Returns the request for rows that meet a condition. `arguments` go to the callback `parse_parcels`."""

    @abstractmethod
    def read_page(self, response: Response, jurisdiction: Jurisdiction) -> PageRows:
        """Parses a page of rows. Raises ParseError."""

    def ask(self, url: str, callback: Callable[..., Any], **arguments: Any) -> Request:
        """Returns a request for JSON."""
        return Request(url, callback, cb_kwargs=arguments, meta={EXPECTS: "json"}, dont_filter=True)

    # Items ------------------------------------------------------------------------------------------------------

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        if items[0].kind == PAGE:
            yield self.page_request(jurisdiction, items[0].input)
        elif items[0].kind == TABLE:
            yield self.ask(self.table_url(jurisdiction), self.parse_table).replace(errback=self.table_failed)
        else:
            yield from self._ask_for(jurisdiction, [[item.id, item.key] for item in items])

    def parse_table(self, response: Response) -> Iterator[Any]:
        """Yields the request that leads to the pages. Raises ParseError when no column holds the parcel's number."""
        jurisdiction = self.jurisdiction_of(response)
        described = self.parse_description(response.body)
        Layout(described.columns, jurisdiction.source)
        yield self.begin(jurisdiction, described)

    def parse_table_of_parcels(
        self, response: Response, parcels: Parcels, padded: bool, alone: bool = False
    ) -> Iterator[Any]:
        """Yields the requests for parcels. Raises ParseError when no column holds the parcel's number."""
        jurisdiction = self.jurisdiction_of(response)
        described = self.parse_description(response.body)
        Layout(described.columns, jurisdiction.source)
        self._described[jurisdiction.id] = described
        if alone:
            yield from self._each_alone(jurisdiction, parcels, padded)
        else:
            yield from self._narrowed(self._ask_for(jurisdiction, parcels, padded=padded), parcels)

    @errback
    def table_failed(self, failure: Failure) -> Iterator[Any]:
        """Fails the items of a missing table: that does not mean that the parcels are missing."""
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        if get_policy(verdict.outcome).absent:
            request: Request = failure.request  # type: ignore[attr-defined]
            at = self.jurisdiction_of(request).records.base_url
            said = f"there is no table at {at}: {verdict.reason}. Tables move: look for its new address"
            yield from (ItemResult(ItemRef(*item).id, "failed", verdict.outcome, said) for item in request.meta[ITEMS])

    # All rows ---------------------------------------------------------------------------------------------------

    def first_page(self, response: Response, total: int, rows: int, **more: Any) -> Found:
        """Returns the first page of a table, which leads to the others. Raises PageFailed for a table without rows."""
        jurisdiction = self.jurisdiction_of(response)
        if not total:
            allowed = " that `where` of its entry allows" if jurisdiction.where else ""
            raise PageFailed(Outcome.EMPTY, f"the table has no rows{allowed}")
        rows = min(rows, self.arguments_of(response).page_rows)
        return self._page(jurisdiction, 0, rows, total=total, **more)

    def rows_of(self, response: Response, jurisdiction: Jurisdiction) -> PageRows:
        """Parses and checks a page. Raises ParseError for a bad page, or when the table differs from other pages."""
        read = self.read_page(response, jurisdiction)
        table = self._tables[str(response.meta[JOB])]
        note_new_labels(self.crawler.stats, table.check(read.columns))
        table.check_records(read.records)
        contract.check(read, jurisdiction.source.platform)
        return read

    def parse_page(self, response: Response, page: dict[str, Any]) -> Iterator[Any]:
        """Yields the records of a page, all other pages if it is the first one, and the rest of an incomplete page.

        A server may return fewer rows than requested, and a table may grow or shrink during a crawl.
        """
        jurisdiction = self.jurisdiction_of(response)
        read = self.rows_of(response, jurisdiction)
        offset, rows, total, got = page["offset"], page["rows"], page["total"], read.number
        if not got and (not offset or (read.goes_on and offset < total)):
            raise PageFailed(Outcome.SERVER_ERROR, "the server says that there are more rows, and gives none")
        if offset and read.first and read.first == page["first"]:
            raise PageFailed(Outcome.LAYOUT_CHANGED, "whatever page is asked for, the server gives the first one")
        yield from self.records_of(read)
        more = {name: value for name, value in page.items() if name not in ("offset", "rows", SITE)}
        more.setdefault("first", read.first)
        is_short = 0 < got < rows and (read.goes_on or offset + got < total)
        if not offset:
            rows = got if is_short else rows
            yield from (self._page(jurisdiction, at, rows, **more) for at in range(rows, total, rows))
        elif is_short:
            yield self._page(jurisdiction, offset + got, rows - got, **more)
        if read.goes_on and got == rows and offset + rows >= total:
            yield self._page(jurisdiction, offset + rows, rows, **more)

    def _page(self, jurisdiction: Jurisdiction, offset: int, rows: int, **more: Any) -> Found:
        return Found(PAGE, f"{offset}+{rows}", {SITE: jurisdiction.id, "offset": offset, "rows": rows, **more})

    def records_of(self, read: PageRows) -> Iterator[Any]:
        """Yields the records to store, and counts rows without a parcel's number, such as streets and water."""
        if read.without_id:
            self.crawler.stats.inc_value("harvester/counties/rows_without_parcel_id", read.without_id)
        yield self.stored(read)

    # Named parcels ----------------------------------------------------------------------------------------------

    def parse_parcels(self, response: Response, parcels: Parcels, padded: bool, alone: bool = False) -> Iterator[Any]:
        """Yields the records of parcels that share a request.

        Requests each parcel separately if there are more rows than fit. Requests missing parcels once more: their
        numbers may be written with blanks around them.
        """
        jurisdiction = self.jurisdiction_of(response)
        read = self.rows_of(response, jurisdiction)
        if read.goes_on and len(parcels) > 1:
            yield from self._each_alone(jurisdiction, parcels, padded)
            return
        wanted = {normalized(parcel_id) for _, parcel_id in parcels}
        read.records = [record for record in read.records if normalized(record.parcel_id) in wanted]
        yield from self.records_of(read)
        if read.goes_on:
            said = f"it has more rows than the {read.number:,} that the server gives at once"
            yield ItemResult(parcels[0][0], "failed", Outcome.TOO_MANY, said)
        known = set(map(normalized, read.parcel_ids))
        left = [parcel for parcel in parcels if normalized(parcel[1]) not in known]
        if padded:
            yield from self.missing(left, jurisdiction)
        elif left:
            yield from self._narrowed(self._ask_for(jurisdiction, left, padded=True), left)

    @errback
    def parcels_failed(self, failure: Failure) -> Iterator[Any]:
        """Requests the description again after a query that the server rejects: a column may have been removed.

        If instead a number is to blame, the other parcels must not suffer: each is requested separately.
        """
        request: Request = failure.request  # type: ignore[attr-defined]
        asked, is_invalid = request.cb_kwargs, verdict_of(failure.value).outcome is Outcome.INVALID  # type: ignore[arg-type]
        if is_invalid and not asked.get("alone"):
            yield self._describe(self.jurisdiction_of(request), asked["parcels"], asked["padded"], alone=True)

    def _each_alone(self, jurisdiction: Jurisdiction, parcels: Parcels, padded: bool) -> Iterator[Any]:
        for parcel in parcels:
            yield from self._narrowed(self._ask_for(jurisdiction, [parcel], padded=padded, alone=True), [parcel])

    def _narrowed(self, outputs: Iterator[Request | ItemResult], parcels: Parcels) -> Iterator[Request | ItemResult]:
        """Restricts requests to these parcels."""
        for output in outputs:
            if isinstance(output, Request):
                output.meta[ITEMS_OF] = [item for item, _ in parcels]
            yield output

    def _ask_for(
        self, jurisdiction: Jurisdiction, parcels: Parcels, *, padded: bool = False, alone: bool = False
    ) -> Iterator[Request | ItemResult]:
        """Yields the request for the rows of parcels, or for the description when this process does not have it yet."""
        described = self._described.get(jurisdiction.id)
        if described is None:
            yield self._describe(jurisdiction, parcels, padded)
            return
        found = matching(Layout(described.columns, jurisdiction.source), parcels, padded=padded)
        yield from self.missing(found.impossible, jurisdiction)
        if found.asked:
            condition = all_of(found.condition, jurisdiction.where)
            request = self.parcels_request(jurisdiction, condition, parcels=found.asked, padded=padded, alone=alone)
            yield request.replace(errback=self.parcels_failed)

    def _describe(self, jurisdiction: Jurisdiction, parcels: Parcels, padded: bool, *, alone: bool = False) -> Request:
        """Requests the table's description before these parcels."""
        arguments = {"parcels": parcels, "padded": padded, "alone": alone}
        return self.ask(self.table_url(jurisdiction), self.parse_table_of_parcels, **arguments).replace(
            errback=self.table_failed
        )
