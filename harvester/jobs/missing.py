"""Marks records that a later look no longer finds. Nothing is removed, and what is seen again is marked no more.

An attempt at an item that has ended well has stored all that the site showed of it. What is known of the item from
before the attempt, and was seen neither by it nor by another of its job, is gone. In a standing job, what was not seen
since the attempt began.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from pymongo import UpdateMany

from harvester.items import Record
from harvester.items.base import GONE_AT
from harvester.jobs.documents import Document, Item
from harvester.jobs.ledger import Ledger


class Listing(NamedTuple):
    """Records of a kind that an attempt has looked through to their end."""

    kind: type[Record]
    where: dict[str, Any]
    """Selects them in MongoDB; by an index."""
    is_absent: bool = False
    """Whether the attempt ended since what they belong to is not there: they are gone, whenever they were seen."""
    back_with: str = ""
    """Key of what they belong to, of the kind of the item's first listing, which is there again: what was marked when
    it was marked is back with it."""


async def may_be(ledger: Ledger, spider: str, job: str) -> bool:
    """Whether anything can be gone in a job: not in the first of its spider."""
    one = await ledger.patiently(partial(ledger.jobs.find_one, {"_id": job}, {"created_at": 1}))
    earlier = {"spider": spider, "created_at": {"$lt": one["created_at"]}} if one else {"_id": None}
    return bool(await ledger.patiently(partial(ledger.jobs.find_one, earlier, {"_id": 1})))


async def mark(ledger: Ledger, listings: Iterable[tuple[Item, Listing]]) -> Counter[str]:
    """Marks what the attempts of items did not see any more; kind -> how many. Doing it again changes nothing."""
    of_kinds: defaultdict[type[Record], list[UpdateMany]] = defaultdict(list)
    for item, listing in listings:
        if listing.back_with:
            continue
        unseen: Document = {GONE_AT: None}
        if not listing.is_absent:
            unseen["provenance.fetched_at"] = {"$lt": item.fed_at}
            if not item.looks:
                unseen["provenance.crawl"] = {"$ne": item.job}
        of_kinds[listing.kind].append(UpdateMany(listing.where | unseen, {"$set": {GONE_AT: item.fed_at}}))
    marked: Counter[str] = Counter()
    for kind, updates in of_kinds.items():
        collection = ledger.items.database[kind.COLLECTION]
        result = await ledger.patiently(partial(collection.bulk_write, updates, ordered=False))
        marked[kind.KIND] += result.modified_count
    return +marked


async def unmark(ledger: Ledger, listings: Iterable[tuple[Item, Listing]]) -> None:
    """Takes the mark off what is back. What was gone before its owner was stays marked."""
    of_items: defaultdict[str, list[Listing]] = defaultdict(list)
    for item, listing in listings:
        if listing.back_with:
            of_items[item.id].append(listing)
    owners = {(first.kind, first.back_with): of_owner for of_owner in of_items.values() if (first := of_owner[0])}
    for kind in {kind for kind, _ in owners}:
        keys = [key for of_kind, key in owners if of_kind is kind]
        for owner in await _marked(ledger, kind, keys):
            for listing in reversed(owners[kind, owner["_id"]]):  # the owner last: after a kill all is done again
                collection = ledger.items.database[listing.kind.COLLECTION]
                together = listing.where | {GONE_AT: owner[GONE_AT]}
                await ledger.patiently(partial(collection.update_many, together, {"$unset": {GONE_AT: ""}}))


async def _marked(ledger: Ledger, kind: type[Record], keys: list[str]) -> list[Document]:
    """Those of a kind that are marked as gone, and since when."""
    find = ledger.items.database[kind.COLLECTION].find
    marked = {"_id": {"$in": keys}, GONE_AT: {"$ne": None}}
    found: list[Document] = await ledger.patiently(lambda: find(marked, {GONE_AT: 1}).to_list())
    return found
