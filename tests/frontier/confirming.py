"""A crawl whose records are lost, dropped or refused on their way: `python -m tests.frontier.confirming <site> <name>`.

What happens to the records of a page is said by the first segment of its path. It prints the stats as JSON.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import DropItem
from scrapy.http import Response
from scrapy.settings import Settings
from twisted.python.failure import Failure

from harvester.items import Batch, Media, Provenance, Record
from harvester.shutdown import RunEnding, pause

ENDING = "ending"
"""A file that is there when the crawl knows that it is to end."""


class Row(Record, frozen=True, kw_only=True, gc=False):
    """A record of a page."""

    KIND = "row"
    COLLECTION = "rows"
    KEY = ("page", "part")
    MEDIA_FIXED = True

    page: str
    part: str
    value: Any = None
    picture_url: str | None = None
    item_count: int | None = None

    def media(self) -> list[Media]:
        return [Media(self.picture_url, f"{self.page}/{self.part}.jpg", "picture")] if self.picture_url else []


class Confirming(Spider):
    """Three records of each page, named after it."""

    site: str
    paths: str
    pictures: bool

    async def start(self) -> AsyncIterator[Any]:
        self.watching = asyncio.ensure_future(self._tell_when_it_ends())
        for path in self.paths.split():
            yield Request(self.site + path, self.parse, errback=self.failed)

    async def _tell_when_it_ends(self) -> None:
        with suppress(RunEnding):
            await pause(self.crawler, 600)
        Path(ENDING).touch()  # noqa: ASYNC240  it is done at once

    def parse(self, response: Response) -> Iterator[Any]:
        name = response.url.removeprefix(self.site + "/")
        rows = [self._row(name, response.url, part) for part in "abc"]
        match name:
            case "plain" | "plain-swallows" | "plain-drops":
                yield {"name": name}
            case "files":
                yield {"name": name, "file_urls": [f"{self.site}/file"]}
            case "number":
                yield [rows[0], rows[1], self._row(name, response.url, "c", value=2**63)]
            case "no-text":
                yield [rows[0], rows[1], self._row(name, response.url + "\ud800", "c")]
            case "breaks-a-rule":
                yield [rows[0], rows[1], self._row(name, response.url, "c", item_count=-1)]
            case "unheard-of":
                yield [rows[0], rows[1], self._row(name, response.url, "c", value={"a": object()})]
            case "repeats":
                yield [rows[0], rows[0], rows[1]]
                yield Batch([rows[2], rows[0]])
                yield Batch([rows[2]])
            case _:
                yield rows

    def failed(self, failure: Failure) -> Iterator[Any]:
        url = failure.request.url  # type: ignore[attr-defined]
        name = url.removeprefix(self.site + "/")
        yield Batch([self._row(name, url, "missing")])

    def _row(self, name: str, url: str, part: str, **fields: Any) -> Row:
        noise = json.dumps(Random(f"{name} {part!r}").randbytes(2000).hex()).encode()
        if self.pictures:
            fields["picture_url"] = f"{self.site}/picture/{name}-{part}.jpg"
        provenance = Provenance(url, datetime(2026, 1, 2, tzinfo=UTC), self.name, "")
        return Row(**{"page": name.replace("/", "."), "part": part, "provenance": provenance, "raw": noise, **fields})


class Meddler:
    """Somebody else's item pipeline."""

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()

    def process_item(self, item: Any) -> Any:
        name = item["name"] if isinstance(item, dict) else item.records[0].page
        self.tries[name] += 1
        match name:
            case "swallows" | "plain-swallows" | "missing-swallowed":
                return None
            case "recovers":
                return item if self.tries[name] > 1 else None
            case "empties":
                return item._replace(records=[])
            case "loses-one":
                return item._replace(records=item.records[1:])
            case "exchanges-one":
                return item._replace(records=[*item.records[1:], _renamed(item.records[0])])
            case "rebuilds":
                return Batch([*item.records])
            case "drops" | "plain-drops":
                raise DropItem("seen in another county")
            case "raises":
                raise KeyError("owner")
            case "cancels" | "cancels-all":
                raise asyncio.CancelledError
        return item


def _renamed(record: Record) -> Record:
    assert isinstance(record, Row)
    return Row(page="somebody", part=record.part, provenance=record.provenance)


def main() -> None:
    site, name, paths, given = sys.argv[1:]
    plan = json.loads(given)
    if limit := plan.get("largest_file"):
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    settings = Settings()
    settings.setmodule("harvester.settings")
    pipelines: dict[Any, int | None] = {Meddler: 450, "harvester.pipelines.consent.ConsentPipeline": None}
    if not plan.get("pictures"):
        pipelines["harvester.pipelines.files.RecordFilesPipeline"] = None
    if plan.get("files"):
        pipelines["scrapy.pipelines.files.FilesPipeline"] = 10
    settings.setdict(
        {
            "ITEM_PIPELINES": pipelines,
            "FILES_STORE": "files",
            "EXTENSIONS_BASE": {"scrapy.extensions.corestats.CoreStats": 0},
            "HARVESTER_BACKOFF_FACTOR": 0.01,
            "LOG_FORMATTER": "harvester.dashboard.logformatter.QuietLogFormatter",
        },
        "cmdline",
    )
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(type(name, (Confirming,), {"name": name}))
    process.crawl(crawler, site=site, paths=paths, pictures=bool(plan.get("pictures")))
    process.start()
    stats = {key: value for key, value in crawler.stats.get_stats().items() if isinstance(value, (str, int, float))}
    print(json.dumps(stats))


if __name__ == "__main__":
    main()
