"""Finds the items that a job did not meet, although the previous job with the same arguments did.

No list shows a deleted account: nothing leads to it, so its absence would stay unnoticed. It gets an item that
checks it.
"""

from collections.abc import Mapping
from functools import partial

from pymongo import ASCENDING, DESCENDING

from harvester.items import Found
from harvester.jobs.documents import Document, ItemState, Job, item_id
from harvester.jobs.ledger import CHUNK, Ledger
from harvester.outcomes import get_policy

WAS_GONE = "was_gone"
"""Field in the input of a check: True if the item was missing the last time."""


async def add_missed(ledger: Ledger, job: Job, checked_as: Mapping[str, str]) -> int:
    """Adds the missed items to a job, as items of the kinds that check them. Returns the number of new ones.

    `checked_as`: kind of an item -> kind that checks it. The input of an item that was missing the last time has
    WAS_GONE: it may be back.
    """
    ours = {"spider": job.spider, "scope": job.scope, "number": {"$lt": job.number}}
    last = partial(ledger.jobs.find_one, ours, {"_id": 1}, sort=[("number", DESCENDING)])
    before = await ledger.patiently(last)
    added = 0
    for kind, check in checked_as.items() if before else ():
        for of_kind in (kind, check):
            after = ""
            while rows := await _next_items(ledger, before["_id"], of_kind, after):
                after = rows[-1]["key"]
                was_gone = {row["key"]: get_policy(row.get("outcome", "")).absent for row in rows}
                added += await _add(ledger, job, kind, check, was_gone)
    return added


async def _next_items(ledger: Ledger, job: str, kind: str, after: str) -> list[Document]:
    query = {"job": job, "kind": kind, "key": {"$gt": after}, "state": {"$in": [ItemState.DONE, ItemState.FAILED]}}
    find = partial(ledger.items.find, query, {"key": 1, "outcome": 1}, sort=[("key", ASCENDING)], limit=CHUNK)
    rows: list[Document] = await ledger.patiently(lambda: find().to_list())
    return rows


async def _add(ledger: Ledger, job: Job, kind: str, check: str, was_gone: Mapping[str, bool]) -> int:
    """Adds the items that the job did not meet. `was_gone`: key -> True if the item was missing the last time."""
    ids = {item_id(job.id, kind, key): key for key in was_gone}
    met = await ledger.patiently(lambda: ledger.items.find({"_id": {"$in": [*ids]}}, {"_id": 1}).to_list())
    missed = ids.keys() - {row["_id"] for row in met}
    if not missed:
        return 0
    keys = [ids[each] for each in sorted(missed)]
    found = [Found(check, key, {WAS_GONE: True} if was_gone[key] else {}) for key in keys]
    return (await ledger.add(job.id, found, lambda _: "")).new
