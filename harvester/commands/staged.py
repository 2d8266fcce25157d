"""Reads staged lines back into MongoDB, as a run that sends no requests."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace
from pydantic import Field
from pymongo.asynchronous.database import AsyncDatabase
from scrapy import Spider, signals
from scrapy.settings import BaseSettings
from twisted.python.failure import Failure

from harvester.exceptions import HarvesterError, InvalidRecordError, ParseError, StorageError, UsageError
from harvester.items import ITEM, Batch, Provenance, Record, Reject
from harvester.items.other import item_type
from harvester.items.raw import read_back
from harvester.project import load_spider, spider_loader
from harvester.shutdown import RunEnding, end, fault_of, is_ending
from harvester.spiders.base import HarvesterSpider, SpiderArguments
from harvester.stores.mongodb import MongoOutage, connect, disconnect
from harvester.stores.objects import LocalStore, open_store
from harvester.stores.staging import SUFFIX, read_segment

CHUNK = 1000
"""Number of lines in a batch."""
MOST_UNDER_WAY = 4
"""Maximum number of batches in the pipelines."""
LOOK_S = 0.05
"""Seconds between two checks whether the pipelines are done with the last items."""
NEVER = datetime.min.replace(tzinfo=UTC)
_UNREADABLE = (ValueError, InvalidRecordError, ParseError)
_LEFT_OUT = ("harvester.pipelines.staging.StagingPipeline", "harvester.pipelines.files.RecordFilesPipeline")


class _Line(msgspec.Struct):
    kind: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,59}$")]
    """The kind of the record; the rejects of a kind lie in a folder with this name."""
    key: str
    url: str
    fetched_at: Annotated[datetime, msgspec.Meta(tz=True)]
    crawl: str


_decode = msgspec.json.Decoder(_Line).decode


class ImportArguments(SpiderArguments):
    """Arguments of the import."""

    paths: str = Field("", description="segments, or folders that hold some, with commas between; data/staging")
    spider: str = Field("", description="whose lines they are; told from their folders")


class StagedSpider(HarvesterSpider):
    """Imports staged lines. A record that MongoDB has from the same time, or a later one, stays unchanged.

    Domain: none. Caveats: files are found again in a folder, not in S3. Arguments: see ImportArguments.
    """

    name = "import"
    Arguments = ImportArguments
    arguments: ImportArguments

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        settings.set("SCHEDULER", "scrapy.core.scheduler.Scheduler", "spider")
        pipelines = settings.getdict("ITEM_PIPELINES") | dict.fromkeys(_LEFT_OUT)
        settings.set("ITEM_PIPELINES", pipelines, "spider")

    async def start(self) -> AsyncIterator[Any]:
        try:
            segments = self._segments()
            spiders = self._spiders({self._spider_of(path) for path in segments})
        except UsageError as error:
            raise self.stop_for(error) from None
        self.resumed = True  # expects no minimum number, since records that are already stored are left out
        store = open_store(self.config.images_location)
        self._files = store if isinstance(store, LocalStore) else None
        self._unread: Counter[str] = Counter()
        room = asyncio.Semaphore(MOST_UNDER_WAY)
        release = lambda: room.release()  # noqa: E731  signals cannot hold methods of built-in types
        for ended in (signals.item_scraped, signals.item_dropped, signals.item_error):
            self.crawler.signals.connect(release, ended)
        self.crawler.signals.connect(self._not_kept, signals.item_error)
        self._closer = asyncio.create_task(self._let_close())
        database = connect(self.config)
        patiently = MongoOutage(self.crawler, self.config)
        damaged: list[str] = []
        try:
            for path in segments:
                name = self._spider_of(path)
                for batch in self._read(path, name, spiders[name], damaged):
                    await room.acquire()  # Scrapy applies no backpressure to items of `start`
                    yield await patiently(partial(_missing, database, batch))
            await self._all_kept()
        finally:
            await disconnect(database)
        if damaged:
            raise self.stop_for(StorageError("\n".join([*damaged, "All other lines were read."])))
        for kind, number in sorted(self._unread.items()):
            self.stop_for(
                UsageError(f"{number:,} lines of the kind {kind} are left: their spider has no read_staged for them.")
            )

    async def _let_close(self) -> None:
        """Lets a closing run end when its items are done. Scrapy does not notice this for items of `start`."""
        assert self.crawler.engine
        scraper = self.crawler.engine.scraper
        while (slot := scraper.slot) and not (slot.closing and slot.closing.called):
            scraper._check_if_closing()
            await asyncio.sleep(LOOK_S)

    def _not_kept(self, failure: Failure) -> None:
        """Ends the run at the first item that cannot be stored, since the following ones would fail too."""
        error = failure.value
        if isinstance(error, RunEnding) or is_ending(self.crawler):
            return
        if isinstance(error, HarvesterError):
            end(self.crawler, error.finish_reason, error.exit_code, str(error))
        else:
            end(self.crawler, "program_error", 1, fault_of(error))

    async def _all_kept(self) -> None:
        """Waits until the pipelines are done. Scrapy itself would only check again after five seconds."""
        assert self.crawler.engine
        slot = self.crawler.engine.scraper.slot
        while slot and not slot.is_idle():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    def _segments(self) -> list[Path]:
        """Returns the segments named by the arguments. Raises UsageError for a path without any."""
        named = [Path(os.path.expanduser(path)) for path in filter(None, self.arguments.paths.split(","))]
        segments: list[Path] = []
        for path in named or [self.config.data_dir / "staging"]:
            found = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path] if path.exists() else []
            if not found or not found[0].name.endswith(SUFFIX):
                raise UsageError(f"{path}: there are no staged files ({SUFFIX}) that were written to their end.")
            segments += found
        return segments

    def _spiders(self, names: Iterable[str]) -> dict[str, type[Spider] | None]:
        """Maps names to spiders, or to None outside the project. Raises UsageError for an unknown argument."""
        if self.arguments.spider:
            return {self.arguments.spider: load_spider(self.arguments.spider)}
        loader = spider_loader()
        return {name: loader.load(name) if name in loader.list() else None for name in names}

    def _spider_of(self, path: Path) -> str:
        """Returns the spider named by <root>/<spider>/<kind>/<date>/<segment>. Raises UsageError without one."""
        _, *folders = path.absolute().parent.parts
        if not self.arguments.spider and len(folders) < 3:
            raise UsageError(f"{path}: its folders do not say which spider's lines it holds: add -a spider=NAME.")
        return self.arguments.spider or folders[-3]

    def _read(self, path: Path, name: str, spider: type[Spider] | None, damaged: list[str]) -> Iterator[Batch]:
        """Yields batches of lines. Lines before a damaged place are read too, and `damaged` gets a message about it."""
        lines = self._undamaged(path, damaged)
        while chunk := list(islice(lines, CHUNK)):
            records: list[Record] = []
            rejects: list[Reject] = []
            for line in chunk:
                record = self._record(name, spider, line)
                if isinstance(record, Reject):
                    rejects.append(record)
                elif record:
                    records.append(record)
            yield Batch(records, tuple(rejects))

    def _undamaged(self, path: Path, damaged: list[str]) -> Iterator[bytes]:
        try:
            yield from read_segment(path)
        except StorageError as error:
            damaged.append(str(error))

    def _record(self, name: str, spider: type[Spider] | None, line: bytes) -> Record | Reject | None:
        try:
            about, raw = _decode(line), read_back(line)
        except ValueError as error:
            return Reject(ITEM, f"it is no staged line: {error}", "", line, "")
        provenance = Provenance(about.url, about.fetched_at, name, about.crawl)
        try:
            items = item_type(name)
            if about.kind == items.KIND:
                return items.staged(about.key, raw, provenance)
            read = getattr(spider, "read_staged", None)
            record: Record | None = read(about.kind, about.key, raw, provenance) if read else None
        except _UNREADABLE as error:
            return Reject(about.kind, str(error), about.key, raw, about.url)
        except Exception as error:  # noqa: BLE001  an error in a spider's read_staged costs only this line
            return Reject(about.kind, f"it cannot be read: {type(error).__name__}: {error}", about.key, raw, about.url)
        if record is None:
            self._unread[about.kind] += 1
            return None
        return self._with_files(record)

    def _with_files(self, record: Record) -> Record:
        """Adds to the record the paths of its files that are already in the folder."""
        if not self._files or not (files := record.media()):
            return record
        here = {file.slot: place for file in files if (place := self._files.find(file.path))}
        return replace(record, media_paths=here) if here else record


async def _missing(database: AsyncDatabase[dict[str, Any]], batch: Batch) -> Batch:
    """Removes records whose stored version is as new or newer, since it may hold more than the line does."""
    stored: dict[tuple[str, str], datetime] = {}
    for kind in {type(record) for record in batch.records}:
        keys = [record.key for record in batch.records if type(record) is kind]
        rows = database[kind.COLLECTION].find({"_id": {"$in": keys}}, {"provenance.fetched_at": 1})
        async for row in rows:
            stored[kind.KIND, row["_id"]] = row["provenance"]["fetched_at"].replace(tzinfo=UTC)
    return batch._replace(
        records=[
            record
            for record in batch.records
            if stored.get((record.KIND, record.key), NEVER) < _in_milliseconds(record.provenance.fetched_at)
        ]
    )


def _in_milliseconds(at: datetime) -> datetime:
    """Rounds down to milliseconds, the precision of MongoDB."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)
