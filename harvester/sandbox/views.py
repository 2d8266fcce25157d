"""The AppView's JSON of accounts and posts, with pages and cursors."""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from harvester.sandbox import images
from harvester.sandbox.dag_cbor import cid_text
from harvester.sandbox.ids import record_cid, timestamp
from harvester.sandbox.network import Countdown, Network
from harvester.sandbox.posts import POPULAR, Posts, SandboxPost, SandboxRepost
from harvester.sandbox.profiles import LABELER, Profiles
from harvester.sandbox.records import FOLLOW_MS, LIST_NAME, SandboxRecords

View = dict[str, Any]
Row = TypeVar("Row")

encode = msgspec.json.encode

_ASSOCIATED = {"activitySubscription": {"allowSubscriptions": "followers"}}
_CURSOR = re.compile(r"([0-9]{1,13})__bafyrei[a-z2-7]{52}")
_CURSOR_MS = 1_760_000_000_000


class BadCursor(Exception):
    """Raised for a cursor that the server cannot have sent."""


def cursor_at(position: int, *, gap: bool = False) -> str:
    """Returns the cursor of a position: `<ms>__<cid>`. With a gap an empty page comes before the next rows."""
    millis = _CURSOR_MS - (position * 2 + gap) * 500
    return f"{millis}__{cid_text(bytes((1, 0x71, 0x12, 0x20)) + hashlib.sha256(b'%d' % millis).digest())}"


def position_of(cursor: str | None) -> tuple[int, bool]:
    """Returns position and gap of a cursor. Raises BadCursor."""
    if not cursor:
        return 0, False
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise BadCursor(cursor)
    halves = max(0, (_CURSOR_MS - int(match[1])) // 500)
    return halves // 2, bool(halves % 2)


class Views:
    """The views of a network, with addresses of this server in them."""

    def __init__(self, records: SandboxRecords, base: str, page_size: int = 100, cache: int = 50_000) -> None:
        self.records = records
        self.network: Network = records.network
        self.posts: Posts = records.posts
        self.profiles: Profiles = records.profiles
        self.base = base
        self.page_size = page_size
        self.basic: Callable[[int], msgspec.Raw] = lru_cache(cache)(self._basic)
        self.profile: Callable[[int], msgspec.Raw] = lru_cache(cache)(self._profile)
        self.post: Callable[[SandboxPost], msgspec.Raw] = lru_cache(cache)(self._post)
        self.detailed: Callable[[int], msgspec.Raw] = lru_cache(cache // 4)(self._detailed)
        self._feed_item: Callable[[SandboxPost | SandboxRepost], msgspec.Raw | None] = lru_cache(
            cache // 4, typed=True
        )(self._item)

    # Accounts

    def _basic_fields(self, index: int) -> View:
        view: View = {"did": self.network.did(index), "handle": self.network.shown_handle(index)}
        if self.profiles.exists(index):
            name = self.profiles.display_name(index)
            if name is not None:
                view["displayName"] = name
            drawn = self.profiles.avatar(index)
            if drawn is not None:
                suffix = "@jpeg" if index % 2 else ""
                view["avatar"] = f"{self.base}/img/avatar/plain/{view['did']}/{drawn.cid}{suffix}"
        view["associated"] = _ASSOCIATED
        view["labels"] = self.profiles.labels(index)
        if self.profiles.exists(index):
            view["createdAt"] = timestamp(self.profiles.created_ms(index))
        return view

    def _profile_fields(self, index: int) -> View:
        view = self._basic_fields(index)
        if self.profiles.exists(index):
            description = self.profiles.description(index)
            if description:
                view["description"] = description
            view["indexedAt"] = view["createdAt"]
        return view

    def _basic(self, index: int) -> msgspec.Raw:
        return msgspec.Raw(encode(self._basic_fields(index)))

    def _profile(self, index: int) -> msgspec.Raw:
        return msgspec.Raw(encode(self._profile_fields(index)))

    def _detailed(self, index: int) -> msgspec.Raw:
        """Returns the profile with its counts, which include hidden accounts."""
        view = self._profile_fields(index)
        own = int(self.records.has_list(index))
        view["associated"] = {"lists": own, "feedgens": 0, "starterPacks": own, "labeler": False} | _ASSOCIATED
        drawn = self.profiles.banner(index) if self.profiles.exists(index) else None
        if drawn is not None:
            view["banner"] = f"{self.base}/img/banner/plain/{view['did']}/{drawn.cid}"
        view["followersCount"] = self.network.follower_count(index)
        view["followsCount"] = len(self.network.follows(index))
        view["postsCount"] = self.posts.count(index)
        pinned = self.posts.pinned(index)
        if pinned is not None:
            view["pinnedPost"] = self.posts.strong_ref(pinned)
        return msgspec.Raw(encode(view))

    # Pages

    def page(
        self, rows: Sequence[Row], keep: Callable[[Row], bool], limit: int, cursor: str | None, owner: int
    ) -> tuple[list[Row], str | None]:
        """Returns a page of rows and the next cursor. Rows that `keep` rejects make the page shorter.

        Every fifth owner has an empty page after the first.
        """
        position, gap = position_of(cursor)
        if gap:
            return [], cursor_at(position)
        limit = min(limit, self.page_size)
        taken = rows[position : position + limit]
        following = None
        if len(taken) == limit:
            following = cursor_at(position + limit, gap=position == 0 and owner % 5 == 0)
        return [row for row in taken if keep(row)], following

    def follows(self, index: int, limit: int, cursor: str | None) -> View:
        network = self.network
        rows, following = self.page(
            network.follows(index), lambda other: network.listed(index, other), limit, cursor, index
        )
        return _paged({"follows": list(map(self.profile, rows)), "subject": self.profile(index)}, following)

    def followers(self, index: int, limit: int, cursor: str | None) -> View:
        network = self.network

        def keep(other: int) -> bool:
            return network.listed(index, other) and (index != 0 or network.follows_hub(other))

        rows, following = self.page(network.followers(index), keep, limit, cursor, index)
        return _paged({"followers": list(map(self.profile, rows)), "subject": self.profile(index)}, following)

    def likes(self, post: SandboxPost, limit: int, cursor: str | None) -> View:
        slots = self.posts.likers(post)

        def keep(index: int) -> bool:
            return not self.network.hidden(index) and (post != POPULAR or self.posts.likes_popular(index))

        rows: Sequence[int] = Countdown(self.network.size) if post == POPULAR else list(slots)
        shown, following = self.page(rows, keep, limit, cursor, post.author)
        found = []
        for index in shown:
            slot = slots.get(index, 0)
            moment = timestamp(self.posts.like_ms(index, slot))
            found.append({"actor": self.profile(index), "createdAt": moment, "indexedAt": moment})
        return _paged({"likes": found}, following) | {"uri": self.posts.uri(post)}

    def reposted_by(self, post: SandboxPost, limit: int, cursor: str | None) -> View:
        rows, following = self.page(
            self.posts.reposts_of(post), lambda row: not self.network.hidden(row.by), limit, cursor, post.author
        )
        view = _paged({"repostedBy": [self.profile(row.by) for row in rows]}, following)
        return view | {"uri": self.posts.uri(post)}

    def feed(self, index: int, limit: int, cursor: str | None, kind: str, pins: bool) -> View:
        """Returns a page of an author's feed. When the last page is full, its cursor leads to an empty page."""
        position, gap = position_of(cursor)
        if gap:
            return {"feed": [], "cursor": cursor_at(position)}
        limit = min(limit, self.page_size)
        found: list[object] = []
        first, taken, length = position == 0, 0, self.posts.feed_length(index)
        pinned = self.posts.pinned(index) if pins and first else None
        if pinned is not None:
            found.append({"post": self.post(pinned), "reason": {"$type": "app.bsky.feed.defs#reasonPin"}})
        while position < length and taken < limit:
            item = self.posts.feed_item(index, position)
            position += 1
            if self._passes(item, kind):
                taken += 1
                view = self._feed_item(item)
                if view is not None:
                    found.append(view)
        following = cursor_at(position, gap=first and index % 5 == 0) if taken == limit else None
        return _paged({"feed": found}, following)

    def _passes(self, item: SandboxPost | SandboxRepost, kind: str) -> bool:
        if kind == "posts_with_media":
            return isinstance(item, SandboxPost) and item.number % 24 in (1, 7, 9, 13, 15)
        if kind == "posts_with_video":
            return isinstance(item, SandboxPost) and item.number % 24 == 7
        if isinstance(item, SandboxRepost) or kind not in ("posts_no_replies", "posts_and_author_threads"):
            return True
        parent = self.posts.parent(item)
        own = kind == "posts_and_author_threads" and parent is not None and self.posts.root(item).author == item.author
        return parent is None or own

    # Posts

    def _item(self, item: SandboxPost | SandboxRepost) -> msgspec.Raw | None:
        view = self.feed_view(item)
        return None if view is None else msgspec.Raw(encode(view))

    def feed_view(self, item: SandboxPost | SandboxRepost) -> View | None:
        """Returns an item of a feed; None for a repost whose subject is not shown."""
        if isinstance(item, SandboxPost):
            return self._with_reply(item)
        subject = self.posts.repost_subject(item)
        if subject is None or self.network.hidden(subject.author):
            return None
        if self.network.blocked_pair(item.by, subject.author):
            return None
        view = self._with_reply(subject)
        view["reason"] = {
            "by": self.basic(item.by),
            "uri": f"at://{self.network.did(item.by)}/app.bsky.feed.repost/{self.posts.repost_rkey(item)}",
            "cid": record_cid(self.posts.repost_record(item) or {}),
            "indexedAt": timestamp(self.posts.repost_ms(item)),
            "$type": "app.bsky.feed.defs#reasonRepost",
        }
        return view

    def _with_reply(self, post: SandboxPost) -> View:
        view: View = {"post": self.post(post)}
        parent = self.posts.parent(post)
        if parent is not None:
            root = self.posts.root(parent)
            view["reply"] = {"root": self._referred(post, root), "parent": self._referred(post, parent)}
            grandparent = self.posts.parent(parent)
            if grandparent is not None and not self.network.hidden(grandparent.author):
                view["reply"]["grandparentAuthor"] = self.basic(grandparent.author)
        return view

    def _referred(self, post: SandboxPost, other: SandboxPost) -> object:
        if self.network.hidden(other.author):
            return self.not_found(other)
        if self.network.blocked_pair(post.author, other.author):
            return self.blocked(other)
        return msgspec.Raw(bytes(self.post(other))[:-1] + b',"$type":"app.bsky.feed.defs#postView"}')

    def not_found(self, post: SandboxPost) -> View:
        return {"uri": self.posts.uri(post), "notFound": True, "$type": "app.bsky.feed.defs#notFoundPost"}

    def blocked(self, post: SandboxPost) -> View:
        author = {"did": self.network.did(post.author)}
        return {"uri": self.posts.uri(post), "blocked": True, "author": author} | {
            "$type": "app.bsky.feed.defs#blockedPost"
        }

    def thread(self, post: SandboxPost, depth: int, height: int) -> View:
        """Returns a post with the answers below it and the posts above it."""
        view = self._thread(post, depth)
        parent = self.posts.parent(post)
        if parent is not None and height > 0:
            view["parent"] = self._above(post, parent, height)
        return view

    def _thread(self, post: SandboxPost, depth: int) -> View:
        view: View = {"post": self.post(post)}
        if depth > 0:
            shown = (child for child in self.posts.children(post) if self.posts.shown_under(child, post))
            view["replies"] = [self._thread(child, depth - 1) for child in shown]
        view["threadContext"] = {}
        view["$type"] = "app.bsky.feed.defs#threadViewPost"
        return view

    def _above(self, child: SandboxPost, post: SandboxPost, height: int) -> View:
        if self.network.hidden(post.author):
            return self.not_found(post)
        if self.network.blocked_pair(child.author, post.author):
            return self.blocked(post)
        view: View = {"post": self.post(post)}
        parent = self.posts.parent(post)
        if parent is not None and height > 1:
            view["parent"] = self._above(post, parent, height - 1)
        view["threadContext"] = {}
        view["$type"] = "app.bsky.feed.defs#threadViewPost"
        return view

    def _post(self, post: SandboxPost) -> msgspec.Raw:
        view: View = {
            "uri": self.posts.uri(post),
            "cid": self.posts.cid(post),
            "author": self.basic(post.author),
            "record": self.posts.record(post),
        }
        embed = self._embed(post, nested=False)
        if embed is not None:
            view["embed"] = embed
        view |= {"bookmarkCount": 0, "replyCount": len(self.posts.children(post))} | self._counts(post)
        view |= {"indexedAt": timestamp(self.posts.time_ms(post)), "labels": self._labels(post)}
        return msgspec.Raw(encode(view))

    def _counts(self, post: SandboxPost) -> View:
        reposts, likes = self.posts.repost_total(post), self.posts.like_count(post)
        return {"repostCount": reposts, "likeCount": likes, "quoteCount": 0}

    def _labels(self, post: SandboxPost) -> list[View]:
        found = []
        own = self.posts.self_label(post)
        for source, value in ((self.network.did(post.author), own), (LABELER, "porn")):
            if value is not None and (source != LABELER or self.posts.labelled(post)):
                ref = {"src": source, "uri": self.posts.uri(post), "cid": self.posts.cid(post)}
                found.append(ref | {"val": value, "cts": timestamp(self.posts.time_ms(post))})
        return found

    # Embeds

    def _embed(self, post: SandboxPost, *, nested: bool) -> View | None:
        record = self.posts.record(post).get("embed")
        if record is None:
            return None
        kind = record["$type"]
        if kind == "app.bsky.embed.images":
            return self._images(post, record)
        if kind == "app.bsky.embed.gallery":
            return self._gallery(post, record)
        if kind == "app.bsky.embed.video":
            return self._video(post, record)
        if kind == "app.bsky.embed.external":
            return self._external(post, record)
        if kind == "app.bsky.embed.record":
            return {"record": self._quote(post, nested=nested), "$type": "app.bsky.embed.record#view"}
        if kind == "app.bsky.embed.recordWithMedia":
            return {
                "record": {"record": self._quote(post, nested=nested)},
                "media": self._images(post, record["media"]),
                "$type": "app.bsky.embed.recordWithMedia#view",
            }
        return {"$type": kind + "#view", "question": record["question"], "votes": [1, 2]}

    def _picture(self, post: SandboxPost, preset: str, blob: View) -> str:
        return f"{self.base}/img/{preset}/plain/{self.network.did(post.author)}/{blob['ref']['$link']}"

    def _images(self, post: SandboxPost, record: View) -> View:
        found = []
        for part in record["images"]:
            view = {
                "thumb": self._picture(post, "feed_thumbnail", part["image"]),
                "fullsize": self._picture(post, "feed_fullsize", part["image"]),
                "alt": part["alt"],
            }
            if "aspectRatio" in part:
                view["aspectRatio"] = part["aspectRatio"]
            found.append(view)
        return {"images": found, "$type": "app.bsky.embed.images#view"}

    def _gallery(self, post: SandboxPost, record: View) -> View:
        found = [
            {
                "thumbnail": self._picture(post, "feed_thumbnail", part["image"]),
                "fullsize": self._picture(post, "feed_fullsize", part["image"]),
                "alt": part["alt"],
                "aspectRatio": part["aspectRatio"],
                "$type": "app.bsky.embed.gallery#viewImage",
            }
            for part in record["items"]
        ]
        return {"items": found, "$type": "app.bsky.embed.gallery#view"}

    def _video(self, post: SandboxPost, record: View) -> View:
        cid = images.video_cid()
        folder = f"{self.base}/vid/{quote(self.network.did(post.author), safe='')}/{cid}"
        return {
            "cid": cid,
            "playlist": f"{folder}/playlist.m3u8",
            "thumbnail": f"{folder}/thumbnail.jpg",
            "alt": record["alt"],
            "aspectRatio": record["aspectRatio"],
            "$type": "app.bsky.embed.video#view",
        }

    def _external(self, post: SandboxPost, record: View) -> View:
        external = dict(record["external"])
        if "thumb" in external:
            external["thumb"] = self._picture(post, "feed_thumbnail", external["thumb"])
        return {"external": external, "$type": "app.bsky.embed.external#view"}

    def _quote(self, post: SandboxPost, *, nested: bool) -> View:
        slot = self.posts.quote_slot(post)
        if slot in ("generator", "list", "labeler", "starterpack"):
            return self._quoted_thing(slot)
        target = self.posts.slot_target(post, slot) if slot else self.posts.quoted(post)
        assert target is not None
        uri = self.posts.uri(target)
        if slot == "detached":
            return {"uri": uri, "detached": True, "$type": "app.bsky.embed.record#viewDetached"}
        if self.network.hidden(target.author) or not self.posts.exists(target):
            return {"uri": uri, "notFound": True, "$type": "app.bsky.embed.record#viewNotFound"}
        if self.network.blocked_pair(post.author, target.author):
            author = {"did": self.network.did(target.author)}
            view = {"uri": uri, "blocked": True, "author": author}
            return view | {"$type": "app.bsky.embed.record#viewBlocked"}
        view = {
            "uri": uri,
            "cid": self.posts.cid(target),
            "author": self.basic(target.author),
            "value": self.posts.record(target),
            "labels": self._labels(target),
        }
        view |= self._counts(target) | {"replyCount": len(self.posts.children(target))}
        view["indexedAt"] = timestamp(self.posts.time_ms(target))
        if not nested:
            inner = self._embed(target, nested=True)
            view["embeds"] = [] if inner is None else [inner]
        view["$type"] = "app.bsky.embed.record#viewRecord"
        return view

    def _quoted_thing(self, slot: str) -> View:
        uri = self.posts.slot_uri(slot)
        view: View = {"uri": uri, "cid": record_cid({"slot": slot}), "creator": self.profile(0), "labels": []}
        view["indexedAt"] = timestamp(FOLLOW_MS)
        if slot == "generator":
            view |= {"did": "did:web:feeds.example.com", "displayName": "Tides & weather", "likeCount": 7}
            return view | {"$type": "app.bsky.feed.defs#generatorView"}
        if slot == "list":
            return self.list_view(0) | {"$type": "app.bsky.graph.defs#listView"}
        if slot == "labeler":
            return view | {"likeCount": 3, "$type": "app.bsky.labeler.defs#labelerView"}
        view |= {"creator": self.basic(0), "record": self.records.pack(0), "listItemCount": 40}
        return view | {"$type": "app.bsky.graph.defs#starterPackViewBasic"}

    # Lists

    def list_view(self, index: int) -> View:
        entries = self.records.entries(index, "app.bsky.graph.list")
        return {
            "uri": self.records.list_uri(index),
            "cid": record_cid(next(iter(entries.values()))()),
            "name": LIST_NAME,
            "purpose": "app.bsky.graph.defs#curatelist",
            "listItemCount": len(self.records.list_members(index)),
            "indexedAt": timestamp(FOLLOW_MS),
            "labels": [],
            "creator": self.profile(index),
            "description": "a curated list",
        }

    def list_items(self, index: int) -> list[View]:
        """Returns all items whose account is shown."""
        return [
            {"uri": self.records.item_uri(index, position), "subject": self.profile(other)}
            for position, other in enumerate(self.records.list_members(index))
            if not self.network.hidden(other)
        ]

    def list_page(self, index: int, limit: int, cursor: str | None) -> View:
        rows, following = self.page(self.list_items(index), lambda _: True, limit, cursor, index)
        return _paged({"list": self.list_view(index), "items": rows}, following)

    def pack_view(self, index: int, *, full: bool) -> View:
        view: View = {
            "uri": self.records.pack_uri(index),
            "cid": record_cid(self.records.pack(index)),
            "record": self.records.pack(index),
            "creator": self.basic(index),
            "joinedAllTimeCount": 0,
            "joinedWeekCount": 0,
            "labels": [],
            "indexedAt": timestamp(FOLLOW_MS),
        }
        if not full:
            return view | {"listItemCount": len(self.records.list_members(index))}
        basic = {key: value for key, value in self.list_view(index).items() if key not in ("creator", "description")}
        return view | {"feeds": [], "list": basic, "listItemsSample": self.list_items(index)[:12]}


def _paged(view: View, cursor: str | None) -> View:
    return view if cursor is None else view | {"cursor": cursor}
