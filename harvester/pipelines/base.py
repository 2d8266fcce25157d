"""The base of the item pipelines, which handle either single records or batches."""

from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from harvester.items import Batch, Record


class BatchPipeline:
    """Handles a Batch; a single Record is handled as a batch of one. Other items pass untouched.

    Override `process_record` (return None to drop the record) or `process_batch`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        assert crawler.stats
        self.stats = crawler.stats

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Batch):
            return await self.process_batch(item)
        if isinstance(item, Record):
            processed = await self.process_batch(Batch([item]))
            if not processed.records:
                raise DropItem(f"{item.KIND} {item.key}")
            return processed.records[0]
        return item

    async def process_batch(self, batch: Batch) -> Batch:
        """Returns the batch for the next pipeline."""
        processed = [self.process_record(record) for record in batch.records]
        return batch._replace(records=[record for record in processed if record is not None])

    def process_record(self, record: Record) -> Record | None:
        """Returns the record for the next pipeline, or None to drop it."""
        return record
