"""Item pipeline: nothing is kept of accounts that declined to be collected, or that were purged here."""

import asyncio
import logging
from collections.abc import Container
from contextlib import AsyncExitStack
from time import monotonic
from typing import Self

from msgspec.json import encode
from msgspec.structs import replace
from pymongo.errors import PyMongoError
from scrapy import signals
from scrapy.crawler import Crawler

from harvester.config import Config, load_config
from harvester.exceptions import HarvesterError, ServiceError, StorageError
from harvester.items import Batch, Record
from harvester.items.bluesky import BlueskyRecord, Follow, Post, Profile, is_did
from harvester.items.receipts import parts_of, settle
from harvester.parsers.bluesky.scrub import OPTED_OUT, PURGED, quotes_of, without_quotes
from harvester.pipelines.base import BatchPipeline
from harvester.pipelines.staging import StagingPipeline
from harvester.privacy import OPT_OUTS
from harvester.privacy.opt_outs import BY_LABEL, UNKNOWN, Declared, KnownOptOut, TakenBack, take_back, writes_of
from harvester.privacy.purge import ANY_CASE, find, purge, resolve
from harvester.privacy.purged import purged_of
from harvester.shutdown import EXIT_CODE, stop
from harvester.stores.mongodb import MongoOutage, at_the_end, connect, connect_sync, disconnect, said
from harvester.stores.rejects import rejects_of

logger = logging.getLogger(__name__)

_EMPTIED = encode({PURGED: True})[1:]
REFRESH_S = 60.0
"""How often the lists of purged accounts, and of those that say no, are read again."""
APPLY_S = 30.0
"""How long after an account was learnt to say no what was kept of it is taken back: what was on its way is stored by
then, and many are dealt with together."""
MAX_APPLY_SHARE = 0.05
"""Of the time, that taking back may take while a run goes on: a large folder takes long to look through."""


class ConsentPipeline(BatchPipeline):
    """Applies what the owners of records declared, unless the spider's argument `honour_opt_outs` is off, and `purged`.

    Of an account that opted out a stub of its profile stays, which says so; all its other records are dropped. Of a
    purged account nothing stays, what others quote of it is emptied, and it is found by no job. What was kept of an
    account before it was known to say no is taken back when a run begins and when it ends.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        super().__init__(crawler)
        self._config = config
        self._retrying = MongoOutage(crawler, config)
        self._opened = AsyncExitStack()
        """What is to be closed: Scrapy closes pipelines that it has not opened, too, when another one cannot be."""
        self._purged = purged_of(crawler)
        self._opt_outs: dict[str, KnownOptOut] = {}
        """Accounts that are known to say no."""
        self._news = asyncio.Event()
        """Set when accounts were learnt to say no, or to be purged, of which words may be kept."""
        self._purged_since: set[str] = set()
        """Accounts that were purged while this run goes on, and of which it may have kept something meanwhile."""
        self._learnt: dict[str, KnownOptOut] = {}
        """Those of the batch at hand that are new among them."""
        self._withdrawn: set[str] = set()
        """Those of the batch at hand that do so no more."""
        self._honours = True
        """Whether that counts for the batch at hand."""
        self._harvested: set[str] = set()
        """Accounts of the batch at hand whose declarations are unknown now, and that were harvested before."""

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
        self._opened.push_async_callback(disconnect, self._database)
        await self._retrying(self.read_purged)
        await self._retrying(self.read_opt_outs)
        await self.take_back()  # what a run left that was killed, or ended before others learnt who says no
        for loop in (self._keep_reading(), self._keep_applying()):
            self._opened.push_async_callback(stop, asyncio.create_task(loop))

    async def close_spider(self) -> None:
        await self._opened.aclose()

    async def process_batch(self, batch: Batch) -> Batch:
        honours = self._is_honoured(batch)
        if honours and self._opt_outs:
            await self._check({record.belongs_to for record in batch.records} & self._opt_outs.keys())
        self._honours, self._learnt, self._withdrawn = honours, {}, set()
        unknown = {record.did for record in batch.records if isinstance(record, Profile) and record.opt_outs == UNKNOWN}
        self._harvested = await self._find_harvested(unknown) if honours and unknown else set()
        kept = [kept for record in batch.records if (kept := self.process_record(record)) is not None]
        learnt, withdrawn = self._learnt, self._withdrawn
        if learnt or withdrawn:
            await self._write_down(learnt, withdrawn)
        if self._purged.handles:
            await self._free_handles(batch)
        rejects = tuple(reject for reject in batch.rejects if self.is_allowed(reject.key))
        if batch.found and self._purged.accounts:
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
        if purged := self._purged.accounts:
            if any(getattr(record, name) in purged for name in record.OWNERS):
                self.stats.inc_value(f"harvester/consent/purged/{record.KIND}")
                return None
            if isinstance(record, Post) and record.embed and record.embed.quote:
                record = self._without_purged_quotes(record)
        if not self._honours:
            return record
        if isinstance(record, Profile) and record.opt_outs == UNKNOWN and record.did in self._harvested:
            return None
        if isinstance(record, BlueskyRecord):
            record = self._as_declared(record)
        if not record.opted_out:
            return record
        stub = record.stub()
        self.stats.inc_value("harvester/consent/stubbed" if stub else f"harvester/consent/dropped/{record.KIND}")
        return stub

    def declared_before(self, did: str) -> Declared:
        """What an account was known to declare that its views do not show; empty: nothing."""
        known = self._opt_outs.get(did)
        return known.declared if known and known.declared != BY_LABEL else ()

    def _as_declared(self, record: BlueskyRecord) -> BlueskyRecord:
        """The record with what its account declares, as far as that is known, and without quotes of others who do."""
        if isinstance(record, Post) and record.embed and record.embed.quote:
            record = self._without_refusing_quotes(record)
        if isinstance(record, Follow) and record.raw.endswith(_EMPTIED):
            self._learn_from_list(record)
        elif record.opt_outs:
            self._learn(record.did, KnownOptOut(record.opt_outs, record.provenance.fetched_at))
        elif not isinstance(record, Follow) and (known := self._opt_outs.get(record.did)):
            shows_labels = known.declared == BY_LABEL and isinstance(record, (Profile, Post))
            shows_intents = isinstance(record, Profile) and record.intents is not None
            if (shows_labels or shows_intents) and record.provenance.fetched_at > known.seen_at:
                self._forget(record.did)
            elif self._refused(record.did, record):
                return replace(record, opt_outs=known.declared)
        return record

    def _refused(self, did: str, record: BlueskyRecord) -> bool:
        """Whether the account is known to say no where this record does not show it, or was seen earlier."""
        known = self._opt_outs.get(did)
        return known is not None and (known.declared != BY_LABEL or record.provenance.fetched_at <= known.seen_at)

    def _without_refusing_quotes(self, post: Post) -> Post:
        refused = set[str]()
        for quote in quotes_of(post):
            if quote.did and quote.kind == OPTED_OUT and quote.did not in self._opt_outs:
                self._learn(quote.did, KnownOptOut(BY_LABEL, post.provenance.fetched_at))
            elif quote.did and self._refused(quote.did, post):
                refused.add(quote.did)
        return without_quotes(post, refused, OPTED_OUT) if refused else post

    def _learn_from_list(self, follow: Follow) -> None:
        """Of a member who says no its parser has left this."""
        left = {encode({"did": did, PURGED: True}): did for did in (follow.did, follow.subject_did)}
        did = left.get(follow.raw)
        if did and did not in self._opt_outs:
            self._learn(did, KnownOptOut(BY_LABEL, follow.provenance.fetched_at))

    def _learn(self, did: str, seen: KnownOptOut) -> None:
        before = self._opt_outs.get(did)
        if not is_did(did):  # a quote or a list may name anything
            return
        if before is None or (before.declared != seen.declared and before.seen_at <= seen.seen_at):
            self._opt_outs[did] = self._learnt[did] = seen
            self._withdrawn.discard(did)
            self._news.set()

    def _forget(self, did: str) -> None:
        del self._opt_outs[did]
        self._learnt.pop(did, None)
        self._withdrawn.add(did)

    async def _write_down(self, learnt: dict[str, KnownOptOut], withdrawn: set[str]) -> None:
        """Before the page is done: a later run must know them when this one is killed."""
        collection = self._database[OPT_OUTS]
        try:
            await self._retrying(lambda: collection.bulk_write(writes_of(learnt, withdrawn), ordered=False))
        except BaseException:
            for did in learnt:
                self._opt_outs.pop(did, None)  # the page comes again, and is to be written down then
            raise

    async def _free_handles(self, batch: Batch) -> None:
        """Forgets handles of purged accounts that other accounts have since: these may be asked for by them."""
        profiles = (record for record in batch.records if isinstance(record, Profile))
        freed = [each.handle for each in profiles if not self._purged.allows(each.handle) and self.is_allowed(each.did)]
        if freed:
            update = {"$unset": {"handle": ""}}
            where = {"handle": {"$in": freed}}
            collection = self._database[PURGED]
            await self._retrying(lambda: collection.update_many(where, update, collation=ANY_CASE))
            await self._retrying(self.read_purged)

    async def _find_harvested(self, dids: set[str]) -> set[str]:
        """Returns those of which a profile is kept that is no stub: they were harvested when more was known of them."""
        query = {"_id": {"$in": sorted(dids)}, "opt_outs.0": {"$exists": False}}
        profiles = self._database[Profile.COLLECTION]
        rows = await self._retrying(lambda: profiles.find(query, {"_id": 1}).to_list())
        return {row["_id"] for row in rows}

    async def _check(self, suspects: set[str]) -> None:
        """Whether those still say no who are said to have declared it: another process may have heard otherwise."""
        if asked := list(filter(self.declared_before, suspects)):
            query = {"_id": {"$in": asked}}
            rows = await self._retrying(lambda: self._database[OPT_OUTS].find(query, {"_id": 1}).to_list())
            for did in set(asked) - {row["_id"] for row in rows}:
                self._opt_outs.pop(did, None)

    def is_allowed(self, key: str) -> bool:
        """Whether it is the key of no purged account, and of nothing that one wrote."""
        return self._purged.allows(key)

    def _without_purged_quotes(self, post: Post) -> Post:
        emptied = without_quotes(post, self._purged.accounts)
        if emptied is not post:
            self.stats.inc_value("harvester/consent/purged/quote")
        return emptied

    async def read_purged(self) -> None:
        """Learns which accounts were purged."""
        await self._purged.read(self._database)

    async def read_opt_outs(self) -> None:
        """Learns which accounts say no."""
        rows = self._database[OPT_OUTS].find({}, {"declared": 1, "seen_at": 1})
        known = {row["_id"]: KnownOptOut(tuple(row["declared"]), row["seen_at"]) async for row in rows}
        if known.keys() - self._opt_outs.keys():
            self._news.set()
        self._opt_outs |= known

    async def take_back(self) -> None:
        """Removes what is kept of accounts that say no, before anything is written or when nothing is any more."""
        if (failed := await self._apply()) and not self.stats.get_value(EXIT_CODE):
            self.stats.set_value(EXIT_CODE, StorageError.exit_code)
            logger.error("What was kept of accounts that refuse could not be removed: %s", failed)

    async def _apply(self) -> str:
        """Removes it, but for lines in segments that are being written. Returns what went wrong."""
        if not hasattr(self.crawler.spider, "keeping_all"):
            return ""  # a spider that knows of no opt-outs
        rejects_of(self.crawler).close()  # its own handler of the signal may come later
        try:
            with at_the_end(self.crawler):
                removed, of_run = await asyncio.to_thread(self._take_back)
        except (PyMongoError, HarvesterError) as error:
            return said(error)
        if removed:
            logger.info("What was kept of accounts before they were known to refuse is removed")
            for kind, count in removed.items():
                self.stats.inc_value(f"harvester/consent/dropped/{kind}", count)
            for kind, count in of_run.items():
                self.stats.inc_value(f"harvester/consent/removed/{kind}", count)
        return ""

    def _take_back(self) -> TakenBack:
        spider = self.crawler.spider
        assert spider
        database = connect_sync(self._config)
        with database.client:
            return take_back(database, self._config, spider.name, getattr(spider, "jobs", ()))

    async def _keep_applying(self) -> None:
        """Takes back, while the run goes on: one that stays on ends perhaps never."""
        self._news.clear()  # what was known in the beginning is taken back
        pause = APPLY_S
        while True:
            await self._news.wait()
            await asyncio.sleep(pause)
            self._news.clear()
            began = monotonic()
            if staging := self.crawler.get_item_pipeline(StagingPipeline):
                staging.complete_segments()
            if failed := await self._apply():
                logger.warning("What was kept of accounts that refuse cannot be removed now: %s", failed)
                self._news.set()
            purged, self._purged_since = self._purged_since, set()
            for did in purged:
                await asyncio.to_thread(self._purge_again, did)
            pause = max(APPLY_S, (monotonic() - began) / MAX_APPLY_SHARE)

    def _purge_again(self, did: str) -> None:
        """Removes what this run stored of an account that was purged meanwhile, before it heard of that."""
        database = connect_sync(self._config)
        with database.client:
            try:
                account = resolve(database, did)
                purge(database, self._config, account, find(database, self._config, did))
            except (PyMongoError, HarvesterError) as error:
                logger.warning("Of %s, which was purged, not all could be removed: %s", did, said(error))

    async def _keep_reading(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                before = self._purged.accounts
                await self.read_purged()
                if new := {*self._purged.accounts} - before:
                    self._purged_since |= new
                    self._news.set()
                await self.read_opt_outs()
            except (PyMongoError, ServiceError) as error:
                logger.debug("The lists of purged accounts and of opt-outs cannot be read: %s", error)
