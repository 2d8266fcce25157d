"""The records: typed, validated where they are constructed, each with a natural key and its provenance.

A record is a frozen msgspec Struct. `key` is its `_id` in MongoDB, so the same thing observed twice is one document.
`raw` is the part of the answer it was read from; it is staged on disk and never written to MongoDB. Records are never
in a cycle, so the garbage collector need not look at them (gc=False).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from harvester.exceptions import InvalidRecordError

_is_did = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]{1,2000}").fullmatch
_is_at_uri = re.compile(r"at://did:[a-z]+:[A-Za-z0-9._:%-]+/[a-zA-Z0-9.-]+/[A-Za-z0-9._~:-]{1,512}").fullmatch


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a site says of the use of a page: `allowed`, `refused` or `unknown`."""

    training: str = "unknown"
    """For training models."""
    mining: str = "unknown"
    """For mining text and data."""
    signals: tuple[str, ...] = ()
    """The words it was told from, as found."""


class Provenance(Struct, frozen=True, omit_defaults=True, gc=False, cache_hash=True):
    """Where and when a record was observed. One object is shared by all records of a page."""

    url: str
    """The address asked."""
    fetched_at: datetime
    """UTC."""
    spider: str
    crawl: str
    """Identifier of the crawl in the ledger."""
    usage: Usage | None = None
    """None: nothing was said, or nobody looked."""


class Media(NamedTuple):
    """A picture to be fetched for a record."""

    url: str
    path: str
    """Where it is stored, below the images location."""
    slot: str
    """Which of the record's pictures it is: `avatar`, `banner`, or the index of an image."""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all records. Raises InvalidRecordError when a value breaks a rule of its type."""

    KIND: ClassVar[str]
    """Singular name, used for staging folders and stats."""
    COLLECTION: ClassVar[str]
    """MongoDB collection."""
    KEY: ClassVar[tuple[str, ...]] = ("uri",)
    """Fields that make the natural key."""
    CLEANED: ClassVar[Mapping[str, str]] = {}
    """Field of untouched text -> field of its cleaned form, which the clean pipeline fills."""
    COVERED: ClassVar[tuple[str, ...]] = ()
    """Fields whose coverage the monitors watch."""
    INDEXES: ClassVar[Sequence[tuple[str, ...]]] = ()
    """Fields of each MongoDB index beside `_id`."""

    did: str
    """The account whose record it is."""
    provenance: Provenance
    media_paths: dict[str, str] = {}
    """Stored pictures: slot -> path below the images location."""
    media_sources: dict[str, str] = {}
    """Slot -> address a stored picture came from. Only where the path stays while the picture changes."""
    opt_outs: tuple[str, ...] = ()
    """What the account declared against being collected, as found."""
    raw: bytes = b""
    """JSON this record was read from."""

    def __post_init__(self) -> None:
        if not _is_did(self.did):
            raise InvalidRecordError(f"{self.KIND}: {self.did!r} is not a DID")
        if self.KEY == ("uri",) and not _is_at_uri(self.key):
            raise InvalidRecordError(f"{self.KIND}: {self.key!r} is not an at:// address")

    @property
    def key(self) -> str:
        """The natural key, `_id` in MongoDB."""
        names = self.KEY
        if len(names) > 1:
            return " ".join([getattr(self, name) for name in names])
        key: str = getattr(self, names[0])
        return key

    def media(self) -> list[Media]:
        """The pictures that belong to this record."""
        return []

    def to_document(self) -> dict[str, Any]:
        """The MongoDB document, without `raw`. Datetimes stay datetimes; absent values are left out."""
        document: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(datetime, bytes))
        document.pop("raw", None)
        document["_id"] = self.key
        return document


class Label(Struct, frozen=True, omit_defaults=True, gc=False):
    """A moderation or self label."""

    val: str
    src: str = ""
    """DID of the labeler; the account's own for a self label."""


class Profile(Record, frozen=True, kw_only=True, gc=False):
    """An account as it presents itself (app.bsky.actor.defs#profileViewDetailed)."""

    KIND = "profile"
    COLLECTION = "profiles"
    KEY = ("did",)
    CLEANED = {"display_name": "display_name_clean", "description": "description_clean"}
    COVERED = ("handle", "display_name", "description", "avatar_url", "created_at", "followers_count")
    INDEXES = (("handle",), ("followers_count",))

    handle: str = ""
    """Mutable, and `handle.invalid` when it does not resolve both ways."""
    display_name: str | None = None
    display_name_clean: str | None = None
    description: str | None = None
    description_clean: str | None = None
    pronouns: str | None = None
    website: str | None = None
    avatar_url: str | None = None
    banner_url: str | None = None
    followers_count: int | None = None
    """The network's own count; it includes accounts that lists leave out."""
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
        """Avatar and banner."""
        found = []
        if self.avatar_url:
            found.append(Media(self.avatar_url, f"{self.did}/pfp.jpg", "avatar"))
        if self.banner_url:
            found.append(Media(self.banner_url, f"{self.did}/banner.jpg", "banner"))
        return found


class Follow(Record, frozen=True, kw_only=True, gc=False):
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
    """`mention`, `link`, `tag`, or the $type of one not known."""
    value: str
    """DID, address, or tag without its sign."""


class Image(Struct, frozen=True, omit_defaults=True, gc=False):
    """A picture in a post."""

    url: str
    """Full size."""
    thumb_url: str | None = None
    alt: str | None = None
    cid: str | None = None
    """Of the original blob."""
    width: int | None = None
    height: int | None = None


class Video(Struct, frozen=True, omit_defaults=True, gc=False):
    """A film in a post."""

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
    when there is nothing to see; or the $type of one not known."""
    did: str | None = None
    handle: str | None = None
    cid: str | None = None
    text: str | None = None
    """Of a post; the name of anything else."""
    created_at: datetime | None = None
    embed: "Embed | None" = None


class Embed(Struct, frozen=True, omit_defaults=True, gc=False):
    """All that is embedded in a post; recordWithMedia fills both `quote` and a medium."""

    images: tuple[Image, ...] = ()
    video: Video | None = None
    external: External | None = None
    quote: Quote | None = None
    unknown: tuple[dict[str, Any], ...] = ()
    """Embeds of a $type not known, as they came."""


class Post(Record, frozen=True, kw_only=True, gc=False):
    """A post (app.bsky.feed.defs#postView)."""

    KIND = "post"
    COLLECTION = "posts"
    CLEANED = {"text": "text_clean"}
    COVERED = ("text", "handle", "created_at", "like_count")
    INDEXES = (("did", "sort_at"), ("root_uri",), ("sort_at",))

    uri: str
    cid: str
    handle: str = ""
    text: str
    text_clean: str | None = None
    created_at: datetime | None = None
    """As the author's client says; may be absurd."""
    indexed_at: datetime | None = None
    sort_at: datetime | None = None
    """The earlier of created_at and indexed_at, by which feeds are ordered."""
    langs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Tags outside the text."""
    facets: tuple[Facet, ...] = ()
    root_uri: str | None = None
    """First post of the thread, when this is a reply."""
    parent_uri: str | None = None
    """The post replied to."""
    embed: Embed | None = None
    media_urls: tuple[str, ...] = ()
    """Every address of a picture, film or thumbnail in the post and in what it quotes."""
    labels: tuple[Label, ...] = ()
    reply_count: int
    repost_count: int
    like_count: int
    quote_count: int
    bookmark_count: int = 0
    threadgate: dict[str, Any] | None = None
    """Who may reply, as the record says."""
    pinned: bool = False

    def media(self) -> list[Media]:
        """The post's own pictures; not those of what it quotes."""
        images = self.embed.images if self.embed else ()
        return [
            Media(image.url, f"{self.did}/posts/{self.cid}_{index}.jpg", str(index))
            for index, image in enumerate(images)
        ]


class Repost(Record, frozen=True, kw_only=True, gc=False):
    """An edge: `did` reposted `subject_uri`."""

    KIND = "repost"
    COLLECTION = "reposts"
    KEY = ("did", "subject_uri")
    COVERED = ("subject_uri", "created_at")
    INDEXES = (("subject_uri",),)

    subject_uri: str
    subject_did: str
    uri: str | None = None
    """Of the repost itself; older servers leave it out."""
    created_at: datetime | None = None


class Like(Record, frozen=True, kw_only=True, gc=False):
    """An edge: `did` likes `subject_uri`."""

    KIND = "like"
    COLLECTION = "likes"
    COVERED = ("subject_uri", "created_at")
    INDEXES = (("did",), ("subject_uri",))

    uri: str
    subject_uri: str
    subject_did: str
    created_at: datetime | None = None


class Thread(Record, frozen=True, kw_only=True, gc=False):
    """A reply tree, read once. Its posts are records of their own, found by `root_uri`."""

    KIND = "thread"
    COLLECTION = "threads"
    COVERED = ("post_count",)
    INDEXES = (("did",),)

    uri: str
    """Of the first post."""
    post_count: int
    """Posts in the tree, the first included."""
    not_found: tuple[str, ...] = ()
    """Addresses of deleted posts in the tree."""
    blocked: tuple[str, ...] = ()
    """Addresses of posts hidden by a block."""


class AccountList(Record, frozen=True, kw_only=True, gc=False):
    """A list or starter pack that an account made."""

    KIND = "list"
    COLLECTION = "lists"
    CLEANED = {"description": "description_clean"}
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
    """Of a starter pack: the list of its members."""
    indexed_at: datetime | None = None


class ListItem(Record, frozen=True, kw_only=True, gc=False):
    """An edge: a list of `did` has `subject_did` as a member."""

    KIND = "list_item"
    COLLECTION = "list_items"
    COVERED = ("subject_did",)
    INDEXES = (("list_uri",), ("subject_did",))

    uri: str
    list_uri: str
    subject_did: str


RECORDS: tuple[type[Record], ...] = (Profile, Follow, Post, Repost, Like, Thread, AccountList, ListItem)
"""Every record type."""


LINK = "link"
"""Kind of a reject that would have been no record, but a request."""


class Reject(NamedTuple):
    """Part of an answer that could not become a record, or a record that breaks a rule across its fields."""

    kind: str
    """KIND of the record it would have been, or LINK."""
    reason: str
    key: str
    """Natural key as far as it is known, else empty."""
    raw: bytes
    """JSON it was read from."""
    url: str
    """The address asked."""


class Batch(NamedTuple):
    """What one answer yielded. It travels through the item pipelines as one item."""

    records: list[Record]
    ledger: list[Any]
    """Changes of the ledger that may be made when, and only when, the records are confirmed."""
    rejects: tuple[Reject, ...] = ()
