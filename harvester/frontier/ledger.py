"""The ledger of a crawl: which accounts and threads it must fetch, and how far each has come. In MongoDB.

What a change does is said in `transitions`. A crawl is continued from what the ledger says, so a change
is written only when the records it speaks of are confirmed; what a killed run had not confirmed is fetched again.
Several processes may run one crawl: what one of them is handed, it has claimed.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pymongo import ASCENDING, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from harvester.frontier.changes import Account, Change
from harvester.frontier.claims import UNFINISHED, Claims
from harvester.frontier.counts import Counts
from harvester.frontier.crawls import Crawls
from harvester.frontier.runner import Runner
from harvester.frontier.transitions import AccountInFlight, Chain, ThreadInFlight, Transitions

Document = dict[str, Any]

COUNT_SECONDS = 3.0
"""How often the accounts are counted of a crawl that several processes run, unless counting takes long."""
LATE_SECONDS = 2.0
"""How often it is looked whether another runner brought more seeds."""
FULL_SECONDS = 2.0
"""How often it is looked whether a runner left some of max_accounts to others."""


class CrawlLedger:
    """One crawl, as one of the processes that run it sees it."""

    def __init__(
        self,
        database: AsyncDatabase[Document],
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        *,
        spider: str,
        scope: str,
        arguments: Mapping[str, Any],
        max_accounts: int | None = None,
        lease_seconds: float = 30.0,
        served: bool = False,
    ) -> None:
        self._seeds = database["seeds"]
        self._accounts = database["accounts"]
        self._threads = database["thread_queue"]
        self._purged = database["purged"]
        self._patiently = patiently
        self._arguments = dict(arguments)
        self._max_accounts = max_accounts
        self._served = served
        """Whether seeds may come while it runs, from a start list."""
        crawls = database["crawls"]
        self._crawls = Crawls(crawls, patiently, spider=spider, scope=scope, arguments=self._arguments, served=served)
        self._counts = Counts({"accounts": self._accounts, "threads": self._threads}, patiently)
        self._runner = Runner(crawls, patiently, lease_seconds)
        self._claims = Claims(self._runner.id, (self._seeds, self._accounts, self._threads), patiently)
        self._in_flight = Transitions("", self._runner.id, self._arguments)
        self._seeds_left = True
        """Whether seeds were left to resolve when that was last looked at."""
        self._seeds_at = 0.0
        """When it is looked again."""
        self._full_until = 0.0
        """When it is looked again whether more accounts may be fetched."""
        self._count_at = 0.0
        self._changed = asyncio.Event()
        self.resumed = False
        """Whether others began the crawl."""
        self.left = False
        """Whether this process runs the crawl no more."""
        self.handed_out = 0
        """Seeds, accounts and threads given out by this run."""

    @property
    def shared(self) -> bool:
        """Whether other processes took part, as far as this one has seen."""
        return self._runner.met

    def others(self) -> str:
        """Those that run it too, in words. Empty: none."""
        number = len(self._runner.others)
        return f"{number} other process{'es' if number > 1 else ''}" if number else ""

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
        """Begins the crawl of this scope, continues the unfinished one, or joins those that run it."""
        await self._patiently(self._make_indexes)
        while not await self._join(await self._find_or_begin()):
            pass  # the last of those that ran it finished it just now
        await self.relieve()
        if self.resumed and not self._runner.others:
            await self._patiently(self._try_failed_again)
        await self._count()

    async def _find_or_begin(self) -> str:
        """The crawl to run."""
        found = await self._crawls.find_or_begin()
        self.resumed = found.begun
        return found.crawl

    async def _join(self, crawl: str) -> bool:
        self._in_flight.crawl = self._claims.crawl = crawl
        return await self._runner.join(crawl, self.relieve)

    async def relieve(self) -> None:
        """Frees what dead runners had claimed, and says that this one is alive."""
        await self._relieve()

    async def _relieve(self, idle: bool = False) -> None:
        claimants = await self._claims.claimants()  # first: who has claims was a runner before
        alive = await self._runner.beat()
        if alive is None:
            return
        if idle:  # a claim of its own is of a batch that was not handed out in the end
            alive -= {self._runner.id}
        if dead := claimants - alive:
            await self._claims.release(dead)

    async def close(self) -> bool:
        """Leaves the crawl; whether all its work is done. The last one to leave writes that down."""
        self.left = True
        await self._claims.release([self._runner.id])
        last = await self._runner.leave()
        await self._count()
        waiting = {"crawl": self.crawl, "$or": [{"state": {"$ne": "closed"}}, {"later": True}]}
        left = [
            await self._patiently(partial(collection.find_one, waiting, {}))
            for collection in (self._seeds, self._accounts, self._threads)
        ]
        finished = not any(left)
        if last:
            await self._crawls.end(last, finished)
        return finished

    async def _make_indexes(self) -> None:
        for collection in (self._seeds, self._accounts, self._threads):
            await collection.create_index([(name, ASCENDING) for name in ("crawl", "state", "depth", "claimed_by")])
        await self._accounts.create_index("did")
        await self._accounts.create_index(
            [("crawl", ASCENDING), ("number", ASCENDING)],
            unique=True,
            partialFilterExpression={"number": {"$exists": True}},
        )
        await self._crawls.make_index()

    async def _try_failed_again(self) -> None:
        """What failed for a passing reason waits again: when a run begins that is the only one."""
        again = {"crawl": self.crawl, "later": True}
        reset = {"$set": {"state": "waiting", "stage": "queued"}, "$unset": {"later": "", "reason": "", "number": ""}}
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
        for room, counter in (("accounts", self.stages), ("threads", self.thread_stages)):
            counted = dict.fromkeys(counter, 0) | await self._counts.stages(self.crawl, room)
            counter.clear()
            counter.update(counted)

    async def refresh(self) -> None:
        """Counts now and then what others have done. Of a runner that is alone, the counts are up to date."""
        if self._runner.others and time.monotonic() >= self._count_at:
            began = time.monotonic()
            await self._count()
            took = time.monotonic() - began
            self._count_at = began + max(COUNT_SECONDS, 20 * took)

    async def reasons(self) -> dict[tuple[str, str, str], int]:
        """How many ended in a stage for a reason: (`accounts` or `threads`, stage, reason) -> count."""
        return await self._counts.reasons(self.crawl)

    # Work -------------------------------------------------------------------------------------------------

    async def add_seeds(self, seeds: Iterable[str]) -> None:
        """Handles and DIDs to begin with. Those known from an earlier run of the crawl keep their state."""
        self._seeds_left = True
        operations = []
        for seed in seeds:
            document = {"crawl": self.crawl, "seed": seed, "state": "waiting", "stage": "queued", "depth": 0}
            operations.append(UpdateOne(self._in_flight.at(seed), {"$setOnInsert": document}, upsert=True))
            if len(operations) == 1000:
                await self._write(self._seeds, operations)
                operations = []
        await self._write(self._seeds, operations)

    async def feed(self, seeds: Iterable[str]) -> None:
        """Brings seeds to the unfinished crawl of this scope, or begins one with them; whoever runs it."""
        await self._patiently(self._make_indexes)
        seeds = list(seeds)
        while True:
            self._in_flight.crawl = await self._find_or_begin()
            await self.add_seeds(seeds)
            if await self._crawls.note_seeds(self.crawl):
                return

    async def reject_seed(self, seed: str, reason: str) -> None:
        """Writes down a seed that is none."""
        document = {"crawl": self.crawl, "seed": seed, "state": "closed", "stage": "failed", "reason": reason}
        await self._write(self._seeds, [UpdateOne(self._in_flight.at(seed), {"$set": document}, upsert=True)])

    async def next_seeds(self, most: int) -> list[str]:
        """Seeds that wait, handed out once."""
        if not await self._has_seeds():
            return []
        rows = await self._take(self._seeds, "seed", {"state": "waiting"}, most, self._in_flight.seeds)
        seeds = [row["seed"] for row in rows]
        self._in_flight.seeds.update(seeds)
        return seeds

    async def _has_seeds(self) -> bool:
        """Whether seeds are not yet resolved, by whichever runner."""
        if self._seeds_left or time.monotonic() >= self._seeds_at:
            left = {"crawl": self.crawl, "state": "waiting"}
            self._seeds_left = bool(await self._patiently(lambda: self._seeds.find_one(left, {})))
            self._seeds_at = time.monotonic() + LATE_SECONDS
        return self._seeds_left

    async def next_open(self, most: int) -> list[Account]:
        """Accounts with chains to read, begun by this run or by another, handed out once."""
        rows = await self._take(self._accounts, "did", {"state": "open"}, most, self._in_flight.accounts)
        for row in rows:
            chains = {chain: Chain() for chain in row["todo"]}
            reason, lasting = row.get("reason"), row.get("lasting", False)
            self._in_flight.accounts[row["did"]] = AccountInFlight(row["depth"], chains, reason=reason, lasting=lasting)
        return [Account(row["did"], row["depth"], row.get("pds"), row["todo"]) for row in rows]

    async def next_accounts(self, most: int) -> list[Account]:
        """Accounts whose profile must be read, nearest to the seeds first, handed out once.

        An account is handed out when nothing unfinished could still show it to be nearer to the seeds.
        """
        if most <= 0 or time.monotonic() < self._full_until:
            return []
        seeds_left = await self._has_seeds()
        unfinished = {"crawl": self.crawl, "state": UNFINISHED}
        nearest = await self._patiently(lambda: self._accounts.find_one(unfinished, sort=[("depth", ASCENDING)]))
        if nearest is None:
            return []
        near = {"state": "waiting", "depth": {"$lte": 0 if seeds_left else nearest["depth"] + 1}}
        rows = await self._take(self._accounts, "did", near, most, self._in_flight.accounts, self._max_accounts)
        if self._max_accounts is not None and self._claims.exhausted:
            self._full_until = time.monotonic() + FULL_SECONDS
        self._in_flight.accounts.update({row["did"]: AccountInFlight(row["depth"], {}) for row in rows})
        return [Account(row["did"], row["depth"]) for row in rows]

    async def next_threads(self, most: int) -> list[str]:
        """First posts whose threads wait, handed out once."""
        if "threads" not in self._arguments["collect"]:
            return []
        rows = await self._take(self._threads, "uri", {"state": "waiting"}, most, self._in_flight.threads)
        uris = [row["uri"] for row in rows]
        self._in_flight.threads.update({uri: ThreadInFlight() for uri in uris})
        return uris

    async def _take(
        self,
        collection: AsyncCollection[Document],
        name: str,
        where: Document,
        most: int,
        in_flight: Collection[str],
        bound: int | None = None,
    ) -> list[Document]:
        if self.left:
            return []
        rows = await self._claims.take(collection, name, where, most, in_flight, bound)
        self.handed_out += len(rows)
        return rows

    async def is_left(self) -> bool:
        """Whether anything is to be done, by whichever runner. To be asked when this one was handed nothing.

        What comes from a thing is written before that counts as done, so the order of these questions matters.
        """
        await self._relieve(idle=not self.busy())
        unfinished = {"crawl": self.crawl, "state": UNFINISHED}
        begun = unfinished | {"$or": [{"state": "open"}, {"claimed_by": {"$gt": ""}}]}
        if await self._patiently(lambda: self._seeds.find_one(unfinished, {})):
            return True
        if await self._patiently(lambda: self._accounts.find_one(begun, {})):
            return True
        if await self._patiently(lambda: self._accounts.find_one(unfinished, {})):
            bound = self._max_accounts
            if bound is None or await self._claims.free_numbers(self._accounts, 1, bound):
                return True
        return bool(await self._patiently(lambda: self._threads.find_one(unfinished, {})))

    async def reopen_nearer(self) -> int:
        """Has lists read again that were read when their accounts seemed farther from the seeds; how many.

        That happens when what failed in one run is read in a later one, and when seeds come late. Their members
        count as farther than they are, or were not harvested.
        """
        if not self.resumed and not self._served:
            return 0
        lists = ("followers", "follows") if self._arguments["direction"] == "both" else (self._arguments["direction"],)
        seemed = {"read_at": {"$gt": 0}, "$expr": {"$lt": ["$depth", "$read_at"]}}
        nearer = {"crawl": self.crawl, "state": "closed", "stage": {"$ne": "skipped"}, **seemed}
        todo = {"state": "open", "stage": "profile_collected", "todo": dict.fromkeys(lists)}
        again = {"$set": todo, "$unset": {"read_at": ""}}
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
