"""What people ask of the ledger: which crawls of a spider are unfinished, how far each is, and who runs it."""

import asyncio
from datetime import datetime
from typing import Any, NamedTuple

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import PyMongoError

from harvester.config import Config
from harvester.stores import mongodb

Document = dict[str, Any]


class RunnerStatus(NamedTuple):
    """A process that runs a crawl, or has died over it."""

    id: str
    host: str
    pid: int
    silent_s: float
    """Since its last heartbeat."""
    claims: int
    """Accounts, threads and seeds that it works on."""


class CrawlStatus(NamedTuple):
    """How far a crawl is."""

    crawl: str
    state: str
    started_at: datetime
    seeds: dict[str, int]
    """Stage -> how many; likewise below."""
    accounts: dict[str, int]
    threads: dict[str, int]
    later: int
    """Those of them that failed for a passing reason: the next run tries them again."""
    runners: list[RunnerStatus]


async def crawls(config: Config, spider: str) -> list[CrawlStatus]:
    """The spider's unfinished crawls, the latest first. Raises ServiceError."""
    database = await asyncio.to_thread(mongodb.connect, config)
    rooms = [database["seeds"], database["accounts"], database["thread_queue"]]
    unfinished = {"spider": spider, "state": {"$ne": "finished"}}
    try:
        found = await database["crawls"].aggregate(
            [{"$match": unfinished}, {"$set": {"now": "$$NOW"}}, {"$sort": {"started_at": -1}}]
        )
        return [await _status(crawl, rooms) for crawl in await found.to_list()]
    except PyMongoError as error:
        raise mongodb.unavailable(error) from None
    finally:
        await database.client.close()


async def _status(crawl: Document, rooms: list[AsyncCollection[Document]]) -> CrawlStatus:
    seeds, accounts, threads = [await _count(room, {"crawl": crawl["_id"]}, "$stage") for room in rooms]
    claims: dict[str, int] = {}
    for room in rooms:
        claimed = {"crawl": crawl["_id"], "state": {"$in": ["open", "waiting"]}, "claimed_by": {"$gt": ""}}
        for runner, number in (await _count(room, claimed, "$claimed_by")).items():
            claims[runner] = claims.get(runner, 0) + number
    runners = [
        RunnerStatus(
            id=runner["id"],
            host=runner["host"],
            pid=runner["pid"],
            silent_s=max(0.0, (crawl["now"] - runner["seen_at"]).total_seconds()),
            claims=claims.get(runner["id"], 0),
        )
        for runner in crawl.get("runners", [])
    ]
    later = [await room.count_documents({"crawl": crawl["_id"], "later": True}) for room in rooms]
    return CrawlStatus(
        crawl=crawl["_id"],
        state=crawl["state"],
        started_at=crawl["started_at"],
        seeds=seeds,
        accounts=accounts,
        threads=threads,
        later=sum(later),
        runners=runners,
    )


async def _count(room: AsyncCollection[Document], where: Document, by: str) -> dict[str, int]:
    rows = await room.aggregate([{"$match": where}, {"$group": {"_id": by, "n": {"$sum": 1}}}, {"$sort": {"n": -1}}])
    return {row["_id"]: row["n"] for row in await rows.to_list()}
