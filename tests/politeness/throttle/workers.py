"""Several workers, each a process of its own, that ask the same hosts through one Redis."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.crawling import Crawled, Plan, Site, end, start
from tests.forking import Forked

SETTINGS: dict[str, Any] = {
    "ROBOTSTXT_OBEY": False,
    "CONCURRENT_REQUESTS": 200,
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",  # what one asks for is not shared; how fast is
}


class Workers:
    """`async with Workers(...) as workers: await workers.add("a", urls)`; those left are killed at the end."""

    def __init__(self, folder: Path, **limits: str) -> None:
        self._folder = folder
        self._limits = limits
        self._processes: dict[str, Forked] = {}

    async def __aenter__(self) -> "Workers":
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def add(self, name: str, requests: Mapping[Site, int], settings: Mapping[str, Any] | None = None) -> None:
        """Starts a worker that asks each site for /name/0, /name/1, ... as often as is said."""
        counts = range(max(requests.values()))
        urls = [f"{site.url}/{name}/{number}" for number in counts for site in requests if number < requests[site]]
        self._processes[name] = await start(
            Plan(urls, settings={**SETTINGS, **(settings or {})}), self._folder, **self._limits
        )

    def send(self, name: str, number: signal.Signals) -> None:
        self._processes[name].send_signal(number)

    async def end(self, name: str) -> Crawled:
        """What came of it."""
        return await end(self._processes.pop(name))

    async def end_all(self) -> list[Crawled]:
        return [await self.end(name) for name in list(self._processes)]


def times(site: Site, name: str = "") -> list[float]:
    """When the requests of a worker came, or those of all."""
    return [arrival.at for arrival in site.arrivals if arrival.path.startswith(f"/{name}")]


def most_within(moments: Sequence[float], seconds: float) -> int:
    """The most that fell into any window of that length."""
    moments = sorted(moments)
    return max(sum(begin <= at < begin + seconds for at in moments) for begin in moments)
