"""Looks up host names with the system's resolver: once for all waiting requests, and with a cache."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from functools import partial
from threading import Thread
from time import monotonic
from typing import NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult
from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from harvester.components import get_component

KNOWN_S = 60.0
"""Seconds that the addresses of a name are cached. The system does not show the time that the name's owner set."""
ABSENT_S = 30.0
"""Seconds before a name that does not exist is looked up again."""
FAILED_S = 1.0
"""Seconds before the next look-up after a failed one, which proves nothing about the name."""
LONGEST_S = 20.0
"""Seconds of a look-up, without its time in the queue. A longer one has failed."""
MOST_NAMES = 10_000
"""Maximum number of cached names; the oldest is dropped."""
AT_ONCE = 16
"""Maximum number of concurrent look-ups, apart from slow ones."""
SLOW_S = 1.0
"""Seconds above which a look-up is slow, and others need not wait for it."""
MOST_SLOW = 128
"""Maximum number of concurrent slow look-ups. Each holds a thread until the system gives up, so further slow ones keep
their place."""
_ABSENT = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV

Address = tuple[socket.AddressFamily, str]
LookUp = Callable[[str, socket.AddressFamily], list[Address]]
"""Looks up a name for the wanted kind of addresses. Blocks. Raises OSError."""
_Key = tuple[str, socket.AddressFamily]


def ask_system(host: str, family: socket.AddressFamily) -> list[Address]:
    """Asks the system, which reads its hosts file and its name servers."""
    try:
        found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except ValueError:
        raise socket.gaierror(socket.EAI_NONAME, "this cannot be a name") from None
    except socket.gaierror:
        os.close(os.open(os.devnull, os.O_RDONLY))  # raises when too many open files are the real cause
        raise
    return [(family, str(address[0])) for family, _, _, _, address in found]


class _Known(NamedTuple):
    """The result of a look-up."""

    addresses: list[Address]
    error: OSError | None
    until: float
    """Monotonic time."""


_Hear = Callable[[list[Address], Exception | None], _Known]


class CachingResolver(AbstractResolver):
    """The resolver that aiohttp uses in a crawl."""

    def __init__(self, stats: StatsCollector, look_up: LookUp | None = None) -> None:
        self._stats = stats
        self._look_up = look_up or ask_system
        self._known: dict[_Key, _Known] = {}
        self._awaited: dict[_Key, asyncio.Task[_Known]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._slow: set[_Key] = set()
        """Look-ups that released their place to others. Some have no waiting request any more."""

    @classmethod
    def of(cls, crawler: Crawler) -> "CachingResolver":
        """Returns the crawl's resolver."""
        return get_component(crawler, cls, lambda: cls(crawler.stats))

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns the addresses of a name. Raises OSError."""
        key = (host, family)
        known = self._known.get(key)
        if known is None or known.until < monotonic():
            task = self._awaited.get(key)
            if task is None:
                task = self._awaited[key] = asyncio.create_task(self._learn(key))
            known = await asyncio.shield(task)  # a cancelled request must not cancel the look-up for others
        if known.error:
            raise type(known.error)(*known.error.args)
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=_NUMERIC)
            for kind, address in known.addresses
        ]

    async def close(self) -> None:
        for task in self._awaited.values():
            task.cancel()

    async def _learn(self, key: _Key) -> _Known:
        try:
            if key not in self._slow:  # else the look-up that was given up has not ended yet
                await self._places.acquire()
                self._stats.inc_value("harvester/dns/lookups")
                heard = _in_thread(partial(self._look_up, *key), partial(self._hear, key))
                _, silent = await asyncio.wait([heard], timeout=SLOW_S)
                if silent and len(self._slow) < MOST_SLOW:
                    self._slow.add(key)
                    self._places.release()
                if not silent or (await asyncio.wait(silent, timeout=LONGEST_S - SLOW_S))[0]:
                    return heard.result()
            self._stats.inc_value("harvester/dns/failures")
            late = socket.gaierror(socket.EAI_AGAIN, f"no answer in {LONGEST_S:g} seconds")
            return self._remember(key, _failed(late))
        finally:
            del self._awaited[key]

    def _hear(self, key: _Key, addresses: list[Address], error: Exception | None) -> _Known:
        """Handles the end of a look-up, in time or late."""
        if key in self._slow:
            self._slow.remove(key)
        else:
            self._places.release()
        if error is None:
            return self._remember(key, _Known(addresses, None, monotonic() + KNOWN_S))
        if key in self._awaited:  # else it was counted when it was given up
            self._stats.inc_value("harvester/dns/failures")
        failure = error if isinstance(error, OSError) else socket.gaierror(socket.EAI_FAIL, str(error))
        return self._remember(key, _failed(failure))

    def _remember(self, key: _Key, known: _Known) -> _Known:
        self._known.pop(key, None)
        self._known[key] = known
        while len(self._known) > MOST_NAMES:
            del self._known[next(iter(self._known))]
        return known


async def knows(host: str, seconds: float) -> bool:
    """Returns True if the system has an address for the name. Bypasses the cache."""
    asked = _in_thread(partial(ask_system, host, socket.AF_UNSPEC), lambda found, _: _Known(found, None, 0.0))
    done, _ = await asyncio.wait([asked], timeout=seconds)
    return bool(done and asked.result().addresses)


def _failed(error: OSError) -> _Known:
    absent = isinstance(error, socket.gaierror) and error.errno in _ABSENT
    return _Known([], error, monotonic() + (ABSENT_S if absent else FAILED_S))


def _in_thread(look_up: Callable[[], list[Address]], hear: _Hear) -> "asyncio.Future[_Known]":
    """Runs a look-up in a new thread, which does not delay the end of the process as a pool's threads do."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[_Known] = loop.create_future()

    def run() -> None:
        try:
            answer, error = look_up(), None
        except Exception as failure:  # noqa: BLE001  the waiting requests get it
            answer, error = [], failure
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, answer, error)

    def tell(answer: list[Address], error: Exception | None) -> None:
        heard.set_result(hear(answer, error))

    try:
        Thread(target=run, name="dns", daemon=True).start()
    except RuntimeError as full:
        tell([], OSError(errno.ENOMEM, f"it cannot be asked for: {full}"))
    return heard
