"""One Chromium with its driver, and the pages in it, by scrapy-playwright's download handler."""

import asyncio
import hashlib
import json
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import unquote, urlsplit

import psutil
from playwright.async_api import Error, Page
from playwright.async_api import Request as PageRequest
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Response, TextResponse
from scrapy.responsetypes import responsetypes
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler
from scrapy_playwright.page import PageMethod

from harvester.browser import kept
from harvester.browser.chromium import launch_options
from harvester.browser.steps import is_gone
from harvester.browser.visit import CRASHED, Visit, close, headers_of
from harvester.config import Config
from harvester.exceptions import BrowserLost, NavigationError
from harvester.sites import Site
from harvester.sites.rendering import Rendering

logger = logging.getLogger(__name__)

PAGES_A_CONTEXT = 100
"""Pages after which a context's place is taken by a new one."""
CONTEXT_AGE_S = 900.0
MOST_CONTEXTS = 16
"""Kept open at the same time; the one idle for longest is closed."""
SAVE_S = 30.0
"""How often a session that is kept is written while it is used; also when its context is closed."""
START_S = 60.0
"""What the start of driver and Chromium may take."""
PARTING_S = 10.0
"""What their end may take before they are killed."""
DEVICES = {"desktop": "Desktop Chrome", "mobile": "Pixel 7"}
"""Their names at Playwright."""
_OWN_HEADERS = frozenset(
    {"user-agent", "accept", "accept-language", "accept-encoding", "cookie", "host", "connection", "referer"}
)
"""Headers that the browser knows better."""


@dataclass(eq=False, slots=True)
class Context:
    """Pages that share cookies and storage: those of one site and one identity, at most PAGES_A_CONTEXT."""

    name: str
    session: str
    options: dict[str, Any]
    born: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    saved: float = 0.0
    pages: int = 0
    at_once: int = 0

    def is_worn(self) -> bool:
        return self.pages >= PAGES_A_CONTEXT or time.monotonic() - self.born > CONTEXT_AGE_S


class Browser:
    """From `start` on. When it is lost, every page in it fails with BrowserLost."""

    def __init__(self, crawler: Crawler, config: Config, binary: str | None) -> None:
        self._config = config
        self._stats = crawler.stats
        self._user_agent = crawler.settings["USER_AGENT"]
        self._most_bytes = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        logging.getLogger("scrapy-playwright").setLevel(logging.ERROR)  # it tells every page, with tracebacks
        self._handler = ScrapyPlaywrightDownloadHandler(crawler)
        self._handler.config.launch_options = launch_options(binary)
        self._handler.config.max_pages_per_context = PAGES_A_CONTEXT * 2  # the pool bounds them
        self._handler.config.target_closed_max_retries = 0
        self._handler.config.restart_disconnected_browser = False
        self._handler.config.navigation_timeout_ms = 600_000  # the bound of a visit is its own
        self._handler.abort_request = self._blocks
        self._handler.process_request_headers = self._headers
        self._visits: dict[Page, Visit] = {}
        self._contexts: dict[str, Context] = {}
        self._retiring: set[Context] = set()
        self._numbers = iter(range(10**9))
        self._lost = asyncio.Event()
        self._driver: psutil.Process | None = None
        self._closing: asyncio.Task[None] | None = None
        self.born = time.monotonic()
        self.pages = 0
        self.at_once = 0

    # Its life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises NavigationError when Chromium does not start."""
        try:
            async with asyncio.timeout(START_S):
                await self._handler._launch()
                client = self._handler.browser_provider.playwright_context_manager._client
                self._driver = psutil.Process(client._transport._proc.pid)
                client._connection.on("close", lambda *_: self._lost.set())
                await self._handler._maybe_launch_browser()
        except (Error, TimeoutError, OSError) as error:
            await self.end()
            said = str(error).splitlines()[0] if str(error) else "it took too long"
            raise NavigationError(f"Chromium does not start: {said}") from error
        self._handler.browser.on("disconnected", lambda *_: self._lost.set())
        self._playwright = self._handler.browser_provider.playwright
        self._cdp = await self._handler.browser.new_browser_cdp_session()
        self._stats.inc_value("harvester/browser/started")

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    async def answers(self) -> None:
        """Returns when it answers."""
        with suppress(Error):
            await self._cdp.send("Browser.getVersion")

    def processes(self) -> list[psutil.Process]:
        """Driver, Chromium, and all that it started. Reads /proc: to be called from a thread."""
        if self._driver is None:
            return []
        try:
            return [self._driver, *self._driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    async def kill(self) -> None:
        """At once. Pages that are under way are lost."""
        for process in await asyncio.to_thread(self.processes):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._lost.set()

    async def end(self) -> None:
        """When the last page is through: in good order, or else by force. A second call waits for the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        if not self.is_lost:
            for context in [*self._contexts.values()]:
                await self._close_context(context)
        processes = await asyncio.to_thread(self.processes)
        with suppress(Error, TimeoutError, OSError, AttributeError):
            async with asyncio.timeout(PARTING_S):
                await self._handler.close()
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()  # of those that have ended, none is hit: psutil knows when each began
        self._lost.set()

    # Pages ------------------------------------------------------------------------------------------------

    async def render(self, request: Request, site: Site, rendering: Rendering) -> Response:
        """The page as it is after the steps.

        Raises BrowserLost, NavigationError, IgnoreRequest, and the exceptions of Scrapy's downloads.
        """
        visit = Visit(request, rendering, self._config, self._most_bytes, self._stats)
        context = self._context_for(request, site, rendering)
        inner = self._inner(request, context, visit)
        self.at_once += 1
        context.at_once += 1
        began = time.time()
        try:
            async with asyncio.timeout(rendering.timeout_s):
                response = await self._handler.download_request(inner)
                if context.session and time.monotonic() - context.saved > SAVE_S:
                    await self._save(context)
            if visit.broken:
                raise visit.broken
        except TimeoutError:
            raise DownloadTimeoutError(
                f"Getting {request.url} took longer than {rendering.timeout_s:g} seconds."
            ) from None
        except Error as error:
            raise await self._what_happened(error, visit) from error
        except RuntimeError as error:  # of a download
            raise NavigationError(f"it is a file, not a page: {str(error)[:200]}") from error
        finally:
            self.at_once -= 1
            context.at_once -= 1
            self.pages += 1
            context.pages += 1
            context.used = time.monotonic()
            if visit.page is not None:
                self._visits.pop(visit.page, None)
                if not self.is_lost:
                    await close(visit.page)
            await self._tidy(context)
        request.meta["download_latency"] = time.time() - began
        return self._outer(response, inner, request, visit)

    def _inner(self, request: Request, context: Context, visit: Visit) -> Request:
        """What scrapy-playwright is given: pages and functions in its meta never reach a queue."""

        async def open_page(page: Page, _: Request) -> None:
            self._visits[page] = visit
            visit.open(page)

        headers = {
            name.decode("latin-1"): value
            for name, value in request.headers.items()
            if name.decode("latin-1").lower() not in _OWN_HEADERS
        }
        meta = {
            "playwright": True,
            "playwright_include_page": True,
            "playwright_context": context.name,
            "playwright_context_kwargs": context.options,
            "playwright_page_init_callback": open_page,
            "playwright_page_methods": [PageMethod(visit.act)],
            "verbatim_url": True,
        }
        return Request(
            request.url, method=request.method, body=request.body, headers=headers, meta=meta, dont_filter=True
        )

    @staticmethod
    def _outer(response: Response, inner: Request, request: Request, visit: Visit) -> Response:
        """The callback's response: its request's meta holds what was captured, and the queue's request does not."""
        meta = dict(request.meta) | {"captured": visit.captured}
        meta |= {name: inner.meta[name] for name in ("redirect_urls", "redirect_reasons") if name in inner.meta}
        shown = request.replace(meta=meta)
        if visit.body is not None:
            headers = headers_of(dict(response.headers.to_unicode_dict()))
            kind = responsetypes.from_args(headers=headers, url=response.url, body=visit.body)
            return kind(response.url, response.status, headers, visit.body, ["rendered"], shown)
        response.headers.pop("Content-Length", None)
        return response.replace(request=shown, flags=["rendered"])

    async def _what_happened(self, error: Error, visit: Visit) -> Exception:
        if visit.broken:
            return visit.broken
        if "crashed" in str(error):
            return NavigationError(CRASHED)
        if is_gone(error):
            with suppress(TimeoutError):  # the news of the browser's end may come after that of its pages
                async with asyncio.timeout(2.0):
                    await self._lost.wait()
            # Without such news too: Playwright raises a listener's error out of any call.
            return BrowserLost("the browser ended under the page")
        return error

    def _blocks(self, request: PageRequest) -> bool:
        try:
            visit = self._visits.get(request.frame.page)
        except Error:  # of a window that the page opens
            return True
        return visit is None or visit.blocks(request)

    @staticmethod
    def _headers(
        browser_type_name: str, playwright_request: PageRequest, scrapy_request_data: dict[str, Any]
    ) -> dict[str, str]:
        """The browser's own; those that the request brings go to its page alone."""
        own = playwright_request.headers
        if playwright_request.is_navigation_request() and playwright_request.url == scrapy_request_data["url"]:
            own = own | {
                name.lower(): value for name, value in scrapy_request_data["headers"].to_unicode_dict().items()
            }
        return own

    # Contexts ---------------------------------------------------------------------------------------------

    def _context_for(self, request: Request, site: Site, rendering: Rendering) -> Context:
        options = self._options(request, rendering)
        cookie = (request.headers.get("Cookie") or b"").decode("latin-1")
        told = json.dumps([site.name, options, rendering.session, cookie], sort_keys=True)
        key = hashlib.sha256(told.encode()).hexdigest()[:16]
        context = self._contexts.get(key)
        if context is not None and context.is_worn():
            self._retiring.add(self._contexts.pop(key))
            context = None
        if context is None:
            options["storage_state"] = self._state(request, rendering, cookie)
            name = f"{site.name}-{key}-{next(self._numbers)}"
            context = self._contexts[key] = Context(name, rendering.session, options)
        return context

    def _options(self, request: Request, rendering: Rendering) -> dict[str, Any]:
        """Of Playwright's `new_context`. The User-Agent is the device's, and names us."""
        device = dict(self._playwright.devices[DEVICES[rendering.device]])
        device.pop("default_browser_type", None)
        options = device | {
            "user_agent": f"{device['user_agent']} {self._user_agent}",
            "locale": rendering.locale,
            "accept_downloads": False,
            "service_workers": "block",  # what they fetch, no route sees
        }
        if rendering.time_zone:
            options["timezone_id"] = rendering.time_zone
        if proxy := request.meta.get("proxy"):
            options["proxy"] = _proxy(proxy)
        return options

    def _state(self, request: Request, rendering: Rendering, cookie: str) -> kept.State | None:
        state = kept.load(self._config, rendering.session) if rendering.session else None
        if not cookie:
            return state
        state = state or {"cookies": [], "origins": []}
        parsed: SimpleCookie = SimpleCookie()
        with suppress(CookieError):
            parsed.load(cookie)
        place = {"domain": urlsplit(request.url).hostname, "path": "/"}
        added = [{"name": name, "value": each.value, **place} for name, each in parsed.items()]
        return state | {"cookies": [*state["cookies"], *added]}

    async def _tidy(self, context: Context) -> None:
        """Closes contexts that are of no more use."""
        if self.is_lost:
            return
        idle = [each for each in self._retiring if not each.at_once]
        if len(self._contexts) > MOST_CONTEXTS:
            quiet = [each for each in self._contexts.values() if not each.at_once]
            idle += sorted(quiet, key=lambda each: each.used)[: len(self._contexts) - MOST_CONTEXTS]
        for each in idle:
            self._retiring.discard(each)
            self._contexts = {key: kept for key, kept in self._contexts.items() if kept is not each}
            await self._close_context(each)

    async def _close_context(self, context: Context) -> None:
        wrapper = self._handler.context_wrappers.get(context.name)
        if wrapper is None:
            return
        if context.session:
            await self._save(context)
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(PARTING_S):
                await wrapper.context.close()

    async def _save(self, context: Context) -> None:
        wrapper = self._handler.context_wrappers.get(context.name)
        if wrapper is None:
            return
        with suppress(Error):
            kept.save(self._config, context.session, await wrapper.context.storage_state())
            context.saved = time.monotonic()


def _proxy(address: str) -> dict[str, str]:
    """As Playwright wants it: the credentials apart."""
    parts = urlsplit(address)
    port = f":{parts.port}" if parts.port else ""
    told = {"server": f"{parts.scheme}://{parts.hostname}{port}"}
    if parts.username:
        told |= {"username": unquote(parts.username), "password": unquote(parts.password or "")}
    return told
