"""Ends browsers in the midst of things. `python -m tests.browser.ending <url>` prints what is left of each, as JSON."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import psutil
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.settings import Settings

from harvester.browser import pool as pools
from harvester.browser.pool import Pool
from harvester.config import load_config
from harvester.exceptions import BrowserLost
from harvester.sites import load_sites
from tests.browser.killing import drivers, until

ME = psutil.Process()


class Ending(Spider):
    """Tries each way to end a pool of browsers."""

    name = "ending"
    url: str
    left: dict[str, list[str]]

    async def start(self) -> AsyncIterator[Any]:
        """Nothing is asked by the crawl itself."""
        ways: list[Callable[[Pool], Awaitable[object]]] = [
            self.page_cancelled_while_a_browser_starts,
            self.closed_while_a_browser_starts,
            self.closed_while_a_browser_is_replaced,
            self.browser_dies_while_it_is_replaced,
            self.end_of_the_handler_fails,
            self.driver_dies_and_chromium_hangs,
        ]
        for way in ways:
            pool = Pool(self.crawler, load_config())
            await way(pool)
            await pool.close()
            _, alive = await asyncio.to_thread(psutil.wait_procs, ME.children(recursive=True), 5)
            self.left[way.__name__] = [" ".join(each.cmdline())[:80] for each in alive]
            for each in alive:
                each.kill()
        return
        yield

    def render(self, pool: Pool, path: str = "list/1") -> "asyncio.Task[Any]":
        request = Request(f"{self.url}/{path}")
        site = load_sites().of(self.url)
        return asyncio.ensure_future(pool.render(request, site, site.rendering))

    async def page_cancelled_while_a_browser_starts(self, pool: Pool) -> None:
        page = self.render(pool)
        await until(lambda: bool(drivers(ME.pid)))
        page.cancel()
        await asyncio.wait([page])

    async def closed_while_a_browser_starts(self, pool: Pool) -> None:
        page = self.render(pool)
        await until(lambda: bool(drivers(ME.pid)))
        await pool.close()
        with suppress(BrowserLost):
            await page
        with suppress(BrowserLost):
            await self.render(pool)

    async def closed_while_a_browser_is_replaced(self, pool: Pool) -> None:
        await self.render(pool)
        pool._renew("age")
        await until(lambda: len(drivers(ME.pid)) == 2)

    async def browser_dies_while_it_is_replaced(self, pool: Pool) -> None:
        await self.render(pool)
        pool._renew("age")
        assert pool._current
        assert pool._renewing
        await pool._current.kill()
        await self.render(pool)
        await pool._renewing

    async def end_of_the_handler_fails(self, pool: Pool) -> None:
        await self.render(pool)
        assert pool._current

        async def fail() -> None:
            raise RuntimeError("it cannot be closed")

        pool._current._handler.close = fail

    async def driver_dies_and_chromium_hangs(self, pool: Pool) -> None:
        await self.render(pool)
        [driver] = drivers(ME.pid)
        for each in driver.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        driver.kill()
        await until(lambda: pool._current is None or pool._current.is_lost)


def main() -> None:
    pools.WATCH_S = 0.2
    settings = Settings()
    settings.setmodule("harvester.settings")
    settings.setdict({"ITEM_PIPELINES": {}, "SPIDER_MIDDLEWARES": {}, "EXTENSIONS": {}}, "cmdline")
    settings.set("SCHEDULER", "scrapy.core.scheduler.Scheduler", "cmdline")
    process = AsyncCrawlerProcess(settings)
    left: dict[str, list[str]] = {}
    process.crawl(Ending, url=sys.argv[1], left=left)
    process.start()
    print(json.dumps(left))


if __name__ == "__main__":
    main()
