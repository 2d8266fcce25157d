"""The ledger of a crawl: which accounts and threads it must fetch, and how far each has come. In MongoDB.

What a change does is said in `transitions`. A crawl is continued from what the ledger says, so a change
is written only when the records it speaks of are confirmed; what a killed run had not confirmed is fetched again.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pymongo import ASCENDING, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from harvester.frontier.changes import Account, Change
from harvester.frontier.runner import Runner
from harvester.frontier.transitions import AccountInFlight, Chain, ThreadInFlight, Transitions, now

Document = dict[str, Any]


class CrawlLedger:
    """One crawl. Used by one process at a time; `open` refuses a second."""

    def __init__(
        self,
        database: AsyncDatabase[Document],
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        *,
        spider: str,
        scope: str,
        arguments: Mapping[str, Any],
        max_accounts: int | None = None,
    ) -> None:
        self._crawls = database["crawls"]
        self._seeds = database["seeds"]
        self._accounts = database["accounts"]
        self._threads = database["thread_queue"]
        self._purged = database["purged"]
        self._patiently = patiently
        self._spider = spider
        self._scope = scope
        self._arguments = dict(arguments)
        self._max_accounts = max_accounts
        self._in_flight = Transitions("", self._arguments)
        self._seeds_given = False
        """Whether all seeds were handed out by this run."""
        self._beyond = 0
        """Accounts that an earlier run left out because of max_accounts."""
        self._changed = asyncio.Event()
        self._runner = Runner(self._crawls, patiently)
        self.resumed = False
        self.handed_out = 0
        """Seeds, accounts and threads given out by this run."""

    @property
    def crawl(self) -> str:
        """Identifier of the crawl, once it is open."""
        return self._in_flight.crawl

    @property
    def stages(self) -> Counter[str]:
        """How many accounts are in each stage."""
        return self._in_flight.stages

    @property
    def thread_stages(self) -> Counter[str]:
        """How many threads are in each stage."""
        return self._in_flight.thread_stages

    # The crawl --------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Continues the unfinished crawl of this scope, or begins one. Raises UsageError when it is running."""
        await self._patiently(self._make_indexes)
        crawl = await self._patiently(
            lambda: self._crawls.find_one({"spider": self._spider, "scope": self._scope}, sort=[("number", -1)])
        )
        if crawl is None or crawl["state"] == "finished":
            number = crawl["number"] + 1 if crawl else 1
            self._in_flight.crawl = f"{self._spider}-{self._scope[:8]}-{number}"
            crawl = {
                "_id": self.crawl,
                "spider": self._spider,
                "scope": self._scope,
                "number": number,
                "state": "unfinished",
                "arguments": self._arguments,
                "started_at": now(),
            }
            await self._patiently(lambda: self._crawls.update_one({"_id": self.crawl}, {"$setOnInsert": crawl}, True))
        else:
            self._in_flight.crawl, self.resumed = crawl["_id"], True
        await self._runner.take(self.crawl, crawl.get("runner"))
        if self.resumed:
            await self._patiently(self._try_failed_again)
        waiting = {"crawl": self.crawl, "state": "waiting"}
        self._seeds_given = not await self._patiently(lambda: self._seeds.find_one(waiting, {}))
        await self._count()

    async def close(self) -> bool:
        """Writes down whether the crawl is finished; returns it."""
        await self._count()
        waiting = {"crawl": self.crawl, "$or": [{"state": {"$ne": "closed"}}, {"later": True}]}
        left = [
            await self._patiently(partial(collection.find_one, waiting, {}))
            for collection in (self._seeds, self._accounts, self._threads)
        ]
        finished = not any(left)
        state = "finished" if finished else "unfinished"
        await self._runner.leave(self.crawl, {"state": state, "ended_at": now()})
        return finished

    async def _make_indexes(self) -> None:
        for collection in (self._seeds, self._accounts, self._threads):
            await collection.create_index([("crawl", ASCENDING), ("state", ASCENDING), ("depth", ASCENDING)])
        await self._accounts.create_index("did")
        await self._crawls.create_index([("spider", ASCENDING), ("scope", ASCENDING), ("number", ASCENDING)])

    async def _try_failed_again(self) -> None:
        """What failed for a passing reason waits again, once a run."""
        again = {"crawl": self.crawl, "later": True}
        reset = {"$set": {"state": "waiting", "stage": "queued"}, "$unset": {"later": "", "reason": ""}}
        accounts = [
            UpdateMany({**again, "todo": {"$exists": False}}, reset),
            UpdateMany(
                again,
                [
                    {
                        "$set": {
                            "state": "open",
                            "stage": "profile_collected",
                            "todo": {"$mergeObjects": ["$todo", "$again"]},
                            "reason": {"$cond": ["$lasting", "$reason", "$$REMOVE"]},
                        }
                    },
                    {"$unset": ["later", "again"]},
                ],
            ),
        ]
        await self._write(self._accounts, accounts)
        await self._patiently(lambda: self._threads.update_many(again, reset))
        await self._patiently(lambda: self._seeds.update_many(again, reset))

    async def _count(self) -> None:
        for collection, counter in ((self._accounts, self.stages), (self._threads, self.thread_stages)):
            rows = await self._patiently(partial(self._by_stage, collection))
            counter.clear()
            counter.update({row["_id"]: row["n"] for row in rows})
        beyond = {"crawl": self.crawl, "stage": "skipped", "reason": "max_accounts"}
        self._beyond = await self._patiently(lambda: self._accounts.count_documents(beyond))

    async def _by_stage(self, collection: AsyncCollection[Document]) -> list[Document]:
        by_stage: list[Document] = [{"$match": {"crawl": self.crawl}}, {"$group": {"_id": "$stage", "n": {"$sum": 1}}}]
        return await (await collection.aggregate(by_stage)).to_list()

    async def reasons(self) -> dict[tuple[str, str, str], int]:
        """How many ended in a stage for a reason: (`accounts` or `threads`, stage, reason) -> count."""
        pipeline: list[Document] = [
            {"$match": {"crawl": self.crawl, "reason": {"$exists": True}}},
            {"$group": {"_id": {"stage": "$stage", "reason": "$reason"}, "n": {"$sum": 1}}},
        ]

        async def rows(collection: AsyncCollection[Document]) -> list[Document]:
            return await (await collection.aggregate(pipeline)).to_list()

        return {
            (room, row["_id"]["stage"], row["_id"]["reason"]): row["n"]
            for room, collection in (("accounts", self._accounts), ("threads", self._threads))
            for row in await self._patiently(partial(rows, collection))
        }

    # Work -------------------------------------------------------------------------------------------------

    async def add_seeds(self, seeds: Iterable[str]) -> None:
        """Handles and DIDs to begin with. Those known from an earlier run of the crawl keep their state."""
        self._seeds_given = False
        operations = []
        for seed in seeds:
            document = {"crawl": self.crawl, "seed": seed, "state": "waiting", "stage": "queued", "depth": 0}
            operations.append(UpdateOne(self._in_flight.at(seed), {"$setOnInsert": document}, upsert=True))
            if len(operations) == 1000:
                await self._write(self._seeds, operations)
                operations = []
        await self._write(self._seeds, operations)

    async def reject_seed(self, seed: str, reason: str) -> None:
        """Writes down a seed that is none."""
        document = {"crawl": self.crawl, "seed": seed, "state": "closed", "stage": "failed", "reason": reason}
        await self._write(self._seeds, [UpdateOne(self._in_flight.at(seed), {"$set": document}, upsert=True)])

    async def next_seeds(self, most: int) -> list[str]:
        """Seeds that wait, handed out once."""
        if self._seeds_given:
            return []
        rows = await self._waiting(self._seeds, {"state": "waiting"}, most, self._in_flight.seeds, "seed")
        self._seeds_given = len(rows) < most
        seeds = [row["seed"] for row in rows]
        self._in_flight.seeds.update(seeds)
        return seeds

    async def next_open(self, most: int) -> list[Account]:
        """Accounts with chains to read, begun by this run or by an earlier one, handed out once."""
        rows = await self._waiting(self._accounts, {"state": "open"}, most, self._in_flight.accounts, "did")
        for row in rows:
            chains = {chain: Chain() for chain in row["todo"]}
            reason, lasting = row.get("reason"), row.get("lasting", False)
            self._in_flight.accounts[row["did"]] = AccountInFlight(row["depth"], chains, reason=reason, lasting=lasting)
        return [Account(row["did"], row["depth"], row.get("pds"), row["todo"]) for row in rows]

    async def next_accounts(self, most: int) -> list[Account]:
        """Accounts whose profile must be read, nearest to the seeds first, handed out once.

        An account is handed out when nothing unfinished could still show it to be nearer to the seeds.
        """
        if self._max_accounts is not None:
            begun = sum(self.stages.values()) - self.stages["queued"] - self._beyond
            most = min(most, self._max_accounts - begun - self.profiles_in_flight())
        if most <= 0:
            return []
        unfinished = {"crawl": self.crawl, "state": {"$in": ["waiting", "open"]}}
        nearest = await self._patiently(lambda: self._accounts.find_one(unfinished, sort=[("depth", ASCENDING)]))
        if nearest is None:
            return []
        resolved = self._seeds_given and not self._in_flight.seeds
        near = {"state": "waiting", "depth": {"$lte": nearest["depth"] + 1 if resolved else 0}}
        rows = await self._waiting(self._accounts, near, most, self._in_flight.accounts, "did")
        self._in_flight.accounts.update({row["did"]: AccountInFlight(row["depth"], {}) for row in rows})
        return [Account(row["did"], row["depth"]) for row in rows]

    async def next_threads(self, most: int) -> list[str]:
        """First posts whose threads wait, handed out once."""
        if "threads" not in self._arguments["collect"]:
            return []
        rows = await self._waiting(self._threads, {"state": "waiting"}, most, self._in_flight.threads, "uri")
        uris = [row["uri"] for row in rows]
        self._in_flight.threads.update({uri: ThreadInFlight() for uri in uris})
        return uris

    async def _waiting(
        self, collection: AsyncCollection[Document], where: Document, most: int, in_flight: Collection[str], name: str
    ) -> list[Document]:
        if most <= 0:
            return []
        query = {"crawl": self.crawl, **where}
        given = set(in_flight)  # as of now: what ends during the query may still look unfinished in its result
        limit = most + len(given)
        rows = await self._patiently(lambda: collection.find(query).sort("depth", ASCENDING).limit(limit).to_list())
        free = [row for row in rows if row[name] not in given][:most]
        self.handed_out += len(free)
        return free

    async def reopen_nearer(self) -> int:
        """Has lists read again that were read at the last depth, of accounts since shown to be nearer; how many.

        That happens when what failed in one run is read in a later one. Their members were not harvested.
        """
        if not self.resumed:
            return 0
        lists = ("followers", "follows") if self._arguments["direction"] == "both" else (self._arguments["direction"],)
        nearer = {"crawl": self.crawl, "state": "closed", "edge": True, "depth": {"$lt": self._arguments["depth"]}}
        todo = {"state": "open", "stage": "profile_collected", "todo": dict.fromkeys(lists)}
        again = {"$set": todo, "$unset": {"edge": ""}}
        result = await self._patiently(lambda: self._accounts.update_many(nearer, again))
        await self._count()
        return int(result.modified_count)

    async def purged(self, dids: Iterable[str]) -> set[str]:
        """Those that were purged and must not be fetched again."""
        rows = await self._patiently(lambda: self._purged.find({"_id": {"$in": list(dids)}}, {}).to_list())
        return {row["_id"] for row in rows}

    def busy(self) -> bool:
        """Whether something handed out is not yet ended."""
        return bool(self._in_flight.accounts or self._in_flight.threads or self._in_flight.seeds)

    def profiles_in_flight(self) -> int:
        """Accounts handed out whose profile is not yet read."""
        return sum(1 for account in self._in_flight.accounts.values() if not account.chains)

    def lists_in_flight(self) -> int:
        """Accounts handed out whose lists are not yet read."""
        return sum(1 for account in self._in_flight.accounts.values() if account.chains)

    def threads_in_flight(self) -> int:
        """Threads handed out that are not yet read."""
        return len(self._in_flight.threads)

    def seeds_in_flight(self) -> int:
        """Seeds handed out that are not yet resolved."""
        return len(self._in_flight.seeds)

    def full(self) -> bool:
        """Whether as many accounts are known as may be fetched."""
        return self._max_accounts is not None and sum(self.stages.values()) >= self._max_accounts

    async def wait(self, seconds: float) -> None:
        """Returns when something has changed since the last call, at the latest after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    async def skip_rest(self) -> None:
        """Gives those beyond max_accounts their fate."""
        if self._max_accounts is None:
            return
        reason = {"state": "closed", "stage": "skipped", "reason": "max_accounts"}
        await self._patiently(
            lambda: self._accounts.update_many({"crawl": self.crawl, "state": "waiting"}, {"$set": reason})
        )

    # Changes ----------------------------------------------------------------------------------------------

    async def confirm(self, changes: Iterable[Change]) -> None:
        """Writes down changes whose records are confirmed. Changes that were written before do no harm."""
        writes = self._in_flight.make(changes)
        # What is found comes before the page that showed it counts as read: a kill may come in between.
        self.thread_stages["queued"] += await self._write(self._threads, writes.threads)
        self.stages["queued"] += await self._write(self._accounts, writes.accounts)
        await self._write(self._seeds, writes.seeds)
        for end in writes.ended:
            end()
        self._changed.set()

    async def _write(self, collection: AsyncCollection[Document], operations: Sequence[UpdateOne | UpdateMany]) -> int:
        """Returns how many documents are new."""
        if not operations:
            return 0
        result = await self._patiently(lambda: collection.bulk_write(operations, ordered=True))
        return int(result.upserted_count)
