"""The records of Bluesky: accounts, who follows whom, posts, reposts, likes, threads and lists."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct

from harvester.items.base import Media, Record


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
    CLEANED: ClassVar[Mapping[str, str]] = {"display_name": "display_name_clean", "description": "description_clean"}
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
    CLEANED: ClassVar[Mapping[str, str]] = {"text": "text_clean"}
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
