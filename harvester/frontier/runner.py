"""Who runs a crawl: any number of processes, each known to the others by its heartbeat in the crawl's document."""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psutil
from pymongo import ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection

from harvester.exceptions import HarvesterError

_CLOCK_SECONDS = 2.0
"""How much the start time that the system states may move when its clock is set."""

Document = dict[str, Any]

running_here: set[str] = set()
"""Runners of this process."""


class Runner:
    """This process as one of those that run a crawl. Times are those of MongoDB's clock."""

    def __init__(
        self,
        crawls: AsyncCollection[Document],
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        lease_seconds: float,
    ) -> None:
        self._crawls = crawls
        self._patiently = patiently
        self._lease = timedelta(seconds=lease_seconds)
        self._identity = _identity()
        self.id: str = self._identity["id"]
        self.crawl = ""
        self.others: set[str] = set()
        """Those that were alive at the last heartbeat."""
        self.met = False
        """Whether there ever was another."""
        self._beating = asyncio.Lock()
        self._left = False
        self.heart: asyncio.Task[None] | None = None
        """What tells the others that it is alive."""

    async def join(self, crawl: str, on_beat: Callable[[], Awaitable[object]]) -> bool:
        """Runs the crawl from now on, and calls `on_beat` regularly; False when it is finished by now."""
        self.crawl = crawl
        running_here.add(self.id)
        if await self._beat() is None:
            return False
        self.heart = asyncio.create_task(self._keep_beating(on_beat))
        return True

    async def beat(self) -> set[str] | None:
        """Says that this runner is alive; those that are, itself too. None when it left, or the crawl is finished."""
        runners = await self._beat()
        return None if runners is None else {runner["id"] for runner in runners}

    async def leave(self) -> Document | None:
        """Runs the crawl no more. Returns the crawl's document as it is then, None when others run it."""
        async with self._beating:  # a beat that is under way would be made after this
            self._left = True
        if self.heart:
            self.heart.cancel()
        running_here.discard(self.id)
        leaving = {"$set": {"checked_at": "$$NOW", "runners": _without(self.id)}}
        crawl: Document = await self._patiently(
            lambda: self._crawls.find_one_and_update(
                {"_id": self.crawl}, [leaving], return_document=ReturnDocument.AFTER
            )
        )
        left = any(self._is_alive(runner, crawl["checked_at"]) for runner in crawl["runners"])
        return None if left else crawl

    async def _keep_beating(self, on_beat: Callable[[], Awaitable[object]]) -> None:
        with suppress(HarvesterError):  # the run is being ended, for the reason that it says
            while True:
                await asyncio.sleep(self._lease.total_seconds() / 3)
                await on_beat()

    async def _beat(self) -> list[Document] | None:
        """The runners that are alive; the dead are struck off."""
        async with self._beating:
            return None if self._left else await self._say_alive()

    async def _say_alive(self) -> list[Document] | None:
        ours = {"$mergeObjects": [{"$literal": self._identity}, {"seen_at": "$$NOW"}]}
        here = {"state": "running", "checked_at": "$$NOW", "runners": {"$concatArrays": [_without(self.id), [ours]]}}
        crawl = await self._patiently(
            lambda: self._crawls.find_one_and_update(
                {"_id": self.crawl, "state": {"$ne": "finished"}},
                [{"$set": here}],
                return_document=ReturnDocument.AFTER,
            )
        )
        if crawl is None:
            return None
        alive = [runner for runner in crawl["runners"] if self._is_alive(runner, crawl["checked_at"])]
        for dead in crawl["runners"]:
            if dead not in alive:
                # Not when it was heard of meanwhile.
                gone = {"id": dead["id"], "seen_at": dead["seen_at"]}
                struck = {"$pull": {"runners": gone}}
                await self._patiently(partial(self._crawls.update_one, {"_id": self.crawl}, struck))
        self.others = {runner["id"] for runner in alive} - {self.id}
        self.met = self.met or bool(self.others)
        return alive

    def _is_alive(self, runner: Document, now: datetime) -> bool:
        """Looked up when it is a process of this machine, believed for a while of another."""
        if runner["place"] != self._identity["place"]:
            return bool(runner["seen_at"] > now - self._lease)
        if runner["pid"] == os.getpid():
            return runner["id"] in running_here  # else its number was given again, to this process
        try:
            process = psutil.Process(runner["pid"])
            same = abs(process.create_time() - runner["born"]) < _CLOCK_SECONDS
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def _without(runner: str) -> Document:
    others = {"input": {"$ifNull": ["$runners", []]}, "cond": {"$ne": ["$$this.id", runner]}}
    return {"$filter": others}


def _identity() -> Document:
    host, pid = socket.gethostname(), os.getpid()
    born = psutil.Process().create_time()
    return {
        "id": f"{host}:{pid}:{secrets.token_hex(4)}",
        "host": host,
        "place": _place(host),
        "pid": pid,
        "born": born,
    }


def _place(host: str) -> str:
    """Where process ids mean the same: containers of one name have their own."""
    with suppress(OSError):
        return f"{host} {os.readlink('/proc/self/ns/pid')}"
    return host
