"""The relay: while it holds the lease it distributes what is marked, and sends to every sink, each at its own pace."""

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
"""Between two looks at what is to be done, when there was nothing."""
TAKE_S = 2.0
"""Between two tries to get the lease."""
LOOK_S = 0.1
"""How soon one who waits for the end notices it."""
OUTBOX_TASK = ""
"""Name of the task that distributes; those of the others are the names of their sinks."""
AWAY_S = 5.0
"""Until it is tried again when MongoDB cannot be reached."""


class _Look(NamedTuple):
    """For something to do. Times are monotonic."""

    began: float
    empty_since: float | None
    """When the first of the looks in a row began that found nothing, as this one did; None: it found something."""


class EventRelay:
    """One of several, of which one sends."""

    def __init__(self, config: Config, sinks: Sinks, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._sinks = sinks
        self._database = database
        self._lease = Lease(database)
        self._deliveries = [
            SinkDeliveries(database, config, sink, sinks.source, sender_of(sink, config))
            for sink in sinks.by_name.values()
        ]
        self._looks: dict[str, _Look] = {}
        """The last of each task, while it holds the lease."""
        self._said = ""
        """What kept it from its work the last time."""

    @property
    def is_leading(self) -> bool:
        """Whether it is the one that sends."""
        return self._lease.is_held

    async def wait_until_idle(self) -> None:
        """Until it has sent all that is marked now, but for what waits for its receiver."""
        since = monotonic()
        while not self._is_idle(since):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    def _is_idle(self, since: float) -> bool:
        """Whether nothing was left to be done after that time. What is distributed is seen by sinks afterwards only."""
        outbox = self._looks.get(OUTBOX_TASK)
        if outbox is None or outbox.began < since or outbox.empty_since is None:
            return False
        looks = [self._looks.get(one.sink.name) for one in self._deliveries]
        return all(look and look.empty_since is not None and look.began >= outbox.empty_since for look in looks)

    @property
    def delivered(self) -> dict[str, int]:
        """Sink -> events that were confirmed to this process."""
        return {one.sink.name: one.delivered for one in self._deliveries}

    async def run(self) -> None:
        """Until it is cancelled."""
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
        """To be called when `run` has ended: another may send at once."""
        try:
            await self._lease.release()
        except PyMongoError as error:
            logger.warning("The next to publish has to wait for a moment: %s", mongodb.said(error))

    async def _lead(self) -> None:
        """Until the lease is lost. Raises what a task raises."""
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
