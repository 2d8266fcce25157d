"""The collection of crawls: which of a scope is unfinished, which are fed by a start list, and how one ends."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pymongo import ASCENDING
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from harvester.frontier.transitions import now

Document = dict[str, Any]


class Found(NamedTuple):
    """The unfinished crawl of a scope."""

    crawl: str
    begun: bool
    """Whether it was there before."""


class Crawls:
    """The crawls of one scope, one after the other."""

    def __init__(
        self,
        crawls: AsyncCollection[Document],
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        *,
        spider: str,
        scope: str,
        arguments: Document,
        served: bool,
    ) -> None:
        self._crawls = crawls
        self._patiently = patiently
        self._spider = spider
        self._scope = scope
        self._new = {"arguments": arguments} | ({"served": True} if served else {})

    async def make_index(self) -> None:
        await self._crawls.create_index([("spider", ASCENDING), ("scope", ASCENDING), ("number", ASCENDING)])

    async def find_or_begin(self) -> Found:
        """The unfinished crawl, or a new one."""
        ours = {"spider": self._spider, "scope": self._scope}
        last = await self._patiently(lambda: self._crawls.find_one(ours, sort=[("number", -1)]))
        if last and last["state"] != "finished":
            return Found(last["_id"], begun=True)
        number = last["number"] + 1 if last else 1
        key = f"{self._spider}-{self._scope[:8]}-{number}"
        new = {**ours, "number": number, "state": "unfinished", **self._new, "started_at": now()}
        result = await self._patiently(lambda: self._crawls.update_one({"_id": key}, {"$setOnInsert": new}, True))
        return Found(key, begun=result.upserted_id is None)

    async def note_seeds(self, crawl: str) -> bool:
        """That seeds were brought; False when it is finished, and maybe was before they were there."""
        unfinished = {"_id": crawl, "state": {"$ne": "finished"}}
        result = await self._patiently(lambda: self._crawls.update_one(unfinished, {"$inc": {"fed": 1}}))
        return bool(result.matched_count)

    async def end(self, crawl: Document, finished: bool) -> None:
        """Writes down the end of a crawl that nobody runs, unless somebody joined or brought seeds since."""
        same = {"_id": crawl["_id"], "runners": crawl["runners"], "fed": crawl.get("fed")}
        state = "finished" if finished else "unfinished"
        end: Document = {"state": state, "ended_at": now(), "runners": []}
        await self._patiently(lambda: self._crawls.update_one(same, {"$set": end}))


async def served_crawls(database: AsyncDatabase[Document], spider: str) -> list[Document]:
    """Unfinished crawls whose seeds come from a start list, the oldest first."""
    served = {"spider": spider, "served": True, "state": {"$ne": "finished"}}
    return await database["crawls"].find(served).sort("started_at", ASCENDING).to_list()
