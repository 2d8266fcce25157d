"""Item pipeline: writes the raw responses of records to disk before the records go to MongoDB."""

from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Self

import msgspec
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider

from harvester.config import load_config
from harvester.exceptions import StorageError
from harvester.items import Batch, Provenance, Record, Reject
from harvester.items.receipts import part_of, settle
from harvester.pipelines.base import BatchPipeline
from harvester.stores.rejects import rejects_of
from harvester.stores.segments import REASON, Segments

_encode = msgspec.json.encode


class StagingPipeline(BatchPipeline):
    """Writes a line for each record: kind, key, url, fetched_at, crawl, and the unchanged `raw`. No redaction.

    A batch continues when the operating system has all its lines; a record without `raw` has no line. A record that
    cannot be written as a line is rejected.
    """

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        super().__init__(crawler)
        self._segments = Segments(crawler, folder)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert crawler.spider
        return cls(crawler, load_config().data_dir / "staging" / crawler.spider.name)

    async def open_spider(self) -> None:
        try:
            self._segments.open()
        except StorageError:
            raise CloseSpider(REASON) from None

    async def close_spider(self) -> None:
        self._segments.close()

    def complete_segments(self) -> None:
        """Gives open segments their final names, so that they can be read and cleaned. Later lines go to new ones."""
        self._segments.close()

    async def process_batch(self, batch: Batch) -> Batch:
        lines: dict[str, list[bytes]] = defaultdict(list)
        bad: dict[int, Reject] = {}
        for record in batch.records:
            if record.raw:
                try:
                    lines[record.KIND].append(staged_line(record))
                except (ValueError, TypeError, RecursionError) as error:  # ValueError: from UTF-8 or JSON
                    reason = f"it cannot be written as JSON: {error}"
                    bad[id(record)] = Reject(record.KIND, reason, record.key, record.raw, record.provenance.url)
        for kind, of_kind in lines.items():
            size = self._segments.write(kind, of_kind)
            self.stats.inc_value("harvester/staging/bytes", size)
            self.stats.inc_value("harvester/staging/lines", len(of_kind))
        return batch if not bad else self._without(batch, bad)

    def _without(self, batch: Batch, bad: dict[int, Reject]) -> Batch:
        kept = [record for record in batch.records if id(record) not in bad]
        rejects_of(self.crawler).keep(list(bad.values()))
        left_out = {part_of(record) for record in batch.records} - {part_of(record) for record in kept}
        settle(left_out, rejected=len(bad))
        return batch._replace(records=kept)


def staged_line(record: Record) -> bytes:
    """Returns one line of JSON, without newline."""
    return record.line(_observed(record.provenance))


@lru_cache(maxsize=64)
def _observed(provenance: Provenance) -> bytes:
    """The part of a line that all records of a page share."""
    url, crawl = _encode(provenance.url), _encode(provenance.crawl)
    return b'"url":%b,"fetched_at":%b,"crawl":%b' % (url, _encode(provenance.fetched_at), crawl)
