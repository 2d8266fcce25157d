"""Who runs a crawl: one process at a time, told apart from a later one of the same number."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
from pymongo.asynchronous.collection import AsyncCollection

from harvester.exceptions import UsageError

HEARTBEAT_SECONDS = 20
"""How often a running crawl says that it is alive."""
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
"""After which a process of another machine counts as dead."""
_CLOCK_SECONDS = 2.0
"""How much the start time that the system states may move when its clock is set."""

Document = dict[str, Any]


class Runner:
    """This process as the one that runs a crawl, written down in the crawl's document."""

    def __init__(
        self,
        crawls: AsyncCollection[Document],
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
    ) -> None:
        self._crawls = crawls
        self._patiently = patiently
        self._identity = _identity()
        self._heartbeat: asyncio.Task[None] | None = None

    async def take(self, crawl: str, runner: Document | None) -> None:
        """Marks the crawl as run by this process. Raises UsageError when `runner`, noted there, is alive."""
        if runner and alive(runner):
            raise UsageError(
                f"The crawl {crawl} is being run by process {runner['pid']} on {runner['host']}. "
                "Wait until it has ended, stop it, or start one with other arguments."
            )
        ours = self._identity | {"seen_at": datetime.now(UTC)}
        free = {"_id": crawl, "runner.id": {"$in": [runner["id"] if runner else None, ours["id"]]}}
        taken = await self._patiently(
            lambda: self._crawls.find_one_and_update(free, {"$set": {"state": "running", "runner": ours}})
        )
        if taken is None:
            raise UsageError(f"The crawl {crawl} was just started by another process.")
        self._heartbeat = asyncio.create_task(self._beat(crawl))

    async def leave(self, crawl: str, values: Document) -> None:
        """Notes `values` in the crawl's document, and that nobody runs it."""
        if self._heartbeat:
            self._heartbeat.cancel()
        ours = {"_id": crawl, "runner.id": self._identity["id"]}
        await self._patiently(lambda: self._crawls.update_one(ours, {"$set": values, "$unset": {"runner": ""}}))

    async def _beat(self, crawl: str) -> None:
        ours = {"_id": crawl, "runner.id": self._identity["id"]}
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._patiently(
                lambda: self._crawls.update_one(ours, {"$set": {"runner.seen_at": datetime.now(UTC)}})
            )


def _identity() -> Document:
    born = psutil.Process().create_time()
    host = socket.gethostname()
    return {"id": f"{host}:{os.getpid()}:{born}", "host": host, "pid": os.getpid(), "born": born}


def alive(runner: Document) -> bool:
    """Whether the process is running: looked up on this machine, believed for a while of another."""
    if runner["host"] != socket.gethostname():
        return bool(runner["seen_at"] > datetime.now(UTC) - timedelta(seconds=SILENT_SECONDS))
    if runner["pid"] == os.getpid():
        return False  # the number was given again, to this process
    try:
        process = psutil.Process(runner["pid"])
        same = abs(process.create_time() - runner["born"]) < _CLOCK_SECONDS
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
