"""The repositories on the PDS: every record of an account by collection and key."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from harvester.sandbox.ids import tid, timestamp
from harvester.sandbox.network import Network
from harvester.sandbox.posts import Posts, SandboxPost, SandboxRepost
from harvester.sandbox.profiles import Profiles

Record = dict[str, Any]
Entries = dict[str, Callable[[], Record]]

FOLLOW_MS = 1_750_000_000_000
"""Time in milliseconds of an account's first listed follow; each further one is a second earlier."""

COLLECTIONS = (
    "app.bsky.actor.profile",
    "app.bsky.feed.like",
    "app.bsky.feed.post",
    "app.bsky.feed.repost",
    "app.bsky.graph.block",
    "app.bsky.graph.follow",
    "app.bsky.graph.list",
    "app.bsky.graph.listitem",
    "app.bsky.graph.starterpack",
    "org.user-intents.declaration",
)

LIST_NAME = "Friends & <others>"


class SandboxRecords:
    """The repositories, computed on demand."""

    def __init__(self, network: Network, posts: Posts, profiles: Profiles) -> None:
        self.network, self.posts, self.profiles = network, posts, profiles
        self.entries = lru_cache(256)(self._entries)

    def collections(self, index: int) -> list[str]:
        return [name for name in COLLECTIONS if self.entries(index, name)]

    def uri(self, index: int, collection: str, key: str) -> str:
        return f"at://{self.network.did(index)}/{collection}/{key}"

    def record(self, index: int, collection: str, key: str) -> Record | None:
        """Returns one record. Posts are found without listing the others."""
        if collection == "app.bsky.feed.post":
            post = self.posts.post_of_rkey(index, key)
            return None if post is None else self.posts.record(post)
        build = self.entries(index, collection).get(key)
        return build() if build else None

    def has_list(self, index: int) -> bool:
        """Returns True if the account has a curated list and a starter pack."""
        return index % 50 == 0

    def list_members(self, index: int) -> list[int]:
        size = self.network.size
        return [(index + 1 + step) % size for step in range(min(40, size - 1))] if self.has_list(index) else []

    def list_uri(self, index: int) -> str:
        return self.uri(index, "app.bsky.graph.list", self.posts.extra_rkey(index, "list"))

    def pack_uri(self, index: int) -> str:
        return self.uri(index, "app.bsky.graph.starterpack", self.posts.extra_rkey(index, "starterpack"))

    def item_uri(self, index: int, position: int) -> str:
        return self.uri(index, "app.bsky.graph.listitem", self._time_key(index, position))

    def rev(self, index: int) -> str:
        return tid(1_790_000_000_000_000 + index, index)

    def _entries(self, index: int, collection: str) -> Entries:
        """Maps keys, oldest first, to the builders of their records."""
        found = _BUILDERS[collection](self, index) if collection in _BUILDERS else {}
        return dict(sorted(found.items()))

    def _time_key(self, index: int, position: int) -> str:
        return tid((FOLLOW_MS - position * 1000) * 1000 + 3, index)

    def _profile(self, index: int) -> Entries:
        record = self.profiles.record(index)
        return {"self": lambda: record} if record is not None else {}

    def _posts(self, index: int) -> Entries:
        posts = (SandboxPost(index, number) for number in range(self.posts.count(index)))
        return {self.posts.rkey(post): partial(self.posts.record, post) for post in posts}

    def _reposts(self, index: int) -> Entries:
        found: Entries = {}
        for number in range(self.posts.repost_count(index)):
            repost = SandboxRepost(index, number)
            record = self.posts.repost_record(repost)
            if record is not None:
                found[self.posts.repost_rkey(repost)] = partial(dict, record)
        return found

    def _likes(self, index: int) -> Entries:
        found: Entries = {}
        for slot in range(7):
            record = self.posts.like_record(index, slot)
            if record is not None:
                found[self.posts.like_rkey(index, slot)] = partial(dict, record)
        return found

    def _follows(self, index: int) -> Entries:
        found = enumerate(self.network.follows(index))
        return {
            self._time_key(index, position): partial(self._edge, "app.bsky.graph.follow", other, position)
            for position, other in found
        }

    def _blocks(self, index: int) -> Entries:
        partner = self.network.partner(index)
        if partner is None or self.network.kind(index) != "blocker":
            return {}
        return {self._time_key(index, 0): partial(self._edge, "app.bsky.graph.block", partner, 0)}

    def _edge(self, kind: str, other: int, position: int) -> Record:
        moment = timestamp(FOLLOW_MS - position * 1000)
        return {"$type": kind, "subject": self.network.did(other), "createdAt": moment}

    def _lists(self, index: int) -> Entries:
        record = {
            "$type": "app.bsky.graph.list",
            "name": LIST_NAME,
            "purpose": "app.bsky.graph.defs#curatelist",
            "description": "a curated list",
            "createdAt": timestamp(FOLLOW_MS),
        }
        return {self.posts.extra_rkey(index, "list"): lambda: record} if self.has_list(index) else {}

    def _items(self, index: int) -> Entries:
        return {
            self._time_key(index, position): partial(self._item, index, other, position)
            for position, other in enumerate(self.list_members(index))
        }

    def _item(self, index: int, other: int, position: int) -> Record:
        return self._edge("app.bsky.graph.listitem", other, position) | {"list": self.list_uri(index)}

    def _packs(self, index: int) -> Entries:
        return {self.posts.extra_rkey(index, "starterpack"): partial(self.pack, index)} if self.has_list(index) else {}

    def pack(self, index: int) -> Record:
        """Returns the record of a starter pack."""
        return {
            "$type": "app.bsky.graph.starterpack",
            "name": "Start here 🌱",
            "list": self.list_uri(index),
            "description": "People to follow",
            "createdAt": timestamp(FOLLOW_MS),
        }

    def _intents(self, index: int) -> Entries:
        kind = self.network.kind(index)
        if kind not in ("intents_refuse", "intents_allow"):
            return {}
        moment = timestamp(FOLLOW_MS)
        wish = {"allow": kind == "intents_allow", "updatedAt": moment}
        record = {"$type": "org.user-intents.declaration", "bulkDataset": wish, "updatedAt": moment}
        return {"self": lambda: record}


_BUILDERS: dict[str, Callable[[SandboxRecords, int], Entries]] = {
    "app.bsky.actor.profile": SandboxRecords._profile,
    "app.bsky.feed.like": SandboxRecords._likes,
    "app.bsky.feed.post": SandboxRecords._posts,
    "app.bsky.feed.repost": SandboxRecords._reposts,
    "app.bsky.graph.block": SandboxRecords._blocks,
    "app.bsky.graph.follow": SandboxRecords._follows,
    "app.bsky.graph.list": SandboxRecords._lists,
    "app.bsky.graph.listitem": SandboxRecords._items,
    "app.bsky.graph.starterpack": SandboxRecords._packs,
    "org.user-intents.declaration": SandboxRecords._intents,
}
