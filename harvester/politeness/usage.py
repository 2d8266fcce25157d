"""The files where an origin declares how its pages may be used: robots.txt, tdmrep.json and ai.txt."""

import asyncio
from time import monotonic
from typing import NamedTuple

from scrapy.crawler import Crawler

from harvester.download.addresses import origin_of
from harvester.parsers.web.robots import MOST_BYTES
from harvester.parsers.web.usage import SiteFiles
from harvester.politeness.robots import SHORTEST_KEPT_S, UNREADABLE, kept_for, robots_of, site_file
from harvester.proxies.budget import BudgetSpent
from harvester.shutdown import RunEnding

MOST_ORIGINS = 2_000
"""Maximum number of origins whose files are saved."""
UNPAID_S = 60.0
"""Seconds that missing files count as empty, if the proxy budget prevented the requests for them."""


class KnownFiles(NamedTuple):
    """The files of an origin."""

    files: SiteFiles
    until: float
    """Monotonic time when they must be read again."""
    unpaid: BudgetSpent | None = None
    """The spent proxy budget that prevented the requests for the files."""


class UsageFiles:
    """Reads the files once for each origin, and again when they expire."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._robots = robots_of(crawler)
        self._origins: dict[str, asyncio.Task[KnownFiles]] = {}

    async def known(self, url: str) -> KnownFiles:
        """Returns the files of an address's origin."""
        origin = origin_of(url)
        known = self._origins.get(origin)
        if known is None or (known.done() and (known.cancelled() or known.exception() or _is_old(known.result()))):
            if len(self._origins) >= MOST_ORIGINS:
                del self._origins[next(iter(self._origins))]
            known = self._origins[origin] = asyncio.create_task(self._read(origin))
        return await asyncio.shield(known)

    async def _read(self, origin: str) -> KnownFiles:
        tdmrep = ai_txt = unpaid = None
        try:
            tdmrep, kept_s = await self._fetch(origin, "/.well-known/tdmrep.json")
            ai_txt, ai_kept_s = await self._fetch(origin, "/ai.txt")
        except BudgetSpent as spent:
            unpaid, kept_s, ai_kept_s = spent, UNPAID_S, UNPAID_S
        files = SiteFiles(await self._robots.robots(origin), tdmrep, ai_txt, self._robots.token)
        robots_kept_s = max(self._robots.origin(origin).until - monotonic(), SHORTEST_KEPT_S)
        return KnownFiles(files, monotonic() + min(kept_s, ai_kept_s, robots_kept_s), unpaid)

    async def _fetch(self, origin: str, path: str) -> tuple[bytes | None, float]:
        """Returns the file, or None without one, and the seconds that this result counts."""
        assert self._crawler.engine
        try:
            response = await self._crawler.engine.download_async(site_file(origin, path))
        except (RunEnding, BudgetSpent):
            raise
        except Exception:  # noqa: BLE001  any error means that nothing is known
            return None, SHORTEST_KEPT_S
        if response.status != 200:
            says_nothing = response.status >= 500 or response.status in UNREADABLE
            return None, SHORTEST_KEPT_S if says_nothing else kept_for(response.headers)
        is_page = b"html" in (response.headers.get("Content-Type") or b"")
        return None if is_page else response.body[:MOST_BYTES], kept_for(response.headers)


def _is_old(known: KnownFiles) -> bool:
    return monotonic() >= known.until
