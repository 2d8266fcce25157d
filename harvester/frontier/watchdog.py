"""Reports to the frontier which callback blocks this worker: the worker itself cannot, since its event loop stands
still.

Requests of a worker that is silent for the time of a lease go to others. Without this report all of them would count
as if the worker had died with them. The stack of the blocked thread shows which request it works on.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic
from types import FrameType
from typing import Any

from redis.exceptions import RedisError
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.frontier.in_flight import InFlight, WatchedErrback
from harvester.frontier.store import Frontier
from harvester.stores.redis import connect

logger = logging.getLogger(__name__)

LOOKS = 12
"""Number of checks of the event loop within the time of a lease."""
STALLED = 3
"""Number of checks in a row without a turn of the loop. One is not enough: a stopped process wakes up with a check."""
LONGEST_S = 5.0
"""Maximum number of seconds for a report to Redis."""


class Watchdog:
    """A thread that checks whether the event loop runs."""

    def __init__(
        self, config: Config, spider: str, worker: str, lease_of: Callable[[Request | None], InFlight | None]
    ) -> None:
        self._config = config
        self._spider = spider
        self._worker = worker
        self._lease_of = lease_of
        self._period_s = config.lease_seconds / LOOKS
        self._ended = threading.Event()
        self._beats = 0
        self._beat_at = monotonic()
        self._blocker = ""
        """The last callback that was seen to block since the last beat."""

    def start(self) -> None:
        """Starts the thread; to be called on the event loop's thread."""
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._beat()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def end(self) -> None:
        """Stops the thread, without waiting for it."""
        self._ended.set()
        self._timer.cancel()

    def _beat(self) -> None:
        silent_s, self._beat_at = monotonic() - self._beat_at, monotonic()
        if silent_s > self._config.lease_seconds:
            self._warn(silent_s)
        self._blocker = ""
        self._beats += 1
        self._timer = self._loop.call_later(self._period_s / 2, self._beat)

    def _warn(self, silent_s: float) -> None:
        lease_s = self._config.lease_seconds
        if self._blocker:
            logger.warning(
                "%s blocked this worker for %.0f s, longer than its lease of %g s: its requests go to others meanwhile."
                " Use `await asyncio.to_thread(...)` there, or raise HARVESTER_LEASE_SECONDS",
                self._blocker,
                silent_s,
                lease_s,
            )
        else:
            logger.warning(
                "This worker stood still for %.0f s, longer than its lease of %g s: its requests go to others."
                " It was stopped, or something blocked it that cannot be seen, like a regular expression",
                silent_s,
                lease_s,
            )

    # The thread -------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        beats, stalled = 0, 0
        while not self._ended.wait(self._period_s):
            if self._beats != beats:
                beats, stalled = self._beats, 0
                continue
            stalled += 1
            blocked = self._blocked() if stalled >= STALLED else None
            if blocked and self._beats == beats:
                request, what = blocked
                self._blocker = f"{what[0].upper()}{what[1:]}"
                with suppress(RedisError, HarvesterError, OSError):  # the report is repeated
                    asyncio.run(self._tell(request, what))

    async def _tell(self, request: str, what: str) -> None:
        redis = connect(self._config)
        try:
            async with asyncio.timeout(LONGEST_S):
                frontier = Frontier(redis, self._spider, self._config.database)
                await frontier.note_blocked(self._worker, request, what)
        finally:
            await redis.aclose()

    def _blocked(self) -> tuple[str, str] | None:
        """Returns the id of the lease in progress, and a description of the code that runs for it."""
        frames = list(_outwards(sys._current_frames().get(self._thread)))
        for frame in frames:
            for request in _requests(frame):
                if lease := self._lease_of(request):
                    return lease.id, _what_runs(request, frames)
        return None


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _requests(frame: FrameType) -> Iterator[Request]:
    """Yields the requests among the function's arguments, directly or behind a response or failure."""
    local = frame.f_locals
    for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]:
        value = local.get(name)
        request = getattr(value, "request", None) if isinstance(value, (Response, Failure)) else value
        if isinstance(request, Request):
            yield request


def _what_runs(request: Request, frames: list[FrameType]) -> str:
    errback = request.errback.errback if isinstance(request.errback, WatchedErrback) else request.errback
    for kind, function in (("callback", request.callback), ("errback", errback)):
        code = getattr(function, "__code__", None)
        for frame in frames:
            if frame.f_code is code or (kind == "callback" and function is None and frame.f_code.co_name == "parse"):
                return f"its {kind} {frame.f_code.co_name} ({_place(frame)})"
    return f"what handled it ({_place(frames[0])})"


def _place(frame: Any) -> str:
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
