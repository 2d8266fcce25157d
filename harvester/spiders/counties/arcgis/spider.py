"""The spider `arcgis`: parcels of a layer of an ArcGIS server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from scrapy import Request
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.python.failure import Failure

from harvester.exceptions import PageFailed
from harvester.internal_meta import ITEMS
from harvester.items import Found, ItemResult, Provenance, Record
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.arcgis import parser as parse
from harvester.spiders.counties.arcgis.parser import Layer
from harvester.spiders.counties.conditions import all_of
from harvester.spiders.counties.platform import SITE, Jurisdiction
from harvester.spiders.counties.table import TableSpider
from harvester.spiders.job import errback

IDS, RANGE = "ids", "range"
"""Kinds of items: the list of all object ids, and a range of rows between two ids."""
EVERYTHING = "1=1"
"""A condition that is always true: a query must have a condition."""


class ArcgisSpider(TableSpider):
    """Harvests parcels from a layer of an ArcGIS server (.../MapServer/0, .../FeatureServer/0).

    Domain: the base_url of the site's entry. Caveats: a layer that wants a token is not harvested; rows that share a
    parcel's number are one property. Arguments: see `harvester spiders show arcgis`.
    """

    name = "arcgis"

    def table_url(self, jurisdiction: Jurisdiction) -> str:
        return f"{_layer(jurisdiction)}?f=json"

    def parse_description(self, body: bytes) -> Layer:
        return parse.parse_layer(body)

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        item = items[0]
        if item.kind == IDS:
            yield self._ids_request(jurisdiction, **item.input)
        elif item.kind == RANGE:
            yield self._range_request(jurisdiction, item.input)
        else:
            yield from super().requests_for(jurisdiction, items)

    def read_page(self, response: Response, jurisdiction: Jurisdiction) -> PageRows:
        return parse.parse_page(response.body, jurisdiction.source, self.provenance(response))

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        read = parse.parse_page(raw, cls.staged_source(key), provenance)
        return next((record for record in read.records if (record.KIND, record.key) == (kind, key)), None)

    # Named parcels ----------------------------------------------------------------------------------------------

    def parcels_request(self, jurisdiction: Jurisdiction, condition: str, **arguments: Any) -> Request:
        form = urlencode({"where": condition, "outFields": "*", "returnGeometry": "false", "f": "json"})
        return self.ask(f"{_layer(jurisdiction)}/query", self.parse_parcels, **arguments).replace(
            method="POST", body=form, headers={"Content-Type": "application/x-www-form-urlencoded"}
        )

    # All rows, by offset ----------------------------------------------------------------------------------------

    def begin(self, jurisdiction: Jurisdiction, described: Layer) -> Request:
        layer: dict[str, Any] = {"object_id": described.object_id, "most_rows": described.most_rows}
        if not described.by_offset:
            return self._ids_request(jurisdiction, **layer)
        return self._query(jurisdiction, self.parse_count, {"returnCountOnly": "true"}, **layer)

    def parse_count(self, response: Response, object_id: str, most_rows: int) -> Iterator[Any]:
        """Yields the first page, or all ranges when the server answers with object ids instead of a count."""
        counted = parse.parse_count(response.body)
        if counted is None:
            yield from self.parse_ids(response, object_id, most_rows)
        else:
            yield self.first_page(response, counted, most_rows, object_id=object_id, most_rows=most_rows)

    def page_request(self, jurisdiction: Jurisdiction, page: Mapping[str, Any]) -> Request:
        asked = {
            "outFields": "*",
            "returnGeometry": "false",
            "orderByFields": page["object_id"],
            "resultOffset": page["offset"],
            "resultRecordCount": page["rows"],
        }
        return self._query(jurisdiction, self.parse_page, asked, page=dict(page)).replace(errback=self.page_failed)

    @errback
    def page_failed(self, failure: Failure) -> Iterator[Any]:
        """Switches to object ids when a server advertises pagination but cannot do it."""
        error, request = failure.value, failure.request  # type: ignore[attr-defined]
        if isinstance(error, HttpError) and parse.cannot_page(error.response.body):
            page, jurisdiction = request.cb_kwargs["page"], self.jurisdiction_of(request)
            layer = {name: page[name] for name in ("object_id", "most_rows")}
            yield Found(IDS, "all", {SITE: jurisdiction.id, **layer})
            ((item, _),) = request.meta[ITEMS]
            yield ItemResult(
                item, "skipped", "pagination_unsupported", "the rows are asked for by their object ids instead"
            )

    # All rows, by object id -------------------------------------------------------------------------------------

    def parse_ids(self, response: Response, object_id: str, most_rows: int) -> Iterator[Any]:
        """Yields ranges of rows, and an item for the ids after the last range when the server did not list all."""
        ids, goes_on = parse.parse_ids(response.body)
        if not ids:
            raise PageFailed(Outcome.EMPTY, "the layer has no rows")
        jurisdiction, rows = self.jurisdiction_of(response), min(most_rows, self.arguments_of(response).page_rows)
        for begin in range(0, len(ids), rows):
            part = ids[begin : begin + rows]
            yield _range(jurisdiction, part[0], part[-1], object_id, len(part))
        if goes_on:
            layer = {"object_id": object_id, "most_rows": most_rows}
            yield Found(IDS, f"after {ids[-1]}", {SITE: jurisdiction.id, **layer, "after": ids[-1]})

    def parse_range(
        self, response: Response, low: int, high: int, object_id: str, rows: int, most: int = 0
    ) -> Iterator[Any]:
        """Yields the records of a range. When the server returns only a part, yields the halves of the range.

        `rows`: the number of rows in the range; 0: unknown. Some servers report more rows in every response, some never
        do: `most` is the number that such a server returned for the whole range before it was halved.
        """
        jurisdiction = self.jurisdiction_of(response)
        read = self.rows_of(response, jurisdiction)
        yield from self.records_of(read)
        is_short = read.number < rows if rows else read.goes_on or 0 < most <= read.number
        if is_short and low < high:
            middle = (low + high) // 2
            yield _range(jurisdiction, low, middle, object_id, most=read.number)
            yield _range(jurisdiction, middle + 1, high, object_id, most=read.number)

    def _ids_request(
        self, jurisdiction: Jurisdiction, object_id: str, most_rows: int, after: int | None = None, **_: Any
    ) -> Request:
        condition = "" if after is None else f"{object_id} > {after}"
        layer = {"object_id": object_id, "most_rows": most_rows}
        return self._query(jurisdiction, self.parse_ids, {"returnIdsOnly": "true"}, condition, **layer)

    def _range_request(self, jurisdiction: Jurisdiction, of: Mapping[str, Any]) -> Request:
        bounds = {name: of[name] for name in ("low", "high", "object_id", "rows", "most") if name in of}
        condition = f"{of['object_id']} >= {of['low']} AND {of['object_id']} <= {of['high']}"
        asked = {"outFields": "*", "returnGeometry": "false"}
        return self._query(jurisdiction, self.parse_range, asked, condition, **bounds)

    def _query(
        self,
        jurisdiction: Jurisdiction,
        callback: Callable[..., Any],
        asked: Mapping[str, Any],
        condition: str = "",
        **arguments: Any,
    ) -> Request:
        where = all_of(condition, jurisdiction.where) or EVERYTHING
        return self.ask(
            f"{_layer(jurisdiction)}/query?{urlencode({'where': where, **asked, 'f': 'json'})}", callback, **arguments
        )


def _layer(jurisdiction: Jurisdiction) -> str:
    """Returns the address of the layer, without a query that may have been copied with it."""
    return jurisdiction.records.base_url.partition("?")[0].rstrip("/").removesuffix("/query")


def _range(jurisdiction: Jurisdiction, low: int, high: int, object_id: str, rows: int = 0, most: int = 0) -> Found:
    bounds = {"low": low, "high": high, "object_id": object_id, "rows": rows, "most": most}
    return Found(RANGE, f"{low}-{high}", {SITE: jurisdiction.id, **bounds})
