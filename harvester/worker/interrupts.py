"""Ctrl-C and SIGTERM: one sentence and an exit code that tells which of the two it was, and no traceback.

Scrapy hears of signals only once its loop runs, and stops only what is open by then.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from harvester.exceptions import INTERRUPTED, TERMINATED

if TYPE_CHECKING:
    from scrapy.crawler import AsyncCrawlerProcess, Crawler

LOOK_S = 0.05
_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_received: list[int] = []
SAID = "Stopped before the crawl began: nothing was asked for."


def note(number: int) -> None:
    """Remembers a signal that asked this process to end."""
    _received.append(number)


def code_of(code: int) -> int:
    """The exit code of what ended with `code`: an interruption by SIGTERM has its own."""
    return TERMINATED if code == INTERRUPTED and _received[:1] == [signal.SIGTERM] else code


def end_on_signals(said: str = SAID) -> None:
    """From now on a signal ends the process, until somebody else handles them. What is ignored stays so."""
    for number in _NUMBERS:
        with contextlib.suppress(ValueError):  # not in the main thread
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler, _as_ctrl_c):
                signal.signal(number, partial(_end, said))


def end_on_sigterm_as_on_ctrl_c() -> None:
    """From now on, until somebody else handles SIGTERM: what is under way is let go of in order."""
    with contextlib.suppress(ValueError):  # not in the main thread
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _as_ctrl_c)


@contextlib.contextmanager
def ending_on_signals(said: str) -> Iterator[None]:
    """The same, meanwhile."""
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    end_on_signals(said)
    try:
        yield
    finally:
        for number, handler in before.items():
            with contextlib.suppress(ValueError):
                signal.signal(number, handler)


def stop_when_open(process: "AsyncCrawlerProcess", crawler: "Crawler", opening: "asyncio.Task[Any]") -> None:
    """Has a crawl that is told to stop while it opens do so once it is open: it then ends all that it has begun.

    A second signal stops the loop without that.
    """
    stop, asked = process.stop, []
    _note_signals(process, crawler)

    async def stop_later() -> None:
        asked.append(True)
        while len(asked) == 1 and not opening.done() and not (crawler._engine and crawler._engine.running):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        await stop()

    process.stop = stop_later  # type: ignore[method-assign]


def _note_signals(process: "AsyncCrawlerProcess", crawler: "Crawler") -> None:
    """Has a crawl write down which signal asked it to end: Scrapy only logs it."""
    from harvester.shutdown import SIGNAL  # it loads Scrapy, for which help and completion need not wait

    shut_down = process._signal_shutdown

    def handle(signum: int, _: Any) -> None:
        note(signum)
        if stats := getattr(crawler, "stats", None):
            stats.set_value(SIGNAL, signum)
        shut_down(signum, _)

    process._signal_shutdown = handle  # type: ignore[method-assign]


def leave(said: str = SAID) -> NoReturn:
    """Ends the process now. Private servers notice it, as they notice a kill."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # closed, or being written to just now
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        os.write(2, f"{said}\n".encode())
    os._exit(code_of(INTERRUPTED))


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Also in a process that was begun so that Ctrl-C does not reach it."""
    note(number)
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


def _end(said: str, number: int, frame: FrameType | None) -> None:
    """Raises nothing: what is raised in the midst of anything is not noticed in some places."""
    note(number)
    leave(said)
