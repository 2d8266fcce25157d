"""One page under way: what it may fetch, what is kept of what it fetched, and what is done on it."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import translate
from functools import lru_cache
from typing import Any

from playwright.async_api import CDPSession, Error, Page, Route
from playwright.async_api import Request as PageRequest
from playwright.async_api import Response as PageResponse
from scrapy import Request
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import Headers, Response, TextResponse
from scrapy.responsetypes import responsetypes
from scrapy.statscollectors import StatsCollector

from harvester.browser.request_filter import RequestFilter
from harvester.browser.steps import Steps
from harvester.config import Config
from harvester.download.addresses import Refused, refuse_private
from harvester.exceptions import NavigationError
from harvester.identities.logins import refuse_secrets
from harvester.meta import CAPTURED, SIGN_IN
from harvester.sites import load_sites
from harvester.sites.browser import RenderOptions

CRASHED = "the page crashed, or took more memory than a page may"
CLOSE_S = 5.0
"""What the closing of a page may take, which may be stuck."""
_DATA = frozenset({"xhr", "fetch"})
_MARKUP = ("text/html", "application/xhtml+xml")
_OWN_HEADERS = frozenset(
    {
        "user-agent",
        "accept",
        "accept-language",
        "accept-encoding",
        "cookie",
        "host",
        "connection",
        "proxy-authorization",
        "referer",
    }
)
"""Headers that the browser knows better, or the proxy alone may know."""
HOP = ("content-encoding", "content-length", "transfer-encoding")
"""Headers that are not true of a body as the browser gives it."""
_DOCUMENT = """most => {
  const text = document.documentElement.outerHTML
  if (text.length > most) return null
  return (document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '') + text
}"""


class PageRun:
    """Listens to one page. None of its listeners raises: Playwright would raise it out of another page's call."""

    def __init__(
        self, request: Request, rendering: RenderOptions, config: Config, most_bytes: int, stats: StatsCollector
    ) -> None:
        self._url = request.url
        self.at = request.url
        """The address that the page is at, or that it could not get to."""
        self._site = load_sites().of(request.url).name
        self._headers = _headers(request)
        self._method = request.method
        self._body = request.body
        self._sent = False
        self._is_login = SIGN_IN in request.meta
        self._rendering = rendering
        self._config = config
        self._most_bytes = most_bytes
        self._stats = stats
        self._filter = RequestFilter(rendering, request.url)
        self._wanted = [_pattern(glob) for glob in rendering.capture]
        self._answers: list[Response | None] = []
        self._captured_bytes = 0
        self._under_way: set[PageRequest] = set()
        self._reading: set[asyncio.Task[None]] = set()
        self.page: Page | None = None
        self.shown: Page | None = None
        """The page that the answer shows: of a flow it may be a window that its steps have opened."""
        self.broken: Exception | None = None
        """Why the page was given up, whatever it says itself."""

    @property
    def captured(self) -> list[Response]:
        """The answers that the site's entry asks for, in the order in which they came."""
        return [answer for answer in self._answers if answer is not None]

    async def open(self, page: Page) -> None:
        """Before anything is asked for."""
        self.page = self.shown = page
        if self._headers:
            await self._add_headers(page)
        self._listen(page)

    def _listen(self, page: Page) -> None:
        page.on("request", self._on_request)
        page.on("response", self._on_response)
        if self._wanted or self._rendering.steps:
            page.on("requestfinished", self._on_answered)
            page.on("requestfailed", self._on_answered)
        page.on("crash", self._on_crash)

    async def route(self, route: Route) -> None:
        """Sends a request of the page, or does not. Its own first one goes as the crawl's request says."""
        request = route.request
        if not self._sent and self.page and request.is_navigation_request() and request.frame == self.page.main_frame:
            self._sent = True
            if self._method == "GET":
                await route.continue_()
            else:
                await route.continue_(method=self._method, post_data=self._body)
        elif self._blocks(request):
            await route.abort()
        else:
            await route.continue_()

    def _blocks(self, request: PageRequest) -> bool:
        if request.url.startswith(("data:", "blob:", "about:")):
            return False
        if self._filter.refuses(request.url, request.resource_type):
            self._stats.inc_value("harvester/browser/blocked")
            return True
        if refuse_private(request.url, self._config):
            self._stats.inc_value("harvester/browser/private")
            return True
        return False

    async def _add_headers(self, page: Page) -> None:
        """Has the page's first request carry the headers of the crawl's, with what it is redirected to on its site.

        Playwright's own way, `continue_(headers=...)`, sends them along to wherever a redirect leads.
        """
        session = await page.context.new_cdp_session(page)
        first = ""

        def on_paused(event: dict[str, Any]) -> None:
            nonlocal first
            asked = event["request"]
            first = first or event.get("networkId", "")
            changes: dict[str, Any] = {}
            if event.get("networkId") == first and not self._is_strange(asked["url"]):
                added = {name.lower() for name in self._headers}
                own = {name: value for name, value in asked["headers"].items() if name.lower() not in added}
                named = own | self._headers
                changes["headers"] = [{"name": name, "value": value} for name, value in named.items()]
            task = asyncio.ensure_future(_go_on(session, event["requestId"], changes))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

        session.on("Fetch.requestPaused", on_paused)
        await session.send("Fetch.enable", {"patterns": [{"resourceType": "Document"}]})

    def _is_strange(self, url: str) -> bool:
        """Whether an address is of another site, or less protected than the first."""
        return load_sites().of(url).name != self._site or (self._url.startswith("https:") and url.startswith("http:"))

    async def go(self, page: Page) -> PageResponse:
        """Opens it. Raises Playwright's errors, and NavigationError."""
        answer = await page.goto(self._url)
        if answer is None:
            raise NavigationError("no answer was seen")
        return answer

    def leave(self, meta: dict[str, Any]) -> None:
        """Leaves in the request's meta what its callback gets beside the page."""
        meta[CAPTURED] = self.captured

    async def act(self, page: Page, answer: PageResponse) -> bytes:
        """Does the site's steps, waits for what is to be captured, and gives the page as it is then."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind and kind not in _MARKUP:
            return self._bounded(await answer.body())  # the browser shows it inside of markup of its own
        if answer.ok:  # else the status says all; what the steps wait for is not there
            human = self._rendering.human
            steps = Steps(
                self._config, human, self._is_busy, self._is_enough, self._captured_like, self._is_login, self._refuses
            )
            await steps.run(page, self._rendering.steps)
            await self._captures_are_read()
        return await self._document(page)

    async def _captures_are_read(self) -> None:
        while self._reading:
            await asyncio.wait(self._reading)

    async def _document(self, page: Page) -> bytes:
        """The page as it is now."""
        try:
            text = await page.evaluate(_DOCUMENT, self._most_bytes)
        except Error as error:
            if "context was destroyed" not in str(error):
                raise
            await page.wait_for_load_state()  # it went on by itself
            text = await page.evaluate(_DOCUMENT, self._most_bytes)
        return self._bounded(None if text is None else str(text).encode("utf-8", "replace"))

    def _bounded(self, body: bytes | None) -> bytes:
        """Raises DownloadCancelledError for one of too many bytes, and None: it was too large to be asked for."""
        if body is None or len(body) > self._most_bytes:
            raise DownloadCancelledError(f"The page is larger than ({self._most_bytes} B) in request {self._url}")
        return body

    def _on_request(self, request: PageRequest) -> None:
        # Redirects pass Playwright's routes by: they are seen here, when they are sent.
        if request.redirected_from is not None:
            refusal = refuse_private(request.url, self._config)
            if refusal:
                self._stats.inc_value("harvester/browser/private")
                self._give_up(Refused(f"a redirect leads to {refusal}"))
        if request.resource_type in _DATA:
            self._under_way.add(request)
        elif request.is_navigation_request() and self._is_of_page(request):
            self.at = request.url

    def _on_answered(self, request: PageRequest) -> None:
        self._under_way.discard(request)

    def _on_response(self, response: PageResponse) -> None:
        request = response.request
        if self.page is None:
            return
        if request.is_navigation_request() and request.resource_type == "document":
            self._on_document(response)
        elif request.resource_type in _DATA and any(wanted(response.url) for wanted in self._wanted):
            if self._is_enough():
                self._stats.inc_value("harvester/browser/not_captured")
                return
            self._answers.append(None)
            task = asyncio.ensure_future(self._read(response, len(self._answers) - 1))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    def _is_of_page(self, message: PageRequest | PageResponse) -> bool:
        """Whether it is of the page itself, and of no frame in it."""
        try:
            return self.page is not None and message.frame == self.page.main_frame
        except Error:
            return False

    def _on_document(self, response: PageResponse) -> None:
        if not self._is_of_page(response):
            return
        length = response.headers.get("content-length", "")
        if length.isdecimal() and len(length) < 20 and int(length) > self._most_bytes:
            text = f"The answer is larger than ({self._most_bytes} B) in request {self._url}"
            self._give_up(DownloadCancelledError(text))

    async def _read(self, response: PageResponse, place: int) -> None:
        try:
            body = await response.body()
        except Error:  # a redirect, a page that went on, or a body that Chromium has not kept
            self._stats.inc_value("harvester/browser/not_captured")
            return
        if self._captured_bytes + len(body) > self._rendering.most_captured_mb * 2**20:
            self._captured_bytes = int(self._rendering.most_captured_mb * 2**20)  # enough
            self._stats.inc_value("harvester/browser/not_captured")
            return
        self._captured_bytes += len(body)
        self._stats.inc_value("harvester/browser/captured")
        self._answers[place] = as_response(response, body)

    def _on_crash(self, _: Page) -> None:
        self.broken = self.broken or NavigationError(CRASHED)

    def _give_up(self, error: Exception) -> None:
        if self.broken is None and self.page is not None:
            self.broken = error
            task = asyncio.ensure_future(close(self.page))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    def _is_busy(self) -> bool:
        return bool(self._under_way or self._reading)

    def _is_enough(self) -> bool:
        most_bytes = self._rendering.most_captured_mb * 2**20
        return len(self._answers) >= self._rendering.most_captured or self._captured_bytes >= most_bytes

    def _refuses(self, url: str) -> str:
        """Why no secret may be typed on the page at an address; empty when it may."""
        return refuse_secrets(url, self._site, self._config)

    def _captured_like(self, glob: str) -> list[Response]:
        wanted = _pattern(glob)
        return [answer for answer in self.captured if wanted(answer.url)]


async def close(page: Page) -> None:
    """Closes a page, which may be gone or stuck already."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await page.close()
    except (Error, TimeoutError):
        pass


def as_response(response: PageResponse, body: bytes) -> Response:
    """An answer to a request of the page's own, as parsers know answers."""
    asked = response.request
    headers = headers_of(response.headers)
    kind = responsetypes.from_args(headers=headers, url=response.url, body=body)
    extra: dict[str, Any] = {"encoding": "utf-8"} if issubclass(kind, TextResponse) else {}
    request = Request(asked.url, method=asked.method, body=asked.post_data_buffer or b"", meta={"verbatim_url": True})
    return kind(asked.url, status=response.status, headers=headers, body=body, request=request, **extra)


async def _go_on(session: CDPSession, request_id: str, changes: dict[str, Any]) -> None:
    """Sends a request that was held, unless its page is gone."""
    with suppress(Error):
        await session.send("Fetch.continueRequest", {"requestId": request_id, **changes})


def _headers(request: Request) -> dict[str, str]:
    """What the crawl's request adds to the page's own."""
    named = {name.decode("latin-1"): b",".join(values) for name, values in request.headers.items()}
    return {name: value.decode("latin-1") for name, value in named.items() if name.lower() not in _OWN_HEADERS}


def headers_of(headers: Mapping[str, str]) -> Headers:
    """Those that are true of a body as the browser gives it."""
    return Headers({name: value for name, value in headers.items() if name not in HOP})


@lru_cache(maxsize=1000)
def _pattern(glob: str) -> Any:
    glob = glob.replace("[?]", "?")  # as it was written when a ? stood for any character
    literal = re.sub(r"[?[]", r"[\g<0>]", glob)  # in addresses these mean themselves
    return re.compile(translate(literal), re.IGNORECASE).match
