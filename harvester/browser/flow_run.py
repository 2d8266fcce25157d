"""Runs the steps of a recorded flow as Chrome's Recorder replays them, and collects what its settings file names.

A flow has its own browser context, so that each row starts as the recording did. The context includes the windows that
the flow opens.
"""

import asyncio
import operator
import re
import time
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct
from playwright.async_api import Download, Error, Frame, Locator, Page, Route
from playwright.async_api import Request as PageRequest
from playwright.async_api import Response as PageResponse
from playwright.async_api import TimeoutError as PlaywrightTimeout
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from harvester.browser.page_run import PageRun
from harvester.browser.selectors import locator_of
from harvester.browser.steps import is_gone, secret_of
from harvester.config import Config
from harvester.download.addresses import Refused, host_of, refuse_private
from harvester.exceptions import NavigationError
from harvester.internal_meta import FLOW, FLOWN, SLOT
from harvester.outcomes import Outcome
from harvester.politeness.robots import robots_of
from harvester.shutdown import RunEnding
from harvester.sites.browser import RenderOptions
from harvester.sites.recording import (
    MAIN,
    Chain,
    Change,
    Click,
    Close,
    CustomStep,
    EmulateNetworkConditions,
    Fields,
    Flow,
    Hover,
    Key,
    Navigate,
    Recording,
    Scroll,
    SetViewport,
    WaitForElement,
    WaitForExpression,
    words_of,
)

POLL_S = 0.1
"""Seconds between two checks whether an element is there."""
LOOK_S = 0.25
"""Seconds between two checks whether the time of a step is over."""
KEY_S = 0.1
"""Seconds after each key, as in the Recorder."""
EVIDENCE_S = 5.0
"""Seconds for the picture of a page after a failed step."""
MOST_FIELD, MOST_FOUND = 100_000, 10_000
"""Maximum characters of a field, and number of values of a field with `all`."""
MOST_TYPED = 100
"""Maximum characters of a value that is typed; a longer one is inserted at once."""
MOST_NAME = 100
"""Bytes at the end of a download's name that are saved: file systems take 255."""
NO_PAGE = "no page followed"
_COMPARED = {">=": operator.ge, "==": operator.eq, "<=": operator.le}
_BUTTONS: dict[str, Any] = {"primary": "left", "auxiliary": "middle", "secondary": "right"}
_HOLDS = """(elements, [attributes, properties]) => {
  const like = (a, b) => a === b || (!!a && !!b && a instanceof Object && b instanceof Object &&
    Object.entries(a).every(([name, value]) => like(value, b[name])))
  return [elements.length, elements.every(element =>
    Object.entries(attributes).every(([name, value]) => element.getAttribute(name) === value) &&
    Object.entries(properties).every(([name, value]) => like(value, element[name])))]
}"""
_TEXTS = """(elements, [attribute, most, long]) => elements.slice(0, most).map(element => {
  const text = attribute ? element.getAttribute(attribute)
    : /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName) ? element.value : element.innerText ?? element.textContent
  return (text ?? '').trim().slice(0, long).toWellFormed()
})"""
_KIND = "e => e.localName === 'input' ? e.type : e.isContentEditable ? 'text' : e.localName"
_TYPED = frozenset({"text", "textarea", "email", "password", "search", "tel", "url", "number"})
_HAS_TEXT = "e => !!(e.isContentEditable ? e.innerText : e.value)"
_SET = """(element, value) => {
  element.focus(); element.value = value
  for (const kind of ['input', 'change']) element.dispatchEvent(new Event(kind, {bubbles: true}))
}"""
_SCROLL = "(element, [x, y]) => { element.scrollLeft = x; element.scrollTop = y }"


class File(Struct, frozen=True):
    """A file that a flow produces."""

    name: str
    content: bytes


class Flown(Struct):
    """The result of a flow."""

    fields: dict[str, Any] = {}
    files: list[File] = []
    steps: list[tuple[str, float]] = []
    """The steps in words, with their seconds."""
    at: int = 0
    """Number of the step that it reached; 0 if all were done."""
    failed: str = ""
    """The reason of a failed step. The files then include a picture of the page."""
    outcome: Outcome = Outcome.OK
    """The outcome of a failed step."""
    no_results: bool = False
    """True if the page shows the sign for "nothing found"."""

    def said(self, recording: Recording) -> str:
        """Returns the failure in the words of the recording, so that equal failures of rows have equal texts."""
        where = f"step {self.at} ({words_of(recording.steps[self.at - 1])})" if self.at else "after the last step"
        return f"{where}: {self.failed}"


class _NotThere(Exception):
    """A field is missing on the page."""


class _NoResults(Exception):
    """The page shows that it has nothing for this row."""


def downloads_of(request: Request) -> int:
    """Returns the number of files that the flow of a request downloads, 0 without a flow."""
    return int(request.meta.get(FLOW, {}).get("collected", {}).get("downloads", 0))


class FlowRun(PageRun):
    """Runs the flow for one row. Each page that a step opens waits for a slot at the site, and obeys robots.txt."""

    def __init__(
        self,
        request: Request,
        rendering: RenderOptions,
        config: Config,
        most_bytes: int,
        stats: StatsCollector,
        crawler: Crawler,
    ) -> None:
        super().__init__(request, rendering, config, most_bytes, stats)
        self._request = request
        self._flow = Flow.model_validate(request.meta[FLOW])
        self._slow_s = request.meta[FLOW].get("slow_ms", 0) / 1000
        self._robots = robots_of(crawler)
        self._flown = Flown()
        self._html: bytes | None = None
        self._pages: list[Page] = []
        self._answers_of: dict[Page, PageResponse] = {}
        """Page -> the response that it shows."""
        self._coming: dict[Page, PageResponse] = {}
        self._first_answers: dict[str, PageResponse] = {}
        """Responses for windows that did not exist yet, by address."""
        self._is_asking = False
        """True if a page was requested and has no response yet."""
        self._downloads: list[Download] = []
        self._refused = ""
        """The reason why a page that a step leads to was not requested."""
        self._unanswered = ""
        """The browser's error for a page that did not arrive."""
        self._lacks = ""
        """The thing that the step waits for."""
        self._left_s = 0.0
        """Seconds left for the current step."""
        self._turn = asyncio.Lock()
        """Held while a page waits for its slot; the time of the step does not run then."""
        self._waiting: asyncio.Future[None] | None = None
        self._is_over = False

    # Pages ------------------------------------------------------------------------------------------------

    def adopt(self, page: Page) -> None:
        """Adds a page of the context: the first one, or a window."""
        if not self._pages:
            page.context.on("request", self._on_request)  # requests of windows begin before their page
            page.context.on("response", self._on_response)
            page.context.on("requestfinished", self._on_answered)
            page.context.on("requestfailed", self._on_failed)
        self._pages.append(page)
        page.on("framenavigated", self._on_navigated)
        page.on("download", self._on_download)
        page.on("crash", self._on_crash)

    def _listen(self, page: Page) -> None:
        if page not in self._pages:
            self.adopt(page)

    async def route(self, route: Route) -> None:
        """Sends or blocks a request of a page. A page that a step leads to waits for its slot."""
        request = route.request
        with suppress(Error):  # the page is gone
            if request.is_navigation_request() and _is_page(request) and request.url.startswith("http"):
                if self._sent and not await self._may_go(request.url):
                    await route.abort()
                    return
                self._sent = True
            elif self._blocks(request):
                await route.abort()
                return
            await route.continue_()

    async def _may_go(self, url: str) -> bool:
        """Returns True if a page may be requested, after its slot has come."""
        if not self._flow.is_own(url):
            self._refused = f"a step leads to {host_of(url)}, which is no host of {self._site}"
        elif private := refuse_private(url, self._config):
            self._refused = f"a step leads to {private}"
        elif self._robots.obeyed(url):
            origin = self._robots.origin(url)
            try:
                is_known = await self._robots.robots(url)
            except RunEnding:
                return False
            unread = f"robots.txt of {host_of(url)} cannot be read"
            self._refused = self._robots.forbids(url, origin) if is_known else unread
        return not self._refused and await self._has_turn()

    async def _has_turn(self) -> bool:
        """Waits for another slot of the site. It goes before requests without a slot, because they may wait for this
        one's place.

        Returns False if the flow has ended.
        """
        async with self._turn:
            if not self._is_over and (slot := self._request.meta.pop(SLOT, None)) is not None:
                limiter, name = slot
                self._waiting = asyncio.ensure_future(limiter.acquire(name, again=True))
                try:
                    await self._waiting
                except (asyncio.CancelledError, RunEnding):
                    return False
                if self._is_over:
                    limiter.release(name)
                else:
                    self._request.meta[SLOT] = slot
            return not self._is_over

    def _on_request(self, request: PageRequest) -> None:
        super()._on_request(request)
        if not request.is_navigation_request() or not _is_page(request):
            return
        self._is_asking = True
        if request.redirected_from is not None and not self._flow.is_own(request.url):
            said = f"a redirect leads to {host_of(request.url)}, which is no host of {self._site}"
            self._give_up(Refused(said))

    def _on_response(self, response: PageResponse) -> None:
        super()._on_response(response)
        if not response.request.is_navigation_request() or not _is_page(response.request):
            return
        self._is_asking, self._unanswered = False, ""
        try:
            self._coming[response.frame.page] = response
        except Error:
            self._first_answers[response.url] = response

    def _on_navigated(self, frame: Frame) -> None:
        """Records the document's response. A download has a response too, but no document."""
        if frame.parent_frame is None and frame.page in self._coming:
            self._answers_of[frame.page] = self._coming.pop(frame.page)

    def _on_download(self, download: Download) -> None:
        self._downloads.append(download)

    def _on_failed(self, request: PageRequest) -> None:
        self._on_answered(request)
        if request.is_navigation_request() and _is_page(request):
            self._is_asking = False
            said = request.failure or ""
            if "ERR_ABORTED" not in said:
                self._unanswered = f"{said} at {request.url}"

    # Steps ------------------------------------------------------------------------------------------------

    async def go(self, page: Page) -> PageResponse:
        """Runs all steps up to a failure, and collects.

        Raises Playwright's errors without a page, and Refused when a step leads to a forbidden address.
        """
        try:
            await self._do_all()
        finally:
            self._is_over = True
            if self._waiting is not None:
                self._waiting.cancel()
        shown = self.shown or page
        answer = self._answers_of.get(shown) or self._first_answers.get(shown.url) or self._answers_of.get(page)
        if answer is None:
            raise NavigationError(self._flown.failed or "no answer was seen")
        return answer

    async def act(self, page: Page, answer: PageResponse) -> bytes:
        assert self._html is not None
        return self._html

    def leave(self, meta: dict[str, Any]) -> None:
        super().leave(meta)
        meta[FLOWN] = self._flown

    async def _do_all(self) -> None:
        recording, until = self._flow.recording, time.monotonic() + self._flow.collected.timeout_s
        flown = self._flown
        try:
            for number, step in enumerate(recording.steps, 1):
                flown.at, began = number, time.monotonic()
                await self._within(min(recording.seconds(step), until - began), self._do(step))
                flown.steps.append((words_of(step), time.monotonic() - began))
                await asyncio.sleep(self._slow_s)
            flown.at = 0
            await self._within(until - time.monotonic(), self._collect())
        except _NoResults:
            flown.no_results = True
            await self._keep_html()
        except (Error, TimeoutError, NavigationError, _NotThere) as error:
            self._look_for_refusals()
            if self.broken or self._is_lost(error):
                raise
            if self._unanswered:
                raise Error(self._unanswered) from None
            late = time.monotonic() >= until
            flown.outcome, flown.failed = (Outcome.TIMEOUT, self._late) if late else await self._judge(error)
            await self._keep_evidence()

    async def _within(self, seconds: float, work: Coroutine[Any, Any, None]) -> None:
        """Raises TimeoutError when the work takes longer, not counting the time that a page waits for its slot."""
        self._lacks, self._left_s = "", seconds
        task = asyncio.ensure_future(work)
        try:
            while self._left_s > 0 and not task.done():
                began = time.monotonic()
                await asyncio.wait([task], timeout=min(self._left_s, LOOK_S))
                if not self._turn.locked():
                    self._left_s -= time.monotonic() - began
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if task.cancelled():
            raise TimeoutError
        task.result()
        self._look_for_refusals()

    def _look_for_refusals(self) -> None:
        if self._refused:
            raise Refused(self._refused)

    def _is_lost(self, error: BaseException) -> bool:
        """Returns True if there is nothing to see: no page arrived, or the browser has ended."""
        assert self.page is not None
        has_closed_itself = self.shown is not self.page and not self.page.is_closed()
        return isinstance(error, Error) and (not self._answers_of or (is_gone(error) and not has_closed_itself))

    async def _do(self, step: Any) -> None:
        place = await self._target(step.target)
        frame = await self._frame(place.main_frame if isinstance(place, Page) else place, getattr(step, "frame", ()))
        self._lacks, self.shown = "", frame.page
        match step:
            case Navigate():
                await self._navigate(frame, step.url)
            case SetViewport() if isinstance(place, Page):
                await _set_viewport(place, step)
            case EmulateNetworkConditions():
                await self._emulate(step)
            case Click() | Hover() | Change():
                await self._act_on(frame, step)
            case Scroll() if step.selectors:
                found = await self._find(frame, step.selectors)
                await found.scroll_into_view_if_needed(timeout=0)
                await found.evaluate(_SCROLL, [step.x, step.y])
            case Scroll():
                await frame.evaluate("([x, y]) => window.scroll(x, y)", [step.x, step.y])
            case Key():
                await self._led_on(frame, step, self._press(step))
            case WaitForElement():
                await self._wait_for(frame, step)
            case WaitForExpression():
                await self._wait_for_expression(frame, step.expression)
            case CustomStep():
                self._flown.fields |= await self._read_fields(frame, step.fields)
            case Close() if isinstance(place, Page):
                await self._close(place)

    async def _frame(self, frame: Frame, way: Sequence[int]) -> Frame:
        for index in way:
            while len(frame.child_frames) <= index:
                await self._pause(f"there is no frame {index} in {frame.url}")
            frame = frame.child_frames[index]
        return frame

    async def _navigate(self, frame: Frame, url: str) -> None:
        try:
            await frame.goto(url, timeout=0)
        except Error as error:
            if "Download is starting" not in str(error) or not self._flow.collected.downloads:
                raise

    async def _target(self, target: str) -> Page | Frame:
        assert self.page is not None
        if target == MAIN:
            return self.page
        while True:
            for page in self._pages:
                if page.url == target and not page.is_closed():
                    return page
            for frame in self.page.frames:
                if frame.url == target:
                    return frame
            await self._pause(f"no page or frame is at {target}")

    async def _act_on(self, frame: Frame, step: Click | Hover | Change) -> None:
        found = await self._find(frame, step.selectors)
        milliseconds = max(self._left_s * 1000 - 200, 100)  # Playwright's timeout comes first: it names the obstacle
        if isinstance(step, Hover):
            await self._led_on(frame, step, found.hover(timeout=milliseconds))
        elif isinstance(step, Change):
            await self._led_on(frame, step, self._change(found, step, milliseconds))
        else:
            options: dict[str, Any] = {"delay": step.duration, "timeout": milliseconds, "no_wait_after": True}
            box = await found.bounding_box(timeout=milliseconds)
            if box and 0 <= step.offset_x < box["width"] and 0 <= step.offset_y < box["height"]:
                options["position"] = {"x": step.offset_x, "y": step.offset_y}  # else its size differs: its middle
            if step.button in _BUTTONS:
                options["button"] = _BUTTONS[step.button]
            click = found.dblclick if step.type == "doubleClick" else found.click
            await self._led_on(frame, step, click(**options))

    async def _change(self, found: Locator, step: Change, milliseconds: float) -> None:
        """Fills a single field in a single document, so that nothing is typed on a following page."""
        field, value = await found.element_handle(timeout=milliseconds), step.value
        if step.secrets:
            frame = await field.owner_frame()
            if refusal := self._refuses(frame.url) if frame else "the field is gone":
                raise Refused(f"nothing secret is typed: {refusal}")
            value = step.filled(lambda name: secret_of(self._config, name))
        kind = await field.evaluate(_KIND)
        if kind == "select":
            await field.select_option(value, timeout=milliseconds)
        elif kind not in _TYPED:
            await field.evaluate(_SET, value)
        elif len(value) > MOST_TYPED:
            await field.fill(value, timeout=milliseconds)
        else:
            if await field.evaluate(_HAS_TEXT):
                await field.fill("", timeout=milliseconds)
            await field.type(value, timeout=milliseconds)

    async def _press(self, step: Key) -> None:
        assert self.page is not None
        keyboard = self.page.keyboard  # for any target, as in the Recorder
        await (keyboard.down(step.key) if step.type == "keyDown" else keyboard.up(step.key))
        await asyncio.sleep(KEY_S)

    async def _led_on(self, frame: Frame, step: Any, action: Awaitable[None]) -> None:
        """Runs the action, and waits for the next page if the step must lead to one."""
        if step.asserted_events:
            async with frame.expect_navigation(timeout=0):
                await action
                self._lacks = NO_PAGE
            self._lacks = ""
        else:
            await action

    async def _find(self, frame: Frame, selectors: Sequence[Chain]) -> Locator:
        """Returns the first alternative that is visible."""
        locators = [locator_of(frame, chain).first for chain in selectors]
        while True:
            for locator in locators:
                if await locator.is_visible():
                    self._lacks = ""
                    return locator
            await self._pause("nothing like it is on the page")

    async def _wait_for(self, frame: Frame, step: WaitForElement) -> None:
        locators = [locator_of(frame, chain) for chain in step.selectors]
        while True:
            number, holds = 0, True
            with _leaving():
                for locator in locators:
                    number, holds = await locator.evaluate_all(_HOLDS, [step.attributes, step.properties])
                    if number:
                        break
                if (_COMPARED[step.operator](number, step.count) and holds) is step.visible:
                    return
            await self._pause(f"there are {number}" + ("" if holds else ", and not all are as they should be"))

    async def _wait_for_expression(self, frame: Frame, expression: str) -> None:
        if not self._flow.collected.trusted:
            raise Refused("the recording is not trusted, and runs JavaScript")
        while True:
            with _leaving():
                if await frame.evaluate(expression):
                    return
            await self._pause("it is not true")

    async def _pause(self, lacks: str) -> None:
        """Waits before the next check for something. Raises _NoResults and Refused."""
        self._lacks = lacks
        self._look_for_refusals()
        if self.shown is not None and not self.shown.is_closed():
            for chain in self._flow.collected.no_results:
                if await locator_of(self.shown.main_frame, chain).first.is_visible():
                    raise _NoResults
        await asyncio.sleep(POLL_S)

    async def _emulate(self, step: EmulateNetworkConditions) -> None:
        assert self.page is not None
        session = await self.page.context.new_cdp_session(self.page)
        conditions = {
            "offline": not step.download and not step.upload,
            "latency": step.latency,
            "downloadThroughput": step.download,
            "uploadThroughput": step.upload,
        }
        await session.send("Network.emulateNetworkConditions", conditions)

    async def _close(self, page: Page) -> None:
        """Closes a window. The last page stays open for the collection, and is closed with the flow."""
        left = [each for each in self._pages if each is not page and not each.is_closed()]
        if left:
            self.shown = self.page if self.page in left else left[-1]
            await page.close()

    # Results ----------------------------------------------------------------------------------------------

    async def _collect(self) -> None:
        page, collected, files = self._shown_page(), self._flow.collected, self._flown.files
        while self._is_capturing():
            await self._pause("answers to its scripts have not come")
        self._flown.fields |= await self._read_fields(page.main_frame, collected.fields)
        for number in range(collected.downloads):
            while len(self._downloads) <= number:
                await self._pause(f"{collected.downloads} files are to be downloaded, and {number} were begun")
            self._lacks = ""
            files.append(await self._downloaded(number))
        if collected.screenshot:
            files.append(File("page.png", await page.screenshot(full_page=True, timeout=0)))
        if collected.pdf:
            files.append(File("page.pdf", await page.pdf()))
        self._html = await self._document(page)
        if collected.html:
            files.append(File("page.html", self._html))

    def _is_capturing(self) -> bool:
        asked = (wanted(each.url) for each in self._under_way for wanted in self._wanted)
        return bool(self._reading) or any(asked)

    async def _read_fields(self, frame: Frame, fields: Fields) -> dict[str, Any]:
        """Reads the fields. Raises _NotThere that names the missing one."""
        found: dict[str, Any] = {}
        for name, wanted in fields.items():
            place, most, texts = await self._frame(frame, wanted.frame), MOST_FOUND if wanted.all else 1, list[str]()
            for chain in wanted.selector:
                texts = await locator_of(place, chain).evaluate_all(_TEXTS, [wanted.attribute, most, MOST_FIELD])
                if texts:
                    break
            if not texts and not wanted.optional:
                raise _NotThere(f"the field {name}: nothing like {' >> '.join(wanted.selector[0])!r} is on the page")
            if texts or wanted.all:
                found[name] = texts if wanted.all else texts[0]
        return found

    async def _downloaded(self, number: int) -> File:
        """Returns a complete download. Raises NavigationError."""
        download = self._downloads[number]
        named = download.suggested_filename
        if failure := await download.failure():
            raise NavigationError(f"the download {named} broke off: {failure}")
        path = await download.path()
        size = (await asyncio.to_thread(path.stat)).st_size
        if size > self._most_bytes:
            raise NavigationError(f"the download {named} has {size:,} bytes; at most {self._most_bytes:,} are kept")
        content = await asyncio.to_thread(path.read_bytes)
        if content.startswith(b"%PDF-") and b"%%EOF" not in content[-2048:]:
            raise NavigationError(f"the download {named} is a PDF without its end")
        name = re.sub(r"[^\w.-]+", "_", named).strip("._").encode()[-MOST_NAME:].decode("utf-8", "ignore").lstrip(".")
        return File(f"download-{number + 1}-{name or 'file'}", content)

    async def _keep_evidence(self) -> None:
        """Saves picture and document of the page after a failed step. Raises NavigationError when the page hangs."""
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(EVIDENCE_S):
                picture = await self._shown_page().screenshot(timeout=0)
                self._flown.files.append(File("failed.png", picture))
        try:
            async with asyncio.timeout(EVIDENCE_S):
                await self._keep_html()
        except TimeoutError:
            said = self._flown.said(self._flow.recording)
            raise NavigationError(f"{said}; and the page does not answer any more") from None
        assert self._html is not None
        self._flown.files.append(File("failed.html", self._html))

    async def _keep_html(self) -> None:
        self._html = await self._document(self._shown_page())

    def _shown_page(self) -> Page:
        page = self.page if self.shown is None or self.shown.is_closed() else self.shown
        if page is None or page.is_closed():
            raise NavigationError("the page has closed itself")
        return page

    @property
    def _late(self) -> str:
        return f"all steps together took longer than {self._flow.collected.timeout_s:g} s"

    async def _judge(self, error: BaseException) -> tuple[Outcome, str]:
        """Returns the outcome of a failed step, and the reason."""
        if isinstance(error, _NotThere):
            return Outcome.LAYOUT_CHANGED, str(error)
        if isinstance(error, (TimeoutError, PlaywrightTimeout)) and await self._is_loading():
            return Outcome.TIMEOUT, ", and ".join(filter(None, [self._lacks, "the page was still loading"]))
        if isinstance(error, TimeoutError) and self._lacks:
            return Outcome.NAVIGATION_FAILED if self._lacks == NO_PAGE else Outcome.LAYOUT_CHANGED, self._lacks
        return Outcome.NAVIGATION_FAILED, _said(error)

    async def _is_loading(self) -> bool:
        if self._is_asking or self._is_busy():
            return True
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(1.0):
                return bool(await self._shown_page().evaluate("document.readyState") == "loading")
        return True


async def _set_viewport(page: Page, step: SetViewport) -> None:
    width, height = int(step.width), int(step.height)
    await page.set_viewport_size({"width": width, "height": height})
    if not (step.is_mobile or step.has_touch or step.device_scale_factor != 1):
        return
    session = await page.context.new_cdp_session(page)
    size = {"width": width, "height": height, "deviceScaleFactor": step.device_scale_factor, "mobile": step.is_mobile}
    await session.send("Emulation.setDeviceMetricsOverride", size)
    await session.send("Emulation.setTouchEmulationEnabled", {"enabled": step.has_touch})


@contextmanager
def _leaving() -> Iterator[None]:
    """Ignores the error of a page that navigates in between."""
    try:
        yield
    except Error as error:
        if "context was destroyed" not in str(error):
            raise


def _is_page(request: PageRequest) -> bool:
    """Returns True for the request of a page, not of a frame. A window's first request comes before the window."""
    try:
        return request.frame.parent_frame is None
    except Error:
        return True


def _said(error: BaseException) -> str:
    """Returns the error in a few words: the last obstacle in Playwright's log, if it names one."""
    if isinstance(error, NavigationError):
        return str(error)
    lines = [line.strip(" -") for line in str(error).splitlines()]
    in_the_way = [
        line for line in lines if re.search(r"intercepts pointer|is not (stable|enabled|visible)|outside of", line)
    ]
    said = in_the_way[-1] if in_the_way else "" if isinstance(error, (TimeoutError, PlaywrightTimeout)) else lines[0]
    return said.removeprefix("Error: ")[:200] or "it was not done in time"
