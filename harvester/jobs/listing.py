"""Lists the items of a job that match a filter, page by page. Each page is found fast, also in a job of millions."""

import re
from dataclasses import dataclass
from typing import Any

from harvester.exceptions import UsageError
from harvester.jobs.documents import BY_OUTCOME, BY_STATE, Document, Item, ItemState, read_item
from harvester.jobs.ledger import Ledger
from harvester.jobs.results import ItemResults, OneItemResults

MOST_SEARCHED = 5_000
"""Maximum number of items that are searched for one page when no index has the matching ones in the order of their
ids."""
MOST_RECORDS = 100
"""Maximum number of records of an item that are listed from each collection."""


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """A filter on the items of a job. An empty field matches everything."""

    state: str = ""
    """One state, or several separated by commas. The outcome has the same form."""
    outcome: str = ""
    site: str = ""
    text: str = ""
    """Text in the key or the reason of the item, in any case."""
    kind: str = ""

    def of(self, job: str) -> Document:
        """Returns the MongoDB query. Raises UsageError for a value that no item can have."""
        query: Document = {"job": job, "_id": {"$gte": f"{job}:", "$lt": f"{job};"}}
        if self.state:
            states = self.state.split(",")
            for state in states:
                if state not in list(ItemState):
                    raise UsageError(f"--state: {state!r} is none of {', '.join(ItemState)}.")
            query["state"] = {"$in": states} if len(states) > 1 else self.state
        if self.outcome:
            query["outcome"] = {"$in": self.outcome.split(",")} if "," in self.outcome else self.outcome
        if self.kind:
            query["kind"] = self.kind
        if self.site:
            query["site"] = self.site
        if "\0" in self.text:
            raise UsageError("--text: no key and no reason holds a NUL.")
        if self.text:
            pattern = {"$regex": re.escape(self.text), "$options": "i"}
            query["$or"] = [{"key": pattern}, {"reason": pattern}]
        return query


@dataclass(frozen=True, slots=True)
class ItemReport:
    """An item with the results that it has so far."""

    item: Item
    results: OneItemResults


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A page of items, in the order of their ids."""

    items: list[ItemReport]
    end: str
    """Id of the last item that was searched. The next page begins after it. Empty: this page is the last."""


class ItemList:
    """Lists the items of jobs."""

    def __init__(self, ledger: Ledger, results: ItemResults) -> None:
        self._ledger = ledger
        self._results = results

    async def page(self, job: str, which: ItemFilter, most: int, after: str, *, with_results: bool) -> ItemPage:
        """Returns at most `most` items after `after`. A page is shorter, or empty, when many items must be searched.

        Raises UsageError for an unknown state.
        """
        query, end = which.of(job), ""
        if after:
            query["_id"] |= {"$gt": after}
        hint: str | list[tuple[str, int]] = "_id_"
        is_indexed = not (which.site or which.text or which.kind)
        if which.outcome:
            query.setdefault(
                "state", {"$in": list(ItemState)}
            )  # the index is in the order of ids only if all states are named
            hint = BY_OUTCOME
        elif which.state and await self._are_few(job, query["state"]):
            hint, is_indexed = BY_STATE, True
        elif which.state:
            is_indexed = False
        if not is_indexed:
            end = await self._end(query, hint)
        if end:
            query["_id"] |= {"$lte": end}
        rows = await self._ledger.items.find(query, sort=[("_id", 1)], limit=most + 1, hint=hint).to_list()
        if len(rows) > most:
            end = rows[most - 1]["_id"]
        items = [read_item(row) for row in rows[:most]]
        if not with_results:
            return ItemPage([ItemReport(item, OneItemResults({}, [])) for item in items], end)
        results = await self._results.of([item.id for item in items], MOST_RECORDS)
        return ItemPage([ItemReport(item, of_it) for item, of_it in zip(items, results, strict=True)], end)

    async def _are_few(self, job: str, state: Any) -> bool:
        """Returns True if all items in these states can be searched for one page."""
        query = {"job": job, "state": state}
        return await self._ledger.items.count_documents(query, limit=MOST_SEARCHED, hint=BY_STATE) < MOST_SEARCHED

    async def _end(self, query: Document, index: Any) -> str:
        """Returns the id of the last item to search, from the index alone. Empty when fewer than MOST_SEARCHED are
        left."""
        indexed = {name: query[name] for name in ("_id", *(("job", "state", "outcome") if index == BY_OUTCOME else ()))}
        rows = self._ledger.items.find(
            indexed, {"_id": 1}, sort=[("_id", 1)], skip=MOST_SEARCHED - 1, limit=1, hint=index
        )
        return "".join([row["_id"] async for row in rows])

    async def sites(self, job: str) -> list[str]:
        """Returns the sites that the job's items name."""
        return sorted(filter(None, await self._ledger.items.distinct("site", {"job": job})))
