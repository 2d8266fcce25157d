"""Runs the steps of a site's entry on a page."""

import asyncio
import random
from collections.abc import Callable
from math import inf
from urllib.parse import parse_qs, urlsplit

import msgspec
from playwright.async_api import Error, Page
from scrapy.http import Response

from harvester.config import Config, variable_value
from harvester.download.addresses import Refused
from harvester.exceptions import NavigationError
from harvester.masking import mask
from harvester.sites.browser import BrowserStep

SETTLE_S = 0.1
"""Seconds between two checks whether the page has grown."""
QUIET_S = 1.0
"""Seconds without growth, and without a pending response, that end a page."""
STALLED_S = 10.0
"""Seconds until a list has stalled, without a new and without a pending response."""
UNANSWERED_S = 60.0
"""Seconds that a response is waited for."""
_SCREEN_DOWN = "() => window.scrollBy(0, Math.max(200, window.innerHeight * 0.9))"
_TO_END = """() => new Promise(done => {
  setTimeout(done, 1000)
  window.scrollBy(0, -60)
  requestAnimationFrame(() => {
    window.scrollTo(0, document.documentElement.scrollHeight)
    requestAnimationFrame(() => requestAnimationFrame(done))
  })
})"""
"""Scrolls up a little first, because a page notices only a scroll that moves it. Ends when the page has noticed, or is
not painted."""
_HEIGHT = "() => document.documentElement.scrollHeight"


class Steps:
    """Runs steps on one page. `is_busy` returns True while the page waits for responses, `is_enough` if no more are
    wanted.

    `captured` returns the captured responses with an address like a glob. `refuses` returns the reason why no secret
    may be typed on the page at an address, or an empty text. All values of a login are secret.
    """

    def __init__(
        self,
        config: Config,
        human: bool,
        is_busy: Callable[[], bool],
        is_enough: Callable[[], bool],
        captured: Callable[[str], list[Response]],
        is_login: bool,
        refuses: Callable[[str], str],
    ) -> None:
        self._config = config
        self._human = human
        self._is_busy = is_busy
        self._is_enough = is_enough
        self._captured = captured
        self._is_login = is_login
        self._refuses = refuses

    async def run(self, page: Page, steps: tuple[BrowserStep, ...]) -> None:
        """Runs all steps in their order.

        Raises NavigationError that names the failed step, and Refused before a secret would go to a wrong page.
        """
        for number, step in enumerate(steps, 1):
            try:
                async with asyncio.timeout(step.timeout_s + (step.pause_s or 0.0)):
                    await self._run(page, step)
            except (Error, TimeoutError, NavigationError) as error:
                if is_gone(error):
                    raise  # the page failed, not the step
                if step.optional and not page.is_closed():
                    continue
                raise NavigationError(f"step {number} ({step}): {_said(error, step)}") from error

    async def _run(self, page: Page, step: BrowserStep) -> None:
        patience_ms = step.timeout_s * 1000
        if step.open is not None:
            await page.goto(step.open, timeout=patience_ms)
        elif step.wait_for is not None:
            await page.wait_for_selector(step.wait_for, timeout=patience_ms)
        elif step.click is not None:
            await self._hesitate()
            await page.click(step.click, timeout=patience_ms)
        elif step.fill is not None:
            await self._fill(page, step, patience_ms)
        elif step.until is not None:
            await self._scroll_until(page, step)
        elif step.captured is not None:
            await self._scroll_until_captured(page, step.captured)
        elif step.scroll == "end":
            await self._scroll_to_end(page, step)
        elif step.scroll is not None:
            for _ in range(step.scroll):
                await self._hesitate()
                await page.evaluate(_SCREEN_DOWN)
                await asyncio.sleep(SETTLE_S)
        else:
            await asyncio.sleep(step.pause_s or 0.0)

    async def _fill(self, page: Page, step: BrowserStep, patience_ms: float) -> None:
        assert step.fill is not None
        value = secret_of(self._config, step.secret) if step.secret else step.value
        if step.secret or self._is_login:
            await self._fill_secret(page, step.fill, value, patience_ms)
            return
        if not self._human:
            await page.fill(step.fill, value, timeout=patience_ms)
            return
        await page.click(step.fill, timeout=patience_ms)
        for character in value:
            await page.keyboard.type(character)
            await asyncio.sleep(random.uniform(0.05, 0.2))

    async def _fill_secret(self, page: Page, selector: str, value: str, patience_ms: float) -> None:
        """Fills a single field in a single document, so that nothing is typed on a following page."""
        field = await page.wait_for_selector(selector, timeout=patience_ms)
        frame = await field.owner_frame() if field else None
        if field is None or frame is None:
            raise NavigationError("the field is gone")
        if refusal := self._refuses(frame.url):
            raise Refused(f"nothing secret is typed: {refusal}")
        if not self._human:
            await field.fill(value, timeout=patience_ms)
            return
        await field.click(timeout=patience_ms)
        for character in value:
            await field.type(character)
            await asyncio.sleep(random.uniform(0.05, 0.2))

    async def _scroll_until(self, page: Page, step: BrowserStep) -> None:
        assert step.until is not None
        for _ in range(step.most):
            if await page.query_selector(step.until):
                return
            await self._hesitate()
            await page.evaluate(_SCREEN_DOWN)
            await asyncio.sleep(SETTLE_S)
        raise NavigationError(f"it did not appear in {step.most} screens")

    async def _scroll_until_captured(self, page: Page, glob: str) -> None:
        loop = asyncio.get_running_loop()
        seen, answered_at, busy_at = -1, 0.0, 0.0
        read: set[Response] = set()
        told: dict[tuple[str, str], tuple[float, bool]] = {}
        """By path and cursor: the largest limit, and True if that response ends the list."""
        while True:
            everything = self._captured("*")
            for answer in self._captured(glob):
                if answer.status < 400 and answer not in read:
                    read.add(answer)
                    path, cursor, limit = _asked(answer)
                    if limit >= told.get((path, cursor), (0, False))[0]:  # a smaller limit only checks for new entries
                        told[path, cursor] = limit, _ends_list(answer)
            if any(is_last for _, is_last in told.values()):
                return
            now = loop.time()
            if len(everything) != seen:
                seen, answered_at, busy_at = len(everything), now, now
            elif self._is_busy() and now - answered_at < UNANSWERED_S:
                busy_at = now
            failed = bool(everything) and everything[-1].status >= 400
            if failed and now - busy_at >= QUIET_S:
                return  # the page has not asked again
            if now - busy_at >= STALLED_S:
                raise NavigationError(f"no answer came in {STALLED_S:g} s")
            if self._is_enough() and not self._is_busy():
                raise NavigationError("as much as may be was captured before the end of the list")
            await self._hesitate()
            await page.evaluate(_TO_END)
            await asyncio.sleep(SETTLE_S)

    async def _scroll_to_end(self, page: Page, step: BrowserStep) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(step.most):
            height = await page.evaluate(_HEIGHT)
            await self._hesitate()
            await page.evaluate(_TO_END)
            until = loop.time() + QUIET_S
            while await page.evaluate(_HEIGHT) == height:
                if self._is_busy():
                    until = loop.time() + QUIET_S
                elif loop.time() >= until:
                    return
                await asyncio.sleep(SETTLE_S)
            if self._is_enough():
                return

    async def _hesitate(self) -> None:
        if self._human:
            await asyncio.sleep(random.uniform(0.4, 1.5))


def _asked(answer: Response) -> tuple[str, str, float]:
    """Returns the path, the cursor and the limit of the request."""
    parts = urlsplit(answer.url)
    told = parse_qs(parts.query)
    limit = told.get("limit", [""])[0]
    return parts.path, told.get("cursor", [""])[0], float(limit) if limit.isdecimal() else inf


def _ends_list(answer: Response) -> bool:
    """Returns True for the last page of a list, and for a response that is not a list."""
    try:
        told = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return not (isinstance(told, dict) and told.get("cursor"))


def is_gone(error: BaseException) -> bool:
    """Returns True if Playwright reports a lost page: it crashed, was closed, or its browser ended."""
    said = str(error)
    return isinstance(error, Error) and ("crashed" in said or "closed" in said)


def secret_of(config: Config, name: str) -> str:
    """Returns the value of a secret setting. Raises NavigationError without one."""
    value = getattr(config, name, None)
    if value is None or not hasattr(value, "get_secret_value"):
        value = variable_value(f"HARVESTER_{name.upper()}")
        if not value:
            raise NavigationError(f"its secret is not set: HARVESTER_{name.upper()}, in the environment or in .env")
        mask.add(value)
        return value
    secret: str = value.get_secret_value()
    return secret


def _said(error: BaseException, step: BrowserStep) -> str:
    """Returns the error in a few words, without any typed text."""
    if isinstance(error, NavigationError):
        return str(error)
    if isinstance(error, TimeoutError) or "Timeout" in str(error):
        return f"not within {step.timeout_s:g} s"
    return str(error).splitlines()[0].partition(": ")[2][:200] or type(error).__name__
