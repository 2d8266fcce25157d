"""Item pipeline: nothing is kept of accounts that declined to be collected, or that were purged here."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Container, Iterable
from typing import Self

from pymongo.errors import PyMongoError
from scrapy import signals
from scrapy.crawler import Crawler

from harvester.config import Config, load_config
from harvester.exceptions import HarvesterError, ServiceError, StorageError
from harvester.items import Batch, Record
from harvester.items.bluesky import Follow, Post, Profile
from harvester.items.receipts import parts_of, settle
from harvester.parsers.bluesky.scrub import without_quotes
from harvester.pipelines.base import BatchPipeline
from harvester.privacy.opt_outs import REFUSING, take_back
from harvester.stores.mongodb import MongoOutage, connect, connect_sync, said

logger = logging.getLogger(__name__)

REFRESH_S = 60.0
"""How often the list of purged accounts is read again."""


class ConsentPipeline(BatchPipeline):
    """Applies what the owners of records declared, unless the spider's argument `honour_opt_outs` is off, and `purged`.

    Of an account that opted out a stub of its profile stays, which says so; all its other records are dropped. Of a
    purged account nothing stays, what others quote of it is emptied, and it is found by no job. What was kept of an
    account before it was known to refuse is taken back at the end of the run.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        super().__init__(crawler)
        self._config = config
        self._purged: frozenset[str] = frozenset()
        self._refusing: set[str] = set()
        """Accounts that declared, where no view of them shows it, that they do not want to be collected."""
        self._honours = True
        """Whether that counts for the batch at hand."""

    def _is_honoured(self, batch: Batch) -> bool:
        """Whether its job leaves out who does not want to be collected. A spider without jobs answers for all."""
        keeping_all: Container[str] | None = getattr(self.crawler.spider, "keeping_all", None)
        if keeping_all is not None and batch.records:
            return batch.records[0].provenance.crawl not in keeping_all
        return bool(getattr(getattr(self.crawler.spider, "arguments", None), "honour_opt_outs", True))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        pipeline = cls(crawler, load_config())
        crawler.signals.connect(pipeline.take_back, signals.spider_closed)
        return pipeline

    async def open_spider(self) -> None:
        self._database = connect(self._config)
        retrying = MongoOutage(self.crawler, self._config)
        await retrying(self.read_purged)
        await retrying(self._read_refusing)
        self._reader = asyncio.create_task(self._keep_reading())

    async def close_spider(self) -> None:
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        await self._database.client.close()

    async def process_batch(self, batch: Batch) -> Batch:
        self._honours = self._is_honoured(batch)
        kept = [kept for record in batch.records if (kept := self.process_record(record)) is not None]
        rejects = tuple(reject for reject in batch.rejects if self.is_allowed(reject.key))
        if batch.found and self._purged:
            batch = batch._replace(found=tuple(found for found in batch.found if self.is_allowed(found.key)))
        if len(kept) < len(batch.records) or len(rejects) < len(batch.rejects):
            left = batch._replace(records=kept, rejects=rejects)
            settle(parts_of(batch) - parts_of(left))
            return left
        return batch._replace(records=kept)

    def process_record(self, record: Record) -> Record | None:
        """None when nothing may be kept of it. What belongs to nobody passes untouched."""
        if not record.OWNERS:
            return record
        if self._purged:
            if any(getattr(record, name) in self._purged for name in record.OWNERS):
                self.stats.inc_value(f"harvester/consent/purged/{record.KIND}")
                return None
            if isinstance(record, Post) and record.embed and record.embed.quote:
                record = self._without_purged_quotes(record)
        if not self._honours:
            return record
        if isinstance(record, Profile) and record.intents is not None:
            change = self._refusing.add if record.opted_out else self._refusing.discard
            change(record.belongs_to)
        refuses = self._refusing and record.belongs_to in self._refusing and not isinstance(record, (Profile, Follow))
        if not refuses and not record.opted_out:
            return record
        stub = record.stub()
        self.stats.inc_value("harvester/consent/stubbed" if stub else f"harvester/consent/dropped/{record.KIND}")
        return stub

    def is_allowed(self, key: str) -> bool:
        """Whether it is the key of no purged account, and of nothing that one wrote."""
        return key.removeprefix("at://").partition("/")[0] not in self._purged

    def _without_purged_quotes(self, post: Post) -> Post:
        emptied = without_quotes(post, self._purged)
        if emptied is not post:
            self.stats.inc_value("harvester/consent/purged/quote")
        return emptied

    async def read_purged(self) -> None:
        """Learns which accounts were purged."""
        self._purged = frozenset([document["_id"] async for document in self._database["purged"].find({}, {"_id": 1})])

    async def _read_refusing(self) -> None:
        self._refusing = {row["_id"] async for row in self._database[Profile.COLLECTION].find(REFUSING, {"_id": 1})}

    async def take_back(self) -> None:
        """To be called when the pipelines are closed, so that all that they staged can be read."""
        jobs: list[str] = getattr(self.crawler.spider, "honouring", [])
        try:
            removed = await asyncio.to_thread(self._take_back, jobs) if jobs else Counter()
        except (PyMongoError, HarvesterError) as error:
            logger.error("What was kept of accounts that refuse could not be removed: %s", said(error))  # noqa: TRY400
            if not self.stats.get_value("harvester/exit_code"):
                self.stats.set_value("harvester/exit_code", StorageError.exit_code)
            return
        if removed:
            logger.info("What was kept of accounts before they were known to refuse is removed")
            for kind, count in removed.items():
                self.stats.inc_value(f"harvester/consent/dropped/{kind}", count)
                self.stats.inc_value(f"harvester/consent/removed/{kind}", count)

    def _take_back(self, jobs: Iterable[str]) -> Counter[str]:
        assert self.crawler.spider
        removed: Counter[str] = Counter()
        database = connect_sync(self._config)
        with database.client:
            for job in jobs:
                removed += take_back(database, self._config, self.crawler.spider.name, job)
        return removed

    async def _keep_reading(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.read_purged()
            except (PyMongoError, ServiceError) as error:
                logger.debug("The list of purged accounts cannot be read: %s", error)
