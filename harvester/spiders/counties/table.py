"""The base of spiders of platforms that publish a table of all parcels, which can be asked for page by page."""

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
from harvester.items import Found, ItemResult
from harvester.items.property import normalized
from harvester.jobs.documents import JobItem
from harvester.meta import EXPECTS, ITEMS, ITEMS_OF, JOB
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
"""Kinds of items: all rows of a table, and a part of them by its place."""


class TableArguments(PropertyArguments):
    """Arguments of spiders of tables."""

    page_rows: int = Field(1000, ge=1, le=50_000, description="the most rows that are asked for at once")


class TableSpider(PlatformSpider):
    """A platform says how its tables are described, counted, read by place, and searched by parcels' numbers.

    With all=yes the job begins with one item, the table; it leads to pages, each an item of its own, so that a crawl
    that is killed goes on with the pages that are left.
    """

    Arguments = TableArguments
    ITEMS_A_REQUEST: ClassVar[Mapping[str, int]] = {PARCEL: 50}
    ALL = TABLE
    arguments: TableArguments

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._described: dict[str, Any] = {}
        """Jurisdiction -> what its table says of itself, as far as this process has asked."""
        self._tables: defaultdict[str, KnownTable] = defaultdict(KnownTable)
        """Job -> what its table looked like."""

    @abstractmethod
    def table_url(self, jurisdiction: Jurisdiction) -> str:
        """Where the table says what it is."""

    @abstractmethod
    def parse_description(self, body: bytes) -> Any:
        """What it says, with its `columns`. Raises ParseError."""

    @abstractmethod
    def begin(self, jurisdiction: Jurisdiction, described: Any) -> Request:
        """What leads to the pages of a table: how many rows there are, or which."""

    @abstractmethod
    def page_request(self, jurisdiction: Jurisdiction, page: Mapping[str, Any]) -> Request:
        """For the rows of a page, an item's input, with the callback `parse_page`."""

    @abstractmethod
    def parcels_request(self, jurisdiction: Jurisdiction, condition: str, **arguments: Any) -> Request:
        """For the rows that meet the condition, with the callback `parse_parcels`, which is given the arguments."""

    @abstractmethod
    def read_page(self, response: Response, jurisdiction: Jurisdiction) -> PageRows:
        """The records of a page of rows. Raises ParseError."""

    def ask(self, url: str, callback: Callable[..., Any], **arguments: Any) -> Request:
        """A request for JSON."""
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
        """Leads to its pages. Raises ParseError when it has no column of the parcel's number."""
        jurisdiction = self.jurisdiction_of(response)
        described = self.parse_description(response.body)
        Layout(described.columns, jurisdiction.source)
        yield self.begin(jurisdiction, described)

    def parse_table_of_parcels(
        self, response: Response, parcels: Parcels, padded: bool, alone: bool = False
    ) -> Iterator[Any]:
        """Leads to the rows of parcels. Raises ParseError, likewise."""
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
        """A table that is not there is no parcel that is not there."""
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        if get_policy(verdict.outcome).absent:
            request: Request = failure.request  # type: ignore[attr-defined]
            at = self.jurisdiction_of(request).records.base_url
            said = f"there is no table at {at}: {verdict.reason}. Tables move: look for its new address"
            yield from (ItemResult(ItemRef(*item).id, "failed", verdict.outcome, said) for item in request.meta[ITEMS])

    # All rows ---------------------------------------------------------------------------------------------------

    def first_page(self, response: Response, total: int, rows: int, **more: Any) -> Found:
        """The page that leads to the others, of a table with so many rows. Raises PageFailed when it has none."""
        jurisdiction = self.jurisdiction_of(response)
        if not total:
            allowed = " that `where` of its entry allows" if jurisdiction.where else ""
            raise PageFailed(Outcome.EMPTY, f"the table has no rows{allowed}")
        rows = min(rows, self.arguments_of(response).page_rows)
        return self._page(jurisdiction, 0, rows, total=total, **more)

    def rows_of(self, response: Response, jurisdiction: Jurisdiction) -> PageRows:
        """What a page holds. Raises ParseError when it is none, or the table is not as it was on other pages."""
        read = self.read_page(response, jurisdiction)
        table = self._tables[str(response.meta[JOB])]
        note_new_labels(self.crawler.stats, table.check(read.columns))
        table.check_records(read.records)
        contract.check(read, jurisdiction.source.platform)
        return read

    def parse_page(self, response: Response, page: dict[str, Any]) -> Iterator[Any]:
        """The records of a page, and what it leads to: the first one to all others, each to what it lacks.

        A server may give fewer rows than it was asked for, and a table may grow or shrink meanwhile.
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
        """What is stored of a page. Rows without a parcel's number - streets, water - are counted."""
        if read.without_id:
            self.crawler.stats.inc_value("harvester/counties/rows_without_parcel_id", read.without_id)
        yield self.stored(read)

    # Parcels that were named ------------------------------------------------------------------------------------

    def parse_parcels(self, response: Response, parcels: Parcels, padded: bool, alone: bool = False) -> Iterator[Any]:
        """The records of parcels that were asked for together.

        Each alone, if they have more rows than fit; those that are not there once more, since their numbers may be
        written with blanks around them.
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
        """What the server cannot read may be a column that is gone, so the table is asked what it is once more. If it
        is one of the numbers, that spoils no other: each is asked for alone.
        """
        request: Request = failure.request  # type: ignore[attr-defined]
        asked, is_invalid = request.cb_kwargs, verdict_of(failure.value).outcome is Outcome.INVALID  # type: ignore[arg-type]
        if is_invalid and not asked.get("alone"):
            yield self._describe(self.jurisdiction_of(request), asked["parcels"], asked["padded"], alone=True)

    def _each_alone(self, jurisdiction: Jurisdiction, parcels: Parcels, padded: bool) -> Iterator[Any]:
        for parcel in parcels:
            yield from self._narrowed(self._ask_for(jurisdiction, [parcel], padded=padded, alone=True), [parcel])

    def _narrowed(self, outputs: Iterator[Request | ItemResult], parcels: Parcels) -> Iterator[Request | ItemResult]:
        """Requests that belong to these parcels alone."""
        for output in outputs:
            if isinstance(output, Request):
                output.meta[ITEMS_OF] = [item for item, _ in parcels]
            yield output

    def _ask_for(
        self, jurisdiction: Jurisdiction, parcels: Parcels, *, padded: bool = False, alone: bool = False
    ) -> Iterator[Request | ItemResult]:
        """For the rows of these parcels; before, when this process does not know it yet, for what the table says."""
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
        """For what the table says of itself, before these parcels are asked for."""
        arguments = {"parcels": parcels, "padded": padded, "alone": alone}
        return self.ask(self.table_url(jurisdiction), self.parse_table_of_parcels, **arguments).replace(
            errback=self.table_failed
        )
