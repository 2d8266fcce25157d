"""The spider `socrata`: parcels of a dataset of an open data portal."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import UsageError
from harvester.items import Provenance, Record
from harvester.outcomes.answer import header
from harvester.parsers.counties.columns import CountyColumn
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.platform import Jurisdiction
from harvester.spiders.counties.socrata import parser as parse
from harvester.spiders.counties.table import TableSpider

MOST_ROWS = 50_000
"""Maximum number of rows in a response of the API, version 2.0."""
_FIELDS, _TYPES = b"X-Soda2-Fields", b"X-Soda2-Types"
_dataset_in = re.compile(r"/([a-z0-9]{4}-[a-z0-9]{4})(?:[./?]|$)").search


class Dataset(NamedTuple):
    """The description of a dataset."""

    columns: tuple[CountyColumn, ...]


class SocrataSpider(TableSpider):
    """Harvests parcels from a dataset of a Socrata portal (.../resource/abcd-1234.json).

    Domain: the base_url of the site's entry. Caveats: each year's dataset has its own address; rows that share a
    parcel's number and a year are one assessment. Arguments: see `harvester spiders show socrata`.
    """

    name = "socrata"

    @classmethod
    def check_jurisdiction(cls, jurisdiction: Jurisdiction) -> None:
        _parts(jurisdiction)

    def table_url(self, jurisdiction: Jurisdiction) -> str:
        origin, dataset = _parts(jurisdiction)
        return f"{origin}/api/views/{dataset}.json"

    def parse_description(self, body: bytes) -> Dataset:
        return Dataset(parse.parse_dataset(body))

    def read_page(self, response: Response, jurisdiction: Jurisdiction) -> PageRows:
        described, types = header(response, _FIELDS), header(response, _TYPES)
        read = parse.parse_page(response.body, described, jurisdiction.source, self.provenance(response), types)
        read.goes_on = read.number >= int(parse_qs(urlsplit(response.url).query)["$limit"][0])
        return read

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        read = parse.parse_staged(raw, cls.staged_source(key), provenance)
        return next((record for record in read.records if (record.KIND, record.key) == (kind, key)), None)

    def parcels_request(self, jurisdiction: Jurisdiction, condition: str, **arguments: Any) -> Request:
        asked = {"$where": condition, "$limit": MOST_ROWS}
        return self._rows(jurisdiction, self.parse_parcels, asked, **arguments)

    def begin(self, jurisdiction: Jurisdiction, described: Dataset) -> Request:
        asked = {"$select": "count(*)"} | _where(jurisdiction)
        return self._rows(jurisdiction, self.parse_count, asked)

    def parse_count(self, response: Response) -> Iterator[Any]:
        """Yields the first page."""
        yield self.first_page(response, parse.parse_count(response.body), MOST_ROWS)

    def page_request(self, jurisdiction: Jurisdiction, page: Mapping[str, Any]) -> Request:
        asked = {"$order": ":id", "$limit": page["rows"], "$offset": page["offset"]} | _where(jurisdiction)
        return self._rows(jurisdiction, self.parse_page, asked, page=dict(page))

    def _rows(
        self,
        jurisdiction: Jurisdiction,
        callback: Callable[..., Any],
        asked: Mapping[str, Any],
        **arguments: Any,
    ) -> Request:
        origin, dataset = _parts(jurisdiction)
        return self.ask(f"{origin}/resource/{dataset}.json?{urlencode(asked)}", callback, **arguments)


def _where(jurisdiction: Jurisdiction) -> dict[str, str]:
    return {"$where": jurisdiction.where} if jurisdiction.where else {}


def _parts(jurisdiction: Jurisdiction) -> tuple[str, str]:
    """Returns the portal's origin and the dataset's id, from any address of the dataset. Raises UsageError."""
    url = urlsplit(jurisdiction.records.base_url)
    found = _dataset_in(url.path)
    if not found:
        raise UsageError(
            f"[{jurisdiction.id}]: base_url is no dataset's address: it holds an id of twice four characters, like"
            " https://data.example.gov/resource/abcd-1234.json"
        )
    return f"{url.scheme}://{url.netloc}", found[1]
