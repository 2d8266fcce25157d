"""The parts of responses of the AppView and of account servers that are read, and their decoders."""

import codecs
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from harvester.exceptions import ParseError
from harvester.parsers.json_text import read_mended
from harvester.parsers.json_values import MOST_INT

ABSENT = Raw(b"")
PIECE_BYTES = 32 * 1024
"""Bytes of a response that are decoded together. The results stay in the processor's cache."""
Count = Annotated[int, Meta(le=MOST_INT)]
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class LabelView(Struct):
    val: str
    src: str = ""
    neg: bool = False


class ProfileView(Struct, rename="camel"):
    did: str
    handle: str
    display_name: str | None = None
    description: str | None = None
    pronouns: str | None = None
    website: str | None = None
    avatar: str | None = None
    banner: str | None = None
    followers_count: Count | None = None
    follows_count: Count | None = None
    posts_count: Count | None = None
    created_at: str | None = None
    indexed_at: str | None = None
    labels: list[LabelView] = []
    pinned_post: dict[str, Any] | None = None
    joined_via_starter_pack: dict[str, Any] | None = None
    associated: dict[str, Any] | None = None
    verification: dict[str, Any] | None = None


class AuthorView(Struct):
    did: str
    handle: str
    labels: list[LabelView] = []


class PostRecord(Struct, rename="camel"):
    """The fields that the author wrote, of any type. The rest, such as embeds, is not decoded."""

    text: Any = None
    created_at: Any = None
    langs: Any = None
    tags: Any = None
    facets: Any = None
    reply: Any = None


class PostView(Struct, rename="camel"):
    uri: str
    cid: str
    author: AuthorView
    record: PostRecord
    indexed_at: str
    embed: dict[str, Any] | None = None
    labels: list[LabelView] = []
    reply_count: Count = 0
    repost_count: Count = 0
    like_count: Count = 0
    quote_count: Count = 0
    bookmark_count: Count = 0
    threadgate: dict[str, Any] | None = None


class Reason(Struct, rename="camel", tag_field="$type", tag="app.bsky.feed.defs#reasonRepost"):
    by: AuthorView
    indexed_at: str
    uri: str | None = None


class Pin(Struct, tag_field="$type", tag="app.bsky.feed.defs#reasonPin"):
    pass


class FeedItem(Struct):
    post: Raw
    reason: Raw = ABSENT
    reply: Raw = ABSENT


class Referred(Struct, rename="camel"):
    """A post that another post names, with the flags that show if it is visible."""

    not_found: bool = False
    blocked: bool = False


class Reply(Struct):
    root: Referred
    parent: Referred


class FeedPage(Struct):
    feed: list[FeedItem]
    cursor: str | None = None


class RawFeedPage(Struct):
    feed: list[Raw]
    cursor: str | None = None


class PostsPage(Struct):
    posts: list[Raw]


class ProfilesPage(Struct):
    profiles: list[Raw]


class GraphPage(Struct):
    subject: AuthorView
    followers: list[Raw] | None = None
    follows: list[Raw] | None = None
    cursor: str | None = None


class ThreadNode(Struct, rename="camel"):
    post: Raw = ABSENT
    parent: Raw = ABSENT
    replies: list[Raw] | None = None
    uri: str = ""
    not_found: bool = False
    blocked: bool = False


class ThreadPage(Struct):
    thread: ThreadNode


class ListRecord(Struct):
    uri: str
    cid: str
    value: Raw


class ListRecordsPage(Struct):
    records: list[ListRecord]
    cursor: str | None = None


class ListView(Struct, rename="camel"):
    uri: str
    cid: str
    creator: AuthorView
    name: str = ""
    purpose: str = ""
    description: str | None = None
    list_item_count: Count | None = None
    indexed_at: str | None = None
    record: dict[str, Any] | None = None
    list_: dict[str, Any] | None = msgspec.field(name="list", default=None)


class ListsPage(Struct, rename="camel"):
    lists: list[Raw] | None = None
    starter_packs: list[Raw] | None = None
    cursor: str | None = None


class ListItemView(Struct):
    uri: str
    subject: AuthorView


class ListItemsPage(Struct, rename="camel"):
    list_: ListView = msgspec.field(name="list")
    items: list[Raw]
    cursor: str | None = None


class PostUri(Struct):
    uri: str


class EdgeSubject(Struct):
    uri: str


class EdgeValue(Struct, rename="camel"):
    subject: EdgeSubject
    created_at: Any = None


class CreatedValue(Struct, rename="camel"):
    created_at: Any = None


class ErrorBody(Struct):
    error: str
    message: str | None = None


decode_profile = msgspec.json.Decoder(ProfileView).decode
decode_post = msgspec.json.Decoder(PostView).decode
decode_reason = msgspec.json.Decoder(Reason | Pin).decode
decode_raw = msgspec.json.Decoder(Raw).decode
decode_reply = msgspec.json.Decoder(Reply).decode
decode_feed_item = msgspec.json.Decoder(FeedItem).decode
decode_raw_feed_page = msgspec.json.Decoder(RawFeedPage).decode
decode_feed_page = msgspec.json.Decoder(FeedPage).decode
decode_author = msgspec.json.Decoder(AuthorView).decode
decode_posts_page = msgspec.json.Decoder(PostsPage).decode
decode_profiles_page = msgspec.json.Decoder(ProfilesPage).decode
decode_graph_page = msgspec.json.Decoder(GraphPage).decode
decode_thread_node = msgspec.json.Decoder(ThreadNode).decode
decode_thread_page = msgspec.json.Decoder(ThreadPage).decode
decode_list_records_page = msgspec.json.Decoder(ListRecordsPage).decode
decode_list = msgspec.json.Decoder(ListView).decode
decode_lists_page = msgspec.json.Decoder(ListsPage).decode
decode_list_item = msgspec.json.Decoder(ListItemView).decode
decode_list_items_page = msgspec.json.Decoder(ListItemsPage).decode
decode_post_uri = msgspec.json.Decoder(PostUri).decode
decode_edge = msgspec.json.Decoder(EdgeValue).decode
decode_created = msgspec.json.Decoder(CreatedValue).decode
decode_error = msgspec.json.Decoder(ErrorBody).decode
decode_any: Callable[[bytes | Raw], Any] = msgspec.json.Decoder().decode

T = TypeVar("T")


def read_page(decode: Callable[[bytes], T], body: bytes) -> T:
    """Decodes a response. An odd character in a text costs only that character. Raises ParseError."""

    def read(answer: bytes) -> T:
        _require_utf8(answer)  # msgspec does not check the strings that it skips, but they are kept in `raw`
        return decode(answer)

    try:
        return read_mended(read, body)
    except UNREADABLE as error:
        raise ParseError(f"the answer is not what its address promises: {error}") from None


def _require_utf8(body: bytes) -> None:
    """Raises UnicodeDecodeError. Decodes piece by piece, since a page at once takes four times as long."""
    view, at = memoryview(body), 0
    try:
        while at < len(view):
            piece = view[at : at + PIECE_BYTES]
            at += codecs.utf_8_decode(piece, "strict", at + len(piece) == len(view))[1]
    except UnicodeDecodeError:
        str(body, "utf-8")  # raises again, with positions from the start of the response


def did_of(uri: str) -> str:
    """Returns the account in an at:// address."""
    return uri[5:].partition("/")[0]
