"""Counts of a crawl's accounts and threads, read from MongoDB."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from pymongo.asynchronous.collection import AsyncCollection

Document = dict[str, Any]


class Counts:
    """Counts the documents of `rooms`: name -> collection."""

    def __init__(
        self,
        rooms: Mapping[str, AsyncCollection[Document]],
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
    ) -> None:
        self._rooms = rooms
        self._patiently = patiently

    async def stages(self, crawl: str, room: str) -> dict[str, int]:
        """Stage -> how many."""
        by_stage: list[Document] = [{"$match": {"crawl": crawl}}, {"$group": {"_id": "$stage", "n": {"$sum": 1}}}]
        return {row["_id"]: row["n"] for row in await self._rows(room, by_stage)}

    async def reasons(self, crawl: str) -> dict[tuple[str, str, str], int]:
        """How many ended in a stage for a reason: (room, stage, reason) -> count."""
        pipeline: list[Document] = [
            {"$match": {"crawl": crawl, "reason": {"$exists": True}}},
            {"$group": {"_id": {"stage": "$stage", "reason": "$reason"}, "n": {"$sum": 1}}},
        ]
        return {
            (room, row["_id"]["stage"], row["_id"]["reason"]): row["n"]
            for room in self._rooms
            for row in await self._rows(room, pipeline)
        }

    async def _rows(self, room: str, pipeline: list[Document]) -> list[Document]:
        rows: list[Document] = await self._patiently(partial(_aggregate, self._rooms[room], pipeline))
        return rows


async def _aggregate(collection: AsyncCollection[Document], pipeline: list[Document]) -> list[Document]:
    return await (await collection.aggregate(pipeline)).to_list()
