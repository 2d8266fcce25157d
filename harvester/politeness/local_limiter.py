"""Limits in one process alone, for sites without a rate, such as one's own servers."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

from scrapy.crawler import Crawler

from harvester.politeness.limiter import LONG_S, HostPaused
from harvester.shutdown import CHECK_S, pause
from harvester.sites.politeness import Limits


class Limiter(Protocol):
    """Decides when a request to a site may leave."""

    async def acquire(self, name: str, *, patient: bool = True, again: bool = False) -> None:
        """Waits until a request may go to the site. Raises RunEnding; with patient=False HostPaused for a long wait.

        With `again` the request has a permit and asks for another slot. An exception returns that permit.
        """

    def release(self, name: str) -> None:
        """Returns the permit at the end of a request."""

    def is_paused(self, name: str) -> bool:
        """Returns True if the site is paused now."""

    def pause(self, name: str, seconds: float) -> None:
        """Pauses the site."""


class LocalLimiter:
    """Limits the concurrent requests of this process, at any rate and without Redis. For one's own servers."""

    def __init__(
        self, crawler: Crawler, limits_of: Callable[[str], Limits], on_pause: Callable[[str, float], None]
    ) -> None:
        self._crawler = crawler
        self._limits_of = limits_of
        self._on_pause = on_pause
        self._permits: dict[str, asyncio.Semaphore] = {}
        self._paused_until: defaultdict[str, float] = defaultdict(float)
        """Monotonic time, so that a change of the machine's clock stops no request."""

    async def acquire(self, name: str, *, patient: bool = True, again: bool = False) -> None:
        permits = self._permits.get(name)
        if permits is None:
            permits = self._permits[name] = asyncio.Semaphore(self._limits_of(name).concurrency)
        if not again:
            await permits.acquire()
        try:
            await pause(self._crawler, 0.0)
            while (wait := self._paused_until[name] - time.monotonic()) > 0:
                if wait > LONG_S and not patient:
                    raise HostPaused(wait)  # noqa: TRY301
                await pause(self._crawler, min(wait, CHECK_S))
        except BaseException:
            self.release(name)
            raise

    def release(self, name: str) -> None:
        self._permits[name].release()

    def is_paused(self, name: str) -> bool:
        return self._paused_until[name] > time.monotonic()

    def pause(self, name: str, seconds: float) -> None:
        until, known = time.monotonic() + seconds, self._paused_until[name]
        if until > known + 1:
            self._on_pause(name, seconds)
        self._paused_until[name] = max(until, known)
