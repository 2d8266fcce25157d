"""The browser of a crawl: started for the first page, and replaced when it is worn or dead.

A browser grows with every page, and sometimes hangs. So its pages, its age and its memory have limits. At a limit the
next browser starts and gets the new pages, and the old one ends after its last page.
"""

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.browser.chromium import HEADED, find_chromium
from harvester.components import get_component
from harvester.config import Config, load_config
from harvester.exceptions import BrowserLost
from harvester.sites import Site
from harvester.sites.browser import RenderOptions

if TYPE_CHECKING:
    from harvester.browser.browser import Browser

logger = logging.getLogger(__name__)

PAGES_A_BROWSER = 400
"""Maximum number of pages of a browser before a new one replaces it."""
BROWSER_AGE_S = 3600.0
PAGE_MEMORY_BYTES = 1024**3
"""Bytes of memory of a process that shows a page. Above it the process is killed, and the page fails."""
STALL_S = 20.0
"""Seconds that a browser has to answer the simplest question."""
IDLE_S = 120.0
"""Seconds without pages before it is ended. The next page starts another one."""
WATCH_S = 2.0
"""Seconds between two checks of memory and health."""


class BrowserPool:
    """Shows at most `browser_pages` pages at a time, in one browser, or in two while one replaces the other."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._stats = crawler.stats
        self._places = asyncio.Semaphore(config.browser_pages)
        self._starting = asyncio.Lock()
        self._current: Browser | None = None
        self._ending: dict[Browser, str] = {}
        """Browsers that get no more pages, with the reason."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch_task: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._closed = False
        self._used = time.monotonic()

    @classmethod
    def of(cls, crawler: Crawler) -> "BrowserPool":
        """Returns the crawl's pool."""
        return get_component(crawler, cls, lambda: cls(crawler, load_config()))

    async def render(self, request: Request, site: Site, rendering: RenderOptions) -> Response:
        """Waits for a place, and shows the page. Raises UsageError, and the exceptions of Browser.render."""
        async with self._places:
            browser = await self._browser()
            try:
                response = await browser.render(request, site, rendering)
            finally:
                self._used = time.monotonic()
                self._after(browser)
        self._stats.inc_value("harvester/browser/pages")
        return response

    async def close(self) -> None:
        """Ends all browsers, including those that are starting. No new one starts."""
        self._closed = True
        if self._renewing is not None:
            await self._renewing  # it notices the end itself
        if self._watch_task is not None:
            self._watch_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch_task
        async with self._starting:
            if self._current is not None:
                self._retire(self._current, "end")
        await asyncio.gather(*(browser.end() for browser in list(self._ending)), *self._tasks)

    # Start and replacement --------------------------------------------------------------------------------

    async def _browser(self) -> "Browser":
        async with self._starting:
            if self._current is not None and self._current.is_lost:
                self._retire(self._current, "lost")
            if self._current is None:
                self._install(await self._start(), "lost")
            assert self._current
            return self._current

    async def _start(self) -> "Browser":
        binary = find_chromium(self._config, headed=self._crawler.settings.getbool(HEADED))
        from harvester.browser.browser import Browser

        browser = Browser(self._crawler, self._config, binary)
        if not self._closed:
            await browser.start()
        if self._closed:
            await browser.end()
            raise BrowserLost("the browsers are being ended")
        if self._watch_task is None:
            self._watch_task = asyncio.ensure_future(self._watch())
        return browser

    def _after(self, browser: "Browser") -> None:
        """Handles the end of a page of this browser."""
        if browser.is_lost:
            self._retire(browser, "lost")
        elif browser is self._current and browser.pages >= PAGES_A_BROWSER:
            self._renew("pages")
        if browser in self._ending and not browser.at_once:
            self._end(browser)

    def _renew(self, reason: str) -> None:
        """Starts another browser, which gets the new pages when it is ready."""
        if not self._closed and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.ensure_future(self._replace(reason))

    async def _replace(self, reason: str) -> None:
        try:
            fresh = await self._start()
            try:
                if self._current is not None:
                    await self._current.save()
            finally:
                self._install(fresh, reason)
        except Exception as error:  # noqa: BLE001  the old one continues, and the next page tries again
            if not self._closed:
                logger.warning("The browser should be replaced, and cannot be: %s", error)

    def _install(self, fresh: "Browser", reason: str) -> None:
        """Sends new pages to this browser. Another one may have replaced a dead one in the meantime."""
        worn, self._current = self._current, fresh
        if worn is not None:
            self._retire(worn, reason)

    def _retire(self, browser: "Browser", reason: str) -> None:
        """Excludes the browser from further pages."""
        if browser is self._current:
            self._current = None
        if browser not in self._ending:
            self._ending[browser] = reason
            self._stats.inc_value(f"harvester/browser/replaced/{reason}")
            logger.debug("A browser ends after %d pages: %s", browser.pages, reason)
        if not browser.at_once:
            self._end(browser)

    def _end(self, browser: "Browser") -> None:
        async def end() -> None:
            try:
                await browser.end()
            finally:
                self._ending.pop(browser, None)

        task = asyncio.ensure_future(end())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Health -----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            for browser in [*filter(None, [self._current]), *self._ending]:
                try:
                    await self._look_at(browser)
                except Exception:  # the next check may succeed
                    logger.exception("The browser's health cannot be told")
            browser_now = self._current
            if browser_now and not browser_now.at_once and time.monotonic() - self._used > IDLE_S:
                self._retire(browser_now, "idle")

    async def _look_at(self, browser: "Browser") -> None:
        if browser.is_lost:
            self._retire(browser, "lost")
            await browser.kill()
            return
        try:
            async with asyncio.timeout(STALL_S):
                await browser.answers()
        except TimeoutError:
            logger.warning("The browser does not answer any more; it is killed, and its pages go to the next one")
            self._retire(browser, "stall")
            await browser.kill()
            return
        used = await asyncio.to_thread(_memory, browser)
        if browser is not self._current:
            return
        self._stats.set_value("harvester/browser/memory", used)
        if used > self._config.browser_memory_mb * 2**20:
            self._renew("memory")
        elif time.monotonic() - browser.born > BROWSER_AGE_S:
            self._renew("age")


def _memory(browser: "Browser") -> int:
    """Returns the bytes of the driver and of all Chromium processes. Kills processes whose page uses too many."""
    used = 0
    for process in browser.processes():
        with suppress(psutil.Error):
            resident = process.memory_info().rss
            used += resident
            if resident > PAGE_MEMORY_BYTES and "--type=renderer" in process.cmdline():
                process.kill()
    return used
