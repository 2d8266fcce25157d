"""Removes exclusive values from records when another record was seen with them later."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pymongo import UpdateOne
from pymongo.asynchronous.collection import AsyncCollection

from harvester.items import Record

Document = dict[str, Any]


async def take_from_others(collection: AsyncCollection[Document], kind: type[Record], values: Iterable[str]) -> None:
    """Leaves each value of `kind.EXCLUSIVE` to the record that was seen with it last. May safely be repeated."""
    name, wanted = kind.EXCLUSIVE, {*values} - {"", *kind.NOT_EXCLUSIVE}
    if not wanted:
        return
    owners: defaultdict[str, list[Document]] = defaultdict(list)
    async for row in collection.find({name: {"$in": sorted(wanted)}}, {name: 1, "provenance.fetched_at": 1}):
        owners[row[name]].append(row)
    changes = [
        UpdateOne(
            {"_id": row["_id"], name: value, "provenance.fetched_at": row["provenance"]["fetched_at"]},
            {"$unset": {name: ""}, "$set": {f"former_{name}": value}},
        )
        for value, rows in owners.items()
        for row in sorted(rows, key=lambda row: (row["provenance"]["fetched_at"], row["_id"]))[:-1]
    ]
    if changes:
        await collection.bulk_write(changes, ordered=False)
