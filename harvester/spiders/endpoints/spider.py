"""The spider `endpoints`: JSON APIs, each visited at its own interval."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import msgspec
from msgspec.structs import replace
from pydantic import Field
from scrapy import Request
from scrapy.http import Response

from harvester.download.addresses import origin_of
from harvester.exceptions import InvalidRecordError, PageFailed, ParseError, UsageError
from harvester.internal_meta import FROM_ENVIRONMENT
from harvester.items import Found, ItemResult, Provenance, Record, Reject
from harvester.items.other import ItemRecord, collection_type
from harvester.jobs.documents import JobItem
from harvester.meta import EXPECTS
from harvester.outcomes import Outcome
from harvester.parsers.web import rows as parse
from harvester.parsers.web.endpoint import EndpointRow, RowsPage, Whole, read_rows, read_whole
from harvester.parsers.web.links import next_link
from harvester.recheck.stopping import ListEntry, ListRule, Position
from harvester.spiders.base import SpiderArguments
from harvester.spiders.endpoints.definition import (
    ENDPOINT,
    USUAL_INTERVAL,
    Endpoint,
    declared,
    endpoint_of,
    missing_variables,
    read_endpoints,
    warn_of_formats,
)
from harvester.spiders.labels import note_new_labels
from harvester.spiders.pagination import ListPage, PagedItem, PaginationSpider

DOCUMENT = "document"
"""Key of the only entry when a document is saved as a whole."""


class EndpointsArguments(SpiderArguments):
    """Arguments of the spider `endpoints`."""

    endpoints: str = Field(
        description="@FILE: a TOML file with a table for each, or an address a line; or addresses, comma-separated"
    )

    def identity(self) -> dict[str, Any]:
        """Returns the path when the endpoints come from a file: the job continues when its content has changed."""
        if not self.endpoints.startswith("@"):
            return {"endpoints": self.endpoints}
        return {"endpoints": f"@{Path(os.path.expanduser(self.endpoints[1:])).resolve()}"}

    def kept(self) -> dict[str, Any]:
        return self.identity()


class EndpointsSpider(PaginationSpider):
    """Visits JSON APIs repeatedly, and saves new or changed rows, or the whole response.

    Domain: the address of the endpoint. Caveats: an endpoint is visited at most every 30 seconds; one that fails ten
    times in a row is not visited again until `harvester endpoints restart`. Arguments: `-a endpoints=@FILE`, see
    docs/endpoints.md.
    """

    name = "endpoints"
    Arguments = EndpointsArguments
    ITEM_KINDS: ClassVar[tuple[str, ...]] = (ENDPOINT,)
    ATTEMPTS = 1
    BACKOFF_S = 30.0
    arguments: EndpointsArguments

    @classmethod
    def parse_arguments(cls, given: dict[str, Any]) -> SpiderArguments:
        """Parses the arguments and reads the file. Raises UsageError that names each fault in it."""
        arguments = super().parse_arguments(given)
        if isinstance(arguments, EndpointsArguments) and "job" not in given:
            endpoints = read_endpoints(arguments.endpoints)
            lacks = {name: missing_variables(endpoint) for name, endpoint in endpoints.items()}
            if bad := [f"  {name}: {', '.join(names)}" for name, names in lacks.items() if names]:
                raise UsageError("Set these variables in the environment, which headers name:\n" + "\n".join(bad))
            for name, each in endpoints.items():
                warn_of_formats(name, each)
        return arguments

    @classmethod
    def first_items(cls, arguments: EndpointsArguments) -> Iterable[Found]:
        for name, endpoint in read_endpoints(arguments.endpoints).items():
            yield endpoint.found(name)

    @classmethod
    def recheck_of(cls, arguments: Any) -> str | None:
        return f"every {USUAL_INTERVAL}"

    @classmethod
    def check_item(cls, found: Found) -> Found:
        """Checks an endpoint that is added to a job or changed there. The input may contain the name, too."""
        given = {name: value for name, value in found.input.items() if (name, value) != ("name", found.key)}
        checked = declared(found.key, given)
        warn_of_formats(found.key, checked)
        endpoint = checked.found(found.key)
        return replace(found, input=endpoint.input, recheck=endpoint.recheck)

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        return collection_type(kind).staged(key, raw, provenance)

    # Requests ---------------------------------------------------------------------------------------------------

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Any]:
        for item in items:
            endpoint = endpoint_of(item.input)
            if missing := missing_variables(endpoint):
                said = (
                    f"its headers name {', '.join(missing)}, which the environment of this worker does not have: set it"
                )
                yield ItemResult(item.id, "failed", Outcome.INVALID, said)
            else:
                yield from super().requests_of([item])

    def rule_of(self, of: PagedItem) -> ListRule:
        pages = endpoint_of(of.input).pages
        return pages.rule if pages else ListRule()

    def page_request(self, of: PagedItem, at: Position) -> Request:
        endpoint = endpoint_of(of.input)
        request = Request(
            address_of(endpoint, at),
            method=endpoint.method,
            headers={"Accept": "application/json"},
            meta={EXPECTS: "json"},
        )
        if endpoint.headers:
            request.meta[FROM_ENVIRONMENT] = {"origin": origin_of(endpoint.url), "headers": endpoint.headers}
        if endpoint.body is not None:
            request.headers["Content-Type"] = "application/json"
            request = request.replace(body=json.dumps(endpoint.body))
        return request

    # Responses --------------------------------------------------------------------------------------------------

    async def read_page(self, response: Response, of: PagedItem, kept: Mapping[str, Any]) -> ListPage:
        endpoint = endpoint_of(of.input)
        if endpoint.rows:
            return await self._rows(response, endpoint, kept)
        read: Whole = await self.read(read_whole, response.body, _content_type(response), endpoint.wanted)
        shape = self._shape(endpoint, read.shape, kept, has_rows=True)
        version = hashlib.sha256(read.raw).hexdigest()[:16]
        item = {"_id": f"{of.key} {version}", "endpoint": of.key, "data": msgspec.json.decode(read.text)}
        record = self._record(endpoint, item, read.raw, response)
        if isinstance(record, Reject):
            raise PageFailed(Outcome.INVALID, f"it cannot be kept: {record.reason}")
        return ListPage([ListEntry(DOCUMENT, version)], [record], kept={"shape": [*map(list, shape.items())]})

    async def _rows(self, response: Response, endpoint: Endpoint, kept: Mapping[str, Any]) -> ListPage:
        known = kept.get("answer", "") if endpoint.pages is None else ""
        read: RowsPage = await self.read(read_rows, response.body, _content_type(response), endpoint.wanted, known)
        leads_to = next_of(endpoint, read.next, response)
        if known == read.answer:
            return ListPage([], [], kept=kept)  # the response is unchanged
        entries = [ListEntry(row.key or row.version, "" if row.problem else row.version) for row in read.rows]
        shape = self._shape(endpoint, read.shape, kept, has_rows=bool(read.rows))
        outputs = _Outputs(read.rows, lambda row: self._of_row(endpoint, row, response))
        return ListPage(
            entries, outputs, leads_to, read.total, {"shape": [*map(list, shape.items())], "answer": read.answer}
        )

    def _of_row(self, endpoint: Endpoint, row: EndpointRow, response: Response) -> ItemRecord | Reject:
        if row.problem:
            return Reject(endpoint.collection, row.problem, "", row.text, response.url)
        return self._record(endpoint, _item(msgspec.json.decode(row.text), row.key), row.text, response)

    def _shape(self, endpoint: Endpoint, now: parse.Shape, kept: Mapping[str, Any], *, has_rows: bool) -> parse.Shape:
        """Merges the fields of new rows with the known fields.

        Raises ParseError when they conflict and the endpoint has no schema.
        """
        before = dict(kept.get("shape", ()))
        if has_rows and endpoint.json_schema is None and (change := parse.shape_change(before, now)):
            raise ParseError(f"it is not as before: {change}")
        if new := parse.new_fields(before, now):
            note_new_labels(self.crawler.stats, new)
        return parse.merged(before, now)

    def _record(self, endpoint: Endpoint, item: dict[str, Any], raw: bytes, response: Response) -> ItemRecord | Reject:
        kind = collection_type(endpoint.collection)
        try:
            return kind.of_values(item, (), self.provenance(response))
        except InvalidRecordError as error:
            return Reject(kind.KIND, str(error), "", raw, response.url)


def _content_type(response: Response) -> str:
    return (response.headers.get("Content-Type") or b"").decode("latin-1")


class _Outputs(Sequence[Any]):
    """The outputs of rows, built on access: most rows in a response are not new."""

    def __init__(self, rows: Sequence[EndpointRow], make: Callable[[EndpointRow], Any]) -> None:
        self._rows = rows
        self._make = make

    def __getitem__(self, place: Any) -> Any:
        return self._make(self._rows[place])

    def __len__(self) -> int:
        return len(self._rows)


def _item(row: Any, key: str) -> dict[str, Any]:
    fields = row if isinstance(row, dict) else {"value": row}
    return {**fields, "_id": key} if key else fields


def address_of(endpoint: Endpoint, at: Position) -> str:
    """Returns the address of a page: the cursor as a parameter of the first address, or the next address itself."""
    pages = endpoint.pages
    if pages is None or at is None:
        return endpoint.url
    if pages.by in ("link", "next"):
        return str(at)
    parts = urlsplit(endpoint.url)
    others = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != pages.parameter
    ]
    return urlunsplit(parts._replace(query=urlencode([*others, (pages.parameter, at)])))


def next_of(endpoint: Endpoint, found: Any, response: Response) -> str | None:
    """Returns the cursor or address of the next page. `found`: the value at its path. Raises ParseError."""
    pages = endpoint.pages
    if pages is None:
        return None
    if pages.by == "link":
        found = next_link([value.decode("latin-1") for value in response.headers.getlist("Link")], response.url)
    try:
        address = urljoin(response.url, str(found)) if pages.by == "next" and found else found
    except ValueError as error:
        raise ParseError(f"at {pages.at!r} there is no address of the next page: {error}") from None
    if pages.by in ("link", "next") and address and origin_of(str(address)) != origin_of(endpoint.url):
        raise ParseError(f"the next page would be at another site: {address}")
    return None if address in (None, "") else str(address)
