"""Which runner works on what: a claim on a document of the ledger, set and cleared in MongoDB.

A claim is taken for a batch, where nobody else has one; it ends with the work, with the run, or when its runner
is dead. What a runner writes about a document counts while it holds the claim, so one that was taken for dead and
wakes up disturbs nobody.
"""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from pymongo import ASCENDING, DESCENDING, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError

Document = dict[str, Any]

TRIES = 4
"""How often a batch is asked for of which others were quicker to claim all."""
_DUPLICATE_KEY = 11000
UNFINISHED: Document = {"$in": ["open", "waiting"]}
"""States of what is to be done."""


class Claims:
    """The claims of one runner, and those of dead ones."""

    def __init__(
        self,
        runner: str,
        collections: Collection[AsyncCollection[Document]],
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
    ) -> None:
        self.crawl = ""
        self.exhausted = False
        """Whether all numbers were given when a batch with a bound was asked for last."""
        self._runner = runner
        self._collections = collections
        self._patiently = patiently

    async def take(
        self,
        collection: AsyncCollection[Document],
        name: str,
        where: Document,
        most: int,
        in_flight: Collection[str],
        bound: int | None = None,
    ) -> list[Document]:
        """Claims at most so many documents that nobody has claimed, nearest to the seeds first.

        With a `bound`, each gets a number up to it that no other has; when all are given, none is claimed.
        """
        free = {"crawl": self.crawl, "claimed_by": None, **where}
        given = set(in_flight)  # what this runner lost and still works on; as of now, since it may end meanwhile
        for _ in range(TRIES if most > 0 else 0):
            numbers = None if bound is None else await self.free_numbers(collection, most, bound)
            limit = most if numbers is None else min(most, len(numbers))
            self.exhausted = not limit
            if not limit:
                return []
            found = await self._patiently(partial(_nearest, collection, free, {name: 1}, limit))
            keys = [row["_id"] for row in found if row[name] not in given]
            if not keys:
                return []
            await self._claim(collection, free, keys, numbers)
            ours = {"_id": {"$in": keys}, "claimed_by": self._runner}
            rows: list[Document] = await self._patiently(partial(_nearest, collection, ours))
            if rows:
                return rows
        return []

    async def _claim(
        self, collection: AsyncCollection[Document], free: Document, keys: list[str], numbers: list[int] | None
    ) -> None:
        ours = {"claimed_by": self._runner}
        if numbers is None:
            await self._patiently(lambda: collection.update_many(free | {"_id": {"$in": keys}}, {"$set": ours}))
            return
        operations = [
            UpdateOne(free | {"_id": key}, {"$set": ours | {"number": number}})
            for key, number in zip(keys, numbers, strict=False)
        ]

        async def write() -> None:
            try:
                await collection.bulk_write(operations, ordered=False)
            except BulkWriteError as error:  # another runner took the number
                if any(each["code"] != _DUPLICATE_KEY for each in error.details["writeErrors"]):
                    raise

        await self._patiently(write)

    async def free_numbers(self, collection: AsyncCollection[Document], most: int, bound: int) -> list[int]:
        """Numbers from 1 to `bound` that no document has, at most so many."""
        numbered = {"crawl": self.crawl, "number": {"$gt": 0}}
        only = {"_id": 0, "number": 1}
        last = await self._patiently(lambda: collection.find_one(numbered, only, sort=[("number", DESCENDING)]))
        highest = last["number"] if last else 0
        if highest + most <= bound:
            return list(range(highest + 1, highest + most + 1))
        if await self._patiently(lambda: collection.count_documents(numbered)) >= bound:
            return []
        rows = await self._patiently(lambda: collection.find(numbered, only).to_list())
        given = {row["number"] for row in rows}
        return [number for number in range(1, bound + 1) if number not in given][:most]

    async def claimants(self) -> set[str]:
        """The runners that have claims."""
        claimed = {"crawl": self.crawl, "state": UNFINISHED, "claimed_by": {"$gt": ""}}
        return {
            runner
            for collection in self._collections
            for runner in await self._patiently(partial(collection.distinct, "claimed_by", claimed))
        }

    async def release(self, runners: Collection[str]) -> int:
        """Ends the claims of these runners: others continue from what was confirmed. Returns how many there were."""
        theirs = {"crawl": self.crawl, "claimed_by": {"$in": list(runners)}}
        released = 0
        for collection in self._collections:
            for state, lost in (("waiting", ("claimed_by", "number")), ("open", ("claimed_by",))):
                update = {"$unset": dict.fromkeys(lost, "")}
                result = await self._patiently(partial(collection.update_many, theirs | {"state": state}, update))
                released += result.modified_count
        return released


async def _nearest(
    collection: AsyncCollection[Document], query: Document, fields: Document | None = None, limit: int = 0
) -> list[Document]:
    return await collection.find(query, fields).sort("depth", ASCENDING).limit(limit).to_list()
