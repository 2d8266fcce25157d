"""Lists the items of a job that a filter finds, a page after another, each found fast in a job of millions too."""

import re
from dataclasses import dataclass
from typing import Any

from harvester.exceptions import UsageError
from harvester.jobs.documents import BY_OUTCOME, BY_STATE, Document, Item, ItemState, read_item
from harvester.jobs.ledger import Ledger
from harvester.jobs.results import ItemResults, OneItemResults

MOST_SEARCHED = 5_000
"""Items that are looked at for one page, where no index has those that are wanted in the order of their ids."""
MOST_RECORDS = 100
"""Records of an item in each collection that are listed."""


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """Which items of a job are meant. What is empty is not asked for."""

    state: str = ""
    """One, or several between commas; likewise the outcome."""
    outcome: str = ""
    site: str = ""
    text: str = ""
    """In its key or its reason; capitals and small letters are the same."""
    kind: str = ""

    def of(self, job: str) -> Document:
        """As a query. Raises UsageError for what no item can have."""
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
    """What became of an item so far."""

    item: Item
    results: OneItemResults


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Some items, in the order of their ids."""

    items: list[ItemReport]
    end: str
    """Id of the last item that was looked at, behind which the next page begins; empty: there is none."""


class ItemList:
    """Items of jobs."""

    def __init__(self, ledger: Ledger, results: ItemResults) -> None:
        self._ledger = ledger
        self._results = results

    async def page(self, job: str, which: ItemFilter, most: int, after: str, *, with_results: bool) -> ItemPage:
        """Those behind `after`: at most so many, and fewer, or none, when many must be looked at to find them.

        Raises UsageError for a state that is none.
        """
        query, end = which.of(job), ""
        if after:
            query["_id"] |= {"$gt": after}
        hint: str | list[tuple[str, int]] = "_id_"
        is_indexed = not (which.site or which.text or which.kind)
        if which.outcome:
            query.setdefault(
                "state", {"$in": list(ItemState)}
            )  # all are named, or the index does not have them in order
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
        """Whether all items in these states can be looked at for one page."""
        query = {"job": job, "state": state}
        return await self._ledger.items.count_documents(query, limit=MOST_SEARCHED, hint=BY_STATE) < MOST_SEARCHED

    async def _end(self, query: Document, index: Any) -> str:
        """The last item to look at, found in the index alone; empty when so many are not left."""
        indexed = {name: query[name] for name in ("_id", *(("job", "state", "outcome") if index == BY_OUTCOME else ()))}
        rows = self._ledger.items.find(
            indexed, {"_id": 1}, sort=[("_id", 1)], skip=MOST_SEARCHED - 1, limit=1, hint=index
        )
        return "".join([row["_id"] async for row in rows])

    async def sites(self, job: str) -> list[str]:
        """Those that its items name."""
        return sorted(filter(None, await self._ledger.items.distinct("site", {"job": job})))
