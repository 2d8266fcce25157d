"""Selects the items of a recurring job that may be visited now: in the order of their due times, within the budgets."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from pymongo import ASCENDING, DESCENDING
from pymongo.asynchronous.collection import AsyncCollection

from harvester.jobs import budgets
from harvester.jobs.budgets import DailyBudget
from harvester.jobs.documents import UNFINISHED, Document, Item, ItemState, Job, read_item
from harvester.recheck import Budget as BudgetPolicy
from harvester.recheck import Look, Threshold, read_policy, threshold

MOST_SAMPLED = 1000
"""Number of items in the sample for a job's threshold."""
_ORDER = [("due_at", ASCENDING), ("depth", ASCENDING), ("priority", DESCENDING), ("_id", ASCENDING)]

Patiently = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Runs an operation until the server answers. It may run twice when the first answer was lost."""


class DueLook(NamedTuple):
    """An item that may be visited, with the budget slots that the visit takes."""

    item: Item
    slots: tuple[str, ...]


class Looks:
    """Selects due visits to the items of a ledger."""

    def __init__(self, items: AsyncCollection[Document], patiently: Patiently, now: Callable[[], datetime]) -> None:
        self._items = items
        self._patiently = patiently
        self._now = now

    async def due(self, job: Job, most: int, where: Document, now: datetime) -> list[DueLook]:
        """Returns at most `most` due visits, among the items that `where` selects."""
        of_job = await self._free(budgets.of_job(job), now)
        of_sites: dict[str, list[str] | None] = {}
        without: set[str] = set()
        """Sites with a used-up budget."""
        looks: list[DueLook] = []
        while of_job != [] and len(looks) < most:
            others = {"site": {"$nin": list(without)}, "_id": {"$nin": [each.item.id for each in looks]}}
            due = await self._read({"$and": [where, others, _query(job, now)]}, most - len(looks))
            known = set(without)
            for item in due:
                if item.site not in of_sites:
                    of_sites[item.site] = await self._free(budgets.of_site(item.site), now)
                of_site = of_sites[item.site]
                if of_site == []:
                    without.add(item.site)
                elif of_job != []:
                    looks.append(DueLook(item, tuple(slots.pop(0) for slots in (of_job, of_site) if slots)))
            if without == known:
                break  # nothing was skipped, so no other item can fill the gap
        return looks

    async def first(self, job: Job, left_alone: Collection[str] = ()) -> Item | None:
        """Returns the item that may be visited first, except items of the sites in `left_alone`."""
        now = self._now()
        if await self._free(budgets.of_job(job), now) == []:
            return None
        without = list(left_alone)
        while due := await self._read(_query(job, now) | {"site": {"$nin": without}}, 1):
            if await self._free(budgets.of_site(due[0].site), now) != []:
                return due[0]
            without.append(due[0].site)
        return None

    async def next_at(self, job: Job) -> datetime | None:
        """Returns the time when the first item may be visited. None when no item waits."""
        now = self._now()
        if await self.first(job):
            return now
        times: list[datetime] = []
        if due := await self._read(_query(job, now), 1):
            times = [each.next_at(now) for each in (budgets.of_job(job), budgets.of_site(due[0].site)) if each]
        later = {"job": job.id, "state": ItemState.WAITING, "due_at": {"$gt": now}}
        times += [item.due_at for item in await self._read(later, 1) if item.due_at]
        return min(times, default=None)

    async def coming(self, job: Job, most: int) -> Sequence[Item]:
        """Returns the items that are visited next, in order."""
        return await self._read({"job": job.id, "state": ItemState.WAITING}, most)

    async def threshold(self, job: Job) -> Threshold | None:
        """Returns the threshold that makes the items of a job with the policy `budget` use up its budget. None for
        other jobs."""
        policy = read_policy(job.recheck) if job.recheck else None
        if not isinstance(policy, BudgetPolicy):
            return None
        unfinished = {"job": job.id, "state": {"$in": list(UNFINISHED)}}
        number = await self._patiently(lambda: self._items.count_documents(unfinished))
        sample: list[Document] = [
            {"$match": unfinished},
            {"$sample": {"size": MOST_SAMPLED}},
            {"$project": {"looks": 1}},
        ]

        async def ask() -> list[Document]:
            return await (await self._items.aggregate(sample)).to_list()

        looks = [msgspec.convert(row.get("looks", ()), tuple[Look, ...]) for row in await self._patiently(ask)]
        if not looks:
            return None
        demands = [policy.demand(each) for each in looks]
        a_day = policy.a_day * len(looks) / max(number, len(looks))  # the sample's share of the budget
        return threshold(demands, a_day, policy.shortest_s, policy.longest_s)

    async def _read(self, query: Document, most: int) -> Sequence[Item]:
        rows = await self._patiently(lambda: self._items.find(query, sort=_ORDER, limit=most).to_list())
        return [read_item(row) for row in rows]

    async def _free(self, budget: DailyBudget | None, now: datetime) -> list[str] | None:
        """Returns the slots of a budget that may be taken now. None: the budget does not exist."""
        if budget is None:
            return None
        slots = budget.slots(now)
        rows = await self._patiently(lambda: self._items.find({"slots": {"$in": slots}}, {"slots": 1}).to_list())
        taken = {slot for row in rows for slot in row["slots"]}
        return [slot for slot in slots if slot not in taken]


def _query(job: Job, now: datetime) -> Document:
    return {"job": job.id, "state": ItemState.WAITING, "due_at": {"$not": {"$gt": now}}}
