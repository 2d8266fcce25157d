"""Downloader middleware: pages whose records are stored are asked for only if they changed (RFC 9110, section 13).

For requests with meta["conditional"], and for sites whose entry says so. An ETag or Last-Modified is kept when, and
only when, the frontier has heard that the page is done: its records are confirmed then, and what it leads to is queued.
So a crash never makes a lost page an unchanged one. Requests without a lease are asked for in full: nobody says when
their work is safe.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any, Self

from pymongo import DeleteOne, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import PyMongoError
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.statscollectors import StatsCollector
from scrapy.utils.misc import load_object

from harvester.config import Config, load_config
from harvester.fetch.steps import JudgingStep, get_steps
from harvester.frontier.attempts import attempts_of
from harvester.frontier.scheduler import Scheduler
from harvester.meta import CHANGED_FOR, CHANGED_LATER, CONDITIONAL, LEASE, VALIDATED
from harvester.outcomes import Outcome, Verdict
from harvester.outcomes.answer import CONDITIONS
from harvester.sites import load_sites
from harvester.stores import servers
from harvester.stores.mongodb import connect, disconnect

logger = logging.getLogger(__name__)

COLLECTION = "validators"
KEPT_S = 180 * 24 * 3600
"""How long the validators are kept of a page that is not asked for."""
MOST_LENGTH = 1024
"""Characters of a validator; longer ones are no use."""
LINGER_S = 0.5
"""How long a validator waits for others to be written with."""
DISTRUST_S = 30.0
"""How long MongoDB is not asked after it failed: pages are then asked for in full."""


class ConditionalMiddleware:
    """The answer 304 is the outcome `unchanged`: the errback hears of it, and the request is done."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._attempts = attempts_of(crawler)
        self._validators = Validators(config, crawler.stats)
        get_steps(crawler).add(JudgingStep.CONDITIONAL, self._hear)
        crawler.signals.connect(self._validators.close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not issubclass(load_object(crawler.settings["SCHEDULER"]), Scheduler):
            raise NotConfigured  # nobody says when a page is done; with a sentence Scrapy would log a warning
        return cls(crawler, load_config())

    async def process_request(self, request: Request) -> None:
        if request.meta.pop(VALIDATED, None):  # a retry, a redirect, or a copy by the spider
            _take_off(request)
        if not self._is_wanted(request):
            return
        key = self._key(request)
        request.meta[VALIDATED] = key
        if request.meta.get(CONDITIONAL) == CHANGED_LATER:
            return
        known = await self._validators.of(key)
        if known:
            if_none_match, if_modified_since = CONDITIONS
            if etag := known.get("etag"):
                request.headers[if_none_match] = etag
            else:
                request.headers[if_modified_since] = known["modified"]
            self._stats.inc_value("harvester/conditional/asked")

    def _is_wanted(self, request: Request) -> bool:
        meta = request.meta
        if LEASE not in meta or request.method != "GET":
            return False
        wanted = meta.get(CONDITIONAL)
        if wanted is None:
            wanted = load_sites().of(request.url).politeness.conditional
        return bool(wanted) and not any(name in request.headers for name in CONDITIONS)

    def _key(self, request: Request) -> bytes:
        """Whoever asks for the same, to make the same of it."""
        spider = self._crawler.spider
        callback = getattr(request.callback, "__name__", "")
        whose = [request.meta[CHANGED_FOR]] if CHANGED_FOR in request.meta else []
        parts = (getattr(spider, "name", ""), getattr(spider, "scope", ""), callback, request.url, *whose)
        return sha256("\n".join(parts).encode()).digest()[:16]

    def process_response(self, request: Request, response: Response) -> Response:
        """Of a page. Answers that are none pass, and are told of."""
        key = request.meta.get(VALIDATED)
        if key is None or self._attempts.is_refused(request, response):
            return response
        _take_off(request)
        scheduler = self._crawler.engine.scheduler if self._crawler.engine else None
        assert isinstance(scheduler, Scheduler)
        lease = scheduler.lease_of(request)
        if lease:
            spider = getattr(self._crawler.spider, "name", "")
            lease.afterwards = partial(self._validators.keep, key, spider, validators_of(response.headers))
        return response

    def _hear(self, request: Request, verdict: Verdict, response: Response | None) -> None:
        if verdict.outcome is Outcome.UNCHANGED and (key := request.meta.get(VALIDATED)):
            _take_off(request)
            self._stats.inc_value("harvester/conditional/unchanged")
            self._validators.touch(key)


class Validators:
    """The collection `validators` of MongoDB. What is asked for together travels together, and so does what is kept."""

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
        """`etag` or `modified`, as the site sent it; None when nothing is known."""
        if monotonic() < self._distrusted_until:
            return None
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = asyncio.get_running_loop().create_future()
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read())
        return await asyncio.shield(found)

    def keep(self, key: bytes, spider: str, validators: dict[str, str] | None) -> None:
        """None: the page must not be known again."""
        if validators is None:
            self._change(key, DeleteOne({"_id": key}))
            return
        self._stats.inc_value("harvester/conditional/kept")
        other = "modified" if "etag" in validators else "etag"
        now = {"$set": {**validators, "spider": spider, "at": datetime.now(UTC)}, "$unset": {other: ""}}
        self._change(key, UpdateOne({"_id": key}, now, upsert=True))

    def touch(self, key: bytes) -> None:
        """The page is as it was."""
        if key not in self._changed:
            self._change(key, UpdateOne({"_id": key}, {"$set": {"at": datetime.now(UTC)}}))

    async def close(self) -> None:
        """Writes what is left."""
        self._closing.set()
        if self._writer:
            await asyncio.wait([self._writer])
        if self._reader:
            await asyncio.wait([self._reader])
        if self._collection is not None:
            await disconnect(self._collection.database)

    async def _read(self) -> None:
        await asyncio.sleep(0)  # let the requests of this moment gather
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
            except (PyMongoError, OSError) as error:  # those pages are asked for in full the next time
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
    """`etag` or `modified` of an answer, as they are; None when there is none that may be kept and relied upon."""
    if "no-store" in _text(headers, "Cache-Control").lower():
        return None
    if etag := _text(headers, "ETag"):
        return {"etag": etag} if len(etag) <= MOST_LENGTH else None
    modified = _text(headers, "Last-Modified")
    return {"modified": modified} if modified and _is_settled(modified, _text(headers, "Date")) else None


def _is_settled(modified: str, sent: str) -> bool:
    """Whether no change can have followed within the same second (RFC 9110, section 8.8.2.2)."""
    try:
        changed = parsedate_to_datetime(modified)
        now = parsedate_to_datetime(sent) if sent else datetime.now(UTC)
        return (now - changed).total_seconds() > 1
    except (ValueError, OverflowError, TypeError):
        return False


def _take_off(request: Request) -> None:
    for name in CONDITIONS:
        request.headers.pop(name, None)


def _text(headers: Headers, name: str) -> str:
    return (headers.get(name) or b"").decode("latin-1").strip()
