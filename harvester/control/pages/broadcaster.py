"""Reads once a second what open pages show, each thing once for all of them, and tells the pages what has changed.

There is no timer for a page: one that nobody sees, or whose browser never came back, costs nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any, TypeVar

from nicegui import Client, ui
from pymongo.errors import PyMongoError
from redis.exceptions import RedisError

from harvester.exceptions import HarvesterError
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

T = TypeVar("T")

EVERY_S = 1.0
"""Between two readings."""
READ_S = 10.0
"""A reading that takes longer is given up: what is shown is then said to be old."""


@dataclass(eq=False, slots=True)
class _Watcher:
    client: Client
    show: Callable[[Any], None]
    shown: Any


@dataclass(slots=True)
class _Topic:
    read: Callable[[], Awaitable[Any]]
    value: Any
    every_s: float
    due_at: float
    """On the monotonic clock."""
    watchers: list[_Watcher] = field(default_factory=list)


class Broadcaster:
    """Of one process."""

    def __init__(self) -> None:
        self._topics: dict[Hashable, _Topic] = {}
        self._hidden: set[str] = set()
        """Clients whose tab nobody sees."""
        self._troubles: dict[str, Callable[[str], None]] = {}
        self._trouble = self._said = ""
        self._task: asyncio.Task[None] | None = None

    async def watch(
        self, key: Hashable, read: Callable[[], Awaitable[T]], show: Callable[[T], None], every_s: float = EVERY_S
    ) -> None:
        """Shows what is read now, on the page that is being built, and then whatever is different from it.

        Pages with the same key share the readings, of which there is one in `every_s`. What a reading for this page
        raises is raised.
        """
        client = ui.context.client
        topic = self._topics.get(key)
        if topic and monotonic() <= topic.due_at:  # it was read for another page just now
            value = topic.value
        else:
            value = await read()
            topic = self._topics.setdefault(key, _Topic(read, value, every_s, monotonic() + every_s))
            topic.due_at = monotonic() + every_s
        if topic.value != value:
            topic.value = value
        show(topic.value)
        watcher = _Watcher(client, show, topic.value)
        topic.watchers.append(watcher)
        client.on_delete(lambda: self._forget(key, watcher))

    def tell_trouble(self, show: Callable[[str], None]) -> None:
        """Has the page that is being built say that what it shows is old, and why; with an empty text: no more."""
        client = ui.context.client
        show(self._said)
        self._troubles[client.id] = show
        client.on_delete(lambda: self._leave(client.id))

    def see(self, client: Client, *, hidden: bool) -> None:
        """Whether anybody sees a page. One that is hidden is told nothing; it is told all when it is seen again."""
        if hidden:
            self._hidden.add(client.id)
        elif client.id in self._hidden:
            self._hidden.discard(client.id)
            self._tell_all()

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @property
    def watched(self) -> int:
        """How many things are shown on all pages together."""
        return sum(len(topic.watchers) for topic in self._topics.values())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            at = monotonic() + EVERY_S / 2
            seen = [
                topic for topic in self._topics.values() if topic.due_at <= at and any(map(self._sees, topic.watchers))
            ]
            troubles = await asyncio.gather(*map(self._read, seen))
            self._tell_all()
            if seen:
                self._say(next(filter(None, troubles), ""))

    async def _read(self, topic: _Topic) -> str:
        """What went wrong; empty: nothing."""
        topic.due_at = monotonic() + topic.every_s
        try:
            async with asyncio.timeout(READ_S):
                value = await topic.read()
        except TimeoutError:
            return f"It could not be read within {READ_S:.0f} seconds."
        except PyMongoError as error:
            return str(mongodb.unavailable(error))
        except (HarvesterError, RedisError, OSError) as error:
            return str(error)
        except Exception:  # one page's fault does not end the others'
            logger.exception("A page cannot be kept up to date")
            return "There is a fault in this program; its log has the traceback."
        if value != topic.value:
            topic.value = value
        return ""

    def _tell_all(self) -> None:
        """Has each page show what it does not show yet: its socket may have come after a change."""
        for topic in self._topics.values():
            for watcher in topic.watchers:
                if watcher.shown is not topic.value and self._sees(watcher):
                    watcher.shown = topic.value
                    try:
                        with watcher.client:
                            watcher.show(topic.value)
                    except Exception:  # one page's fault does not end the others'
                        logger.exception("A page cannot show what was read")

    def _say(self, trouble: str) -> None:
        if trouble == self._trouble:
            return
        self._trouble = trouble
        self._said = f"What you see is of {datetime.now(UTC):%H:%M:%S} UTC. {trouble}" if trouble else ""
        for show in self._troubles.values():
            show(self._said)

    def _sees(self, watcher: _Watcher) -> bool:
        return watcher.client.has_socket_connection and watcher.client.id not in self._hidden

    def _forget(self, key: Hashable, watcher: _Watcher) -> None:
        if topic := self._topics.get(key):
            topic.watchers.remove(watcher)
            if not topic.watchers:
                del self._topics[key]

    def _leave(self, client: str) -> None:
        self._troubles.pop(client, None)
        self._hidden.discard(client)
