"""Answers of the Bluesky API to records: bytes in, records out. Shapes: lexicons app.bsky.* and com.atproto.*.

What the AppView makes is decoded strictly; what authors write (`record`, profile texts) is taken as it comes.
A part that cannot become a record becomes a Reject, so that one bad record never costs its page.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from harvester.exceptions import InvalidRecordError, ParseError
from harvester.items import (
    AccountList,
    Embed,
    External,
    Facet,
    Follow,
    Image,
    Label,
    Like,
    ListItem,
    Post,
    Profile,
    Provenance,
    Quote,
    Record,
    Reject,
    Repost,
    Video,
)
from harvester.scrub import scrub

NO_UNAUTHENTICATED = "!no-unauthenticated"
"""Self label of those who do not want to be seen by the logged-out."""

ABSENT = Raw(b"")

MOST_NESTED = 10
"""Embeds within embeds that are read; the AppView shows two or three."""
MOST_LEVELS = 50
"""Levels of a value that is kept as it came; MongoDB holds 100 in a document."""
MOST_INT = 2**63 - 1
"""The largest number that MongoDB can hold."""
MOST_INTENTS = 32

Count = Annotated[int, Meta(le=MOST_INT)]

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BAD = (*_UNREADABLE, InvalidRecordError)
"""What makes a part of an answer a Reject."""

_FEATURES = {
    "app.bsky.richtext.facet#mention": ("mention", "did"),
    "app.bsky.richtext.facet#link": ("link", "uri"),
    "app.bsky.richtext.facet#tag": ("tag", "tag"),
}
"""$type of a facet's feature -> its kind, and where its value is."""

_SAYS_NO = NO_UNAUTHENTICATED.encode()

_image_cid = re.compile(r"/img/[^/]+/plain/[^/]+/([^/@?]+)").search
_is_origin = re.compile(r"https?://[^/\s@?#\\]+/?").fullmatch
_is_purpose = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}").fullmatch


class Parsed(NamedTuple):
    """What was read from one answer."""

    records: list[Record]
    rejects: list[Reject]
    cursor: str | None = None


class Member(NamedTuple):
    """An account seen in a list."""

    did: str
    handle: str


# What the AppView makes -----------------------------------------------------------------------------------


class _LabelView(Struct):
    val: str
    src: str = ""
    neg: bool = False


class _ProfileView(Struct, rename="camel"):
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
    labels: list[_LabelView] = []
    pinned_post: dict[str, Any] | None = None
    joined_via_starter_pack: dict[str, Any] | None = None
    associated: dict[str, Any] | None = None
    verification: dict[str, Any] | None = None


class _AuthorView(Struct):
    did: str
    handle: str
    labels: list[_LabelView] = []


class _PostView(Struct, rename="camel"):
    uri: str
    cid: str
    author: _AuthorView
    record: dict[str, Any]
    indexed_at: str
    embed: dict[str, Any] | None = None
    labels: list[_LabelView] = []
    reply_count: Count = 0
    repost_count: Count = 0
    like_count: Count = 0
    quote_count: Count = 0
    bookmark_count: Count = 0
    threadgate: dict[str, Any] | None = None


class _Reason(Struct, rename="camel", tag_field="$type", tag="app.bsky.feed.defs#reasonRepost"):
    by: _AuthorView
    indexed_at: str
    uri: str | None = None


class _Pin(Struct, tag_field="$type", tag="app.bsky.feed.defs#reasonPin"):
    pass


class _FeedItem(Struct):
    post: Raw
    reason: Raw = ABSENT


class _FeedPage(Struct):
    feed: list[_FeedItem]
    cursor: str | None = None


class _RawFeedPage(Struct):
    feed: list[Raw]
    cursor: str | None = None


class _PostsPage(Struct):
    posts: list[Raw]


class _ProfilesPage(Struct):
    profiles: list[Raw]


class _GraphPage(Struct):
    subject: _AuthorView
    followers: list[Raw] | None = None
    follows: list[Raw] | None = None
    cursor: str | None = None


class _ThreadNode(Struct, rename="camel"):
    post: Raw = ABSENT
    replies: list[Raw] | None = None
    uri: str = ""
    not_found: bool = False
    blocked: bool = False


class _ThreadPage(Struct):
    thread: _ThreadNode


class _ListRecord(Struct):
    uri: str
    cid: str
    value: Raw


class _ListRecordsPage(Struct):
    records: list[_ListRecord]
    cursor: str | None = None


class _ListView(Struct, rename="camel"):
    uri: str
    cid: str
    creator: _AuthorView
    name: str = ""
    purpose: str = ""
    description: str | None = None
    list_item_count: Count | None = None
    indexed_at: str | None = None
    record: dict[str, Any] | None = None
    list_: dict[str, Any] | None = msgspec.field(name="list", default=None)


class _ListsPage(Struct, rename="camel"):
    lists: list[Raw] | None = None
    starter_packs: list[Raw] | None = None
    cursor: str | None = None


class _ListItemView(Struct):
    uri: str
    subject: _AuthorView


class _ListItemsPage(Struct, rename="camel"):
    list_: _ListView = msgspec.field(name="list")
    items: list[Raw]
    cursor: str | None = None


class _PostUri(Struct):
    uri: str


class _EdgeSubject(Struct):
    uri: str


class _EdgeValue(Struct, rename="camel"):
    subject: _EdgeSubject
    created_at: Any = None


class _CreatedValue(Struct, rename="camel"):
    created_at: Any = None


class _ErrorBody(Struct):
    error: str
    message: str | None = None


_decode_profile = msgspec.json.Decoder(_ProfileView).decode
_decode_post = msgspec.json.Decoder(_PostView).decode
_decode_reason = msgspec.json.Decoder(_Reason | _Pin).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_feed_item = msgspec.json.Decoder(_FeedItem).decode
_decode_raw_feed_page = msgspec.json.Decoder(_RawFeedPage).decode
_decode_feed_page = msgspec.json.Decoder(_FeedPage).decode
_decode_author = msgspec.json.Decoder(_AuthorView).decode
_decode_posts_page = msgspec.json.Decoder(_PostsPage).decode
_decode_profiles_page = msgspec.json.Decoder(_ProfilesPage).decode
_decode_graph_page = msgspec.json.Decoder(_GraphPage).decode
_decode_thread_node = msgspec.json.Decoder(_ThreadNode).decode
_decode_thread_page = msgspec.json.Decoder(_ThreadPage).decode
_decode_list_records_page = msgspec.json.Decoder(_ListRecordsPage).decode
_decode_list = msgspec.json.Decoder(_ListView).decode
_decode_lists_page = msgspec.json.Decoder(_ListsPage).decode
_decode_list_item = msgspec.json.Decoder(_ListItemView).decode
_decode_list_items_page = msgspec.json.Decoder(_ListItemsPage).decode
_decode_post_uri = msgspec.json.Decoder(_PostUri).decode
_decode_edge = msgspec.json.Decoder(_EdgeValue).decode
_decode_created = msgspec.json.Decoder(_CreatedValue).decode
_decode_error = msgspec.json.Decoder(_ErrorBody).decode
_decode_any: Callable[[bytes | Raw], Any] = msgspec.json.Decoder().decode


_T = TypeVar("_T")


def _page(decode: Callable[[bytes], _T], body: bytes) -> _T:
    try:
        str(body, "utf-8")  # msgspec does not look at the strings it skips, but they are kept in `raw`
        return decode(body)
    except _UNREADABLE as error:
        raise ParseError(f"the answer is not what its address promises: {error}") from None


# Answers --------------------------------------------------------------------------------------------------


def parse_graph(body: bytes, provenance: Provenance) -> tuple[Parsed, list[Member]]:
    """getFollowers or getFollows: one edge for each member, and the members."""
    page = _page(_decode_graph_page, body)
    subject = page.subject.did
    records: list[Record] = []
    rejects: list[Reject] = []
    members = []
    if page.followers is None and page.follows is None:
        raise ParseError("the answer holds neither followers nor follows")
    for rows, follows_subject in ((page.followers, True), (page.follows, False)):
        for raw in rows or ():
            try:
                member = _decode_author(raw)
                did, other = (member.did, subject) if follows_subject else (subject, member.did)
                records.append(Follow(did=did, subject_did=other, provenance=provenance, raw=_original(raw)))
                members.append(Member(member.did, member.handle))
            except _BAD as error:
                rejects.append(_reject(Follow, raw, provenance, error))
    return Parsed(records, rejects, page.cursor), members


def parse_profiles(body: bytes, provenance: Provenance) -> Parsed:
    """getProfiles: a profile for each account that is there; the others are just absent."""
    page = _page(_decode_profiles_page, body)
    return _each(Profile, page.profiles, provenance, _profile)


def parse_profile(body: bytes, provenance: Provenance) -> Parsed:
    """getProfile: one profile."""
    return _each(Profile, [_page(_decode_raw, body)], provenance, _profile)


def parse_feed(body: bytes, provenance: Provenance) -> Parsed:
    """getAuthorFeed: the author's own posts, and an edge for each repost. What was reposted is not a record."""
    records: list[Record] = []
    items, rejects, cursor = _feed_items(body, provenance)
    for item in items:
        reposted = pinned = False
        try:
            if item.reason:
                reason = _decode_reason(item.reason)
                reposted = isinstance(reason, _Reason)
                pinned = not reposted
                if isinstance(reason, _Reason):
                    records.append(_repost(reason, _decode_post_uri(item.post).uri, item.reason, provenance))
                    continue
            records.append(_post(item.post, provenance, pinned=pinned))
        except _BAD as error:
            rejects.append(_reject(Repost if reposted else Post, item.post, provenance, error))
    return Parsed(records, rejects, cursor)


def _feed_items(body: bytes, provenance: Provenance) -> tuple[list[_FeedItem], list[Reject], str | None]:
    """The items of a feed, those that are none, and the cursor. One by one only when the page has a bad one."""
    try:
        page = _page(_decode_feed_page, body)
    except ParseError:
        rows = _page(_decode_raw_feed_page, body)
    else:
        return page.feed, [], page.cursor
    items: list[_FeedItem] = []
    rejects: list[Reject] = []
    for raw in rows.feed:
        try:
            items.append(_decode_feed_item(raw))
        except _UNREADABLE as error:
            rejects.append(_reject(Post, raw, provenance, error))
    return items, rejects, rows.cursor


def parse_posts(body: bytes, provenance: Provenance) -> Parsed:
    """getPosts: a post for each address that is there; the others are just absent."""
    page = _page(_decode_posts_page, body)
    return _each(Post, page.posts, provenance, _post)


class ParsedThread(NamedTuple):
    """A reply tree as one answer shows it, which may be cut below."""

    posts: list[Record]
    rejects: list[Reject]
    not_found: list[str]
    blocked: list[str]
    cut: list[str]
    """Posts whose replies must be asked for: the answer ends there."""


def parse_thread(body: bytes, provenance: Provenance) -> ParsedThread:
    """getPostThread, from the asked post down. Raises ParseError for anything else."""
    tree = ParsedThread([], [], [], [], [])
    deepest: list[tuple[int, str]] = []
    layer = [_page(_decode_thread_page, body).thread]
    depth = 0
    while layer:
        below: list[Raw] = []
        for node in layer:
            if node.not_found or node.blocked:
                if node.uri:
                    (tree.not_found if node.not_found else tree.blocked).append(node.uri)
            elif node.post:
                try:
                    post = _post(node.post, provenance)
                except _BAD as error:
                    tree.rejects.append(_reject(Post, node.post, provenance, error))
                else:
                    tree.posts.append(post)
                    if post.reply_count and not node.replies:
                        if node.replies is None:
                            tree.cut.append(post.uri)
                        else:
                            deepest.append((depth, post.uri))
                below.extend(node.replies or ())
        layer = list(_nodes(below, tree.rejects, provenance))
        depth += 1
    # A server that shows fewer levels than asked ends in empty lists instead of absent ones.
    tree.cut.extend(uri for level, uri in deepest if level and level == depth - 1)
    return tree


def _nodes(rows: Iterable[Raw], rejects: list[Reject], provenance: Provenance) -> Iterator[_ThreadNode]:
    for raw in rows:
        try:
            yield _decode_thread_node(raw)
        except _BAD as error:
            rejects.append(_reject(Post, raw, provenance, error))


def parse_lists(body: bytes, provenance: Provenance) -> Parsed:
    """getLists or getActorStarterPacks."""
    page = _page(_decode_lists_page, body)
    if page.lists is None and page.starter_packs is None:
        raise ParseError("the answer holds neither lists nor starter packs")
    rows = [*(page.lists or ()), *(page.starter_packs or ())]
    parsed = _each(AccountList, rows, provenance, _account_list)
    return parsed._replace(cursor=page.cursor)


def parse_list_items(body: bytes, provenance: Provenance) -> Parsed:
    """getList: an edge for each member."""
    page = _page(_decode_list_items_page, body)
    of = page.list_

    def item(raw: Raw, provenance: Provenance) -> ListItem:
        view = _decode_list_item(raw)
        return ListItem(
            did=of.creator.did,
            provenance=provenance,
            raw=_original(raw),
            uri=view.uri,
            list_uri=of.uri,
            subject_did=view.subject.did,
        )

    return _each(ListItem, page.items, provenance, item)._replace(cursor=page.cursor)


class RepoRecord(NamedTuple):
    """One record of an account's repository: `value` is JSON."""

    uri: str
    cid: str
    value: bytes


def parse_list_records(body: bytes) -> tuple[list[RepoRecord], str | None]:
    """com.atproto.repo.listRecords: the records and the cursor."""
    page = _page(_decode_list_records_page, body)
    return [RepoRecord(r.uri, r.cid, bytes(r.value)) for r in page.records], page.cursor


def parse_edges(kind: type[Repost] | type[Like], rows: Iterable[RepoRecord], provenance: Provenance) -> Parsed:
    """Repost or like records of a repository."""
    records: list[Record] = []
    rejects: list[Reject] = []
    for row in rows:
        try:
            _decode_any(row.value)  # msgspec passes over a number without bounds, but it is kept in `raw`
            value = _decode_edge(row.value)
            subject = value.subject.uri
            records.append(
                kind(
                    did=did_of(row.uri),
                    provenance=provenance,
                    raw=row.value,
                    uri=row.uri,
                    subject_uri=subject,
                    subject_did=did_of(subject),
                    created_at=_datetime(value.created_at),
                )
            )
        except _BAD as error:
            rejects.append(_reject(kind, row.value, provenance, error))
    return Parsed(records, rejects)


def did_of(uri: str) -> str:
    """The account in an at:// address."""
    return uri[5:].partition("/")[0]


def created_at(value: bytes) -> datetime | None:
    """createdAt of a repository record; None when it states none that can be read."""
    try:
        return _datetime(_decode_created(value).created_at)
    except _UNREADABLE:
        return None


def parse_did_document(body: bytes) -> str | None:
    """Origin of the account's PDS in its DID document, or None when it names none."""
    document = _page(_decode_any, body)
    services = document.get("service") if isinstance(document, dict) else None
    for service in services if isinstance(services, list) else ():
        if isinstance(service, dict) and str(service.get("id", "")).endswith("#atproto_pds"):
            endpoint = service.get("serviceEndpoint")
            if isinstance(endpoint, str) and _is_origin(endpoint):
                return endpoint.rstrip("/")
    return None


def parse_intents(body: bytes) -> dict[str, bool]:
    """getRecord of org.user-intents.declaration: purpose -> allowed, for those that are stated."""
    stated = _dict(_page(_decode_any, body), "value") or {}
    allowed = [
        (purpose, intent["allow"])
        for purpose, intent in stated.items()
        if _is_purpose(purpose) and isinstance(intent, dict) and isinstance(intent.get("allow"), bool)
    ]
    return dict(allowed[:MOST_INTENTS])


class ApiError(NamedTuple):
    """The error body of an XRPC call."""

    name: str
    message: str


def parse_error(body: bytes) -> ApiError | None:
    """The error of an answer; None when the body is not one (HTML, truncated JSON, ...)."""
    try:
        error = _decode_error(body)
    except _UNREADABLE:
        return None
    return ApiError(error.error, error.message or "")


# Parts ----------------------------------------------------------------------------------------------------


def _each(
    kind: type[Record],
    rows: Iterable[Raw],
    provenance: Provenance,
    build: Callable[[Raw, Provenance], Record],
) -> Parsed:
    records: list[Record] = []
    rejects: list[Reject] = []
    for raw in rows:
        try:
            records.append(build(raw, provenance))
        except _BAD as error:
            rejects.append(_reject(kind, raw, provenance, error))
    return Parsed(records, rejects)


def _reject(kind: type[Record], raw: Raw | bytes, provenance: Provenance, error: Exception) -> Reject:
    original = bytes(raw)
    try:
        value = _decode_any(original)
        original = _original(original)
    except _UNREADABLE:
        value, original = None, b"" if _SAYS_NO in original else original
    key = _string(value, "uri") or _string(value, "did") or ""
    return Reject(kind.KIND, str(error), key, original, provenance.url)


def _original(raw: Raw | bytes, own: str | None = None) -> bytes:
    """The JSON that a record of `own` was read from, emptied of all others who do not want to be seen."""
    original = bytes(raw)
    if _SAYS_NO not in original:
        return original
    return msgspec.json.encode(_without_refusing(_decode_any(original), own))


def _without_refusing(value: Any, own: str | None = None) -> Any:
    for did in set(_refusing(value)) - {own}:
        value, _ = scrub(value, did)
    return value


def _refusing(value: Any) -> Iterator[str]:
    """The accounts in a value that do not want to be seen."""
    if isinstance(value, dict):
        if isinstance(did := value.get("did"), str) and _refuses(value):
            yield did
        for part in value.values():
            yield from _refusing(part)
    elif isinstance(value, list):
        for part in value:
            yield from _refusing(part)


def _profile(raw: Raw, provenance: Provenance) -> Profile:
    view = _decode_profile(raw)
    return Profile(
        did=view.did,
        provenance=provenance,
        raw=_original(raw, view.did),
        opt_outs=_opt_outs(view.labels),
        handle=view.handle,
        display_name=view.display_name or None,
        description=view.description or None,
        pronouns=view.pronouns,
        website=view.website,
        avatar_url=view.avatar,
        banner_url=view.banner,
        followers_count=view.followers_count,
        follows_count=view.follows_count,
        posts_count=view.posts_count,
        created_at=_datetime(view.created_at),
        indexed_at=_datetime(view.indexed_at),
        labels=_labels(view.labels),
        pinned_post_uri=_string(view.pinned_post, "uri"),
        starter_pack_uri=_string(view.joined_via_starter_pack, "uri"),
        associated=_storable(view.associated),
        verification=_storable(view.verification),
    )


def _post(raw: Raw, provenance: Provenance, *, pinned: bool = False) -> Post:
    view = _decode_post(raw)
    record = view.record
    text = record.get("text")
    if not isinstance(text, str):
        raise InvalidRecordError(f"post: text is {type(text).__name__}")
    created_at = _datetime(record.get("createdAt"))
    indexed_at = _datetime(view.indexed_at)
    reply = record.get("reply")
    root, parent = _replied_to(reply) if reply is not None else (None, None)
    embed = parse_embed(view.embed) if view.embed is not None else None
    facets = record.get("facets")
    author = view.author
    return Post(
        did=author.did,
        provenance=provenance,
        raw=_original(raw, author.did),
        opt_outs=_opt_outs(author.labels) if author.labels else (),
        uri=view.uri,
        cid=view.cid,
        handle=author.handle,
        text=text,
        created_at=created_at,
        indexed_at=indexed_at,
        sort_at=min(created_at, indexed_at) if created_at and indexed_at else indexed_at,
        langs=_strings(record.get("langs")),
        tags=_strings(record.get("tags")),
        facets=parse_facets(text, facets) if facets else (),
        root_uri=root,
        parent_uri=parent,
        embed=embed,
        media_urls=tuple(dict.fromkeys(_media_urls(embed))) if embed else (),
        labels=_labels(view.labels) if view.labels else (),
        reply_count=view.reply_count,
        repost_count=view.repost_count,
        like_count=view.like_count,
        quote_count=view.quote_count,
        bookmark_count=view.bookmark_count,
        threadgate=_storable(_dict(view.threadgate, "record")),
        pinned=pinned,
    )


def _replied_to(reply: Any) -> tuple[str | None, str | None]:
    """Root and parent of a reply; neither when the author names one of them by a handle, or not at all."""
    root, parent = _string(reply, "root", "uri"), _string(reply, "parent", "uri")
    if root and parent and root.startswith("at://did:") and parent.startswith("at://did:"):
        return root, parent
    return None, None


def _repost(reason: _Reason, subject_uri: str, raw: Raw, provenance: Provenance) -> Repost:
    return Repost(
        did=reason.by.did,
        provenance=provenance,
        raw=_original(raw, reason.by.did),
        opt_outs=_opt_outs(reason.by.labels),
        uri=reason.uri,
        subject_uri=subject_uri,
        subject_did=did_of(subject_uri),
        created_at=_datetime(reason.indexed_at),
    )


def _account_list(raw: Raw, provenance: Provenance) -> AccountList:
    view = _decode_list(raw)
    return AccountList(
        did=view.creator.did,
        provenance=provenance,
        raw=_original(raw, view.creator.did),
        opt_outs=_opt_outs(view.creator.labels),
        uri=view.uri,
        cid=view.cid,
        name=view.name or _string(view.record, "name") or "",
        purpose=view.purpose.partition("#")[2] or ("starterpack" if view.record else view.purpose),
        description=view.description or _string(view.record, "description"),
        item_count=view.list_item_count,
        list_uri=_string(view.list_, "uri") or _string(view.record, "list"),
        indexed_at=_datetime(view.indexed_at),
    )


def parse_facets(text: str, facets: Any) -> tuple[Facet, ...]:
    """Facets with code-point offsets. Out-of-range, reversed, overlapping and mid-character ones are dropped."""
    position = _code_points(text)
    found = []
    end_of_last = 0
    for first, last, features in sorted(_spans(facets), key=itemgetter(0)):
        start, end = position(first), position(last)
        if start is None or end is None or end <= start or start < end_of_last:
            continue
        end_of_last = end
        for feature in features:
            if isinstance(feature, dict):
                kind = _string(feature, "$type") or ""
                kind, name = _FEATURES.get(kind, (kind, ""))
                found.append(Facet(start, end, kind, _string(feature, name) or ""))
    return tuple(found)


def _spans(facets: Any) -> Iterator[tuple[int, int, list[Any]]]:
    """Byte offsets and features of each facet that has them."""
    for facet in facets if isinstance(facets, list) else ():
        try:
            index, features = facet["index"], facet["features"]
            first, last = index["byteStart"], index["byteEnd"]
        except (TypeError, KeyError):
            continue
        if type(first) is int and type(last) is int and isinstance(features, list):
            yield first, last, features


def _code_points(text: str) -> Callable[[int], int | None]:
    """Byte offset of the UTF-8 form -> code point offset, or None when it is out of range or in a character."""
    if text.isascii():
        return lambda at: at if 0 <= at <= len(text) else None
    encoded = text.encode("utf-8", "surrogatepass")

    def position(at: int) -> int | None:
        if not 0 <= at <= len(encoded) or (at < len(encoded) and encoded[at] & 0xC0 == 0x80):
            return None
        return len(encoded[:at].decode("utf-8", "surrogatepass"))

    return position


def parse_embed(view: Any, level: int = 0) -> Embed:
    """What is embedded in a post, from its hydrated view. Of an unknown $type: kept as it came."""
    if not isinstance(view, dict) or level == MOST_NESTED:
        return Embed()
    match str(view.get("$type", "")).removeprefix("app.bsky.embed."):
        case "images#view":
            return Embed(images=tuple(_images(view.get("images"), "thumb")))
        case "gallery#view":
            return Embed(images=tuple(_images(view.get("items"), "thumbnail")))
        case "video#view":
            width, height = _size(view)
            return Embed(
                video=Video(
                    playlist_url=_string(view, "playlist") or "",
                    thumb_url=_string(view, "thumbnail"),
                    alt=_string(view, "alt"),
                    cid=_string(view, "cid"),
                    width=width,
                    height=height,
                )
            )
        case "external#view":
            card = view.get("external")
            return Embed(
                external=External(
                    url=_string(card, "uri") or "",
                    title=_string(card, "title") or "",
                    description=_string(card, "description") or "",
                    thumb_url=_string(card, "thumb"),
                )
            )
        case "record#view":
            return Embed(quote=_quote(view.get("record"), level))
        case "recordWithMedia#view":
            media = parse_embed(view.get("media"), level + 1)
            quote = _quote(_dict(view.get("record"), "record"), level)
            return msgspec.structs.replace(media, quote=quote)
        case _:
            kept = _storable(_without_refusing(view))
            return Embed(unknown=(kept,) if kept else ())


def _images(rows: Any, thumb: str) -> Iterator[Image]:
    for row in rows if isinstance(rows, list) else ():
        url = _string(row, "fullsize")
        if url:
            width, height = _size(row)
            match = _image_cid(url)
            yield Image(
                url=url,
                thumb_url=_string(row, thumb),
                alt=_string(row, "alt") or None,
                cid=match[1] if match else None,
                width=width,
                height=height,
            )


def _quote(record: Any, level: int) -> Quote | None:
    if not isinstance(record, dict):
        return None
    uri = _string(record, "uri") or ""
    kind = str(record.get("$type", ""))
    author = record.get("author") or record.get("creator")
    did = _string(author, "did") or (did_of(uri) if uri.startswith("at://") else None)
    handle = _string(author, "handle")
    if _refuses(author):
        return Quote(uri, "opted_out", did=did)
    match kind:
        case "app.bsky.embed.record#viewRecord":
            value = record.get("value")
            below = record.get("embeds")
            embeds = [parse_embed(embed, level + 1) for embed in below] if isinstance(below, list) else []
            return Quote(
                uri,
                "post",
                did=did,
                handle=handle,
                cid=_string(record, "cid"),
                text=_string(value, "text"),
                created_at=_datetime(_string(value, "createdAt")),
                embed=_merged(embeds) if embeds else None,
            )
        case "app.bsky.embed.record#viewNotFound":
            return Quote(uri, "not_found", did=did)
        case "app.bsky.embed.record#viewBlocked":
            return Quote(uri, "blocked", did=did)
        case "app.bsky.embed.record#viewDetached":
            return Quote(uri, "detached", did=did)
    name = _string(record, "displayName") or _string(record, "name") or _string(record, "record", "name")
    known = {
        "app.bsky.feed.defs#generatorView": "feed",
        "app.bsky.graph.defs#listView": "list",
        "app.bsky.labeler.defs#labelerView": "labeler",
        "app.bsky.graph.defs#starterPackViewBasic": "starter_pack",
    }
    return Quote(uri, known.get(kind, kind), did=did, handle=handle, cid=_string(record, "cid"), text=name)


def _merged(embeds: list[Embed]) -> Embed:
    return Embed(
        images=tuple(image for embed in embeds for image in embed.images),
        video=next((e.video for e in embeds if e.video), None),
        external=next((e.external for e in embeds if e.external), None),
        quote=next((e.quote for e in embeds if e.quote), None),
        unknown=tuple(raw for embed in embeds for raw in embed.unknown),
    )


def _media_urls(embed: Embed) -> Iterator[str]:
    for image in embed.images:
        yield image.url
        if image.thumb_url:
            yield image.thumb_url
    if embed.video:
        yield embed.video.playlist_url
        if embed.video.thumb_url:
            yield embed.video.thumb_url
    if embed.external and embed.external.thumb_url:
        yield embed.external.thumb_url
    if embed.quote and embed.quote.embed:
        yield from _media_urls(embed.quote.embed)


def _labels(labels: list[_LabelView]) -> tuple[Label, ...]:
    cancelled = {(label.src, label.val) for label in labels if label.neg}
    return tuple(Label(x.val, x.src) for x in labels if (x.src, x.val) not in cancelled)


def _opt_outs(labels: list[_LabelView]) -> tuple[str, ...]:
    return (NO_UNAUTHENTICATED,) if any(x.val == NO_UNAUTHENTICATED for x in _labels(labels)) else ()


def _refuses(account: Any) -> bool:
    """Whether the view of an account says that it does not want to be seen, as far as its labels can be read."""
    labels = account.get("labels") if isinstance(account, dict) else None
    if not labels or not isinstance(labels, list):
        return False
    said = [x for x in labels if isinstance(x, dict) and x.get("val") == NO_UNAUTHENTICATED]
    cancelled = [x.get("src") for x in said if x.get("neg") is True]
    return any(x.get("src") not in cancelled for x in said)


def _datetime(text: Any) -> datetime | None:
    """A point in time in UTC; None when the text is none that MongoDB can hold."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _dict(value: Any, name: str) -> dict[str, Any] | None:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else None


def _string(value: Any, *path: str) -> str | None:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _int(value: Any, *path: str) -> int | None:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int and abs(value) <= MOST_INT else None


def _storable(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """A value that is kept as it came; None when MongoDB cannot hold it."""
    return value if value is not None and _fits(value, MOST_LEVELS) else None


def _fits(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        return levels > 0 and all("\0" not in name and _fits(part, levels - 1) for name, part in value.items())
    if isinstance(value, list):
        return levels > 0 and all(_fits(part, levels - 1) for part in value)
    return not isinstance(value, int) or abs(value) <= MOST_INT


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(x for x in value if isinstance(x, str)) if isinstance(value, list) else ()


def _size(view: Any) -> tuple[int | None, int | None]:
    return _int(view, "aspectRatio", "width"), _int(view, "aspectRatio", "height")
