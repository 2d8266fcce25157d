"""Validators of pages (ETag, Last-Modified), which let a site answer that a page is unchanged. Stored in MongoDB."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any

from pymongo import DeleteOne, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import PyMongoError
from scrapy.http import Headers
from scrapy.statscollectors import StatsCollector

from harvester.config import Config
from harvester.stores import servers
from harvester.stores.mongodb import connect, disconnect

logger = logging.getLogger(__name__)

COLLECTION = "validators"
KEPT_S = 180 * 24 * 3600
"""Seconds to keep the validators of a page that is no longer requested."""
MOST_LENGTH = 1024
"""Maximum number of characters of a validator. Longer ones are useless."""
LINGER_S = 0.5
"""Seconds that a validator waits to be written together with others."""
DISTRUST_S = 30.0
"""Seconds without queries after MongoDB failed. Pages are requested in full during this time."""


class Validators:
    """The collection `validators` of MongoDB.

    Simultaneous reads share a query, and simultaneous writes share a bulk write.
    """

    def __init__(self, config: Config, stats: StatsCollector) -> None:
        self._config = config
        self._stats = stats
        self._collection: AsyncCollection[dict[str, Any]] | None = None
        self._asked: dict[bytes, asyncio.Future[Mapping[str, Any] | None]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._changed: dict[bytes, UpdateOne | DeleteOne] = {}
        self._writer: asyncio.Task[None] | None = None
        self._distrusted_until = 0.0
        self._closing = asyncio.Event()

    async def of(self, key: bytes) -> Mapping[str, Any] | None:
        """Returns `etag` or `modified`, as the site sent it; None if nothing is known."""
        if monotonic() < self._distrusted_until:
            return None
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = asyncio.get_running_loop().create_future()
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read())
        return await asyncio.shield(found)

    def keep(self, key: bytes, spider: str, validators: dict[str, str] | None) -> None:
        """Saves the validators of a page, or deletes them if `validators` is None."""
        if validators is None:
            self._change(key, DeleteOne({"_id": key}))
            return
        self._stats.inc_value("harvester/conditional/kept")
        other = "modified" if "etag" in validators else "etag"
        now = {"$set": {**validators, "spider": spider, "at": datetime.now(UTC)}, "$unset": {other: ""}}
        self._change(key, UpdateOne({"_id": key}, now, upsert=True))

    def touch(self, key: bytes) -> None:
        """Notes that the page is unchanged."""
        if key not in self._changed:
            self._change(key, UpdateOne({"_id": key}, {"$set": {"at": datetime.now(UTC)}}))

    async def close(self) -> None:
        """Writes all pending changes."""
        self._closing.set()
        if self._writer:
            await asyncio.wait([self._writer])
        if self._reader:
            await asyncio.wait([self._reader])
        if self._collection is not None:
            await disconnect(self._collection.database)

    async def _read(self) -> None:
        await asyncio.sleep(0)  # let the current requests gather
        while self._asked:
            asked, self._asked = self._asked, {}
            rows: dict[bytes, Mapping[str, Any]] = {}
            try:
                collection = await self._connected()
                rows = {row["_id"]: row async for row in collection.find({"_id": {"$in": list(asked)}})}
            except (PyMongoError, OSError) as error:
                self._distrust(error)
            finally:
                for key, found in asked.items():
                    found.set_result(rows.get(key))

    def _change(self, key: bytes, operation: UpdateOne | DeleteOne) -> None:
        self._changed[key] = operation
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        while self._changed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    await self._closing.wait()
            await self._write()

    async def _write(self) -> None:
        changed, self._changed = self._changed, {}
        if changed:
            try:
                collection = await self._connected()
                await collection.bulk_write(list(changed.values()), ordered=False)
            except (PyMongoError, OSError) as error:  # these pages are requested in full the next time
                self._distrust(error)

    async def _connected(self) -> AsyncCollection[dict[str, Any]]:
        if self._collection is None:
            await asyncio.to_thread(servers.mongodb_uri, self._config)  # may have to start the private server
            collection = connect(self._config)[COLLECTION]
            self._collection = collection
            await collection.create_index("at", expireAfterSeconds=KEPT_S)
        return self._collection

    def _distrust(self, error: Exception) -> None:
        if monotonic() >= self._distrusted_until:
            logger.warning("Pages are asked for in full, since MongoDB fails: %s", type(error).__name__)
        self._distrusted_until = monotonic() + DISTRUST_S


def validators_of(headers: Headers) -> dict[str, str] | None:
    """Returns `etag` or `modified` of a response, unchanged; None if neither may be saved and is reliable."""
    if "no-store" in _text(headers, "Cache-Control").lower():
        return None
    if etag := _text(headers, "ETag"):
        return {"etag": etag} if len(etag) <= MOST_LENGTH else None
    modified = _text(headers, "Last-Modified")
    return {"modified": modified} if modified and _is_settled(modified, _text(headers, "Date")) else None


def _is_settled(modified: str, sent: str) -> bool:
    """True if no change can have followed within the same second (RFC 9110, section 8.8.2.2)."""
    try:
        changed = parsedate_to_datetime(modified)
        now = parsedate_to_datetime(sent) if sent else datetime.now(UTC)
        return (now - changed).total_seconds() > 1
    except (ValueError, OverflowError, TypeError):
        return False


def _text(headers: Headers, name: str) -> str:
    return (headers.get(name) or b"").decode("latin-1").strip()
