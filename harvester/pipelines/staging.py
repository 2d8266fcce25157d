"""Item pipeline: the raw answer of each record goes to disk before the record goes to MongoDB."""

import logging
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Self

import msgspec
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DropItem

from harvester.config import load_config
from harvester.ending import end
from harvester.exceptions import StorageError
from harvester.items import Batch, Provenance, Record
from harvester.pipelines.base import BatchPipeline
from harvester.private import make_closed
from harvester.staging import SegmentWriter, recover

logger = logging.getLogger(__name__)
_encode = msgspec.json.encode
_REMEDY = "Make room and let it be written, or set HARVESTER_DATA_DIR to another folder."


class SegmentPipeline(BatchPipeline):
    """The base of pipelines that write segments below `folder`. What cannot be written ends the run.

    The stat `harvester/exit_code` is then that of StorageError, the finish reason `storage_error`.
    """

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        super().__init__(crawler)
        self._folder = folder
        self._writer = SegmentWriter(folder)
        self._failed = False

    async def open_spider(self) -> None:
        try:
            make_closed(self._folder)
            recover(self._folder)
        except OSError as error:
            failure = StorageError(f"{self._folder} cannot be made: {error.strerror or error}. {_REMEDY}")
            raise self._stop(failure) from None
        except StorageError as error:
            raise self._stop(error) from None

    async def close_spider(self) -> None:
        try:
            self._writer.close()
        except StorageError as error:
            self._stop(error)

    def _stop(self, error: StorageError) -> CloseSpider:
        logger.error("%s", error)
        self.stats.set_value("harvester/exit_code", error.exit_code)
        return CloseSpider("storage_error")

    def write(self, kind: str, lines: list[bytes]) -> int:
        """The compressed size in bytes.

        Raises StorageError, has the spider closed, and takes nothing from then on: DropItem.
        """
        if self._failed:
            raise DropItem("earlier ones could not be written; they are fetched again when the crawl is continued")
        try:
            return self._writer.write(kind, lines)
        except StorageError as error:
            self._failed = True
            failure = StorageError(f"{error} {_REMEDY}")
            end(self.crawler, self._stop(failure).reason, error.exit_code)
            raise failure from None


class StagingPipeline(SegmentPipeline):
    """Writes a line for each record: kind, key, did, url, fetched_at, crawl, and `raw` as it came. No redaction.

    A batch goes on when all its lines are with the operating system; a record without `raw` has no line.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert crawler.spider
        return cls(crawler, load_config().data_dir / "staging" / crawler.spider.name)

    async def process_batch(self, batch: Batch) -> Batch:
        lines: dict[str, list[bytes]] = defaultdict(list)
        for record in batch.records:
            if record.raw:
                lines[record.KIND].append(staged_line(record))
        for kind, of_kind in lines.items():
            size = self.write(kind, of_kind)
            self.stats.inc_value("harvester/staging/bytes", size)
            self.stats.inc_value("harvester/staging/lines", len(of_kind))
        return batch


def staged_line(record: Record) -> bytes:
    """One line of JSON, without newline."""
    raw = record.raw
    if b"\n" in raw or b"\r" in raw:
        raw = msgspec.json.format(raw, indent=-1)
    return b'{"kind":"%b","key":%b,"did":"%b"%b%b}' % (
        record.KIND.encode(),
        _encode(record.key),
        record.did.encode(),
        _observed(record.provenance),
        raw,
    )


@lru_cache(maxsize=64)
def _observed(provenance: Provenance) -> bytes:
    """The part of a line that all records of a page share."""
    url, crawl = _encode(provenance.url), _encode(provenance.crawl)
    return b',"url":%b,"fetched_at":%b,"crawl":%b,"raw":' % (url, _encode(provenance.fetched_at), crawl)
