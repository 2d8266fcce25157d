"""Ctrl-C and SIGTERM: one sentence instead of a traceback, and a different exit code for each signal.

Scrapy receives signals only after its loop has started. See commands/crawl_process.py for the time after.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import NoReturn

from harvester.exceptions import INTERRUPTED, TERMINATED

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_received: list[int] = []
SAID = "Stopped before the crawl began: nothing was asked for."


def note(number: int) -> None:
    """Records a stop signal that this process received."""
    _received.append(number)


def code_of(code: int) -> int:
    """Returns the exit code for a process that ended with `code`: an interruption by SIGTERM has its own code."""
    return TERMINATED if code == INTERRUPTED and _received[:1] == [signal.SIGTERM] else code


def end_on_signals(said: str = SAID) -> None:
    """Lets signals end the process from now on, until other handlers are installed. Ignored signals stay ignored."""
    for number in _NUMBERS:
        with contextlib.suppress(ValueError):  # not in the main thread
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler, _as_ctrl_c):
                signal.signal(number, partial(_end, said))


def end_on_sigterm_as_on_ctrl_c() -> None:
    """Treats SIGTERM like Ctrl-C until another handler is installed, so that resources are released in order."""
    with contextlib.suppress(ValueError):  # not in the main thread
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _as_ctrl_c)


@contextlib.contextmanager
def ending_on_signals(said: str) -> Iterator[None]:
    """Lets signals end the process within the `with` block."""
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    end_on_signals(said)
    try:
        yield
    finally:
        for number, handler in before.items():
            with contextlib.suppress(ValueError):
                signal.signal(number, handler)


def leave(said: str = SAID) -> NoReturn:
    """Ends the process at once. Private servers notice this as they notice a kill."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # closed, or in the middle of a write
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        os.write(2, f"{said}\n".encode())
    os._exit(code_of(INTERRUPTED))


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Handles SIGTERM like Ctrl-C, even in a process that Ctrl-C does not reach."""
    note(number)
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


def _end(said: str, number: int, frame: FrameType | None) -> None:
    """Ends the process without an exception, because some code would swallow an exception from a signal handler."""
    note(number)
    leave(said)
