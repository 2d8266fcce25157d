"""Serves a start list in Redis: stores the items or requests that an entry names before the entry leaves the list."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from scrapy.statscollectors import StatsCollector

from harvester.exceptions import InvalidRecordError, UsageError
from harvester.frontier.start_list import StartList

logger = logging.getLogger(__name__)

ENTRIES_AT_ONCE = 1000
LOOK_S = 0.5
"""Seconds between two reads of the start list."""
SHOWN = 200
"""Maximum number of characters of a bad entry in the log."""

T = TypeVar("T")
Patiently = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


class Serving(Generic[T]):
    """Files the entries of a start list: for a job spider as items, those with the same arguments together."""

    def __init__(
        self,
        start_list: StartList,
        patiently: Patiently,
        stats: StatsCollector,
        read: Callable[[bytes], tuple[str, Iterable[T]] | None],
        add: Callable[[str, list[T]], Awaitable[None]],
        most: int = ENTRIES_AT_ONCE,
    ) -> None:
        self._list = start_list
        self._patiently = patiently
        self._stats = stats
        self._read = read
        """Returns an entry's arguments as JSON, and its items or requests; None if it is empty. Raises UsageError."""
        self._add = add
        """Stores the items or requests of entries with the same arguments."""
        self._most = most
        """Number of entries that are taken together."""
        self._look_at = 0.0
        self.name = start_list.name
        self.is_busy = True
        """True if the last read found entries, or another worker had some."""

    async def file_entries(self) -> None:
        """Stores the items or requests of the list's entries, unless the list was read a moment ago."""
        if time.monotonic() < self._look_at:
            return
        taken = await self._patiently(lambda: self._list.take(self._most))
        by_job: dict[str, list[T]] = {}
        dead: list[tuple[bytes, str]] = []
        for entry in taken.entries:
            try:
                if read := self._read(entry):
                    by_job.setdefault(read[0], []).extend(read[1])
            except (UsageError, InvalidRecordError) as error:
                dead.append((entry, str(error)))
                logger.warning("The entry %r of the start list cannot be used: %s", entry[:SHOWN], error)
                self._stats.inc_value("harvester/start_list/dead")
        for arguments, found in by_job.items():
            await self._add(arguments, found)
        if taken.entries:
            await self._patiently(lambda: self._list.confirm(dead))
            self._stats.inc_value("harvester/start_list/taken", len(taken.entries))
        if len(taken.entries) < self._most:
            self._look_at = time.monotonic() + LOOK_S
        self.is_busy = bool(taken.entries or taken.elsewhere)

    async def leave(self) -> None:
        """Leaves entries that were taken and not filed to other workers."""
        await self._patiently(self._list.leave)
