"""The early end of a run: decided in one place, noticed by all waiting code."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, IgnoreRequest

from harvester.components import get_component
from harvester.exceptions import UNMET

EXIT_CODE = "harvester/exit_code"
"""Stat: the exit code that the run chose itself."""
SIGNAL = "harvester/signal"
"""Stat: the number of the signal that requested the end."""
CHECK_S = 0.25
"""Seconds until waiting code notices the end."""
ENDED_BY = "harvester/ended_by"
"""Stat: the reason passed to `end`, even if the run was already closing for another."""
CAUSE = "harvester/cause"
"""Stat: why the run ended early, in a sentence or two for the person at the terminal."""
AGAIN_S = 5.0
"""Seconds until a task that continues is cancelled once more."""
STOPPED_AT_ONCE = "stopped_at_once"
"""Finish reason of a run that was not closed properly: a second signal ended it."""


class _Ending:
    """Holds the task that closes a crawl before its spider is done."""

    task: asyncio.Task[None] | None = None


class RunEnding(IgnoreRequest):
    """A request, or an item, given up because the run is ending. Its work stays queued."""


def end(crawler: Crawler, reason: str, exit_code: int, said: str = "") -> None:
    """Ends the run. The first call sets the reason and the exit code; `said` is repeated as its last message."""
    ending = get_component(crawler, _Ending)
    if ending.task or crawler.engine is None:
        return
    crawler.stats.set_value(EXIT_CODE, exit_code)
    crawler.stats.set_value(ENDED_BY, reason)
    if said:
        crawler.stats.set_value(CAUSE, said)
    crawler.signals.connect(_leave_to_ending, signals.spider_idle)
    # Not awaited: the engine waits for the code that runs here.
    ending.task = asyncio.ensure_future(close(crawler, reason))


def closed_as_asked(stats: Mapping[str, Any]) -> bool:
    """Returns True if a limit (CLOSESPIDER_*), or the spider itself, ended the run: no failure, as in Scrapy."""
    reason = stats.get("finish_reason")
    is_other = reason in (None, "", "finished", "shutdown", STOPPED_AT_ONCE)
    return not is_other and stats.get(EXIT_CODE, UNMET) == UNMET  # other ends by harvester have their own


def fault_of(error: BaseException | None) -> str:
    """Describes an unexpected exception; its traceback is in the log."""
    return f"{type(error).__name__}: {str(error).rstrip('.')}. The log has its traceback."


async def close(crawler: Crawler, reason: str) -> None:
    """Closes the spider, unless it is already closed, for instance by a signal."""
    if crawler.engine is not None and crawler.engine.spider is not None:
        await crawler.engine.close_spider_async(reason=reason)


def _leave_to_ending() -> None:
    """Prevents that the idle engine closes the spider as finished before the task of `end` has begun."""
    raise DontCloseSpider


def is_ending(crawler: Crawler) -> bool:
    """Returns True if the run is being ended, by a signal or for its own reason."""
    engine = crawler.engine
    # `running` stays True while a spider closes for its own reason; only the slot knows that.
    if get_component(crawler, _Ending).task or engine is None:
        return True
    return not engine.running or (engine._slot is not None and engine._slot.closing is not None)


async def stop(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancels tasks, and waits until they have ended.

    Until Python 3.12 asyncio.wait_for, which pymongo uses, may lose a cancellation: the task would run for ever.
    """
    going_on = {task for task in tasks if task}
    while going_on:
        for task in going_on:
            task.cancel()
        ended, going_on = await asyncio.wait(going_on, timeout=AGAIN_S)
        await asyncio.gather(*ended, return_exceptions=True)


async def pause(crawler: Crawler, seconds: float) -> None:
    """Waits, also for 0 seconds. Raises RunEnding when the run is ending, or ends meanwhile."""
    until = time.monotonic() + seconds
    while True:
        if is_ending(crawler):
            raise RunEnding("the crawl is being stopped")
        left = until - time.monotonic()
        if left <= 0:
            return
        await asyncio.sleep(min(left, CHECK_S))
