"""What Scrapy's `-o` and FEEDS write: the records that were stored, one by one, and the items that are none."""

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import IO, Any, ClassVar, cast

import msgspec
from itemadapter import ItemAdapter
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.exporters import BaseItemExporter, JsonItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import FeedExporter, FeedSlot
from scrapy.utils.misc import load_object
from w3lib.url import file_uri_to_path

from harvester.exceptions import StorageError, UsageError
from harvester.items import Batch, Record
from harvester.items.adapter import register
from harvester.shutdown import CAUSE, end, fault_of, is_ending
from harvester.stores.segments import REASON
from harvester.stores.tables import CHUNK, TABLES, Column, Format, check_pyarrow, column_kind, columns_of, path_of

logger = logging.getLogger(__name__)

_TABLES = {"csv", "parquet"}
"""Formats of files that have one header, or one end."""
_NUMBERS = {int, float}
MOST_BITS = 63
"""Of whole numbers in Parquet; larger ones are text."""


def _plain(value: Any) -> Any:
    """What stands in a feed for a value that msgspec does not know."""
    return ItemAdapter(value).asdict() if ItemAdapter.is_item(value) else str(value)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


class RecordFeeds(FeedExporter):
    """Scrapy's feed exports. A feed that cannot be written ends the run; what is in MongoDB is not touched by it."""

    def __init__(self, crawler: Crawler) -> None:
        """Raises UsageError when a feed is asked for that cannot be written."""
        try:
            super().__init__(crawler)
        except NotConfigured:
            if crawler.settings["FEEDS"] or crawler.settings["FEED_URI"]:
                raise UsageError("A feed (-o, FEEDS) cannot be written, for the reason that is logged above.") from None
            raise
        register()
        self._has_failed = False
        for uri, options in self.feeds.items():
            if options["format"] in _TABLES and not options.get("overwrite"):
                _refuse_to_continue(uri)
            if options["format"] == "parquet":
                check_pyarrow()

    def open_spider(self, spider: Spider) -> None:
        try:
            super().open_spider(spider)
        except (UsageError, OSError) as error:
            self._fail(str(error).rstrip("."))
            raise CloseSpider(REASON) from None

    def _start_new_batch(
        self, batch_id: int, uri: str, feed_options: dict[str, Any], spider: Spider, uri_template: str
    ) -> FeedSlot:
        if feed_options["format"] in _TABLES and not feed_options.get("overwrite"):
            _refuse_to_continue(uri)  # once more: now the placeholders in its name are filled
        return super()._start_new_batch(batch_id, uri, feed_options, spider, uri_template)

    def item_scraped(self, item: Any, spider: Spider) -> None:
        try:
            for each in item.records if isinstance(item, Batch) else [item]:
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
        # Scrapy reads every attribute, and fails for what classes below `abc.ABC` have from zope.interface.
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
            self.crawler.stats.set_value("harvester/exit_code", StorageError.exit_code)
            self.crawler.stats.set_value(CAUSE, said)
        else:
            end(self.crawler, REASON, StorageError.exit_code, said)


def _refuse_to_continue(uri: str) -> None:
    """Raises UsageError when there is something in a local file."""
    path = Path(file_uri_to_path(uri) if uri.startswith("file://") else uri)
    try:
        is_there = path.stat().st_size > 0
    except OSError:
        return
    if is_there:
        raise UsageError(f"{path} is there already, and a table cannot be continued: -O writes it anew.")


class _JsonValues(BaseItemExporter):
    """What JSON lacks - bytes, spans of time, what is not a number - is written as it is staged."""

    def get_serialized_fields(self, *given: Any, **wishes: Any) -> Iterable[tuple[str, Any]]:
        row = dict(super().get_serialized_fields(*given, **wishes))
        fields: dict[str, Any] = msgspec.json.decode(_encode(row))
        return fields.items()


class JsonLinesFeed(_JsonValues, JsonLinesItemExporter):
    """One object a line."""


class JsonFeed(_JsonValues, JsonItemExporter):
    """One list of objects."""


class TableFeed(BaseItemExporter):
    """A feed whose columns are known when the last item is: until then its rows are in a temporary file.

    A record has the columns of its type, another item those of its fields; nested values are written as JSON.
    """

    FORM: ClassVar[Format]

    def __init__(self, file: IO[bytes], **options: Any) -> None:
        super().__init__(dont_fail=True, **options)
        self._file = file
        self._rows: IO[bytes] = TemporaryFile(prefix="harvester-feed-")  # noqa: SIM115  finish_exporting closes it
        self._kinds: set[type[Record]] = set()
        self._columns: dict[str, type | None] = {}
        """Name -> kind; None: there was no value yet."""

    def export_item(self, item: Any) -> None:
        row = dict(self.get_serialized_fields(item))
        if isinstance(item, Record) and self.fields_to_export is None:
            self._add_columns_of(type(item))
        else:
            for name, value in row.items():
                self._add_column(name, None if value is None else _kind_of(value))
        self._rows.write(_encode(row) + b"\n")

    def finish_exporting(self) -> None:
        with self._rows:
            columns = [Column(name, kind or str) for name, kind in self._columns.items()]
            table = TABLES[self.FORM](self._file, columns)
            try:
                self._rows.seek(0)
                times = [column.name for column in columns if column.kind is datetime]
                rows = self._read(times)
                while chunk := list(islice(rows, CHUNK)):
                    table.write(chunk)
            except OSError:
                table.abandon()
                raise
            table.close()

    def _add_columns_of(self, kind: type[Record]) -> None:
        if kind not in self._kinds:
            self._kinds.add(kind)
            for name, of in [Column("kind", str), *columns_of(kind)]:
                self._add_column(name, of)

    def _add_column(self, name: str, kind: type | None) -> None:
        known = self._columns.setdefault(name, kind)
        if known is None or kind is None or known is kind:
            self._columns[name] = known or kind
        else:
            self._columns[name] = float if {known, kind} == _NUMBERS else object

    def _read(self, times: list[str]) -> Iterator[dict[str, Any]]:
        """The rows, with their points in time."""
        for line in self._rows:
            row: dict[str, Any] = msgspec.json.decode(line)
            for column in times:
                *outer, name = path_of(column, row)
                inner: Any = row
                for part in outer:
                    inner = inner.get(part) if isinstance(inner, dict) else None
                if isinstance(inner, dict) and isinstance(inner.get(name), str):
                    inner[name] = datetime.fromisoformat(inner[name])
            yield row


def _kind_of(value: Any) -> type:
    if isinstance(value, Decimal) or (isinstance(value, int) and value.bit_length() > MOST_BITS):
        return object  # of any length
    return column_kind(type(value))


class CsvFeed(TableFeed):
    """Comma-separated, with a header."""

    FORM = Format.CSV


class ParquetFeed(TableFeed):
    """Needs pyarrow."""

    FORM = Format.PARQUET
