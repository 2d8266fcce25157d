"""Item pipeline: turns plain items into records behind the project's own pipelines, and stores them."""

from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from harvester.exceptions import InvalidRecordError
from harvester.items import Batch, Provenance, Record, Reject
from harvester.items.other import item_type
from harvester.items.receipts import OTHER, page_under_way, receipt_under_way, settle
from harvester.pipelines.base import BatchPipeline
from harvester.pipelines.mongo import MongoPipeline
from harvester.pipelines.postgres import PostgresPipeline
from harvester.pipelines.staging import StagingPipeline
from harvester.pipelines.validate import ValidatePipeline
from harvester.shutdown import RunEnding
from harvester.stores.rejects import raw_of

_THROUGH: tuple[type[BatchPipeline], ...] = (ValidatePipeline, StagingPipeline, PostgresPipeline, MongoPipeline)


class ItemsPipeline:
    """Stores plain items. The spider's attribute `item_key` names the field or fields that identify an item."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def open_spider(self) -> None:
        spider = self._crawler.spider
        assert spider
        self._spider = spider.name
        self._crawl = str(getattr(spider, "crawl_id", ""))
        named = getattr(spider, "item_key", ())
        self._named = (named,) if isinstance(named, str) else tuple(named)
        self._type = item_type(spider.name)
        self._through = [each for each in map(self._crawler.get_item_pipeline, _THROUGH) if each]

    async def process_item(self, item: Any) -> Any:
        if item is not None and not isinstance(item, (Batch, Record)):
            if (receipt := receipt_under_way()) and receipt.records.interrupted:
                raise RunEnding("the crawl is being stopped; what a pipeline lacks is fetched when it is continued")
            batch = self._batch_of(item)
            for pipeline in self._through:
                batch = await pipeline.process_batch(batch)
            if not batch.records:
                settle([OTHER])  # it is among the rejects
                raise DropItem("it is no item, or cannot be stored")
        return item

    def _batch_of(self, item: Any) -> Batch:
        provenance = Provenance.of(page_under_way(), self._spider, self._crawl)
        try:
            return Batch([self._type.of(item, self._named, provenance)])
        except InvalidRecordError as error:
            return Batch([], (Reject(self._type.KIND, str(error), "", raw_of(item), provenance.url),))
