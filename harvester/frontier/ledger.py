"""The ledger of a crawl: which accounts and threads it must fetch, and how far each has come. In MongoDB.

Every change of an account's state is made here. A crawl is continued from what the ledger says, so a change
is written only when the records it speaks of are confirmed; what a killed run had not confirmed is fetched again.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pymongo import ASCENDING, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from harvester.frontier.changes import (
    Account,
    ChainsFound,
    Change,
    Ended,
    Found,
    ProfileCollected,
    Progress,
    RootsFound,
    SeedEnded,
    ThreadAnswer,
    ThreadEnded,
)
from harvester.frontier.runner import Runner

Document = dict[str, Any]


@dataclass(slots=True)
class _Chain:
    next_page: int = 0
    waiting: dict[int, list[Progress]] = field(default_factory=dict)


@dataclass(slots=True)
class _InFlight:
    depth: int
    chains: dict[str, _Chain]
    """Empty while the profile is read."""
    more: bool = False
    """Whether chains were found beside these; the account is handed out again for them."""
    reason: str | None = None
    """Why it will end as failed."""
    lasting: bool = False
    """Whether that reason does not pass."""


@dataclass(slots=True)
class _ThreadInFlight:
    confirmed: int = 0
    ended: ThreadEnded | None = None


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
        self._in_flight: dict[str, _InFlight] = {}
        self._threads_in_flight: dict[str, _ThreadInFlight] = {}
        self._seeds_in_flight: set[str] = set()
        self._seeds_given = False
        """Whether all seeds were handed out by this run."""
        self._beyond = 0
        """Accounts that an earlier run left out because of max_accounts."""
        self._changed = asyncio.Event()
        self._runner = Runner(self._crawls, patiently)
        self.crawl = ""
        self.resumed = False
        self.handed_out = 0
        """Seeds, accounts and threads given out by this run."""
        self.stages: Counter[str] = Counter()
        self.thread_stages: Counter[str] = Counter()

    # The crawl --------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Continues the unfinished crawl of this scope, or begins one. Raises UsageError when it is running."""
        await self._patiently(self._make_indexes)
        crawl = await self._patiently(
            lambda: self._crawls.find_one({"spider": self._spider, "scope": self._scope}, sort=[("number", -1)])
        )
        if crawl is None or crawl["state"] == "finished":
            number = crawl["number"] + 1 if crawl else 1
            self.crawl = f"{self._spider}-{self._scope[:8]}-{number}"
            crawl = {
                "_id": self.crawl,
                "spider": self._spider,
                "scope": self._scope,
                "number": number,
                "state": "unfinished",
                "arguments": self._arguments,
                "started_at": _now(),
            }
            await self._patiently(lambda: self._crawls.update_one({"_id": self.crawl}, {"$setOnInsert": crawl}, True))
        else:
            self.crawl, self.resumed = crawl["_id"], True
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
        await self._runner.leave(self.crawl, {"state": state, "ended_at": _now()})
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
            operations.append(UpdateOne(self._at(seed), {"$setOnInsert": document}, upsert=True))
            if len(operations) == 1000:
                await self._write(self._seeds, operations)
                operations = []
        await self._write(self._seeds, operations)

    async def reject_seed(self, seed: str, reason: str) -> None:
        """Writes down a seed that is none."""
        document = {"crawl": self.crawl, "seed": seed, "state": "closed", "stage": "failed", "reason": reason}
        await self._write(self._seeds, [UpdateOne(self._at(seed), {"$set": document}, upsert=True)])

    async def next_seeds(self, most: int) -> list[str]:
        """Seeds that wait, handed out once."""
        if self._seeds_given:
            return []
        rows = await self._waiting(self._seeds, {"state": "waiting"}, most, self._seeds_in_flight, "seed")
        self._seeds_given = len(rows) < most
        seeds = [row["seed"] for row in rows]
        self._seeds_in_flight.update(seeds)
        return seeds

    async def next_open(self, most: int) -> list[Account]:
        """Accounts with chains to read, begun by this run or by an earlier one, handed out once."""
        rows = await self._waiting(self._accounts, {"state": "open"}, most, self._in_flight, "did")
        for row in rows:
            chains = {chain: _Chain() for chain in row["todo"]}
            reason, lasting = row.get("reason"), row.get("lasting", False)
            self._in_flight[row["did"]] = _InFlight(row["depth"], chains, reason=reason, lasting=lasting)
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
        resolved = self._seeds_given and not self._seeds_in_flight
        near = {"state": "waiting", "depth": {"$lte": nearest["depth"] + 1 if resolved else 0}}
        rows = await self._waiting(self._accounts, near, most, self._in_flight, "did")
        self._in_flight.update({row["did"]: _InFlight(row["depth"], {}) for row in rows})
        return [Account(row["did"], row["depth"]) for row in rows]

    async def next_threads(self, most: int) -> list[str]:
        """First posts whose threads wait, handed out once."""
        if "threads" not in self._arguments["collect"]:
            return []
        rows = await self._waiting(self._threads, {"state": "waiting"}, most, self._threads_in_flight, "uri")
        uris = [row["uri"] for row in rows]
        self._threads_in_flight.update({uri: _ThreadInFlight() for uri in uris})
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
        return bool(self._in_flight or self._threads_in_flight or self._seeds_in_flight)

    def profiles_in_flight(self) -> int:
        """Accounts handed out whose profile is not yet read."""
        return sum(1 for account in self._in_flight.values() if not account.chains)

    def lists_in_flight(self) -> int:
        """Accounts handed out whose lists are not yet read."""
        return sum(1 for account in self._in_flight.values() if account.chains)

    def threads_in_flight(self) -> int:
        """Threads handed out that are not yet read."""
        return len(self._threads_in_flight)

    def seeds_in_flight(self) -> int:
        """Seeds handed out that are not yet resolved."""
        return len(self._seeds_in_flight)

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
        seeds: list[Any] = []
        accounts: list[Any] = []
        threads: list[Any] = []
        ended: list[Callable[[], object]] = []
        for change in changes:
            match change:
                case Found():
                    accounts += self._found(change)
                case ProfileCollected():
                    accounts += self._profile_collected(change, ended)
                case ChainsFound():
                    accounts += self._chains_found(change)
                case Progress():
                    accounts += self._progress(change, ended)
                case Ended():
                    accounts += self._ended(change, ended)
                case RootsFound():
                    threads += [self._root_found(uri) for uri in change.uris]
                case ThreadAnswer() | ThreadEnded():
                    threads += self._thread_answer(change, ended)
                case SeedEnded():
                    seeds.append(self._seed_ended(change))
                    ended.append(partial(self._seeds_in_flight.discard, change.seed))
                    if change.did:
                        accounts += self._found(Found(((change.did, change.seed),), 0))
        # What is found comes before the page that showed it counts as read: a kill may come in between.
        self.thread_stages["queued"] += await self._write(self._threads, threads)
        self.stages["queued"] += await self._write(self._accounts, accounts)
        await self._write(self._seeds, seeds)
        for end in ended:
            end()
        self._changed.set()

    async def _write(self, collection: Any, operations: list[Any]) -> int:
        """Returns how many documents are new."""
        if not operations:
            return 0
        result = await self._patiently(lambda: collection.bulk_write(operations, ordered=True))
        return int(result.upserted_count)

    def _found(self, change: Found) -> list[UpdateOne]:
        return [
            UpdateOne(
                self._at(did),
                {
                    "$min": {"depth": change.depth},
                    "$setOnInsert": {
                        "crawl": self.crawl,
                        "did": did,
                        "handle": handle,
                        "state": "waiting",
                        "stage": "queued",
                    },
                },
                upsert=True,
            )
            for did, handle in change.members
        ]

    def _profile_collected(self, change: ProfileCollected, ended: list[Callable[[], object]]) -> list[UpdateOne]:
        if not self._leave_queue(change.did, "profile_collected", ended):
            return []
        values = {
            "stage": "profile_collected",
            "state": "open" if change.chains else "closed",
            "handle": change.handle,
            "todo": dict.fromkeys(change.chains),
            "updated_at": _now(),
        }
        return [UpdateOne(self._at(change.did), {"$set": values | ({"pds": change.pds} if change.pds else {})})]

    def _chains_found(self, change: ChainsFound) -> list[UpdateOne]:
        account = self._in_flight.get(change.did)
        if account is None or not account.chains:
            return []
        account.more = account.more or not account.chains.keys() >= set(change.chains)
        return [UpdateOne(self._at(change.did), {"$set": {f"todo.{chain}": None for chain in change.chains}})]

    def _progress(self, change: Progress, ended: list[Callable[[], object]]) -> list[UpdateOne]:
        account = self._in_flight.get(change.did)
        chain = account.chains.get(change.chain) if account else None
        if account is None or chain is None:
            return []
        chain.waiting.setdefault(change.page, []).append(change)
        last: Progress | None = None
        error: Progress | None = None
        while (ready := chain.waiting.get(chain.next_page)) and len(ready) >= ready[0].parts:
            del chain.waiting[chain.next_page]
            chain.next_page += 1
            last = ready[-1]
            error = error or next((part for part in ready if part.error), None)
        if last is None:
            return []
        name = f"todo.{change.chain}"
        values: Document = {"updated_at": _now()}
        if change.chain in ("followers", "follows") and account.depth >= self._arguments["depth"]:
            values["edge"] = True
        if error is None and last.cursor is not None:
            return [UpdateOne(self._at(change.did), {"$set": values | {name: last.cursor}})]
        if error is not None:
            values |= _failed(account, error)
        del account.chains[change.chain]
        if not account.chains:
            ended.append(partial(self._in_flight.pop, change.did, None))
            if not account.more:
                values |= self._chains_read(account)
        return [UpdateOne(self._at(change.did), {"$unset": {name: ""}, "$set": values})]

    def _chains_read(self, account: _InFlight) -> Document:
        """The last stage of an account whose chains are all read."""
        stage = "failed" if account.reason else "posts_collected" if self._collects_posts() else "profile_collected"
        self._move("profile_collected", stage)
        return {"state": "closed", "stage": stage}

    def _collects_posts(self) -> bool:
        return "posts" in self._arguments["collect"]

    def _ended(self, change: Ended, ended: list[Callable[[], object]]) -> list[UpdateOne]:
        if not self._leave_queue(change.did, change.stage, ended):
            return []
        return [UpdateOne(self._at(change.did), {"$set": _end(change.stage, change.reason, change.later)})]

    def _leave_queue(self, did: str, stage: str, ended: list[Callable[[], object]]) -> bool:
        """Whether the account is one whose profile is being read; a change made before is not made again."""
        account = self._in_flight.get(did)
        if account is None or account.chains:
            return False
        self._move("queued", stage)
        ended.append(partial(self._in_flight.pop, did, None))
        return True

    def _at(self, key: str) -> Document:
        return {"_id": f"{self.crawl}:{key}"}

    def _move(self, old: str, new: str) -> None:
        self.stages[old] -= 1
        self.stages[new] += 1

    def _root_found(self, uri: str) -> UpdateOne:
        document = {"crawl": self.crawl, "uri": uri, "state": "waiting", "stage": "queued", "depth": 0}
        return UpdateOne(self._at(uri), {"$setOnInsert": document}, upsert=True)

    def _thread_answer(self, change: ThreadAnswer | ThreadEnded, ended: list[Callable[[], object]]) -> list[UpdateOne]:
        thread = self._threads_in_flight.get(change.uri)
        if thread is None:
            return []
        thread.confirmed += 1
        if isinstance(change, ThreadEnded):
            thread.ended = change
        end = thread.ended
        if end is None or thread.confirmed < end.answers:
            return []
        ended.append(partial(self._threads_in_flight.pop, change.uri, None))
        self.thread_stages["queued"] -= 1
        self.thread_stages[end.stage] += 1
        return [UpdateOne(self._at(end.uri), {"$set": _end(end.stage, end.reason, end.later)})]

    def _seed_ended(self, change: SeedEnded) -> UpdateOne:
        end = _end("failed" if change.reason else "resolved", change.reason, change.later)
        return UpdateOne(self._at(change.seed), {"$set": end | {"did": change.did}})


def _end(stage: str, reason: str | None, later: bool) -> Document:
    end: Document = {"state": "closed", "stage": stage, "updated_at": _now()}
    return end | ({"reason": reason} if reason else {}) | ({"later": True} if later else {})


def _failed(account: _InFlight, error: Progress) -> Document:
    """What a chain that could not be read leaves. A reason that lasts is not replaced by one that passes."""
    values: Document = {}
    if not account.lasting:
        account.reason = values["reason"] = f"{error.chain}: {error.error}"
    if error.later:
        values |= {"later": True, f"again.{error.chain}": error.cursor}
    else:
        account.lasting = values["lasting"] = True
    return values


def _now() -> datetime:
    return datetime.now(UTC)
