"""Limits of one process alone, for servers of one's own."""

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
    """Which requests may go to a site, and when."""

    async def acquire(self, name: str, *, patient: bool = True, again: bool = False) -> None:
        """Waits until a request may go to the site. Raises RunEnding; with patient=False HostPaused for a long wait.

        `again`: of one that has a permit, and asks for more. When it raises, that is given back.
        """

    def release(self, name: str) -> None:
        """The request has come to its end."""

    def is_paused(self, name: str) -> bool:
        """Whether the site is paused now."""

    def pause(self, name: str, seconds: float) -> None:
        """The site wants to be left alone."""


class LocalLimiter:
    """Limits this process alone, for servers of one's own: so many requests at a time, at any rate, without Redis."""

    def __init__(
        self, crawler: Crawler, limits_of: Callable[[str], Limits], on_pause: Callable[[str, float], None]
    ) -> None:
        self._crawler = crawler
        self._limits_of = limits_of
        self._on_pause = on_pause
        self._permits: dict[str, asyncio.Semaphore] = {}
        self._paused_until: defaultdict[str, float] = defaultdict(float)
        """On the monotonic clock, so that setting the machine's clock stops nobody."""

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
