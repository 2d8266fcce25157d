"""Ends browsers in the midst of things. `python -m tests.browser.ending <url>` prints what is left of each, as JSON.

What is left are processes, windows and tasks that live on, and of a session what was lost.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.settings import Settings

from harvester.browser import browser as browsers
from harvester.browser import pool as pools
from harvester.browser.pool import BrowserPool
from harvester.browser.saved_session import SavedSession, State, path_of
from harvester.config import load_config
from harvester.exceptions import BrowserLost
from harvester.sites import load_sites
from harvester.sites.browser import RenderOptions
from tests.browser.killing import drivers, until

ME = psutil.Process()


class Ending(Spider):
    """Tries each way to end a pool of browsers; where two follow each other in one pool, the last one ends it."""

    name = "ending"
    url: str
    left: dict[str, list[str]]

    async def start(self) -> AsyncIterator[Any]:
        """Nothing is asked by the crawl itself."""
        pools: list[list[Callable[[BrowserPool], Awaitable[list[str] | None]]]] = [
            [self.page_cancelled_while_a_browser_starts],
            [self.closed_while_a_browser_starts],
            [self.closed_while_a_browser_is_replaced],
            [self.browser_dies_while_it_is_replaced, self.end_of_the_handler_fails],
            [self.pages_open_windows, self.driver_dies_and_chromium_hangs],
            [self.session_goes_from_browser_to_browser],
            [self.sessions_cannot_be_kept],
        ]
        for ways in pools:
            pool = BrowserPool(self.crawler, load_config())
            name = ", ".join(way.__name__ for way in ways)
            self.left[name] = [each for way in ways for each in await way(pool) or ()]
            await pool.close()
            _, alive = await asyncio.to_thread(psutil.wait_procs, ME.children(recursive=True), 5)
            self.left[name] += [" ".join(each.cmdline())[:80] for each in alive]
            for each in alive:
                each.kill()
        return
        yield

    def render(self, pool: BrowserPool, path: str = "list/1", **rendering: Any) -> "asyncio.Task[Any]":
        request = Request(f"{self.url}/{path}")
        site = load_sites().of(self.url)
        return asyncio.ensure_future(
            pool.render(request, site, RenderOptions.model_validate(site.browser.model_dump() | rendering))
        )

    async def token(self, pool: BrowserPool) -> str:
        """The one that a page got for the one that the page before it got."""
        steps = [{"wait_for": "#told"}]
        page = await self.render(pool, "renewing/1", session="county", steps=steps)
        return str(page.text.partition('<p id="told">')[2].partition("</p>")[0])

    async def page_cancelled_while_a_browser_starts(self, pool: BrowserPool) -> None:
        page = self.render(pool)
        await until(lambda: bool(drivers(ME.pid)))
        page.cancel()
        await asyncio.wait([page])

    async def closed_while_a_browser_starts(self, pool: BrowserPool) -> None:
        page = self.render(pool)
        await until(lambda: bool(drivers(ME.pid)))
        await pool.close()
        with suppress(BrowserLost):
            await page
        with suppress(BrowserLost):
            await self.render(pool)

    async def closed_while_a_browser_is_replaced(self, pool: BrowserPool) -> None:
        await self.render(pool)
        pool._renew("age")
        await until(lambda: len(drivers(ME.pid)) == 2)

    async def browser_dies_while_it_is_replaced(self, pool: BrowserPool) -> None:
        await self.render(pool)
        pool._renew("age")
        assert pool._current
        assert pool._renewing
        await pool._current.kill()
        await self.render(pool)
        await pool._renewing

    async def end_of_the_handler_fails(self, pool: BrowserPool) -> None:
        await self.render(pool)
        assert pool._current

        async def fail() -> None:
            raise RuntimeError("it cannot be closed")

        pool._current._handler.close = fail

    async def driver_dies_and_chromium_hangs(self, pool: BrowserPool) -> None:
        await self.render(pool)
        [driver] = drivers(ME.pid)
        for each in driver.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        driver.kill()
        await until(lambda: pool._current is None or pool._current.is_lost)

    async def pages_open_windows(self, pool: BrowserPool) -> list[str]:
        before = asyncio.all_tasks()
        await asyncio.gather(*(self.render(pool, f"opens/{number}") for number in range(3)))
        assert pool._current
        left: list[str] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(240):
                while left := [*await self.windows(pool), *map(str, routes() - before)]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        return left

    async def windows(self, pool: BrowserPool) -> list[str]:
        assert pool._current
        targets = (await pool._current._cdp.send("Target.getTargets"))["targetInfos"]
        return [target["url"] for target in targets if target["type"] == "page" and target.get("browserContextId")]

    async def session_goes_from_browser_to_browser(self, pool: BrowserPool) -> list[str]:
        tokens = [await self.token(pool), await self.token(pool)]
        assert pool._current
        [context] = pool._current._contexts.values()
        context.born -= browsers.CONTEXT_AGE_S + 1
        tokens += [await self.token(pool), await self.token(pool)]
        await pool._replace("age")
        tokens += [await self.token(pool), await self.token(pool)]
        path = path_of(load_config(), "county")
        with FileLock(f"{path}.lock", thread_local=False), saves() as tried:
            closing = asyncio.ensure_future(pool.close())
            await until(lambda: bool(tried))
        await closing
        told = [f"a token was lost: {tokens}"] if tokens != [f"t{number}" for number in range(1, 7)] else []
        return told + (["the last one is not kept"] if '"t6"' not in path.read_text() else [])

    async def sessions_cannot_be_kept(self, pool: BrowserPool) -> list[str]:
        Path(f"{path_of(load_config(), 'oak')}.lock").mkdir()  # noqa: ASYNC240
        left = []
        with saves() as tried:
            for _ in range(3):
                await self.render(pool, session="oak")
        if len(tried) > 1:
            left.append(f"it was tried {len(tried)} times to keep it")
        await self.render(pool, session="elm")
        await self.render(pool, "stray", session="elm")
        with FileLock(f"{path_of(load_config(), 'elm')}.lock", thread_local=False), warnings() as told:
            await pool.close()
        return left if any("is not kept" in each for each in told) else [*left, "nothing was told of it"]


def routes() -> set[asyncio.Task[Any]]:
    """Tasks that wait for a request to be sent or refused."""
    return {task for task in asyncio.all_tasks() if "route" in repr(task.get_coro())}


@contextmanager
def saves() -> Iterator[list[str]]:
    """Grows with each try to keep a session."""
    tried: list[str] = []
    save = SavedSession.save

    def watched(kept: SavedSession, state: State) -> bool:
        tried.append(str(kept))
        return save(kept, state)

    SavedSession.save = watched  # type: ignore[assignment, method-assign]
    try:
        yield tried
    finally:
        SavedSession.save = save  # type: ignore[method-assign]


@contextmanager
def warnings() -> Iterator[list[str]]:
    """Grows with each warning of a browser."""
    told: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    browsers.logger.addHandler(handler)
    try:
        yield told
    finally:
        browsers.logger.removeHandler(handler)


def main() -> None:
    pools.WATCH_S = 0.2
    browsers.PATIENCE = 5
    settings = Settings()
    settings.setmodule("harvester.settings")
    settings.setdict(
        {
            "ITEM_PIPELINES_BASE": {},
            "SPIDER_MIDDLEWARES_BASE": {"harvester.middlewares.httperror.HttpErrorMiddleware": 50},
            "EXTENSIONS_BASE": {},
        },
        "cmdline",
    )
    settings.set("SCHEDULER", "scrapy.core.scheduler.Scheduler", "cmdline")
    process = AsyncCrawlerProcess(settings)
    left: dict[str, list[str]] = {}
    process.crawl(Ending, url=sys.argv[1], left=left)
    process.start()
    print(json.dumps(left))


if __name__ == "__main__":
    main()
