"""A crawl whose requests belong to job items: `python -m tests.frontier.fed <site> <name>`, as tests.frontier.crawl.

A path stands for the item of that name. When all have ended, each is attempted once more. The spider is its own feeder.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Self

import msgspec
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response

from harvester.frontier.feeder_client import Feeding
from harvester.frontier.messages import ItemEnded, ItemRef
from harvester.frontier.scheduler import Scheduler
from harvester.frontier.store import FEED_S
from harvester.internal_meta import ITEMS, ITEMS_OF
from tests.frontier import crawl
from tests.frontier.items import JOB

ATTEMPTS = 2


class Fed(crawl.Fates):
    """Begins each item with a request of its own, and all of them with a further one."""

    ended: list[ItemEnded]
    left: set[ItemRef]
    """Attempts that have not ended."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.ended = []
        spider.left = set()
        crawler.signals.connect(spider.opened, signals.spider_opened)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    async def start(self) -> Any:
        return
        yield

    async def opened(self) -> None:
        self.feeding.listen(self.hear)
        while not self.feeding.now():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await self.feed(1)

    async def feed(self, attempt: int) -> None:
        refs = [ItemRef(f"{JOB}:path:{path}", attempt) for path in self.paths.split()]
        self.left.update(refs)
        requests = list(self.requests_of(refs))
        await self.feeding.feed(refs, requests, self.feeding.now() + FEED_S)

    def requests_of(self, items: list[ItemRef]) -> Iterator[Request]:
        for item in items:
            yield self.ask(item.id.rpartition(":")[2], meta={ITEMS_OF: [item.id]})
        yield self.ask("/both")

    def hear(self, ended: list[ItemEnded]) -> None:
        self.ended += ended
        self.left -= {each.ref for each in ended}
        self.feeding.acknowledge([each.ref for each in ended])
        self.crawler.stats.set_value("ended", msgspec.json.encode(self.ended).decode())
        attempt = max(each.attempt for each in ended)
        if not self.left and attempt < ATTEMPTS:
            self.feeding_again = asyncio.ensure_future(self.feed(attempt + 1))

    def idle(self) -> None:
        if self.left or self.crawler.stats.get_value("ended") is None:
            raise DontCloseSpider

    @property
    def feeding(self) -> Feeding:
        assert self.crawler.engine
        scheduler = self.crawler.engine.scheduler
        assert isinstance(scheduler, Scheduler)
        return scheduler.feeding

    # Callbacks --------------------------------------------------------------------------------------------

    def parse(self, response: Response) -> Iterator[Any]:
        names = sorted(name.rpartition(":")[2] for name, _ in response.meta[ITEMS])
        yield {"url": f"{response.url.removeprefix(self.site)} for {' '.join(names)}"}

    def on_copies(self, response: Response) -> Iterator[Any]:
        """With the meta of the page, and of a page that nobody asked for."""
        yield from self.parse(response)
        yield self.ask("/linked?from=copies", meta={**response.meta, ITEMS: [[f"{JOB}:path:/unheard-of", 1]]})

    def on_both(self, response: Response) -> Iterator[Any]:
        """What follows belongs to one of its items only."""
        yield from self.parse(response)
        first, *_ = sorted(name for name, _ in response.meta[ITEMS])
        yield self.ask("/linked?from=both", meta={ITEMS_OF: [first]})

    def on_strangers(self, response: Response) -> Iterator[Any]:
        yield self.ask("/never", meta={ITEMS_OF: [f"{JOB}:path:/unheard-of"]})


if __name__ == "__main__":
    crawl.main(Fed)
