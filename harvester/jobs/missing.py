"""Marks records that a later attempt no longer finds. Nothing is deleted, and records that appear again lose the mark.

An attempt that ends well has stored all that the site shows for its item. A record of the item from before the
attempt is missing if neither this attempt nor another one of the job saw it. In a recurring job it is missing if it
was not seen since the attempt began.
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
    """A set of records that an attempt has read to its end."""

    kind: type[Record]
    where: dict[str, Any]
    """The MongoDB query for the records. An index serves it."""
    is_absent: bool = False
    """True if the attempt found their owner missing. Then all its records are missing, whenever they were seen."""
    back_with: str = ""
    """Key of an owner that is back, with the kind of the item's first listing. The records that were marked together
    with the owner are back, too."""


async def may_be(ledger: Ledger, spider: str, job: str) -> bool:
    """Returns True if the job may find missing records. The first job of a spider cannot."""
    one = await ledger.patiently(partial(ledger.jobs.find_one, {"_id": job}, {"created_at": 1}))
    earlier = {"spider": spider, "created_at": {"$lt": one["created_at"]}} if one else {"_id": None}
    return bool(await ledger.patiently(partial(ledger.jobs.find_one, earlier, {"_id": 1})))


async def mark(ledger: Ledger, listings: Iterable[tuple[Item, Listing]]) -> Counter[str]:
    """Marks the records that the attempts no longer saw. Returns kind -> number. Repeating it changes nothing."""
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
    """Removes the mark from records that are back. Records that went missing before their owner stay marked."""
    of_items: defaultdict[str, list[Listing]] = defaultdict(list)
    for item, listing in listings:
        if listing.back_with:
            of_items[item.id].append(listing)
    owners = {(first.kind, first.back_with): of_owner for of_owner in of_items.values() if (first := of_owner[0])}
    for kind in {kind for kind, _ in owners}:
        keys = [key for of_kind, key in owners if of_kind is kind]
        for owner in await _marked(ledger, kind, keys):
            for listing in reversed(owners[kind, owner["_id"]]):  # the owner last: after a kill all is repeated
                collection = ledger.items.database[listing.kind.COLLECTION]
                together = listing.where | {GONE_AT: owner[GONE_AT]}
                await ledger.patiently(partial(collection.update_many, together, {"$unset": {GONE_AT: ""}}))


async def _marked(ledger: Ledger, kind: type[Record], keys: list[str]) -> list[Document]:
    """Returns the ids and marks of the marked records among `keys`."""
    find = ledger.items.database[kind.COLLECTION].find
    marked = {"_id": {"$in": keys}, GONE_AT: {"$ne": None}}
    found: list[Document] = await ledger.patiently(lambda: find(marked, {GONE_AT: 1}).to_list())
    return found
