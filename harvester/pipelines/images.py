"""Item pipeline: fetches the pictures of a batch's records and notes on each record where they are stored.

Scrapy's ImagesPipeline gives the settings and the stores. Its way with an item is replaced: it starts all
requests at once, remembers every picture for ever, logs each failure with a traceback, and stores a picture once
for its address, while here two posts that show the same picture keep one each.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadCancelledError, NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.pipelines.images import ImagesPipeline
from scrapy.utils.defer import ensure_awaitable

from harvester.config import load_config
from harvester.download.addresses import refuse_private
from harvester.exceptions import StorageError
from harvester.items import Batch, Media, Record
from harvester.meta import MEDIA
from harvester.outcomes import POLICIES, Outcome, Verdict, classify, classify_exception
from harvester.pipelines.picture import PictureError, to_jpeg
from harvester.shutdown import RunEnding, end, is_ending
from harvester.stores.mongodb import MongoOutage, connect, disconnect
from harvester.stores.objects import LocalStore, S3Store, open_store, stored_path

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 16
"""Pictures fetched at the same time; the throttle decides how many of them are asked of one host."""
MOST_REFUSALS = 20
"""Answers in a row that say something of the whole host, after which it is asked for no more pictures."""
LEFTOVER_S = 3600.0
"""Age from which an unfinished file is that of a killed process."""

_Known = dict[tuple[str, str], dict[str, Any]]
"""(collection, key) -> media_paths and media_sources, as stored."""


def _wants_pictures(spider: Any) -> bool:
    """By the arguments of the crawl that it works on now."""
    return getattr(getattr(spider, "arguments", None), "media", True) is not False


class RecordImagesPipeline(ImagesPipeline):
    """A picture that cannot be had costs no record: it is counted, and the record goes on without it."""

    def __init__(self, store_uri: str, *, crawler: Crawler) -> None:
        super().__init__(store_uri, crawler=crawler)
        self._config = load_config()
        self._most_bytes = self._config.max_image_mb * 1024 * 1024
        self._bounds = self._config.max_image_megapixels * 1_000_000, self._config.max_image_memory_mb * 1024 * 1024
        self._retrying = MongoOutage(crawler, self._config)
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._decoder = ThreadPoolExecutor(1, "pictures")  # one at a time: a large picture takes 200 MB
        self._fetching: dict[str, asyncio.Task[bytes]] = {}
        self._refusals: Counter[str] = Counter()
        self._failure: StorageError | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not _wants_pictures(crawler.spider) and not getattr(crawler.spider, "serving", None):
            raise NotConfigured  # without a sentence: Scrapy would log it as a warning, and it is what was asked for
        cls._update_stores(crawler.settings)
        return cls(crawler.settings["IMAGES_STORE"], crawler=crawler)

    def _get_store(self, uri: str) -> LocalStore | S3Store:
        return open_store(uri)

    def open_spider(self) -> None:  # type: ignore[override]  # its `spider` parameter is deprecated
        super().open_spider()
        self._database = connect(self._config)
        if isinstance(self.store, LocalStore):
            self.store.remove_leftovers(older_than_s=LEFTOVER_S)

    async def close_spider(self) -> None:
        self._decoder.shutdown()
        await disconnect(self._database)

    async def process_item(self, item: Any) -> Any:  # type: ignore[override]  # its `spider` parameter is deprecated
        if isinstance(item, Batch):
            return await self._process_batch(item)
        if isinstance(item, Record):
            return (await self._process_batch(Batch([item]))).records[0]
        return item

    async def _process_batch(self, batch: Batch) -> Batch:
        """Raises StorageError when pictures cannot be written, RunEnding when the crawl is being stopped."""
        wanted = [(index, media) for index, record in enumerate(batch.records) for media in record.media()]
        if not wanted or not _wants_pictures(self.crawler.spider):
            return batch
        known = await self._known([batch.records[index] for index, _ in wanted])
        stored: dict[int, dict[str, str]] = defaultdict(dict)
        jobs = iter(wanted)
        interrupted = False

        async def work() -> None:
            nonlocal interrupted
            for index, media in jobs:
                path = None if is_ending(self.crawler) else await self._store(media, batch.records[index], known)
                if path:
                    stored[index][media.slot] = path
                elif is_ending(self.crawler):
                    interrupted = True
                    return

        await asyncio.gather(*(work() for _ in range(min(MOST_AT_ONCE, len(wanted)))))
        if self._failure:
            raise self._failure
        if interrupted:
            raise RunEnding("the crawl is being stopped; their pictures are fetched when it is continued")
        records = list(batch.records)
        for index in {index for index, _ in wanted}:
            records[index] = _with_pictures(records[index], stored[index], known)
        return batch._replace(records=records)

    async def _known(self, records: list[Record]) -> _Known:
        """What is stored of those among `records` whose pictures may change."""
        keys: dict[str, set[str]] = defaultdict(set)
        for record in records:
            if not record.MEDIA_FIXED:
                keys[record.COLLECTION].add(record.key)
        known: _Known = {}
        for collection, of_kind in keys.items():
            known |= {(collection, row["_id"]): row for row in await self._stored(collection, list(of_kind))}
        return known

    async def _stored(self, collection: str, keys: list[str]) -> list[dict[str, Any]]:
        asked = {"_id": {"$in": keys}}, {"media_paths": 1, "media_sources": 1}
        return await self._retrying(lambda: self._database[collection].find(*asked).to_list())

    async def _store(self, media: Media, record: Record, known: _Known) -> str | None:
        """Where the picture is stored; None when it could not be."""
        path = stored_path(media.path) if record.MEDIA_PATH.fullmatch(media.path) else None
        if path is None:
            self._count(media.url, PictureError("bad_path", media.path))
            return None
        same = record.MEDIA_FIXED or _source(known, record, media.slot) == media.url
        if same and await self._is_stored(path):
            self.crawler.stats.inc_value("harvester/images/unchanged")
            return path
        try:
            content = await self._once(media.url)
        except PictureError as error:
            if not is_ending(self.crawler):
                self._count(media.url, error)
            return None
        try:
            headers = {"Content-Type": "image/jpeg"}
            await ensure_awaitable(self.store.persist_file(path, BytesIO(content), self.spiderinfo, headers=headers))
        except StorageError as error:
            self._failure = error  # whatever else the run would fetch could not be kept either
            end(self.crawler, error.finish_reason, error.exit_code, str(error))
            return None
        self.crawler.stats.inc_value("harvester/images/stored")
        return path

    async def _is_stored(self, path: str) -> bool:
        found: Any = self.store.stat_file(path, self.spiderinfo)
        return bool(await ensure_awaitable(found))

    async def _once(self, url: str) -> bytes:
        """The picture as JPEG; one that is being fetched already is not fetched again."""
        task = self._fetching.get(url)
        if task is None:
            task = self._fetching[url] = asyncio.create_task(self._fetch(url))
            task.add_done_callback(lambda _: self._fetching.pop(url))
        return await task

    async def _fetch(self, url: str) -> bytes:
        refusal = refuse_private(url, self._config)
        if refusal:
            raise PictureError("address_refused", refusal)
        host = urlsplit(url).netloc
        async with self._places:
            if self._refusals[host] >= MOST_REFUSALS:
                raise PictureError("host_left_alone", f"{MOST_REFUSALS} refusals in a row")
            body = await self._download(url, host)
            return await asyncio.get_running_loop().run_in_executor(self._decoder, to_jpeg, body, *self._bounds)

    async def _download(self, url: str, host: str) -> bytes:
        meta = {MEDIA: True, "download_maxsize": self._most_bytes}
        assert self.crawler.engine
        try:
            request = Request(url, callback=NO_CALLBACK, priority=-10, dont_filter=True, meta=meta)
            response = await self.crawler.engine.download_async(request)
        except Exception as error:  # noqa: BLE001  whatever a middleware raises costs no more than this picture
            reason, verdict = _verdict(error)
        else:
            verdict = classify(response)
            reason = verdict.outcome
        self._refusals[host] = self._refusals[host] + 1 if POLICIES[verdict.outcome].site else 0
        if verdict.outcome is not Outcome.OK:
            raise PictureError(reason, verdict.reason)
        return response.body

    def _count(self, url: str, error: PictureError) -> None:
        stat = f"harvester/images/failed/{error.reason}"
        self.crawler.stats.inc_value(stat)
        first = self.crawler.stats.get_value(stat) == 1
        note = " (further ones with this reason are only counted)" if first else ""
        logger.log(logging.WARNING if first else logging.DEBUG, "No picture from %s: %s%s", url, error, note)


def _verdict(error: Exception) -> tuple[str, Verdict]:
    """The reason by which a failed download is counted, and its outcome."""
    verdict: Verdict = getattr(error, "verdict", None) or classify_exception(error)
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, DownloadCancelledError):
            return "too_large", verdict
        cause = cause.__context__
    return verdict.outcome, verdict


def _source(known: _Known, record: Record, slot: str) -> str | None:
    source: str | None = known.get((record.COLLECTION, record.key), {}).get("media_sources", {}).get(slot)
    return source


def _with_pictures(record: Record, paths: dict[str, str], known: _Known) -> Record:
    """A slot whose new picture could not be had keeps the one stored before."""
    if record.MEDIA_FIXED:
        return msgspec.structs.replace(record, media_paths=paths)
    addresses = {media.slot: media.url for media in record.media()}
    gone = set(record.MEDIA_SLOTS).difference(addresses)
    before = known.get((record.COLLECTION, record.key), {})
    sources = {slot: addresses[slot] for slot in paths}
    kept = {
        name: {slot: value for slot, value in before.get(name, {}).items() if slot not in gone}
        for name in ("media_paths", "media_sources")
    }
    return msgspec.structs.replace(
        record, media_paths=kept["media_paths"] | paths, media_sources=kept["media_sources"] | sources
    )
