"""Finds out which records of leased pages are safe: opens a receipt for each item, and follows its result.

Scrapy finishes a request when its items are through the pipelines, whatever their result.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DropItem
from scrapy.http import Response
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.deprecate import method_is_overridden
from twisted.python.failure import Failure

from harvester.exceptions import FetchError, HarvesterError, InvalidRecordError, PageFailed, ParseError
from harvester.frontier.in_flight import InFlight
from harvester.items.receipts import OTHER, SettlesRecords, open_receipt, parts_of, receipt_under_way
from harvester.shutdown import RunEnding, close, end, is_ending
from harvester.stores.rejects import rejects_of

logger = logging.getLogger(__name__)

_OF_THE_ITEM = (FetchError, InvalidRecordError, PageFailed, ParseError)
"""Exceptions of this project that concern one item; after others nothing can be saved any more."""
_PROCESS = ("process_item", "process_item_async")


def _is_older(processor: type[Any]) -> bool:
    """Returns True for a class that has its own process_item, which Scrapy deprecates, and no process_item_async."""
    if not issubclass(processor, ItemPipelineManager):
        return not hasattr(processor, "process_item_async")
    has_own = {name: method_is_overridden(processor, ItemPipelineManager, name) for name in _PROCESS}
    return has_own["process_item"] and not has_own["process_item_async"]


def with_receipts(processor: type[Any]) -> type[Any]:
    """Returns an item processor class (the setting ITEM_PROCESSOR) that opens a receipt for each item."""
    if getattr(processor, "opens_receipts", False):
        return processor

    if _is_older(processor):

        @wraps(processor, updated=())
        class OlderConfirming(processor):  # type: ignore[misc]
            opens_receipts = True

            def process_item(self, item: Any, spider: Spider) -> Any:
                open_receipt(item)
                return super().process_item(item, spider)

        return OlderConfirming

    @wraps(processor, updated=())
    class Confirming(processor):  # type: ignore[misc]
        opens_receipts = True

        async def process_item_async(self, item: Any) -> Any:
            open_receipt(item)
            try:
                return await super().process_item_async(item)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task and task.cancelling():
                    raise
                raise RuntimeError("an item pipeline raised CancelledError") from error  # it would end Scrapy's task

    return Confirming


ConfirmedPipelines = with_receipts(ItemPipelineManager)


class Confirmations:
    """Settles the receipts of items, by the signals that Scrapy sends at the end of the pipelines."""

    def __init__(self, crawler: Crawler, lease_of: Callable[[Request | None], InFlight | None]) -> None:
        self._crawler = crawler
        self._lease_of = lease_of
        connect = crawler.signals.connect
        connect(self._on_scraped, signals.item_scraped)
        connect(self._on_dropped, signals.item_dropped)
        connect(self._on_error, signals.item_error)

    def _on_scraped(self, item: Any) -> None:
        """Settles an item that passed all pipelines. Its records wait for a pipeline that stores them, if one does."""
        receipt = receipt_under_way()
        if receipt is None or item is None:
            return
        receipt.settle({OTHER})
        if not self._is_confirmed_by_a_pipeline:
            receipt.settle(parts_of(item))

    def _on_dropped(self, item: Any, response: Response | Failure, exception: DropItem) -> None:
        """Saves a dropped item with its reason, unless the end of the run may have dropped it."""
        receipt = receipt_under_way()
        if receipt is None or not receipt.open or is_ending(self._crawler):
            return
        why = str(exception) or "an item pipeline dropped it and gave no reason"
        url = response.request.url  # type: ignore[union-attr]
        try:
            dropped = rejects_of(self._crawler).keep_dropped(item, receipt.open, why, url)
        except (HarvesterError, RunEnding):
            return  # this error ends the run, and the page is released
        receipt.settle(set(receipt.open), rejected=dropped)

    def _on_error(self, response: Response | Failure | None, failure: Failure) -> None:
        lease = self._lease_of(getattr(response, "request", None))
        error = failure.value
        assert error
        if isinstance(error, HarvesterError) and not isinstance(error, _OF_THE_ITEM):  # nothing can be saved any more
            end(self._crawler, error.finish_reason, error.exit_code, str(error))
            if lease:
                lease.given_back = True
        elif lease:
            lease.failed_by(error)
            if isinstance(error, CloseSpider):  # Scrapy obeys it in callbacks only
                self._closing = asyncio.ensure_future(close(self._crawler, error.reason or "cancelled"))

    @cached_property
    def _is_confirmed_by_a_pipeline(self) -> bool:
        return self._crawler.get_item_pipeline(SettlesRecords) is not None
