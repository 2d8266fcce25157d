"""Item pipeline: saves no records of accounts that opted out, or that were purged here."""

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
"""Seconds between two reads of the lists of purged accounts and of opt-outs."""
APPLY_S = 30.0
"""Seconds from a new opt-out to the removal of saved records: by then records in progress are stored, and several
removals share a pass."""
MAX_APPLY_SHARE = 0.05
"""Maximum share of the time for removals during a run, since a large folder takes long to search."""


class ConsentPipeline(BatchPipeline):
    """Applies the opt-outs of record owners, unless the spider's argument `honour_opt_outs` is off, and `purged`.

    An account that opted out keeps a stub of its profile, which shows the opt-out; all its other records are dropped.
    A purged account keeps no record, quotes of it are emptied, and jobs do not find it. Records saved before an
    opt-out was known are removed when a run begins and when it ends.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        super().__init__(crawler)
        self._config = config
        self._retrying = MongoOutage(crawler, config)
        self._opened = AsyncExitStack()
        """Resources to close: Scrapy also closes pipelines that it has not opened, when another cannot be opened."""
        self._purged = purged_of(crawler)
        self._opt_outs: dict[str, KnownOptOut] = {}
        """Accounts that are known to have opted out."""
        self._news = asyncio.Event()
        """Set when opt-outs or purges become known, whose records may be saved already."""
        self._purged_since: set[str] = set()
        """Accounts purged during this run, which may have saved records before it learnt that."""
        self._learnt: dict[str, KnownOptOut] = {}
        """Opt-outs that became known with the current batch."""
        self._withdrawn: set[str] = set()
        """Accounts in the current batch that withdrew their opt-out."""
        self._honours = True
        """True if opt-outs count for the current batch."""
        self._harvested: set[str] = set()
        """Accounts in the current batch whose declarations are unknown now, and that were harvested before."""

    def _is_honoured(self, batch: Batch) -> bool:
        """Returns True if the batch's job honours opt-outs. A spider without jobs decides for all batches."""
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
        await self.take_back()  # left by a killed run, or by one that ended before others learnt of the opt-outs
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
        """Returns the record as it may be saved, or None. Records without owners pass unchanged."""
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
        """Returns the declarations of an account that its views do not show; empty: no such declarations."""
        known = self._opt_outs.get(did)
        return known.declared if known and known.declared != BY_LABEL else ()

    def _as_declared(self, record: BlueskyRecord) -> BlueskyRecord:
        """Returns the record with its account's known declarations, and without quotes of accounts that opted out."""
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
        """Returns True if the account's known opt-out is not shown by this record, or was seen later."""
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
        """Learns the opt-out of a list member, whose follow the parser has emptied."""
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
        """Writes down opt-outs before the page is done: a later run must know them if this one is killed."""
        collection = self._database[OPT_OUTS]
        try:
            await self._retrying(lambda: collection.bulk_write(writes_of(learnt, withdrawn), ordered=False))
        except BaseException:
            for did in learnt:
                self._opt_outs.pop(did, None)  # the page is repeated, and writes them then
            raise

    async def _free_handles(self, batch: Batch) -> None:
        """Forgets handles of purged accounts that now belong to other accounts: these may be requested by handle."""
        profiles = (record for record in batch.records if isinstance(record, Profile))
        freed = [each.handle for each in profiles if not self._purged.allows(each.handle) and self.is_allowed(each.did)]
        if freed:
            update = {"$unset": {"handle": ""}}
            where = {"handle": {"$in": freed}}
            collection = self._database[PURGED]
            await self._retrying(lambda: collection.update_many(where, update, collation=ANY_CASE))
            await self._retrying(self.read_purged)

    async def _find_harvested(self, dids: set[str]) -> set[str]:
        """Returns the accounts with a full profile stored, from when their declarations were known."""
        query = {"_id": {"$in": sorted(dids)}, "opt_outs.0": {"$exists": False}}
        profiles = self._database[Profile.COLLECTION]
        rows = await self._retrying(lambda: profiles.find(query, {"_id": 1}).to_list())
        return {row["_id"] for row in rows}

    async def _check(self, suspects: set[str]) -> None:
        """Checks declared opt-outs of the accounts again, since another process may have seen a withdrawal."""
        if asked := list(filter(self.declared_before, suspects)):
            query = {"_id": {"$in": asked}}
            rows = await self._retrying(lambda: self._database[OPT_OUTS].find(query, {"_id": 1}).to_list())
            for did in set(asked) - {row["_id"] for row in rows}:
                self._opt_outs.pop(did, None)

    def is_allowed(self, key: str) -> bool:
        """Returns True if the key belongs to no purged account, nor to a record that one wrote."""
        return self._purged.allows(key)

    def _without_purged_quotes(self, post: Post) -> Post:
        emptied = without_quotes(post, self._purged.accounts)
        if emptied is not post:
            self.stats.inc_value("harvester/consent/purged/quote")
        return emptied

    async def read_purged(self) -> None:
        """Reads the list of purged accounts."""
        await self._purged.read(self._database)

    async def read_opt_outs(self) -> None:
        """Reads the list of opt-outs."""
        rows = self._database[OPT_OUTS].find({}, {"declared": 1, "seen_at": 1})
        known = {row["_id"]: KnownOptOut(tuple(row["declared"]), row["seen_at"]) async for row in rows}
        if known.keys() - self._opt_outs.keys():
            self._news.set()
        self._opt_outs |= known

    async def take_back(self) -> None:
        """Removes saved records of accounts that opted out, before the first write or after the last."""
        if (failed := await self._apply()) and not self.stats.get_value(EXIT_CODE):
            self.stats.set_value(EXIT_CODE, StorageError.exit_code)
            logger.error("What was kept of accounts that refuse could not be removed: %s", failed)

    async def _apply(self) -> str:
        """Removes the records, except lines in open segments. Returns the error, or an empty text."""
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
        """Removes records during the run, since a spider that waits for work may never end."""
        self._news.clear()  # opt-outs known at the start are already applied
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
        """Removes records that this run stored of a purged account before it learnt of the purge."""
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
