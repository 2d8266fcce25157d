"""Item pipeline: fetches the files of a batch's records, and notes on each record where they are stored.

Images and documents take the same route; they differ in checks and in the notes on records.

Scrapy's ImagesPipeline provides settings and stores. Its handling of items is replaced: it starts all requests at
once, remembers every file for ever, logs each failure with a traceback, and stores one file for each URL, while here
two posts with the same image keep a copy each.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Self
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
from harvester.exceptions import FileError, StorageError
from harvester.formatting import shown
from harvester.frontier.attempts import attempts_of
from harvester.internal_meta import MEDIA
from harvester.items import Batch, Media, MediaContent, Record
from harvester.masking import mask
from harvester.outcomes import POLICIES, Outcome, Verdict, classify, verdict_of
from harvester.pipelines.document import DocumentReader
from harvester.pipelines.picture import to_jpeg
from harvester.shutdown import RunEnding, end, is_ending
from harvester.stores.mongodb import MongoOutage, connect, disconnect
from harvester.stores.objects import LEFTOVER_S, LocalStore, S3Store, open_store, places_of, stored_path

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 16
"""Maximum number of files fetched at the same time; the throttle limits how many go to one host."""
MOST_SHOWN = 300
"""Maximum number of characters of a URL or a reason in the log."""
MOST_REFUSALS = 20
"""Number of consecutive refusals by a host before its other files are given up."""

_Known = dict[tuple[str, str], dict[str, Any]]
"""(collection, key) -> media_paths, media_sources and media_contents, as stored."""


class _File(NamedTuple):
    """A fetched file, in the form to be stored."""

    body: bytes
    content: MediaContent | None = None
    """Set for documents only."""


class _Kind(NamedTuple):
    """Settings for files with the same extension."""

    name: str
    stats: str
    """Prefix below `harvester/`."""
    noted: bool
    """True if records note the content of the files."""
    content_type: str
    most_bytes: int
    read: Callable[[bytes], _File]
    """Raises FileError for an invalid file."""
    reader: ThreadPoolExecutor
    """The thread for `read`: only one, since a large image takes 200 MB, and documents share a process."""


class _Stored(NamedTuple):
    """The result for a file."""

    path: str | None = None
    """None: the file is not available."""
    content: MediaContent | None = None
    """None: an image, or unchanged content."""


def _wants_files(arguments: Any) -> bool:
    return getattr(arguments, "media", True) is not False


class RecordFilesPipeline(ImagesPipeline):
    """Stores the files of records. A file that cannot be fetched is counted, and the record continues without it."""

    def __init__(self, store_uri: str, *, crawler: Crawler) -> None:
        super().__init__(store_uri, crawler=crawler)
        self._config = load_config()
        self._documents = DocumentReader()
        self._opened = AsyncExitStack()
        """Resources to close: Scrapy also closes pipelines that it has not opened, when another cannot be opened."""
        bounds = self._config.max_image_megapixels * 1_000_000, self._config.max_image_memory_mb * 1024 * 1024
        self._kinds = {
            ".jpg": _Kind(
                name="picture",
                stats="images",
                noted=False,
                content_type="image/jpeg",
                most_bytes=self._config.max_image_mb * 1024 * 1024,
                read=lambda body: _File(to_jpeg(body, *bounds)),
                reader=ThreadPoolExecutor(1, "pictures"),
            ),
            ".pdf": _Kind(
                name="PDF",
                stats="pdfs",
                noted=True,
                content_type="application/pdf",
                most_bytes=self._config.max_pdf_mb * 1024 * 1024,
                read=lambda body: _File(body, self._documents.read(body)),
                reader=ThreadPoolExecutor(1, "documents"),
            ),
        }
        self._retrying = MongoOutage(crawler, self._config)
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._fetching: dict[tuple[str, str], asyncio.Task[_File]] = {}
        self._refusals: Counter[str] = Counter()
        self._failure: StorageError | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not _wants_files(getattr(crawler.spider, "arguments", None)):
            raise NotConfigured  # without a message: Scrapy would log it as a warning, though it was requested
        cls._update_stores(crawler.settings)
        return cls(crawler.settings["IMAGES_STORE"], crawler=crawler)

    def _get_store(self, uri: str) -> LocalStore | S3Store:
        return open_store(uri)

    def open_spider(self) -> None:  # type: ignore[override]  # its `spider` parameter is deprecated
        super().open_spider()
        self._database = connect(self._config)
        self._opened.push_async_callback(disconnect, self._database)
        if isinstance(self.store, LocalStore):
            self.store.remove_leftovers(older_than_s=LEFTOVER_S)

    async def close_spider(self) -> None:
        for kind in self._kinds.values():
            kind.reader.shutdown()
        self._documents.close()
        await self._opened.aclose()

    async def process_item(self, item: Any) -> Any:  # type: ignore[override]  # its `spider` parameter is deprecated
        if isinstance(item, Batch):
            return await self._process_batch(item)
        if isinstance(item, Record):
            return (await self._process_batch(Batch([item]))).records[0]
        return item

    async def _process_batch(self, batch: Batch) -> Batch:
        """Raises StorageError when files cannot be written, RunEnding when the crawl is being stopped."""
        wanted = [
            (index, media)
            for index, record in enumerate(batch.records)
            if (files := record.media()) and self._wants(record)
            for media in files
        ]
        if not wanted:
            return batch
        known = await self._known([batch.records[index] for index, _ in wanted])
        stored: dict[int, dict[str, _Stored]] = defaultdict(dict)
        jobs = iter(wanted)
        interrupted = False

        async def work() -> None:
            nonlocal interrupted
            for index, media in jobs:
                file = _Stored() if is_ending(self.crawler) else await self._store(media, batch.records[index], known)
                if not file.path and is_ending(self.crawler):
                    interrupted = True
                    return
                stored[index][media.slot] = file

        await asyncio.gather(*(work() for _ in range(min(MOST_AT_ONCE, len(wanted)))))
        if self._failure:
            raise self._failure
        if interrupted:
            raise RunEnding("the crawl is being stopped; their files are fetched when it is continued")
        records = list(batch.records)
        for index in {index for index, _ in wanted}:
            records[index] = _with_files(records[index], stored[index], known)
        return batch._replace(records=records)

    def _wants(self, record: Record) -> bool:
        """Returns True if the record's own job wants files: workers share the pages of all jobs."""
        spider: Any = self.crawler.spider
        of_job = record.provenance.crawl and getattr(spider, "arguments_of", None)
        return _wants_files(of_job(record) if of_job else getattr(spider, "arguments", None))

    async def _known(self, records: list[Record]) -> _Known:
        """Returns the stored files of records whose files may change."""
        keys: dict[str, set[str]] = defaultdict(set)
        for record in records:
            if not record.MEDIA_FIXED:
                keys[record.COLLECTION].add(record.key)
        known: _Known = {}
        for collection, of_kind in keys.items():
            known |= {(collection, row["_id"]): row for row in await self._stored(collection, list(of_kind))}
        return known

    async def _stored(self, collection: str, keys: list[str]) -> list[dict[str, Any]]:
        asked = {"_id": {"$in": keys}}, {"media_paths": 1, "media_sources": 1, "media_contents": 1}
        return await self._retrying(lambda: self._database[collection].find(*asked).to_list())

    async def _store(self, media: Media, record: Record, known: _Known) -> _Stored:
        kind = self._kinds.get(PurePosixPath(media.path).suffix)
        path = stored_path(media.path) if record.MEDIA_PATH.fullmatch(media.path) else None
        if path is None or kind is None:
            return self._refused(media.url, kind or self._kinds[".jpg"], FileError("bad_path", media.path))
        source = _before(known, record, "media_sources").get(media.slot)
        whole = "problem" not in _before(known, record, "media_contents").get(media.slot, ())
        if record.MEDIA_FIXED or (source == media.url and whole):
            stored = _before(known, record, "media_paths").get(media.slot)  # an older version named files differently
            for place in (*places_of(media.path), *([stored] if stored else [])):
                if await self._is_stored(place):
                    self.crawler.stats.inc_value(f"harvester/{kind.stats}/unchanged")
                    return _Stored(place)
        try:
            file = await self._once(media.url, kind)
        except FileError as error:
            return _Stored() if is_ending(self.crawler) else self._refused(media.url, kind, error)
        try:
            headers = {"Content-Type": kind.content_type}
            await ensure_awaitable(self.store.persist_file(path, BytesIO(file.body), self.spiderinfo, headers=headers))
        except StorageError as error:
            self._failure = error  # other files could not be saved either
            end(self.crawler, error.finish_reason, error.exit_code, str(error))
            return _Stored()
        self.crawler.stats.inc_value(f"harvester/{kind.stats}/stored")
        return _Stored(path, file.content)

    async def _is_stored(self, path: str) -> bool:
        found: Any = self.store.stat_file(path, self.spiderinfo)
        return bool(await ensure_awaitable(found))

    async def _once(self, url: str, kind: _Kind) -> _File:
        """Returns the file to store; shares the task of a file that is already being fetched."""
        task = self._fetching.get((url, kind.name))
        if task is None:
            task = self._fetching[url, kind.name] = asyncio.create_task(self._fetch(url, kind))
            task.add_done_callback(lambda _: self._fetching.pop((url, kind.name)))
        return await task

    async def _fetch(self, url: str, kind: _Kind) -> _File:
        refusal = refuse_private(url, self._config)
        if refusal:
            raise FileError("address_refused", refusal)
        host = urlsplit(url).netloc
        async with self._places:
            if self._refusals[host] >= MOST_REFUSALS:
                raise FileError("host_left_alone", f"{MOST_REFUSALS} refusals in a row")
            body = await self._download(url, host, kind.most_bytes)
            return await asyncio.get_running_loop().run_in_executor(kind.reader, kind.read, body)

    async def _download(self, url: str, host: str, most_bytes: int) -> bytes:
        meta = {MEDIA: True, "download_maxsize": most_bytes}
        assert self.crawler.engine
        try:
            request = Request(url, callback=NO_CALLBACK, priority=-10, dont_filter=True, meta=meta)
            response = await self.crawler.engine.download_async(request)
        except Exception as error:  # noqa: BLE001  whatever a middleware raises costs only this file
            reason, verdict = _verdict(error)
        else:
            final = attempts_of(self.crawler).final(response)
            verdict = final.verdict if final else classify(response)
            reason = verdict.outcome
        self._refusals[host] = self._refusals[host] + 1 if POLICIES[verdict.outcome].site else 0
        if verdict.outcome is not Outcome.OK:
            raise FileError(reason, verdict.reason)
        return response.body

    def _refused(self, url: str, kind: _Kind, error: FileError) -> _Stored:
        stat = f"harvester/{kind.stats}/failed/{error.reason}"
        self.crawler.stats.inc_value(stat)
        first = self.crawler.stats.get_value(stat) == 1
        note = " (further ones with this reason are only counted)" if first else ""
        place, why = (shown(mask(text), MOST_SHOWN) for text in (url, str(error)))
        logger.log(logging.WARNING if first else logging.DEBUG, "No %s from %s: %s%s", kind.name, place, why, note)
        return _Stored(content=MediaContent(problem=str(error)) if kind.noted else None)


def _verdict(error: Exception) -> tuple[str, Verdict]:
    """Returns the reason that counts a failed download, and its verdict."""
    verdict = verdict_of(error)
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, DownloadCancelledError):
            return "too_large", verdict
        cause = cause.__context__
    return verdict.outcome, verdict


def _before(known: _Known, record: Record, field: str) -> dict[str, Any]:
    """Returns the stored values of a field by slot."""
    found: dict[str, Any] = known.get((record.COLLECTION, record.key), {}).get(field, {})
    return found


def _with_files(record: Record, stored: dict[str, _Stored], known: _Known) -> Record:
    """Returns the record with its files. A slot whose new file is not available keeps the stored one."""
    paths = {slot: file.path for slot, file in stored.items() if file.path}
    contents = {slot: file.content for slot, file in stored.items() if file.content}
    if record.MEDIA_FIXED:
        return msgspec.structs.replace(record, media_paths=paths, media_contents=contents)
    addresses = {media.slot: media.url for media in record.media()}
    gone = set(record.MEDIA_SLOTS).difference(addresses)
    kept = {
        name: {slot: value for slot, value in _before(known, record, name).items() if slot not in gone}
        for name in ("media_paths", "media_sources", "media_contents")
    }
    contents = {slot: each for slot, each in contents.items() if slot in paths or slot not in kept["media_paths"]}
    return msgspec.structs.replace(
        record,
        media_paths=kept["media_paths"] | paths,
        media_sources=kept["media_sources"] | {slot: addresses[slot] for slot in paths},
        media_contents=msgspec.convert(kept["media_contents"], dict[str, MediaContent]) | contents,
    )
