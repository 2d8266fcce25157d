"""The records of Bluesky: accounts, who follows whom, posts, reposts, likes, threads and lists."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar

from msgspec import Struct, json

from harvester.exceptions import InvalidRecordError
from harvester.items.base import WEB, Media, Record

is_did = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]{0,2000}[A-Za-z0-9._-]").fullmatch
is_at_uri = re.compile(
    r"at://did:[a-z]+:[A-Za-z0-9._:%-]+/[a-zA-Z](?:[a-zA-Z0-9-]*\.){2,}[a-zA-Z][a-zA-Z0-9-]*"
    r"/(?!\.\.?$)[A-Za-z0-9._~:-]{1,512}"
).fullmatch
"""Matches the address of a record whose account is named by a DID."""


class _Owned(Record, frozen=True, gc=False):
    """Declares `did` first, so that it is the first field of a document. For this the class is not kw_only."""

    did: str
    """The account that owns the record."""


class BlueskyRecord(_Owned, frozen=True, kw_only=True, gc=False):
    """A record of an account.

    Field types are not checked on construction, since parsers fill the fields with values that msgspec decoded.
    """

    KEY: ClassVar[tuple[str, ...]] = ("uri",)
    OWNERS: ClassVar[tuple[str, ...]] = ("did",)
    MOST_TEXT_BYTES = 30_000
    """Ten times the length that Bluesky allows for a post."""
    MEDIA_PATH = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]{1,200}/(?:pfp|banner|posts/[a-z0-9]{1,200}_[0-9]{1,4})\.jpg")

    opt_outs: tuple[str, ...] = ()
    """The account's declarations against being collected, as found."""

    def __post_init__(self) -> None:
        if not is_did(self.did):
            raise InvalidRecordError(f"{self.KIND}: {self.did!r} is not a DID")
        if self.KEY == ("uri",) and not is_at_uri(self.key):
            raise InvalidRecordError(f"{self.KIND}: {self.key!r} is not an at:// address")

    @property
    def belongs_to(self) -> str:
        return self.did

    @property
    def opted_out(self) -> bool:
        return bool(self.opt_outs)

    def line(self, observed: bytes) -> bytes:
        """Returns the staged line. It skips the check of `raw`, which is known to be JSON."""
        raw = self.raw
        if b"\n" in raw or b"\r" in raw:
            raw = json.format(raw, indent=-1)
        key = json.encode(self.key)
        return b'{"kind":"%b","key":%b,"did":"%b",%b,"raw":%b}' % (
            self.KIND.encode(),
            key,
            self.did.encode(),
            observed,
            raw,
        )


class Edge(BlueskyRecord, frozen=True, kw_only=True, gc=False):
    """A record that leads from its account to another account, or to a record of another account."""

    OWNERS = ("did", "subject_did")

    def problem(self) -> str | None:
        if problem := Record.problem(self):
            return problem
        for name in _subjects(type(self)):
            if not getattr(self, name).startswith(("did:", "at://did:")):
                return f"{name} is no account and no at:// address"
        return None


@cache
def _subjects(kind: type[Edge]) -> tuple[str, ...]:
    """Returns the fields that name the target of an edge."""
    return tuple(name for name in kind.__struct_fields__ if name.startswith("subject_"))


class Label(Struct, frozen=True, omit_defaults=True, gc=False):
    """A moderation or self label."""

    val: str
    src: str = ""
    """DID of the labeler; the account's own for a self label."""


class Profile(BlueskyRecord, frozen=True, kw_only=True, gc=False):
    """An account as it presents itself (app.bsky.actor.defs#profileViewDetailed)."""

    KIND = "profile"
    COLLECTION = "profiles"
    KEY = ("did",)
    CLEANED: ClassVar[Mapping[str, str]] = {"display_name": "display_name_clean", "description": "description_clean"}
    COVERED = ("handle", "display_name", "description", "avatar_url", "created_at", "followers_count")
    MEDIA_SLOTS = ("avatar", "banner")
    INDEXES = (("handle",), ("followers_count",))
    EXCLUSIVE = "handle"
    NOT_EXCLUSIVE = frozenset({"handle.invalid"})

    handle: str = ""
    """Mutable. `handle.invalid` if it does not resolve both ways. Empty after another account has taken it."""
    former_handle: str | None = None
    """The last seen handle, if another account has taken it since."""
    display_name: str | None = None
    display_name_clean: str | None = None
    description: str | None = None
    description_clean: str | None = None
    pronouns: str | None = None
    website: str | None = None
    avatar_url: str | None = None
    banner_url: str | None = None
    followers_count: int | None = None
    """The network's own count, which includes accounts that lists leave out."""
    follows_count: int | None = None
    posts_count: int | None = None
    created_at: datetime | None = None
    indexed_at: datetime | None = None
    labels: tuple[Label, ...] = ()
    pinned_post_uri: str | None = None
    starter_pack_uri: str | None = None
    """The starter pack through which the account joined."""
    associated: dict[str, Any] | None = None
    verification: dict[str, Any] | None = None
    intents: dict[str, bool] | None = None
    """Declared user intents: purpose -> allowed."""

    def media(self) -> list[Media]:
        """Returns avatar and banner."""
        found = []
        if self.avatar_url:
            found.append(Media(self.avatar_url, f"{self.did}/pfp.jpg", "avatar"))
        if self.banner_url:
            found.append(Media(self.banner_url, f"{self.did}/banner.jpg", "banner"))
        return found

    def stub(self) -> "Profile":
        return Profile(
            did=self.did,
            handle=self.handle,
            opt_outs=self.opt_outs,
            intents=self.intents,
            provenance=self.provenance,
        )


class Follow(Edge, frozen=True, kw_only=True, gc=False):
    """An edge: `did` follows `subject_did`."""

    KIND = "follow"
    COLLECTION = "follows"
    KEY = ("did", "subject_did")
    COVERED = ("subject_did",)
    INDEXES = (("subject_did",),)

    subject_did: str


class Facet(Struct, frozen=True, omit_defaults=True, gc=False):
    """A mention, link or hashtag in a text. Offsets are code points of the untouched text, end exclusive."""

    start: int
    end: int
    kind: str
    """`mention`, `link`, `tag`, or the $type if it is unknown."""
    value: str
    """DID, address, or tag without its sign."""


class Image(Struct, frozen=True, omit_defaults=True, gc=False):
    """A picture in a post."""

    url: str
    """Address of the picture in full size."""
    thumb_url: str | None = None
    alt: str | None = None
    cid: str | None = None
    """CID of the original blob."""
    width: int | None = None
    height: int | None = None


class Video(Struct, frozen=True, omit_defaults=True, gc=False):
    """A video in a post."""

    playlist_url: str
    thumb_url: str | None = None
    alt: str | None = None
    cid: str | None = None
    width: int | None = None
    height: int | None = None


class External(Struct, frozen=True, omit_defaults=True, gc=False):
    """A link card."""

    url: str
    title: str = ""
    description: str = ""
    thumb_url: str | None = None


class Quote(Struct, frozen=True, omit_defaults=True, gc=False):
    """Something embedded by reference: a post, feed, list, labeler or starter pack."""

    uri: str
    kind: str
    """`post`, `feed`, `list`, `labeler`, `starter_pack`; `not_found`, `blocked`, `detached`, `opted_out` or `purged`
    if the content is not visible; or the $type if it is unknown."""
    did: str | None = None
    handle: str | None = None
    cid: str | None = None
    text: str | None = None
    """Text of a post; for other kinds their name."""
    created_at: datetime | None = None
    embed: "Embed | None" = None


class Embed(Struct, frozen=True, omit_defaults=True, gc=False):
    """Everything that is embedded in a post. recordWithMedia fills both `quote` and a medium."""

    images: tuple[Image, ...] = ()
    video: Video | None = None
    external: External | None = None
    quote: Quote | None = None
    unknown: tuple[dict[str, Any], ...] = ()
    """Embeds with an unknown $type, unchanged."""


class Post(BlueskyRecord, frozen=True, kw_only=True, gc=False):
    """A post (app.bsky.feed.defs#postView)."""

    KIND = "post"
    COLLECTION = "posts"
    CLEANED: ClassVar[Mapping[str, str]] = {"text": "text_clean"}
    COVERED = ("text", "handle", "created_at", "like_count")
    INDEXES = (("did", "sort_at"), ("root_uri",), ("sort_at",))
    MEDIA_FIXED = True
    key = property(attrgetter("uri"))  # faster: it is read six times for each post, the most frequent record

    uri: str
    cid: str
    handle: str = ""
    text: str
    text_clean: str | None = None
    created_at: datetime | None = None
    """As stated by the author's client; may be absurd."""
    indexed_at: datetime | None = None
    sort_at: datetime | None = None
    """The earlier of created_at and indexed_at. Feeds are ordered by it."""
    langs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Tags outside the text."""
    facets: tuple[Facet, ...] = ()
    root_uri: str | None = None
    """First post of the thread, if this post is a reply."""
    parent_uri: str | None = None
    """The post that this post replies to."""
    embed: Embed | None = None
    media_urls: tuple[str, ...] = ()
    """Addresses of all pictures, videos and thumbnails in the post and in quoted records."""
    labels: tuple[Label, ...] = ()
    reply_count: int
    repost_count: int
    like_count: int
    quote_count: int
    bookmark_count: int = 0
    threadgate: dict[str, Any] | None = None
    """The record's own rule about replies."""
    pinned: bool = False

    def media(self) -> list[Media]:
        """Returns the post's own pictures, without the pictures of quoted posts."""
        images = self.embed.images if self.embed else ()
        return [
            Media(image.url, f"{self.did}/posts/{self.cid}_{index}.jpg", str(index))
            for index, image in enumerate(images)
        ]

    def problem(self) -> str | None:
        if problem := Record.problem(self):
            return problem
        if (self.root_uri is None) != (self.parent_uri is None):
            return "a reply names only one of root_uri and parent_uri"
        for facet in self.facets:
            if not 0 <= facet.start < facet.end <= len(self.text):
                return "a facet lies outside the text"
        for url in self.media_urls:
            if not url.startswith(WEB):
                return "a media url is no web address"
        return None


class Repost(Edge, frozen=True, kw_only=True, gc=False):
    """An edge: `did` reposted `subject_uri`. If `did` did so several times, the last repost stays."""

    KIND = "repost"
    COLLECTION = "reposts"
    KEY = ("did", "subject_uri")
    VERSION = "created_at"
    COVERED = ("subject_uri", "created_at")
    INDEXES = (("subject_uri",),)

    subject_uri: str
    subject_did: str
    uri: str | None = None
    """Address of the repost itself. Older servers leave it out."""
    created_at: datetime | None = None


class Like(Edge, frozen=True, kw_only=True, gc=False):
    """An edge: `did` likes `subject_uri`."""

    KIND = "like"
    COLLECTION = "likes"
    COVERED = ("subject_uri", "created_at")
    INDEXES = (("did",), ("subject_uri",))

    uri: str
    subject_uri: str
    subject_did: str
    created_at: datetime | None = None


class Thread(BlueskyRecord, frozen=True, kw_only=True, gc=False):
    """A reply tree, read once. Its posts are records of their own, found by their `root_uri`."""

    KIND = "thread"
    COLLECTION = "threads"
    COVERED = ("post_count",)
    INDEXES = (("did",),)

    uri: str
    """Address of the first post."""
    root_uri: str | None = None
    """First post of the whole thread, if it does not show this tree: it is deleted, or a block hides the tree."""
    post_count: int
    """Number of posts in the tree, including the first."""
    not_found: tuple[str, ...] = ()
    """Addresses of deleted posts in the tree."""
    blocked: tuple[str, ...] = ()
    """Addresses of posts hidden by a block."""

    def problem(self) -> str | None:
        return Record.problem(self) or ("a thread without posts" if self.post_count < 1 else None)


class AccountList(BlueskyRecord, frozen=True, kw_only=True, gc=False):
    """A list or starter pack that an account made."""

    KIND = "list"
    COLLECTION = "lists"
    CLEANED: ClassVar[Mapping[str, str]] = {"description": "description_clean"}
    COVERED = ("name", "purpose")
    INDEXES = (("did",),)

    uri: str
    cid: str
    name: str
    purpose: str
    """`curatelist`, `modlist`, `referencelist`, or `starterpack`."""
    description: str | None = None
    description_clean: str | None = None
    item_count: int | None = None
    list_uri: str | None = None
    """For a starter pack, the list of the members."""
    indexed_at: datetime | None = None


class ListItem(Edge, frozen=True, kw_only=True, gc=False):
    """An edge: a list of `did` has `subject_did` as a member."""

    KIND = "list_item"
    COLLECTION = "list_items"
    COVERED = ("subject_did",)
    INDEXES = (("list_uri",), ("subject_did",))

    uri: str
    list_uri: str
    subject_did: str
