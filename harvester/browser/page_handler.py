"""scrapy-playwright's download handler, with fewer words to the driver for each page."""

import asyncio
from collections.abc import Callable
from typing import Any

from playwright._impl.out_of_process import PlaywrightClient
from playwright.async_api import Error, Page, Playwright, Route
from playwright.async_api import Response as PageResponse
from playwright.async_api._context_manager import PlaywrightContextManager
from scrapy import Request
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy_playwright.handler import BrowserContextWrapper, ScrapyPlaywrightDownloadHandler
from scrapy_playwright.provider import PlaywrightBrowserProvider

from harvester.browser.flow_run import FlowRun
from harvester.browser.page_run import HOP, PageRun, close
from harvester.meta import LED, SIGN_IN

_NO_WINDOWS = "window.open = () => null"
"""As where windows are blocked: of one whose opener goes meanwhile Playwright may tell nothing. Others are closed."""


class Driver(PlaywrightBrowserProvider):  # type: ignore[misc]
    """Playwright's driver, whose process is known from its beginning on: also when it does not answer."""

    playwright: Playwright
    _client: PlaywrightClient | None = None

    async def start(self) -> None:
        manager = self.playwright_context_manager = PlaywrightContextManager()
        self._client = manager._client = PlaywrightClient()
        fault = self._client._transport.on_error_future
        fault.add_done_callback(lambda fault: fault.cancelled() or fault.exception())  # else it is logged as unread
        self.playwright = Playwright(await self._client._playwright)
        self.playwright.stop = manager.__aexit__  # type: ignore[method-assign]
        self.browser_type = self.playwright.chromium

    @property
    def pid(self) -> int | None:
        """Of its process, as long as it runs."""
        process = getattr(self._client._transport, "_proc", None) if self._client else None
        return process.pid if process and process.returncode is None else None

    def cut(self) -> None:
        """Has all waiting calls fail: Chromium, when it hangs, holds the connection of a driver that is dead."""
        if self._client:
            self._client._connection.onmessage = lambda _: None  # nobody reads it
            self._client._connection.close()

    def on_close(self, listener: Callable[[], None]) -> None:
        """When it ends, or its connection does."""
        assert self._client
        self._client._connection.on("close", lambda *_: listener())


class PageHandler(ScrapyPlaywrightDownloadHandler):  # type: ignore[misc]
    """Shows pages for a Browser. Its own way reads each answer's headers, address and certificate from the driver."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.runs: dict[Page, PageRun] = {}
        self._making = 0
        self._flows: dict[str, FlowRun] = {}
        """Context that is about to be made -> the flow that has it for itself, with the windows that it opens."""
        self._unknown: set[Page] = set()
        """Those that have appeared: each a page that is being made, or a window that a page has opened."""
        self._closing: set[asyncio.Task[None]] = set()

    async def close_without_browser(self) -> None:
        """As `close`, when the browser has died: nobody would answer."""
        await super(ScrapyPlaywrightDownloadHandler, self).close()

    async def show(self, request: Request, run: PageRun, context: str, options: dict[str, Any]) -> Response:
        """The page after its steps. Raises Playwright's errors; the page stays open, as run.page.

        The answer's request is the one that was asked for: what others hold for it, they let go of that one.
        """
        asked = Request(
            request.url, meta={"playwright_context": context, "playwright_context_kwargs": options}, dont_filter=True
        )
        self._making += 1
        if isinstance(run, FlowRun):
            self._flows[context] = run
        try:
            page = await self._create_page(asked, self._crawler.spider)
            self.runs[page] = run
        finally:
            self._making -= 1
            self._flows.pop(context, None)
            self._close_windows()
        await run.open(page)
        answer = await run.go(page)
        headers = await _headers(answer)
        body = await run.act(page, answer)
        if SIGN_IN in request.meta:
            request.meta[SIGN_IN] = await page.context.storage_state()
        run.leave(request.meta)
        request.meta.update(_redirects(answer))
        url = (run.shown or page).url
        kind = responsetypes.from_args(headers=headers, url=url, body=body)
        return kind(url, answer.status, headers, body, ["rendered"], request)

    async def _create_browser_context(self, name: str, *arguments: Any, **options: Any) -> BrowserContextWrapper:
        wrapper = await super()._create_browser_context(name, *arguments, **options)
        if (flow := self._flows.get(name)) is not None:
            await wrapper.context.route("**", flow.route)
            wrapper.context.on("page", flow.adopt)
            return wrapper
        await wrapper.context.route("**", self._route)  # before it has pages: one that is being made may miss it
        wrapper.context.on("page", self._on_page)
        await wrapper.context.add_init_script(_NO_WINDOWS)
        return wrapper

    def _on_page(self, page: Page) -> None:
        self._unknown.add(page)
        self._close_windows()

    def _close_windows(self) -> None:
        """As soon as no page is being made, so that windows can be told from pages. Their openers may be gone."""
        if self._making:
            return
        for page in self._unknown - self.runs.keys():
            task = asyncio.ensure_future(close(page))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._unknown.clear()

    async def _route(self, route: Route) -> None:
        try:
            run = self.runs.get(route.request.frame.page)
        except Error:  # a window's first request is asked before there is a page
            run = None
        try:
            if run is None:
                await route.abort()
            else:
                await run.route(route)
        except Error:
            pass  # the page is gone; raised here, another page's next call would raise it


async def _headers(answer: PageResponse) -> Headers:
    """With each cookie that was set, and true of the page as text in UTF-8."""
    headers = Headers()
    for each in await answer.headers_array():
        if each["name"].lower() not in HOP:
            headers.appendlist(each["name"], each["value"])
    kind = (headers.get("Content-Type") or b"").decode("latin-1").partition(";")[0].strip()
    if "html" in kind:
        headers["Content-Type"] = f"{kind}; charset=utf-8"
    return headers


def _redirects(answer: PageResponse) -> dict[str, Any]:
    """As Scrapy's RedirectMiddleware tells them."""
    urls: list[str] = []
    request = answer.request.redirected_from
    while request is not None:
        urls.insert(0, request.url)
        request = request.redirected_from
    return {"redirect_urls": urls, "redirect_times": len(urls), LED: True} if urls else {}
