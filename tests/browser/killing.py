"""Finds and ends the Chromium of a crawl that runs as a process."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import psutil


def drivers(pid: int) -> list[psutil.Process]:
    """Playwright's drivers below a process."""
    with suppress(psutil.NoSuchProcess):
        return [child for child in psutil.Process(pid).children() if "driver" in " ".join(_command(child))]
    return []


def chromiums(pid: int) -> list[psutil.Process]:
    """The main processes of the browsers below a process."""
    found = []
    for driver in drivers(pid):
        with suppress(psutil.NoSuchProcess):
            found += [child for child in driver.children() if not _type(child) and child.is_running()]
    return found


def memory(pid: int) -> int:
    """Bytes of all drivers and browsers below a process."""
    used = 0
    for driver in drivers(pid):
        with suppress(psutil.NoSuchProcess):
            for process in [driver, *driver.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    used += process.memory_info().rss
    return used


async def until(condition: Callable[[], bool], longest_s: float = 240.0) -> None:
    """Waits for something to become true."""
    async with asyncio.timeout(longest_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _type(process: psutil.Process) -> bool:
    return any(part.startswith("--type=") for part in _command(process))
