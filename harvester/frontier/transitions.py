"""What each change makes of accounts, threads and seeds: in this process, and as writes to MongoDB.

    account: waiting -> open (its lists are being read) -> closed
    thread, seed: waiting -> closed

`state` says what is to be done, `stage` what was collected. A change of something that is not in flight here was
made before, or belongs to an earlier run, and does nothing. Nor does one of something that another runner has claimed
by now.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pymongo import UpdateOne

from harvester.frontier.changes import (
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

Document = dict[str, Any]

GRAPH_CHAINS = ("followers", "follows")
"""Those whose members are harvested too."""
UNCLAIMED = {"claimed_by": ""}
"""Unset when the work on a document ends."""


@dataclass(slots=True)
class Chain:
    """A list that is being read."""

    next_page: int = 0
    waiting: dict[int, list[Progress]] = field(default_factory=dict)
    """Pages confirmed before those in front of them."""


@dataclass(slots=True)
class AccountInFlight:
    """An account handed out."""

    depth: int
    chains: dict[str, Chain]
    """Empty while the profile is read."""
    more: bool = False
    """Whether chains were found beside these; the account is handed out again for them."""
    reason: str | None = None
    """Why it will end as failed."""
    lasting: bool = False
    """Whether that reason does not pass."""


@dataclass(slots=True)
class ThreadInFlight:
    """A thread handed out."""

    confirmed: int = 0
    ended: ThreadEnded | None = None


@dataclass(slots=True)
class Writes:
    """What a few changes come to."""

    accounts: list[UpdateOne] = field(default_factory=list)
    threads: list[UpdateOne] = field(default_factory=list)
    seeds: list[UpdateOne] = field(default_factory=list)
    ended: list[Callable[[], object]] = field(default_factory=list)
    """To be called when it is all written: what ended is no longer in flight."""


class Transitions:
    """The accounts, threads and seeds of one crawl that are in flight, and how changes end their flight."""

    def __init__(self, crawl: str, runner: str, arguments: Mapping[str, Any]) -> None:
        self.crawl = crawl
        self._runner = runner
        self._collects_posts = "posts" in arguments["collect"]
        self.accounts: dict[str, AccountInFlight] = {}
        self.threads: dict[str, ThreadInFlight] = {}
        self.seeds: set[str] = set()
        self.stages: Counter[str] = Counter()
        self.thread_stages: Counter[str] = Counter()

    def make(self, changes: Iterable[Change]) -> Writes:
        """The writes that make these changes. Those made before come to nothing."""
        writes = Writes()
        for change in changes:
            match change:
                case Found():
                    writes.accounts += self._found(change)
                case ProfileCollected():
                    self._profile_collected(change, writes)
                case ChainsFound():
                    self._chains_found(change, writes)
                case Progress():
                    self._progress(change, writes)
                case Ended():
                    self._ended(change, writes)
                case RootsFound():
                    writes.threads += map(self._root_found, change.uris)
                case ThreadAnswer() | ThreadEnded():
                    self._thread_answer(change, writes)
                case SeedEnded():
                    self._seed_ended(change, writes)
        return writes

    def at(self, key: str) -> Document:
        """Selects the document of an account (by its DID), a thread or a seed."""
        return {"_id": f"{self.crawl}:{key}"}

    def ours(self, key: str) -> Document:
        """The same, when this runner has claimed it."""
        return self.at(key) | {"claimed_by": self._runner}

    # Accounts ---------------------------------------------------------------------------------------------

    def _found(self, change: Found) -> Iterable[UpdateOne]:
        for did, handle in change.members:
            new = {"crawl": self.crawl, "did": did, "handle": handle, "state": "waiting", "stage": "queued"}
            yield UpdateOne(self.at(did), {"$min": {"depth": change.depth}, "$setOnInsert": new}, upsert=True)

    def _profile_collected(self, change: ProfileCollected, writes: Writes) -> None:
        if self._leave_queue(change.did, "profile_collected", writes):
            values: Document = {
                "stage": "profile_collected",
                "state": "open" if change.chains else "closed",
                "handle": change.handle,
                "todo": dict.fromkeys(change.chains),
                "updated_at": now(),
            }
            values |= {"pds": change.pds} if change.pds else {}
            writes.accounts.append(UpdateOne(self.ours(change.did), {"$set": values, "$unset": UNCLAIMED}))

    def _ended(self, change: Ended, writes: Writes) -> None:
        if self._leave_queue(change.did, change.stage, writes):
            end = _end(change.stage, change.reason, change.later)
            writes.accounts.append(UpdateOne(self.ours(change.did), {"$set": end, "$unset": UNCLAIMED}))

    def _leave_queue(self, did: str, stage: str, writes: Writes) -> bool:
        """Whether it is an account whose profile is being read."""
        account = self.accounts.get(did)
        if account is None or account.chains:
            return False
        self._move("queued", stage)
        writes.ended.append(partial(self.accounts.pop, did, None))
        return True

    def _chains_found(self, change: ChainsFound, writes: Writes) -> None:
        account = self.accounts.get(change.did)
        if account and account.chains:
            account.more = account.more or not account.chains.keys() >= set(change.chains)
            todo = {f"todo.{chain}": None for chain in change.chains}
            writes.accounts.append(UpdateOne(self.ours(change.did), {"$set": todo}))

    def _progress(self, change: Progress, writes: Writes) -> None:
        account = self.accounts.get(change.did)
        chain = account.chains.get(change.chain) if account else None
        if account is None or chain is None:
            return
        last, error = _advance(chain, change)
        if last is None:
            return
        name = f"todo.{change.chain}"
        values: Document = {"updated_at": now()}
        if change.chain in GRAPH_CHAINS:
            values["read_at"] = account.depth
        if error is None and last.cursor is not None:
            writes.accounts.append(UpdateOne(self.ours(change.did), {"$set": values | {name: last.cursor}}))
            return
        unset = {name: ""}
        if error is not None:
            values |= _failed(account, error)
        del account.chains[change.chain]
        if not account.chains:
            writes.ended.append(partial(self.accounts.pop, change.did, None))
            unset |= UNCLAIMED
            if not account.more:
                values |= self._chains_read(account)
        writes.accounts.append(UpdateOne(self.ours(change.did), {"$unset": unset, "$set": values}))

    def _chains_read(self, account: AccountInFlight) -> Document:
        """The last stage of an account whose chains are all read."""
        stage = "failed" if account.reason else "posts_collected" if self._collects_posts else "profile_collected"
        self._move("profile_collected", stage)
        return {"state": "closed", "stage": stage}

    def _move(self, old: str, new: str) -> None:
        self.stages[old] -= 1
        self.stages[new] += 1

    # Threads and seeds ------------------------------------------------------------------------------------

    def _root_found(self, uri: str) -> UpdateOne:
        new = {"crawl": self.crawl, "uri": uri, "state": "waiting", "stage": "queued", "depth": 0}
        return UpdateOne(self.at(uri), {"$setOnInsert": new}, upsert=True)

    def _thread_answer(self, change: ThreadAnswer | ThreadEnded, writes: Writes) -> None:
        thread = self.threads.get(change.uri)
        if thread is None:
            return
        thread.confirmed += 1
        if isinstance(change, ThreadEnded):
            thread.ended = change
        end = thread.ended
        if end is None or thread.confirmed < end.answers:
            return
        self.thread_stages["queued"] -= 1
        self.thread_stages[end.stage] += 1
        writes.ended.append(partial(self.threads.pop, change.uri, None))
        values = _end(end.stage, end.reason, end.later)
        writes.threads.append(UpdateOne(self.ours(end.uri), {"$set": values, "$unset": UNCLAIMED}))

    def _seed_ended(self, change: SeedEnded, writes: Writes) -> None:
        if change.did:
            writes.accounts += self._found(Found(((change.did, change.seed),), 0))
        end = _end("failed" if change.reason else "resolved", change.reason, change.later)
        update = {"$set": end | {"did": change.did}, "$unset": UNCLAIMED}
        writes.seeds.append(UpdateOne(self.ours(change.seed), update))
        writes.ended.append(partial(self.seeds.discard, change.seed))


def _advance(chain: Chain, change: Progress) -> tuple[Progress | None, Progress | None]:
    """The last page that now counts, if one does, and the first error up to it."""
    chain.waiting.setdefault(change.page, []).append(change)
    last: Progress | None = None
    error: Progress | None = None
    while (ready := chain.waiting.get(chain.next_page)) and len(ready) >= ready[0].parts:
        del chain.waiting[chain.next_page]
        chain.next_page += 1
        last = ready[-1]
        error = error or next((part for part in ready if part.error), None)
    return last, error


def _failed(account: AccountInFlight, error: Progress) -> Document:
    """What a chain that could not be read leaves. A reason that lasts is not replaced by one that passes."""
    values: Document = {}
    if not account.lasting:
        account.reason = values["reason"] = f"{error.chain}: {error.error}"
    if error.later:
        values |= {"later": True, f"again.{error.chain}": error.cursor}
    else:
        account.lasting = values["lasting"] = True
    return values


def _end(stage: str, reason: str | None, later: bool) -> Document:
    end: Document = {"state": "closed", "stage": stage, "updated_at": now()}
    return end | ({"reason": reason} if reason else {}) | ({"later": True} if later else {})


def now() -> datetime:
    return datetime.now(UTC)
