"""The records that must still exist for an account or a thread, as far as its lists were read completely."""

from collections.abc import Iterator
from typing import Any

from harvester.items import Record
from harvester.items.bluesky import AccountList, Follow, Like, ListItem, Post, Profile, Repost, Thread
from harvester.jobs.documents import Item, ItemState
from harvester.jobs.missing import Listing
from harvester.spiders.bluesky.accounts import was_absent
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.lists import lists_wanted
from harvester.spiders.bluesky.requests import ACCOUNT, KNOWN_ACCOUNT, KNOWN_THREAD, SEED, THERE, THREAD
from harvester.spiders.bluesky.revisits import NEWER_COLLECTED, NOT_WHOLE, READ_INSTEAD, read_since

KINDS: dict[str, list[type[Record]]] = {
    "follows": [Follow],
    "feed": [Post, Repost],
    "posts": [Post],
    "reposts": [Repost],
    "likes": [Like],
    "repository": [Post, Repost, Like],
    "lists": [AccountList, ListItem],
}
"""Name of a list, from `lists_wanted` -> the kinds of records in it. Starter packs are read with the lists."""
WRITTEN: tuple[type[Record], ...] = (Post, Repost, Like, Follow, AccountList, ListItem, Thread)
"""Kinds of records that an account creates; they vanish with it."""
TIMED = (Post, Repost, Like)
"""Kinds whose lists are limited by `since` and `until`."""
TIMES: dict[type[Record], str] = {Post: "sort_at", Repost: "created_at"}
"""Kind -> the field that `since` and `until` apply to in the feed."""


def listings_of(item: Item, asked_for: BlueskyArguments) -> Iterator[Listing]:
    """Yields the listings of an account whose lists were all complete, or of a missing account or thread itself."""
    if was_absent(item):
        yield from _all_of(item)
    elif item.stage == THERE and item.state is ItemState.DONE:
        yield from _back_with(item)
    if item.kind != ACCOUNT or not _is_read(item) or item.stage in {*NOT_WHOLE, READ_INSTEAD}:
        return
    is_cut = asked_for.since or asked_for.until or item.stage == NEWER_COLLECTED
    since = read_since(item)
    for name in lists_wanted(asked_for):
        if name == "followers":
            yield Listing(Follow, {"subject_did": item.key})
        for kind in KINDS.get(name, ()):
            keys = _keys_of(kind, item.key)
            if not (is_cut and kind in TIMED):
                yield Listing(kind, keys)
            elif since and name == "feed" and not asked_for.since:
                yield Listing(kind, keys | {TIMES[kind]: {"$gte": since}})


def _all_of(item: Item) -> Iterator[Listing]:
    """Yields the records that are missing together with a missing account or thread.

    For a seed it yields only the profile with its handle: the account may have a new handle.
    """
    if item.kind in (THREAD, KNOWN_THREAD):
        yield Listing(Thread, {"_id": item.key}, is_absent=True)
    elif item.kind == SEED:
        yield Listing(Profile, {"handle": item.key})
    elif item.kind in (ACCOUNT, KNOWN_ACCOUNT):
        yield Listing(Profile, {"_id": item.key}, is_absent=True)
        for kind in WRITTEN:
            yield Listing(kind, _keys_of(kind, item.key), is_absent=True)


def _back_with(item: Item) -> Iterator[Listing]:
    """Yields the records that return together with a known account or thread."""
    for listing in _all_of(item):
        yield listing._replace(is_absent=False, back_with=item.key)


def _is_read(item: Item) -> bool:
    """Returns True if the item's last attempt or visit succeeded."""
    return item.state is ItemState.DONE or (item.state is ItemState.WAITING and bool(item.looks) and not item.failures)


def _keys_of(kind: type[Record], did: str) -> dict[str, Any]:
    return _keys_from(f"at://{did}/" if kind.KEY == ("uri",) else f"{did} ")


def _keys_from(first: str) -> dict[str, Any]:
    """Selects the keys with a prefix."""
    return {"_id": {"$gte": first, "$lt": first[:-1] + chr(ord(first[-1]) + 1)}}
