"""Looks up the names of hosts: once for all who ask, remembered for a while, in front of the system's own resolver."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult
from scrapy.statscollectors import StatsCollector

KNOWN_S = 60.0
"""How long the addresses of a name are good for. The system does not tell the time that the name's owner set."""
ABSENT_S = 30.0
"""How long a name that does not exist is not looked up again."""
FAILED_S = 1.0
"""The same after a look-up that failed, which says nothing of the name."""
LONGEST_S = 20.0
"""A look-up that takes longer has failed."""
MOST_NAMES = 10_000
"""Names remembered; the oldest goes."""
AT_ONCE = 16
"""Look-ups at the same time: names whose servers are slow must not hold up the others."""
_ABSENT = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV

Address = tuple[socket.AddressFamily, str]
LookUp = Callable[[str, socket.AddressFamily], list[Address]]
"""Of a name and the kind of addresses wanted. Blocks. Raises OSError."""


def ask_system(host: str, family: socket.AddressFamily) -> list[Address]:
    """What the system says, which reads its hosts file and asks its name servers."""
    try:
        found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "this cannot be a name") from None
    return [(family, str(address[0])) for family, _, _, _, address in found]


class _Known(NamedTuple):
    """What a look-up came to."""

    addresses: list[Address]
    error: tuple[int | None, str] | None
    until: float
    """On the monotonic clock."""


class CachingResolver(AbstractResolver):
    """aiohttp's resolver of one download handler."""

    def __init__(self, stats: StatsCollector, look_up: LookUp = ask_system) -> None:
        self._stats = stats
        self._look_up = look_up
        self._known: dict[tuple[str, int], _Known] = {}
        self._under_way: dict[tuple[str, int], asyncio.Task[_Known]] = {}
        self._threads = ThreadPoolExecutor(AT_ONCE, "dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name. Raises OSError."""
        key = (host, family)
        known = self._known.get(key)
        if known is None or known.until < monotonic():
            task = self._under_way.get(key)
            if task is None:
                task = self._under_way[key] = asyncio.create_task(self._learn(host, family))
            known = await asyncio.shield(task)  # who gives up does not take it from the others
        if known.error:
            raise socket.gaierror(*known.error)
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=_NUMERIC)
            for kind, address in known.addresses
        ]

    async def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _learn(self, host: str, family: socket.AddressFamily) -> _Known:
        key = (host, family)
        try:
            known = await self._ask(host, family)
        finally:
            del self._under_way[key]
        self._known.pop(key, None)
        self._known[key] = known
        while len(self._known) > MOST_NAMES:
            del self._known[next(iter(self._known))]
        return known

    async def _ask(self, host: str, family: socket.AddressFamily) -> _Known:
        error: tuple[int | None, str]
        self._stats.inc_value("harvester/dns/lookups")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(LONGEST_S):
                addresses = await loop.run_in_executor(self._threads, self._look_up, host, family)
        except TimeoutError:
            error = (socket.EAI_AGAIN, f"no answer in {LONGEST_S:g} seconds")
        except OSError as failure:
            error = (failure.errno, failure.strerror or str(failure))
        else:
            return _Known(addresses, None, monotonic() + KNOWN_S)
        self._stats.inc_value("harvester/dns/failures")
        return _Known([], error, monotonic() + (ABSENT_S if error[0] in _ABSENT else FAILED_S))
