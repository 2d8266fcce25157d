"""Item pipeline: writes records to tables of PostgreSQL. On if HARVESTER_POSTGRES_URI is set."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Self

from bson import Decimal128
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured

from harvester.config import Config, load_config
from harvester.exceptions import HarvesterError, ServerAway, ServiceError
from harvester.items import Batch, Record
from harvester.items.bson_limits import UNSTORABLE
from harvester.pipelines.base import BatchPipeline
from harvester.pipelines.mongo import KEPT
from harvester.shutdown import end
from harvester.stores.outage import Outage
from harvester.stores.tables import Row, columns_of, columns_seen

if TYPE_CHECKING:
    from harvester.stores.postgres import Postgres, PostgresTable

logger = logging.getLogger(__name__)

_CALLED = {str: "string", int: "long", float: "double", bool: "bool", datetime: "date", Decimal128: "decimal"}
"""MongoDB's names of value types. All other types become JSON."""


class PostgresOutage(Outage):
    """Turns an outage of PostgreSQL into a pause, once it has been reached."""

    SERVER = "PostgreSQL"
    ERRORS = ()

    @staticmethod
    def start_private(config: Config) -> str:
        """Returns an empty text: PostgreSQL has no private server."""
        return ""

    def refusal(self, error: Exception) -> None:
        return None

    def passes(self, error: Exception) -> bool:
        return isinstance(error, ServerAway) and self.reached

    def condition(self, error: Exception) -> str:
        return "PostgreSQL cannot be reached"

    def said(self, error: Exception) -> str:
        return str(error)

    def surrender(self, error: Exception, *, reached: bool) -> ServiceError:
        return ServiceError(f"The crawl was told to stop while PostgreSQL was away: {error}")


class PostgresPipeline(BatchPipeline):
    """Passes a batch on when PostgreSQL has its records, or the reasons of refused ones in its table of rejects.

    Stands before MongoDB's pipeline, which completes a page: a page that PostgreSQL has not received is fetched
    again.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        super().__init__(crawler)
        self._config = config
        self._patiently = PostgresOutage(crawler, config)
        self._one_at_a_time = asyncio.Lock()
        self._to: Postgres | None = None
        self._tables: dict[type[Record], PostgresTable] = {}
        self._seen: defaultdict[type[Record], dict[str, set[str]]] = defaultdict(dict)
        """Value types seen so far by field, for kinds whose fields vary."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = load_config()
        if config.postgres_uri is None:
            raise NotConfigured  # without a message: Scrapy would log it as a warning
        return cls(crawler, config)

    async def open_spider(self) -> None:
        try:
            await self._patiently(lambda: asyncio.to_thread(self._connect))
        except HarvesterError as error:
            logger.error("%s", error)  # noqa: TRY400  the message is complete
            end(self.crawler, error.finish_reason, error.exit_code, str(error))
            raise CloseSpider(error.finish_reason) from None

    async def close_spider(self) -> None:
        await asyncio.to_thread(self._disconnect)

    async def process_batch(self, batch: Batch) -> Batch:
        rows: defaultdict[type[Record], list[Row]] = defaultdict(list)
        for record in batch.records:
            try:
                rows[type(record)].append(record.to_document())
            except (*UNSTORABLE, TypeError, ValueError):
                continue  # MongoDB's pipeline rejects it with the reason
        if rows:
            async with self._one_at_a_time:
                await self._patiently(lambda: asyncio.to_thread(self._write, rows))
        return batch

    # In a thread --------------------------------------------------------------------------------------------

    def _connect(self) -> "Postgres":
        from harvester.stores.postgres import Postgres

        if self._to is None:
            assert self._config.postgres_uri
            address = self._config.postgres_uri.get_secret_value()
            self._to = Postgres(address, self._config.postgres_schema, named="HARVESTER_POSTGRES_URI")
            self._tables = {}
        return self._to

    def _disconnect(self) -> None:
        if self._to:
            self._to.connection.close()
        self._to = None

    def _write(self, rows: dict[type[Record], list[Row]]) -> None:
        try:
            to = self._connect()
            before = to.rejected
            for kind, of_kind in rows.items():
                self._table(to, kind, of_kind).write(of_kind)
            for kind, of_kind in rows.items():
                self.stats.inc_value(f"harvester/postgres/rows/{kind.KIND}", len(of_kind))
            if to.rejected > before:
                self.stats.inc_value("harvester/postgres/rejected", to.rejected - before)
        except ServerAway:
            self._disconnect()
            raise

    def _table(self, to: "Postgres", kind: type[Record], rows: Sequence[Row]) -> "PostgresTable":
        from harvester.stores.postgres import PostgresTable, version_of

        columns = columns_of(kind)
        is_new = kind not in self._tables
        if kind.FIELDS_VARY:
            seen = self._seen[kind]
            for name, value in ((name, value) for row in rows for name, value in row.items() if value is not None):
                is_new = is_new or name not in seen
                seen.setdefault(name, set()).add(_CALLED.get(type(value), "object"))
            columns = columns_seen(kind, ({"_id": name, "kinds": seen[name]} for name in sorted(seen)))
        if is_new:
            self._tables[kind] = PostgresTable(
                to, kind.COLLECTION, columns, version_of(kind, columns), vary=kind.FIELDS_VARY, kept=KEPT
            )
        return self._tables[kind]
