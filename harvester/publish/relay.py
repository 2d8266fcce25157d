"""The relay: while it holds the lease, it distributes the marks, and sends to every sink at the sink's own pace."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.publish.delivering import SinkDeliveries
from harvester.publish.distribution import distribute, prepare
from harvester.publish.lease import RENEW_S, Lease
from harvester.publish.senders import sender_of
from harvester.publish.sinks import Sinks
from harvester.shutdown import stop
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

IDLE_S = 0.5
"""Seconds between two checks for work after one without any."""
TAKE_S = 2.0
"""Seconds between two tries to claim the lease."""
LOOK_S = 0.1
"""Seconds between two checks for the end of the work."""
OUTBOX_TASK = ""
"""Name of the task that distributes; the other tasks have the names of their sinks."""
AWAY_S = 5.0
"""Seconds before a retry when MongoDB cannot be reached."""


class _Look(NamedTuple):
    """A check for work. Times are monotonic."""

    began: float
    empty_since: float | None
    """Start of the first in a row of checks that found nothing; None if this one found something."""


class EventRelay:
    """One of several relays; only one sends at a time."""

    def __init__(self, config: Config, sinks: Sinks, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._sinks = sinks
        self._database = database
        self._lease = Lease(database)
        self._deliveries = [
            SinkDeliveries(database, config, sink, sinks.source, sender_of(sink, config))
            for sink in sinks.by_name.values()
        ]
        self._looks: dict[str, _Look] = {}
        """The last check by each task, while it holds the lease."""
        self._said = ""
        """The last error that stopped the work."""

    @property
    def is_leading(self) -> bool:
        """True if this relay is the one that sends."""
        return self._lease.is_held

    async def wait_until_idle(self) -> None:
        """Returns when it has sent all present marks, apart from deliveries that wait for their receiver."""
        since = monotonic()
        while not self._is_idle(since):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    def _is_idle(self, since: float) -> bool:
        """Returns True if no work was left after that time. Sinks see distributed deliveries only afterwards, so they
        must be checked later."""
        outbox = self._looks.get(OUTBOX_TASK)
        if outbox is None or outbox.began < since or outbox.empty_since is None:
            return False
        looks = [self._looks.get(one.sink.name) for one in self._deliveries]
        return all(look and look.empty_since is not None and look.began >= outbox.empty_since for look in looks)

    @property
    def delivered(self) -> dict[str, int]:
        """Events by sink that were confirmed to this process."""
        return {one.sink.name: one.delivered for one in self._deliveries}

    async def run(self) -> None:
        """Works until it is cancelled."""
        try:
            while True:
                pause_s = TAKE_S
                try:
                    if await self._lease.take():
                        await prepare(self._database)
                        await self._lead()
                    self._said = ""
                except (PyMongoError, HarvesterError) as error:
                    pause_s = AWAY_S
                    if self._said != mongodb.said(error):
                        self._said = mongodb.said(error)
                        logger.warning("Nothing is published until this is mended: %s", self._said)
                await asyncio.sleep(pause_s)
        finally:
            for one in self._deliveries:
                await one.close()

    async def leave(self) -> None:
        """Releases the lease after `run` has ended, so that another process may send at once."""
        try:
            await self._lease.release()
        except PyMongoError as error:
            logger.warning("The next to publish has to wait for a moment: %s", mongodb.said(error))

    async def _lead(self) -> None:
        """Works until the lease is lost. Raises the exception of a task."""
        self._looks = {}
        works: dict[str, Callable[[], Awaitable[object]]] = {one.sink.name: one.send_some for one in self._deliveries}
        works[OUTBOX_TASK] = lambda: distribute(self._database, self._sinks)
        tasks = [asyncio.create_task(self._repeat(name, work)) for name, work in works.items()]
        tasks.append(asyncio.create_task(self._renew()))
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            await stop(*tasks)

    async def _repeat(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        while self._lease.is_held:
            began, before = monotonic(), self._looks.get(name)
            if await work():
                self._looks[name] = _Look(began, None)
            else:
                empty_since = before.empty_since if before and before.empty_since is not None else began
                self._looks[name] = _Look(began, empty_since)
                await asyncio.sleep(IDLE_S)

    async def _renew(self) -> None:
        while True:
            at = monotonic()
            await asyncio.sleep(RENEW_S)
            if not await self._lease.take():
                logger.warning("Another process publishes now: this one was silent for %.0f s", monotonic() - at)
                return
