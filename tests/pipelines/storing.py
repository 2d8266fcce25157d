"""A crawl of three batches into FOLDER that can take one: python -m tests.pipelines.storing FOLDER. Prints JSON."""

import json
import resource
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, Self

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess, Crawler

from harvester.items import Batch
from harvester.pipelines.staging import StagingPipeline
from tests.pipelines.records import post

MOST_BYTES = 100_000
passed: list[str] = []


class SmallDisk(StagingPipeline):
    """Stages into FOLDER."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Path(sys.argv[1]))


class Confirming:
    """Stands where MongoDB is: what arrives here counts as done."""

    async def process_item(self, item: Any) -> Any:
        passed.extend(record.key for record in item.records)
        return item


class ThreeBatches(Spider):
    """A small batch, one that is larger than the disk, a small one."""

    name = "three"

    async def start(self) -> AsyncIterator[Any]:
        for key, size in (("1", 10), ("2", MOST_BYTES), ("3", 10)):
            noise = Random(key).randbytes(size).hex()
            yield Batch([post(key=key, raw=json.dumps({"noise": noise}).encode())])


def main() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    process = AsyncCrawlerProcess(
        {"ITEM_PIPELINES": {SmallDisk: 300, Confirming: 500}, "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "ERROR"}
    )
    crawler = process.create_crawler(ThreeBatches)
    process.crawl(crawler)
    process.start()
    told = {name: crawler.stats.get_value(name) for name in ("finish_reason", "harvester/exit_code")}
    print(json.dumps({"passed": passed, **told}))


if __name__ == "__main__":
    main()
