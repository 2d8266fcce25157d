"""Reads once a second the data of all open pages, each topic once for all pages, and sends changes to the pages.

Pages have no timers, so a hidden page, or a page with a lost browser, costs nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
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
"""Seconds between two reads."""
READ_S = 10.0
"""Seconds until a read is given up; then the page shows that its data is old."""


@dataclass(eq=False, slots=True)
class _Watcher:
    client: Client
    show: Callable[[Any], None]
    shown: Any


@dataclass(eq=False, slots=True)
class _Topic:
    read: Callable[[], Awaitable[Any]]
    value: Any
    every_s: float
    due_at: float
    """Time of the next read, on the monotonic clock."""
    read_at: datetime
    """Time of the last successful read."""
    trouble: str = ""
    """The error of the last read; empty if it succeeded."""
    reading: asyncio.Task[None] | None = None
    watchers: list[_Watcher] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Page:
    """A page that can show a warning about old data."""

    client: Client
    say: Callable[[str], None]
    said: str = ""


class Broadcaster:
    """The broadcaster of a process. Each topic is read in its own task, so a slow read delays no other."""

    def __init__(self) -> None:
        self._topics: dict[Hashable, _Topic] = {}
        self._hidden: set[str] = set()
        """Clients with a hidden tab."""
        self._pages: dict[str, _Page] = {}
        """Pages by client."""
        self._task: asyncio.Task[None] | None = None

    async def watch(
        self, key: Hashable, read: Callable[[], Awaitable[T]], show: Callable[[T], None], every_s: float = EVERY_S
    ) -> None:
        """Shows the current value on the page that is being built, and then each changed value.

        Pages with the same key share a read every `every_s` seconds. An exception of the first read is raised.
        """
        client = ui.context.client
        topic = self._topics.get(key)
        if not topic or topic.trouble or monotonic() > topic.due_at:  # else another page has just read it
            value = await read()
            at = datetime.now(UTC)
            topic = self._topics.setdefault(key, _Topic(read, value, every_s, 0.0, at))
            _take(topic, value, at)
            topic.due_at = monotonic() + every_s
        show(topic.value)
        watcher = _Watcher(client, show, topic.value)
        topic.watchers.append(watcher)
        client.on_delete(lambda: self._forget(key, watcher))

    def tell_trouble(self, say: Callable[[str], None]) -> None:
        """Registers the function that shows on this page that its data is old, and why.

        An empty text ends the warning.
        """
        client = ui.context.client
        self._pages[client.id] = _Page(client, say)
        client.on_delete(lambda: self._leave(client.id))

    def see(self, client: Client, *, hidden: bool) -> None:
        """Notes that a page is hidden or visible.

        A hidden page gets no updates; it gets them all when it becomes visible.
        """
        if hidden:
            self._hidden.add(client.id)
        elif client.id in self._hidden:
            self._hidden.discard(client.id)
            self._tell()

    def hurry(self, client: Client) -> None:
        """Reads the topics of a page within a second, because its user changed something or tried to."""
        for topic in self._topics.values():
            if any(watcher.client is client for watcher in topic.watchers):
                topic.due_at = 0.0

    def dismiss(self, client: Client) -> None:
        """Ends all updates of a page."""
        for key, topic in [*self._topics.items()]:
            for watcher in [each for each in topic.watchers if each.client is client]:
                self._forget(key, watcher)
        self._leave(client.id)

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        tasks = [self._task, *(topic.reading for topic in self._topics.values())]
        for task in filter(None, tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def watched(self) -> int:
        """Returns the number of watched topics on all pages together."""
        return sum(len(topic.watchers) for topic in self._topics.values())

    @property
    def clients(self) -> list[Client]:
        """Returns the clients with an open page."""
        return [page.client for page in self._pages.values() if page.client.has_socket_connection]

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            at = monotonic() + EVERY_S / 2
            for topic in self._topics.values():
                is_read = topic.reading is not None and not topic.reading.done()
                if topic.due_at <= at and not is_read and any(map(self._sees, topic.watchers)):
                    topic.due_at = monotonic() + topic.every_s
                    topic.reading = asyncio.create_task(self._read(topic))
            self._tell()  # pages may have connected after a change

    async def _read(self, topic: _Topic) -> None:
        try:
            async with asyncio.timeout(READ_S):
                value = await topic.read()
        except TimeoutError:
            topic.trouble = f"It could not be read within {READ_S:.0f} seconds."
        except PyMongoError as error:
            topic.trouble = str(mongodb.unavailable(error))
        except (HarvesterError, RedisError, OSError) as error:
            topic.trouble = str(error)
        except Exception:  # a fault on one page must not stop the others
            logger.exception("A page cannot be kept up to date")
            topic.trouble = "There is a fault in this program; its log has the traceback."
        else:
            _take(topic, value, datetime.now(UTC))
        self._tell()

    def _tell(self) -> None:
        """Updates each visible page with newer values, or with a warning that its data is old."""
        old: dict[str, _Topic] = {}
        for topic in self._topics.values():
            for watcher in filter(self._sees, topic.watchers):
                if topic.trouble:
                    old.setdefault(watcher.client.id, topic)
                if watcher.shown is not topic.value:
                    watcher.shown = topic.value
                    _call(watcher.client, partial(watcher.show, topic.value))
        for page in self._pages.values():
            about = old.get(page.client.id)
            said = f"What you see is of {about.read_at:%H:%M:%S} UTC. {about.trouble}" if about else ""
            if said != page.said and page.client.id not in self._hidden:
                page.said = said
                _call(page.client, partial(page.say, said))

    def _sees(self, watcher: _Watcher) -> bool:
        return watcher.client.has_socket_connection and watcher.client.id not in self._hidden

    def _forget(self, key: Hashable, watcher: _Watcher) -> None:
        topic = self._topics.get(key)
        if topic and watcher in topic.watchers:
            topic.watchers.remove(watcher)
            if not topic.watchers:
                del self._topics[key]
                if topic.reading:
                    topic.reading.cancel()

    def _leave(self, client: str) -> None:
        self._pages.pop(client, None)
        self._hidden.discard(client)


def _take(topic: _Topic, value: Any, at: datetime) -> None:
    """Stores a value that was read. Pages are updated only if it differs from the last value."""
    topic.trouble, topic.read_at = "", at
    if topic.value != value:
        topic.value = value


def _call(client: Client, show: Callable[[], None]) -> None:
    try:
        with client:
            show()
    except Exception:  # a fault on one page must not stop the others
        logger.exception("A page cannot show what was read")
