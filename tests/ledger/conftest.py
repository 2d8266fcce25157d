"""A ledger on a database of the test's own, opened again as often as runs are to follow each other."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database

from harvester.frontier.changes import Account, Found, ProfileCollected
from harvester.frontier.ledger import CrawlLedger
from harvester.frontier.runner import running_here

T = TypeVar("T")
LAST_DEPTH = 3
LEASE_SECONDS = 30.0
Document = dict[str, Any]


class Killed(Exception):
    """The run ended here."""


class Runs:
    """Opens the ledger of one crawl for a run after the other, and reads what is written in it."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self.database = database
        self.operations_left: float = math.inf
        """After which the run counts as killed."""
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """Done once, after the next operation was answered and before the ledger gets the answer."""
        self._opened: list[CrawlLedger] = []

    async def patiently(self, operation: Callable[[], Awaitable[T]]) -> T:
        if self.operations_left <= 0:
            raise Killed
        self.operations_left -= 1
        result = await operation()
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            await meanwhile()
        return result

    async def next(
        self,
        max_accounts: int | None = None,
        collect: str = "graph,profiles,posts,threads",
        scope: str = "0123456789abcdef",
        operations: float = math.inf,
        alone: bool = True,
        served: bool = False,
    ) -> CrawlLedger:
        """The ledger of the next run, which is killed after so many operations on MongoDB.

        The runs before count as killed unless they were closed, or this one is not `alone`.
        """
        if alone:
            self.end()
        self.operations_left = operations
        arguments = {"collect": collect.split(","), "depth": LAST_DEPTH, "direction": "follows"}
        ledger = CrawlLedger(
            self.database,
            self.patiently,
            spider="bluesky",
            scope=scope,
            arguments=arguments,
            max_accounts=max_accounts,
            lease_seconds=LEASE_SECONDS,
            served=served,
        )
        self._opened.append(ledger)
        await ledger.open()
        return ledger

    def end(self) -> None:
        """Kills all runs."""
        for ledger in self._opened:
            kill(ledger)

    async def documents(self, ledger: CrawlLedger) -> dict[str, Document]:
        """DID -> the account's document, without times."""
        hidden = {"_id": 0, "updated_at": 0, "crawl": 0, "claimed_by": 0}
        return {row["did"]: row async for row in self.database["accounts"].find({"crawl": ledger.crawl}, hidden)}

    async def states(self, ledger: CrawlLedger) -> dict[str, tuple[str, str]]:
        """DID -> the account's state and stage."""
        documents = await self.documents(ledger)
        return {did: (document["state"], document["stage"]) for did, document in documents.items()}


@pytest.fixture
async def runs(mongodb_uri: str, mongodb: Database[Document]) -> AsyncIterator[Runs]:
    async with AsyncMongoClient[Document](mongodb_uri, tz_aware=True) as client:
        made = Runs(client[mongodb.name])
        yield made
        made.end()


def kill(ledger: CrawlLedger) -> None:
    """Its runner is dead from now on: nothing is heard of it, and it can be known."""
    runner = ledger._runner
    running_here.discard(runner.id)
    if runner.heart:
        runner.heart.cancel()


def found(*names: str, depth: int = 0) -> Found:
    """Accounts did:plc:<name>."""
    return Found(tuple((f"did:plc:{name}", f"{name}.test") for name in names), depth)


def collected(account: str, *chains: str) -> ProfileCollected:
    return ProfileCollected(f"did:plc:{account}", f"{account}.test", chains)


async def opened(ledger: CrawlLedger, name: str, *chains: str, depth: int = 0) -> Account:
    """An account whose profile is read, handed out to have its chains read."""
    await ledger.confirm([found(name, depth=depth)])
    await ledger.next_accounts(1000)
    await ledger.confirm([collected(name, *chains)])
    (account,) = [account for account in await ledger.next_open(1000) if account.did == f"did:plc:{name}"]
    return account
