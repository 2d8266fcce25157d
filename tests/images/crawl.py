"""A real crawl that yields batches of given records: `python -m tests.images.crawl <specification>`.

The specification is a JSON file: {"page": address, "batches": [[record, ...], ...], "media": bool, "settings": {},
"largest_file": bytes}, a record being
{"did", "avatar", "banner"}, {"did", "cid", "images"} or {"parcel", "pdf"}. Records that came out of the pipelines are
written to `<specification>.out` line by line, the stats at the end to `<specification>.stats`; the log goes to stderr.
"""

import asyncio
import json
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TextIO

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import Response
from scrapy.settings import default_settings

from harvester import settings
from harvester.items import Batch, Provenance, Record
from harvester.items.bluesky import Embed, Image, Post, Profile
from harvester.items.property import TaxBill, normalized
from harvester.outcomes import POLICIES
from harvester.shutdown import RunEnding, pause

PROVENANCE = Provenance("http://127.0.0.1/", datetime(2026, 11, 21, tzinfo=UTC), "pictures", "pictures-1")


class Pictures(Spider):
    name = "pictures"

    def __init__(self, specification: dict[str, Any]) -> None:
        super().__init__()
        self.batches = [[_record(record) for record in batch] for batch in specification["batches"]]
        self.page = specification["page"]
        self.arguments = SimpleNamespace(media=specification.get("media", True))

    async def start(self) -> AsyncIterator[Any]:
        for number in range(len(self.batches)):
            yield Request(f"{self.page}?{number}", cb_kwargs={"number": number}, dont_filter=True)

    def parse(self, response: Response, **kwargs: Any) -> Any:
        self.watching = asyncio.ensure_future(self._tell_when_it_ends())
        yield Batch(list(self.batches[kwargs["number"]]))

    async def _tell_when_it_ends(self) -> None:
        with suppress(RunEnding):
            await pause(self.crawler, 600)
        print("The crawl is ending", file=sys.stderr, flush=True)


class Output:
    """Item pipeline: writes down what reached the end."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Path(crawler.settings["OUTPUT"]).open("a"))

    def process_item(self, item: Any) -> Any:
        for record in item.records:
            print(json.dumps(record.to_document(), default=str), file=self.file, flush=True)
        return item

    def close_spider(self) -> None:
        self.file.close()


def _record(given: dict[str, Any]) -> Record:
    if "parcel" in given:
        return TaxBill(
            jurisdiction="us-mi-made-up",
            fips="26001",
            parcel_id=given["parcel"],
            parcel_id_normalized=normalized(given["parcel"]),
            bill="2025",
            currency="USD",
            pdf_url=given["pdf"],
            provenance=PROVENANCE,
        )
    did = given["did"]
    if "cid" not in given:
        return Profile(did=did, provenance=PROVENANCE, avatar_url=given.get("avatar"), banner_url=given.get("banner"))
    images = tuple(Image(url=url) for url in given["images"])
    return Post(
        did=did,
        provenance=PROVENANCE,
        uri=f"at://{did}/app.bsky.feed.post/{given.get('rkey', '3k')}",
        cid=given["cid"],
        text="",
        embed=Embed(images=images) if images else None,
        reply_count=0,
        repost_count=0,
        like_count=0,
        quote_count=0,
    )


def main(path: Path) -> None:
    warnings.simplefilter("error", DeprecationWarning)
    specification = json.loads(path.read_text())
    for outcome, policy in POLICIES.items():  # retries without waiting
        POLICIES[outcome] = policy._replace(backoff_s=0.0)  # type: ignore[index]
    if limit := specification.get("largest_file"):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    process = AsyncCrawlerProcess(
        {name: value for name, value in vars(settings).items() if name.isupper()}
        | {
            "EXTENSIONS_BASE": default_settings.EXTENSIONS_BASE,
            "MEDIA_ALLOW_REDIRECTS": True,
            "SPIDERMON_ENABLED": False,
            "ROBOTSTXT_OBEY": False,
            "SCHEDULER": "scrapy.core.scheduler.Scheduler",
            "OUTPUT": f"{path}.out",
            "ITEM_PIPELINES_BASE": {
                "harvester.pipelines.files.RecordFilesPipeline": 400,
                "harvester.pipelines.mongo.MongoPipeline": 500,
                "tests.images.crawl.Output": 600,
            },
        }
        | specification.get("settings", {})
    )
    crawler = process.create_crawler(Pictures)
    process.crawl(crawler, specification)
    process.start()
    Path(f"{path}.stats").write_text(json.dumps(crawler.stats.get_stats(), default=str))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
