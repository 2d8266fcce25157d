"""Writes Scrapy's `-o` and FEEDS: the stored records, one by one, and items that are not records."""

import codecs
import logging
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.extensions.feedexport import FeedExporter, FeedSlot
from scrapy.http import Response
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.python.failure import Failure
from w3lib.url import file_uri_to_path

from harvester.config import load_config
from harvester.exceptions import StorageError, UsageError
from harvester.items import Batch
from harvester.items.adapter import register
from harvester.shutdown import CAUSE, EXIT_CODE, end, fault_of, is_ending
from harvester.stores.saved_items import files_begun, saved_folder
from harvester.stores.segments import REASON
from harvester.stores.tables import check_pyarrow

logger = logging.getLogger(__name__)

_TABLES = {"csv", "parquet"}
"""Formats whose files have a header at the start, or a fixed end."""


class FeedSaver(Protocol):
    """The methods of frontier.saved_feeds that feeds need.

    This interface exists since frontier is above this package.
    """

    @property
    def begin(self) -> Callable[[Path], None]: ...

    def earlier(self) -> Iterator[Any]: ...

    def select_new(self, item: Any, response: Response | Failure | None) -> list[Any]: ...


class RecordFeeds(FeedExporter):
    """Scrapy's feed exports. A feed that cannot be written ends the run, but does not affect the data in MongoDB."""

    saved: FeedSaver | None = None
    """The saved items from earlier runs of the same crawl. The scheduler sets it before the spider opens."""

    def __init__(self, crawler: Crawler) -> None:
        """Raises UsageError when a requested feed cannot be written."""
        try:
            super().__init__(crawler)
        except NotConfigured:
            if crawler.settings["FEEDS"] or crawler.settings["FEED_URI"]:
                raise UsageError("A feed (-o, FEEDS) cannot be written, for the reason that is logged above.") from None
            raise
        register()
        self._has_failed = False
        spider = crawler.spidercls.name
        begun = files_begun(saved_folder(load_config(), spider))
        for uri, options in self.feeds.items():
            is_continued = str(_local_path(uri)) in begun  # the continued crawl writes everything again
            if options["format"] in _TABLES and not options.get("overwrite") and not is_continued:
                _refuse_to_continue(uri)
            if options["format"] == "parquet":
                check_pyarrow()
            self._check_options(uri, options)

    def _check_options(self, uri: str, options: Mapping[str, Any]) -> None:
        """Raises UsageError for an option of a feed that its exporter lacks or refuses."""
        exporter, encoding = self.exporters[options["format"]], options["encoding"]
        try:
            codecs.lookup(encoding or "utf-8")
            build_from_crawler(
                exporter,
                self.crawler,
                BytesIO(),
                fields_to_export=options["fields"],
                encoding=encoding,
                indent=options["indent"],
                **options["item_export_kwargs"],
            )
        except (LookupError, TypeError, ValueError) as error:
            raise UsageError(f"FEEDS, {uri}: {str(error).rstrip('.')}.") from None

    def open_spider(self, spider: Spider) -> None:
        if not self.saved:
            self.crawler.stats.set_value("harvester/feeds/of_a_part", True)  # others may work at the same crawl
        try:
            super().open_spider(spider)
            for item in self.saved.earlier() if self.saved else ():
                super().item_scraped(item, spider)
        except (UsageError, StorageError, OSError) as error:
            self._fail(str(error).rstrip("."))
            raise CloseSpider(REASON) from None

    def _start_new_batch(
        self, batch_id: int, uri: str, feed_options: dict[str, Any], spider: Spider, uri_template: str
    ) -> FeedSlot:
        if self.saved and not feed_options.get("overwrite"):
            self.saved.begin(_local_path(uri))
        if feed_options["format"] in _TABLES and not feed_options.get("overwrite"):
            _refuse_to_continue(uri)  # checked again, since the placeholders in the name are filled now
        return super()._start_new_batch(batch_id, uri, feed_options, spider, uri_template)

    def item_scraped(self, item: Any, spider: Spider, response: Response | Failure | None = None) -> None:
        try:
            records = item.records if isinstance(item, Batch) else [item]
            for each in self.saved.select_new(item, response) if self.saved else records:
                if not self._has_failed:
                    super().item_scraped(each, spider)
        except OSError as error:
            self._fail(str(error.strerror or error))
        except Exception as error:
            logger.exception("A feed cannot hold %.200r", item)
            self._fail(fault_of(error).rstrip("."))

    async def close_spider(self, spider: Spider) -> None:
        await super().close_spider(spider)
        if any(name.startswith("feedexport/failed_count/") for name in self.crawler.stats.get_stats()):
            self._fail("the store refused it")

    async def _close_slot(self, slot: FeedSlot, spider: Spider) -> None:
        try:
            await super()._close_slot(slot, spider)
        except OSError as error:
            self._fail(str(error.strerror or error))

    def _get_uri_params(self, spider: Spider, uri_params_function: Any, slot: FeedSlot | None = None) -> dict[str, Any]:
        # Scrapy reads every attribute, and fails on attributes that zope.interface adds to classes below `abc.ABC`.
        readable = {name: getattr(spider, name) for name in dir(spider) if hasattr(spider, name)}
        params = super()._get_uri_params(cast(Spider, SimpleNamespace(**readable)), None, slot)
        changed = load_object(uri_params_function)(params, spider) if uri_params_function else None
        return params if changed is None else changed

    def _fail(self, reason: str) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        said = f"A feed (-o, FEEDS) cannot be written: {reason}. What was stored is in MongoDB all the same."
        logger.error("%s", said)
        if is_ending(self.crawler):
            self.crawler.stats.set_value(EXIT_CODE, StorageError.exit_code)
            self.crawler.stats.set_value(CAUSE, said)
        else:
            end(self.crawler, REASON, StorageError.exit_code, said)


def _local_path(uri: str) -> Path:
    return Path(file_uri_to_path(uri) if uri.startswith("file://") else uri).absolute()


def _refuse_to_continue(uri: str) -> None:
    """Raises UsageError when a local file exists and is not empty."""
    path = _local_path(uri)
    try:
        is_there = path.stat().st_size > 0
    except OSError:
        return
    if is_there:
        raise UsageError(f"{path} is there already, and a table cannot be continued: -O writes it anew.")
