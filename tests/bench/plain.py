"""What harvester is measured against: a plain Scrapy spider that only writes JSON lines.

    python -m tests.bench.plain <service> <accounts> <pages> <output file>

Scrapy's own settings, but for the log level: at its default every item is printed.
"""

import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response

from tests.bench.pages import did_of


class PlainSpider(scrapy.Spider):
    """Author feeds, page by page."""

    name = "plain"
    service: str
    accounts: int
    pages: int

    async def start(self) -> AsyncIterator[Any]:
        self.began = time.process_time()
        for account in range(self.accounts):
            yield self.page(did_of(account), "")

    def page(self, did: str, cursor: str) -> scrapy.Request:
        url = f"{self.service}/xrpc/app.bsky.feed.getAuthorFeed?actor={did}&limit=100"
        return scrapy.Request(url + (f"&cursor={cursor}" if cursor else ""), cb_kwargs={"did": did})

    def parse(self, response: Response, did: str) -> Iterator[Any]:
        page = json.loads(response.body)
        yield from (item["post"] for item in page["feed"])
        if cursor := page.get("cursor"):
            yield self.page(did, cursor)

    def closed(self, reason: str) -> None:
        print(json.dumps({"cpu": time.process_time() - self.began, "pages": self.accounts * self.pages}))


if __name__ == "__main__":
    service, accounts, pages, output = sys.argv[1:]
    process = AsyncCrawlerProcess(
        {"LOG_LEVEL": "INFO", "TELNETCONSOLE_ENABLED": False, "FEEDS": {output: {"format": "jsonlines"}}}
    )
    process.crawl(PlainSpider, service=service, accounts=int(accounts), pages=int(pages))
    process.start()
