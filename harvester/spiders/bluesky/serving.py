"""Serving a start list: entries of the list in Redis become seeds of crawls in the ledger, and those are worked off.

All entries with the same arguments belong to one crawl, until that is finished. A worker works on one crawl at a
time, and files whatever is in the list meanwhile, so that any worker may take the other crawls on.
"""

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pymongo.asynchronous.database import AsyncDatabase

from harvester.exceptions import UsageError
from harvester.frontier.crawls import served_crawls
from harvester.frontier.start_list import StartList
from harvester.shutdown import pause
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.entries import parse_entry
from harvester.stores.redis import RedisOutage, check, connect

if TYPE_CHECKING:
    from harvester.spiders.bluesky.spider import BlueskySpider

ENTRIES_AT_ONCE = 1000
LOOK_S = 0.5
"""How often the start list is looked at."""
SHOWN = 200
"""Characters of a bad entry that are logged."""

Document = dict[str, Any]


class Serving:
    """Files the entries of the start list, and says which crawl is to be worked on next."""

    def __init__(
        self,
        spider: "BlueskySpider",
        database: AsyncDatabase[Document],
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
    ) -> None:
        self._spider = spider
        self._database = database
        self._patiently = patiently
        self._own = spider.arguments
        self._redis_patiently = RedisOutage(spider.crawler, spider.config)
        self._left: dict[str, int | None] = {}
        """Crawls in which nothing was left to do -> how often they had been fed by then."""
        self._look_at = 0.0
        self._list: StartList | None = None

    async def open(self) -> None:
        """Raises UsageError or ServiceError when there is no Redis to be used."""
        check(self._spider.config)
        self._redis = connect(self._spider.config)
        self._list = StartList(self._redis, self._spider.name, lease_seconds=self._spider.config.lease_seconds)
        self._spider.logger.info("Serving the list %s in Redis", self._list.name)

    async def close(self) -> None:
        """Leaves to others what was taken and not filed."""
        if self._list:
            await self._redis_patiently(self._list.leave)
            await self._redis.aclose()

    async def file_entries(self) -> bool:
        """Makes entries of the start list durable as seeds; whether there were any, or another worker has some."""
        start_list = self._list
        if start_list is None or time.monotonic() < self._look_at:
            return False
        taken = await self._redis_patiently(lambda: start_list.take(ENTRIES_AT_ONCE))
        seeds: dict[str, tuple[BlueskyArguments, list[str]]] = {}
        dead: list[tuple[bytes, str]] = []
        for text in taken.entries:
            try:
                entry = parse_entry(text, self._own)
            except UsageError as error:
                dead.append((text, str(error)))
                self._spider.logger.warning("The entry %r of the start list cannot be used: %s", text[:SHOWN], error)
                self._spider.crawler.stats.inc_value("harvester/start_list/dead")
                continue
            if entry:
                seeds.setdefault(entry.arguments.model_dump_json(), (entry.arguments, []))[1].extend(entry.seeds)
        for arguments, of_one_crawl in seeds.values():
            await self._spider.ledger_of(arguments).feed(of_one_crawl)
        if taken.entries:
            await self._redis_patiently(lambda: start_list.confirm(dead))
            self._spider.crawler.stats.inc_value("harvester/start_list/taken", len(taken.entries))
        if len(taken.entries) < ENTRIES_AT_ONCE:
            self._look_at = time.monotonic() + LOOK_S
        return bool(taken.entries or taken.elsewhere)

    async def next_crawl(self) -> BlueskyArguments | None:
        """Arguments of a crawl in which something may be to be done; None when there was none for long enough.

        Raises RunEnding when the run is being ended.
        """
        idle_since = time.monotonic()
        while True:
            self._look_at = 0.0
            filed = await self.file_entries()
            crawls = await self._patiently(lambda: served_crawls(self._database, self._spider.name))
            for crawl in sorted(crawls, key=lambda crawl: crawl["arguments"] != self._own.model_dump(mode="json")):
                if crawl["_id"] not in self._left or self._left[crawl["_id"]] != crawl.get("fed"):
                    self._left[crawl["_id"]] = crawl.get("fed")
                    if arguments := self._arguments_of(crawl):
                        return arguments
            idle_seconds = self._spider.config.idle_seconds
            if filed:
                idle_since = time.monotonic()
            elif 0 <= idle_seconds <= time.monotonic() - idle_since:
                return None
            await pause(self._spider.crawler, LOOK_S)

    def _arguments_of(self, crawl: Document) -> BlueskyArguments | None:
        try:
            return BlueskyArguments(**crawl["arguments"])
        except ValidationError:
            self._spider.logger.error(  # noqa: TRY400
                "The crawl %s cannot be continued: its arguments are none that this version knows", crawl["_id"]
            )
            return None
