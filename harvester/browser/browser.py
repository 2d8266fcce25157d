"""One Chromium with its driver and its pages, on scrapy-playwright's download handler."""

import asyncio
import hashlib
import json
import logging
import time
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psutil
from filelock import Timeout
from playwright.async_api import Error
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Response

from harvester.browser.chromium import HEADED, launch_options
from harvester.browser.flow_run import FlowRun, downloads_of
from harvester.browser.page_handler import Driver, PageHandler
from harvester.browser.page_run import CRASHED, PageRun, close
from harvester.browser.relay import BrowserRelay, through
from harvester.browser.saved_session import SavedSession, State, path_of
from harvester.browser.steps import is_gone
from harvester.components import get_component
from harvester.config import Config
from harvester.exceptions import BrowserLost, NavigationError, StorageError
from harvester.identities.browser import BrowserLink
from harvester.identities.secret_file import POLL_S
from harvester.internal_meta import FLOW, IDENTITY, SIGN_IN, STORAGE_STATE
from harvester.sites import Site
from harvester.sites.browser import RenderOptions

logger = logging.getLogger(__name__)

PAGES_A_CONTEXT = 100
"""Maximum number of pages of a context before a new one replaces it."""
CONTEXT_AGE_S = 900.0
MOST_CONTEXTS = 16
"""Maximum number of open contexts; the one that is idle for longest is closed."""
SAVE_S = 30.0
"""Seconds between two saves of a session in use. It is also saved when its context is closed."""
START_S = 60.0
"""Seconds that the start of driver and Chromium may take."""
PARTING_S = 10.0
"""Seconds that their end may take before they are killed."""
PATIENCE = 20
"""Number of tries for the last save of a session while another process uses its file, POLL_S apart."""
DEVICES = {"desktop": "Desktop Chrome", "mobile": "Pixel 7"}
"""The device names in Playwright."""


@dataclass(eq=False, slots=True)
class BrowserContext:
    """Pages that share cookies and storage: for one site and one identity, at most PAGES_A_CONTEXT."""

    name: str
    kept: SavedSession | None
    options: dict[str, Any]
    born: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    saved: float = 0.0
    pages: int = 0
    at_once: int = 0

    def is_worn(self) -> bool:
        return self.pages >= PAGES_A_CONTEXT or time.monotonic() - self.born > CONTEXT_AGE_S


class Browser:
    """A running browser. When it is lost, every page in it fails with BrowserLost."""

    def __init__(self, crawler: Crawler, config: Config, binary: str) -> None:
        self._crawler = crawler
        self._config = config
        self._stats = crawler.stats
        self._user_agent = crawler.settings["USER_AGENT"]
        self._most_bytes = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        logging.getLogger("scrapy-playwright").setLevel(logging.ERROR)  # it logs every page, with tracebacks
        self._handler = PageHandler(crawler)
        self._driver = Driver(self._handler.config)
        self._handler.browser_provider_cls = lambda _: self._driver
        self._handler.config.launch_options = launch_options(binary, headed=crawler.settings.getbool(HEADED))
        self._relay = None if config.allow_private_hosts else BrowserRelay(crawler, config)
        self._handler.config.max_pages_per_context = PAGES_A_CONTEXT * 2  # the pool limits them
        self._handler.config.target_closed_max_retries = 0
        self._handler.config.restart_disconnected_browser = False
        self._handler.config.navigation_timeout_ms = 600_000  # each run has its own limit
        self._contexts: dict[str, BrowserContext] = {}
        self._retiring: set[BrowserContext] = set()
        self._numbers = iter(range(10**9))
        self._lost = asyncio.Event()
        self._known: list[psutil.Process] = []
        """The processes of the driver and Chromium, to end one when the other is gone."""
        self._closing: asyncio.Task[None] | None = None
        self.born = time.monotonic()
        self.pages = 0
        self.at_once = 0

    # Start and end ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts driver and Chromium. Raises BrowserLost when Chromium does not start."""
        try:
            async with asyncio.timeout(START_S):
                if self._relay:
                    self._handler.config.launch_options["args"] += through(await self._relay.start())
                await self._handler._launch()
                self._driver.on_close(self._lost.set)
                await self._handler._maybe_launch_browser()
                self._handler.browser.on("disconnected", lambda *_: self._lost.set())
                self._cdp = await self._handler.browser.new_browser_cdp_session()
                await asyncio.to_thread(self.processes)
        except Exception as error:
            await self.end()
            said = str(error).splitlines()[0] if str(error) else "it took too long"
            raise BrowserLost(f"Chromium does not start: {said}") from error
        except BaseException:  # it was cancelled
            await self.end()
            raise
        self._stats.inc_value("harvester/browser/started")

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set() or bool(self._known and self._driver.pid is None)

    async def answers(self) -> None:
        """Returns when the browser answers."""
        with suppress(Error):
            await self._cdp.send("Browser.getVersion")

    def processes(self) -> list[psutil.Process]:
        """Returns the processes of driver and Chromium. Reads /proc, so it must be called from a thread."""
        if not self._known and (pid := self._driver.pid) is not None:
            with suppress(psutil.Error):
                self._known.append(psutil.Process(pid))
        if len(self._known) == 1:
            with suppress(psutil.Error):
                self._known += self._known[0].children()
        found = dict.fromkeys(self._known)
        for process in self._known:
            with suppress(psutil.Error):
                found |= dict.fromkeys(process.children(recursive=True))
        return list(found)

    async def kill(self) -> None:
        """Kills the browser at once. Pages that are under way are lost."""
        _kill(await asyncio.to_thread(self.processes))
        self._lost.set()
        self._driver.cut()

    async def end(self) -> None:
        """Ends the browser after its last page: in good order, or else by force. A second call waits for the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        if self.is_lost:
            await self.kill()
            await self._handler.close_without_browser()
            await self._close_relay()
            return
        processes = await asyncio.to_thread(self.processes)
        unsaved = [each for each in [*self._contexts.values(), *self._retiring] if each.kept]
        try:
            async with asyncio.timeout(PARTING_S):
                while unsaved:
                    await self._save_last(unsaved[-1])
                    unsaved.pop()
                await self._handler.close()
        except Exception as error:  # noqa: BLE001  after any failure, `finally` kills the rest
            logger.debug("A browser does not end in good order: %r", error)
            for context in unsaved:
                logger.warning("What the browser made of a session lately is not kept: %s", context.name)
        finally:
            _kill(processes)
            self._lost.set()
            await self._close_relay()

    async def _close_relay(self) -> None:
        if self._relay:
            await self._relay.close()

    # Pages ------------------------------------------------------------------------------------------------

    async def render(self, request: Request, site: Site, rendering: RenderOptions) -> Response:
        """Returns the page after its steps.

        Raises BrowserLost, NavigationError, IgnoreRequest, and the exceptions of Scrapy's downloads.
        """
        self.at_once += 1
        try:
            return await self._render(request, site, rendering)
        finally:
            self.at_once -= 1
            self.pages += 1

    async def _render(self, request: Request, site: Site, rendering: RenderOptions) -> Response:
        run = self._run_of(request, rendering)
        context = await self._context_for(request, site, rendering)
        context.at_once += 1
        began = time.time()
        try:
            async with asyncio.timeout(rendering.timeout_s):
                response = await self._handler.show(request, run, context.name, context.options)
            if run.broken:
                raise run.broken
        except TimeoutError:
            raise DownloadTimeoutError(
                f"Getting {request.url} took longer than {rendering.timeout_s:g} seconds."
            ) from None
        except NavigationError as error:
            raise run.broken or error from None
        except Error as error:
            if run.broken:
                raise run.broken from None  # a cause would be judged too
            if self._relay and "net::ERR_SOCKS" in str(error) and (fault := self._relay.fault_of(run.at)):
                raise fault.with_traceback(None) from None
            raise await self._what_happened(error) from error
        finally:
            context.at_once -= 1
            context.pages += 1
            context.used = time.monotonic()
            if run.page is not None:
                self._handler.runs.pop(run.page, None)
                if not self.is_lost:
                    await close(run.page)
            if context.is_worn() or time.monotonic() - context.saved > SAVE_S:
                await self._save(context)
            await self._tidy()
        request.meta["download_latency"] = time.time() - began
        return response

    def _run_of(self, request: Request, rendering: RenderOptions) -> PageRun:
        given = request, rendering, self._config, self._most_bytes, self._stats
        return FlowRun(*given, self._crawler) if FLOW in request.meta else PageRun(*given)

    async def _what_happened(self, error: Error) -> Exception:
        if "crashed" in str(error):
            return NavigationError(CRASHED)
        if is_gone(error):
            with suppress(TimeoutError):  # the pages' end may be reported before the browser's
                async with asyncio.timeout(2.0):
                    await self._lost.wait()
            # Without a report too: Playwright raises a listener's error out of any call.
            return BrowserLost("the browser ended under the page")
        return error

    # Contexts ---------------------------------------------------------------------------------------------

    async def _context_for(self, request: Request, site: Site, rendering: RenderOptions) -> BrowserContext:
        options = self._options(request, rendering)
        cookie = (request.headers.get("Cookie") or b"").decode("latin-1")
        # After a login by a browser, the context owns the identity's cookies.
        identity = request.meta.get(STORAGE_STATE) or cookie
        told = json.dumps([site.name, options, rendering.session, identity], sort_keys=True)
        key = hashlib.sha256(told.encode()).hexdigest()[:16]
        if (worn := self._contexts.get(key)) is not None and worn.is_worn():
            await self._save(worn)  # the next context starts with it
            self._retire(worn)
        is_alone = SIGN_IN in request.meta or FLOW in request.meta
        context = None if is_alone else self._contexts.get(key)
        if context is None:
            kept = self._kept(request, rendering)
            state: State | None = request.meta.get(SIGN_IN) or (kept.load() if kept else None)
            options["storage_state"] = _with_cookies(state, cookie, request.url) if cookie else state
            name = f"{site.name}-{key}-{next(self._numbers)}"
            context = BrowserContext(name, kept, options)
            if is_alone:
                self._retiring.add(context)  # no other page gets it
            else:
                self._contexts[key] = context
        return context

    def _options(self, request: Request, rendering: RenderOptions) -> dict[str, Any]:
        """Returns the options for Playwright's `new_context`. The User-Agent is the device's, and names us."""
        device = dict(self._driver.playwright.devices[DEVICES[rendering.device]])
        device.pop("default_browser_type", None)
        options = device | {
            "user_agent": f"{device['user_agent']} {self._user_agent}",
            "locale": rendering.locale,
            "accept_downloads": downloads_of(request) > 0,
            "service_workers": "block",  # no route sees their requests
        }
        if rendering.time_zone:
            options["timezone_id"] = rendering.time_zone
        if proxy := request.meta.get("proxy"):
            options["proxy"] = _proxy(proxy, request.headers.get("Proxy-Authorization"))
        return options

    def _kept(self, request: Request, rendering: RenderOptions) -> SavedSession | None:
        """Returns the file of the context's session, None without one. An identity has its own file, or only
        cookies."""
        if SIGN_IN in request.meta:
            return None
        keep = get_component(
            self._crawler, BrowserLink
        ).keep  # None without identities: meta may name one from an earlier run
        if keep and (identity := request.meta.get(STORAGE_STATE)):
            path, generation = identity
            return SavedSession(Path(path), partial(keep, path, generation))
        if rendering.session and IDENTITY not in request.meta:
            return SavedSession(path_of(self._config, rendering.session))
        return None

    def _retire(self, context: BrowserContext) -> None:
        """Excludes the context from further pages."""
        self._contexts = {key: each for key, each in self._contexts.items() if each is not context}
        self._retiring.add(context)

    async def _tidy(self) -> None:
        """Closes unused contexts."""
        if self.is_lost:
            return
        idle = [each for each in self._retiring if not each.at_once]
        if len(self._contexts) > MOST_CONTEXTS:
            quiet = [each for each in self._contexts.values() if not each.at_once]
            idle += sorted(quiet, key=lambda each: each.used)[: len(self._contexts) - MOST_CONTEXTS]
        for each in idle:
            self._retire(each)  # all first: a page could take one during the first wait
        for each in idle:
            await self._close_context(each)
            self._retiring.discard(each)

    async def _close_context(self, context: BrowserContext) -> None:
        wrapper = self._handler.context_wrappers.get(context.name)
        if wrapper is None:
            return
        await self._save_last(context)
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(PARTING_S):
                await wrapper.context.close()

    async def save(self) -> None:
        """Saves the sessions that have a file, so that another browser can start with them."""
        for context in [each for each in self._contexts.values() if each.kept]:
            await self._save(context)

    async def _save_last(self, context: BrowserContext) -> None:
        """Saves a context for the last time, with retries."""
        for _ in range(PATIENCE):
            if await self._save(context):
                return
            await asyncio.sleep(POLL_S)
        logger.warning("What the browser made of a session lately is not kept: %s", context.name)

    async def _save(self, context: BrowserContext) -> bool:
        """Saves a context's session. Returns False while another process uses the file."""
        wrapper = self._handler.context_wrappers.get(context.name)
        if wrapper is None or context.kept is None:
            return True
        context.saved = time.monotonic()
        try:
            async with asyncio.timeout(PARTING_S):
                state = await wrapper.context.storage_state()
            newest = context.kept.save(state)
        except Timeout:
            return False
        except (Error, TimeoutError):
            return True  # the context is gone; the earlier save remains
        except StorageError as error:
            logger.error("%s", error)  # noqa: TRY400  the page is still valid
            return True
        if not newest:
            self._retire(context)  # the next page starts with the newer session
        return True


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()  # psutil compares start times, so a reused id is safe


def _with_cookies(state: State | None, header: str, url: str) -> State:
    """Returns the storage_state with the cookies of a header: their values replace known ones, and missing ones are
    added."""
    host = urlsplit(url).hostname or ""
    state = state or {"cookies": [], "origins": []}
    pairs = [pair.strip().partition("=") for pair in header.split(";")]
    values = {name: value for name, _, value in pairs if name}
    cookies, met = [], set()
    for cookie in state["cookies"]:
        name, domain = cookie["name"], cookie["domain"].lstrip(".")
        if name in values and (host == domain or host.endswith(f".{domain}")):
            met.add(name)
            cookie = cookie | {"value": values[name]}
        cookies.append(cookie)
    place = {"domain": host, "path": "/"}
    cookies += [{"name": name, "value": value, **place} for name, value in values.items() if name not in met]
    return state | {"cookies": cookies}


def _proxy(address: str, authorization: bytes | None) -> dict[str, str]:
    """Returns the proxy in Playwright's form, with separate credentials."""
    parts = urlsplit(address)
    told = {"server": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"}
    if authorization:
        user, _, password = b64decode(authorization.removeprefix(b"Basic ")).decode().partition(":")
        told |= {"username": user, "password": password}
    elif parts.username:
        told |= {"username": unquote(parts.username), "password": unquote(parts.password or "")}
    return told
