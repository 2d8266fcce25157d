"""scrapy-playwright's download handler, with fewer messages to the driver for each page."""

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
from harvester.internal_meta import LED, SIGN_IN

_NO_WINDOWS = "window.open = () => null"
"""Script that blocks windows as a browser does. Playwright may not report a window whose opener closes. Other windows
are closed."""


class Driver(PlaywrightBrowserProvider):  # type: ignore[misc]
    """Playwright's driver. Its process is known from its start, even when it does not answer."""

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
        """The id of the process while it runs, else None."""
        process = getattr(self._client._transport, "_proc", None) if self._client else None
        return process.pid if process and process.returncode is None else None

    def cut(self) -> None:
        """Fails all waiting calls. A hung Chromium keeps the connection of a dead driver open."""
        if self._client:
            self._client._connection.onmessage = lambda _: None  # no one reads it
            self._client._connection.close()

    def on_close(self, listener: Callable[[], None]) -> None:
        """Calls the listener when the driver or its connection ends."""
        assert self._client
        self._client._connection.on("close", lambda *_: listener())


class PageHandler(ScrapyPlaywrightDownloadHandler):  # type: ignore[misc]
    """Shows pages for a Browser. Reads less from the driver than its base: no address and no certificate of a
    response."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.runs: dict[Page, PageRun] = {}
        self._making = 0
        self._flows: dict[str, FlowRun] = {}
        """A new context -> the flow that owns it, with the windows that it opens."""
        self._unknown: set[Page] = set()
        """Pages that appeared: each is a page in creation, or a window that a page has opened."""
        self._closing: set[asyncio.Task[None]] = set()

    async def close_without_browser(self) -> None:
        """Closes the handler after the browser has died and would not answer."""
        await super(ScrapyPlaywrightDownloadHandler, self).close()

    async def show(self, request: Request, run: PageRun, context: str, options: dict[str, Any]) -> Response:
        """Returns the page after its steps. Raises Playwright's errors; the page stays open as run.page.

        The response's request is the original one, because others release resources for that object.
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
        await wrapper.context.route("**", self._route)  # before the context has pages, because a new one may miss it
        wrapper.context.on("page", self._on_page)
        await wrapper.context.add_init_script(_NO_WINDOWS)
        return wrapper

    def _on_page(self, page: Page) -> None:
        self._unknown.add(page)
        self._close_windows()

    def _close_windows(self) -> None:
        """Closes windows when no page is in creation, so that only windows are left. Their openers may be gone."""
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
        except Error:  # a window's first request comes before its page
            run = None
        try:
            if run is None:
                await route.abort()
            else:
                await run.route(route)
        except Error:
            pass  # the page is gone; raised here, it would fail another page's next call


async def _headers(answer: PageResponse) -> Headers:
    """Returns the headers with every cookie, and with UTF-8 as the encoding of the page's text."""
    headers = Headers()
    for each in await answer.headers_array():
        if each["name"].lower() not in HOP:
            headers.appendlist(each["name"], each["value"])
    kind = (headers.get("Content-Type") or b"").decode("latin-1").partition(";")[0].strip()
    if "html" in kind:
        headers["Content-Type"] = f"{kind}; charset=utf-8"
    return headers


def _redirects(answer: PageResponse) -> dict[str, Any]:
    """Returns the redirects in the form of Scrapy's RedirectMiddleware."""
    urls: list[str] = []
    request = answer.request.redirected_from
    while request is not None:
        urls.insert(0, request.url)
        request = request.redirected_from
    return {"redirect_urls": urls, "redirect_times": len(urls), LED: True} if urls else {}
