"""One page under way: its permitted requests, the responses that are captured, and its steps."""

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
from harvester.internal_meta import SIGN_IN
from harvester.meta import CAPTURED
from harvester.sites import load_sites
from harvester.sites.browser import RenderOptions

CRASHED = "the page crashed, or took more memory than a page may"
CLOSE_S = 5.0
"""Seconds for the closing of a page, which may be stuck."""
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
"""Headers that the browser sets itself, or that only the proxy may see."""
HOP = ("content-encoding", "content-length", "transfer-encoding")
"""Headers that are wrong for a body that the browser has decoded."""
_DOCUMENT = """most => {
  const text = document.documentElement.outerHTML
  if (text.length > most) return null
  return (document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '') + text
}"""


class PageRun:
    """Listens to one page. Its listeners never raise, because Playwright would raise the error out of another page's
    call."""

    def __init__(
        self, request: Request, rendering: RenderOptions, config: Config, most_bytes: int, stats: StatsCollector
    ) -> None:
        self._url = request.url
        self.at = request.url
        """The address of the page, or the one that it failed to reach."""
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
        """The page in the response. A flow may show a window that its steps have opened."""
        self.broken: Exception | None = None
        """The reason for giving up the page, whatever the page reports."""

    @property
    def captured(self) -> list[Response]:
        """The captured responses that the site's entry names, in their order."""
        return [answer for answer in self._answers if answer is not None]

    async def open(self, page: Page) -> None:
        """Prepares the page before its first request."""
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
        """Sends or blocks a request of the page. The page's own first request is sent like the crawl's request."""
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
        """Adds the headers of the crawl's request to the page's first request, and to its redirects within the site.

        Playwright's own `continue_(headers=...)` would send them to every target of a redirect.
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
        """Returns True if an address belongs to another site, or is less protected than the first."""
        return load_sites().of(url).name != self._site or (self._url.startswith("https:") and url.startswith("http:"))

    async def go(self, page: Page) -> PageResponse:
        """Opens the page. Raises Playwright's errors, and NavigationError."""
        answer = await page.goto(self._url)
        if answer is None:
            raise NavigationError("no answer was seen")
        return answer

    def leave(self, meta: dict[str, Any]) -> None:
        """Stores in the request's meta what its callback gets beside the page."""
        meta[CAPTURED] = self.captured

    async def act(self, page: Page, answer: PageResponse) -> bytes:
        """Runs the site's steps, waits for the captures, and returns the page afterwards."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind and kind not in _MARKUP:
            return self._bounded(await answer.body())  # the browser wraps it in its own markup
        if answer.ok:  # else the status is enough, and the steps would not find their elements
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
        """Returns the page in its current state."""
        try:
            text = await page.evaluate(_DOCUMENT, self._most_bytes)
        except Error as error:
            if "context was destroyed" not in str(error):
                raise
            await page.wait_for_load_state()  # the page navigated by itself
            text = await page.evaluate(_DOCUMENT, self._most_bytes)
        return self._bounded(None if text is None else str(text).encode("utf-8", "replace"))

    def _bounded(self, body: bytes | None) -> bytes:
        """Returns the body. Raises DownloadCancelledError if it is too large, or None because the page withheld it as
        too large."""
        if body is None or len(body) > self._most_bytes:
            raise DownloadCancelledError(f"The page is larger than ({self._most_bytes} B) in request {self._url}")
        return body

    def _on_request(self, request: PageRequest) -> None:
        # Playwright's routes do not see redirects; this listener sees them when they are sent.
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
        """Returns True if the message belongs to the page itself, not to a frame."""
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
        except Error:  # a redirect, a page that navigated, or a body that Chromium dropped
            self._stats.inc_value("harvester/browser/not_captured")
            return
        if self._captured_bytes + len(body) > self._rendering.most_captured_mb * 2**20:
            self._captured_bytes = int(self._rendering.most_captured_mb * 2**20)  # stops further captures
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
        """Returns the reason why no secret may be typed on the page at an address; empty if it may."""
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
    """Returns a captured response in the form that parsers expect."""
    asked = response.request
    headers = headers_of(response.headers)
    kind = responsetypes.from_args(headers=headers, url=response.url, body=body)
    extra: dict[str, Any] = {"encoding": "utf-8"} if issubclass(kind, TextResponse) else {}
    request = Request(asked.url, method=asked.method, body=asked.post_data_buffer or b"", meta={"verbatim_url": True})
    return kind(asked.url, status=response.status, headers=headers, body=body, request=request, **extra)


async def _go_on(session: CDPSession, request_id: str, changes: dict[str, Any]) -> None:
    """Sends a held request, unless its page is gone."""
    with suppress(Error):
        await session.send("Fetch.continueRequest", {"requestId": request_id, **changes})


def _headers(request: Request) -> dict[str, str]:
    """Returns the headers that the crawl's request adds to the page's own."""
    named = {name.decode("latin-1"): b",".join(values) for name, values in request.headers.items()}
    return {name: value.decode("latin-1") for name, value in named.items() if name.lower() not in _OWN_HEADERS}


def headers_of(headers: Mapping[str, str]) -> Headers:
    """Returns the headers that are right for a body that the browser has decoded."""
    return Headers({name: value for name, value in headers.items() if name not in HOP})


@lru_cache(maxsize=1000)
def _pattern(glob: str) -> Any:
    glob = glob.replace("[?]", "?")  # the old form of a question mark, when ? was a wildcard
    literal = re.sub(r"[?[]", r"[\g<0>]", glob)  # in addresses these are literal
    return re.compile(translate(literal), re.IGNORECASE).match
