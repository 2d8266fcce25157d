"""Parses responses of the Bluesky API: bytes in, records out. Shapes: lexicons app.bsky.*.

Data made by the AppView is decoded strictly; data written by authors (`record`, profile texts) is accepted in any
shape. A bad record never spoils its page.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from msgspec import Raw

from harvester.exceptions import ParseError
from harvester.items import Provenance, Record, Reject
from harvester.items.bluesky import AccountList, Follow, ListItem, Post, Profile, Repost
from harvester.parsers.bluesky import views, wire
from harvester.parsers.bluesky.refusals import seen_by_all
from harvester.parsers.bluesky.views import Parsed


class Member(NamedTuple):
    """An account in a list."""

    did: str
    handle: str


def parse_graph(body: bytes, provenance: Provenance) -> tuple[Parsed, list[Member]]:
    """Parses getFollowers or getFollows: an edge for each member, and the members."""
    page = wire.read_page(wire.decode_graph_page, body)
    subject = page.subject.did
    records: list[Record] = []
    rejects: list[Reject] = []
    members = []
    if page.followers is None and page.follows is None:
        raise ParseError("the answer holds neither followers nor follows")
    for rows, follows_subject in ((page.followers, True), (page.follows, False)):
        for raw in rows or ():
            try:
                member = wire.decode_author(raw)
                did, other = (member.did, subject) if follows_subject else (subject, member.did)
                records.append(Follow(did=did, subject_did=other, provenance=provenance, raw=seen_by_all(raw)))
                members.append(Member(member.did, member.handle))
            except views.BAD as error:
                rejects.append(views.reject(Follow, raw, provenance, error))
    return Parsed(records, rejects, page.cursor), members


def parse_profiles(body: bytes, provenance: Provenance) -> Parsed:
    """Parses getProfiles: a profile for each existing account. The response simply lacks the others."""
    page = wire.read_page(wire.decode_profiles_page, body)
    return views.each(Profile, page.profiles, provenance, views.profile)


def parse_profile(body: bytes, provenance: Provenance) -> Parsed:
    """Parses getProfile: one profile."""
    return views.each(Profile, [wire.read_page(wire.decode_raw, body)], provenance, views.profile)


def parse_feed(body: bytes, provenance: Provenance) -> Parsed:
    """Parses getAuthorFeed: the author's own posts, and an edge for each repost. A reposted post becomes no record."""
    records: list[Record] = []
    items, rejects, cursor = _feed_items(body, provenance)
    cut_off = set()
    for item in items:
        reposted = pinned = False
        try:
            if item.reason:
                reason = wire.decode_reason(item.reason)
                reposted = isinstance(reason, wire.Reason)
                pinned = not reposted
                if isinstance(reason, wire.Reason):
                    records.append(views.repost(reason, wire.decode_post_uri(item.post).uri, item.reason, provenance))
                    continue
            post = views.post(item.post, provenance, pinned=pinned)
            records.append(post)
            if post.reply_count and item.reply and _is_cut_off(item.reply):
                cut_off.add(post.uri)
        except views.BAD as error:
            rejects.append(views.reject(Repost if reposted else Post, item.post, provenance, error))
    return Parsed(records, rejects, cursor, frozenset(cut_off))


def _is_cut_off(reply: Raw) -> bool:
    """True if the parent or the first post of the thread is not shown. Unreadable posts count as shown."""
    try:
        shown = wire.decode_reply(reply)
    except wire.UNREADABLE:
        return False
    return any(post.not_found or post.blocked for post in (shown.root, shown.parent))


def _feed_items(body: bytes, provenance: Provenance) -> tuple[list[wire.FeedItem], list[Reject], str | None]:
    """Returns the items of a feed, rejects for bad items, and the cursor.

    Items are decoded one by one only if the page has a bad item, since decoding the page at once is faster.
    """
    try:
        page = wire.read_page(wire.decode_feed_page, body)
    except ParseError:
        rows = wire.read_page(wire.decode_raw_feed_page, body)
    else:
        return page.feed, [], page.cursor
    items: list[wire.FeedItem] = []
    rejects: list[Reject] = []
    for raw in rows.feed:
        try:
            items.append(wire.decode_feed_item(raw))
        except wire.UNREADABLE as error:
            rejects.append(views.reject(Post, raw, provenance, error))
    return items, rejects, rows.cursor


def parse_posts(body: bytes, provenance: Provenance) -> Parsed:
    """Parses getPosts: a post for each existing address. The response simply lacks the others."""
    page = wire.read_page(wire.decode_posts_page, body)
    return views.each(Post, page.posts, provenance, views.post)


def parse_uris(body: bytes) -> frozenset[str]:
    """Returns the addresses of the existing posts from a getPosts response."""
    page = wire.read_page(wire.decode_posts_page, body)
    found = set()
    for raw in page.posts:
        with suppress(*wire.UNREADABLE):
            found.add(wire.decode_post_uri(raw).uri)
    return frozenset(found)


class ParsedThread(NamedTuple):
    """A reply tree in one response. The response may cut its lower levels."""

    posts: list[Record]
    rejects: list[Reject]
    not_found: list[str]
    blocked: list[str]
    cut: list[str]
    """Posts whose replies must be requested separately, because the response ends there."""
    above: str
    """The topmost shown post above the requested one; empty if it has no parent or the parent is not shown."""


def parse_thread(body: bytes, provenance: Provenance) -> ParsedThread:
    """Parses getPostThread from the requested post downwards. Raises ParseError for anything else."""
    asked = wire.read_page(wire.decode_thread_page, body).thread
    tree = ParsedThread([], [], [], [], [], _topmost(asked))
    deepest: list[tuple[int, str]] = []
    layer = [asked]
    depth = 0
    while layer:
        below: list[Raw] = []
        for node in layer:
            if node.not_found or node.blocked:
                if node.uri:
                    (tree.not_found if node.not_found else tree.blocked).append(node.uri)
            elif node.post:
                try:
                    post = views.post(node.post, provenance)
                except views.BAD as error:
                    tree.rejects.append(views.reject(Post, node.post, provenance, error))
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
    # A server that shows fewer levels than requested ends in empty lists instead of absent ones.
    tree.cut.extend(uri for level, uri in deepest if level and level == depth - 1)
    return tree


def _topmost(node: wire.ThreadNode) -> str:
    found = ""
    with suppress(*wire.UNREADABLE):
        while node.parent:
            node = wire.decode_thread_node(node.parent)
            if not node.post:
                break
            found = wire.decode_post_uri(node.post).uri
    return found


def _nodes(rows: Iterable[Raw], rejects: list[Reject], provenance: Provenance) -> Iterator[wire.ThreadNode]:
    for raw in rows:
        try:
            yield wire.decode_thread_node(raw)
        except views.BAD as error:
            rejects.append(views.reject(Post, raw, provenance, error))


def parse_lists(body: bytes, provenance: Provenance) -> Parsed:
    """Parses getLists or getActorStarterPacks."""
    page = wire.read_page(wire.decode_lists_page, body)
    if page.lists is None and page.starter_packs is None:
        raise ParseError("the answer holds neither lists nor starter packs")
    rows = [*(page.lists or ()), *(page.starter_packs or ())]
    parsed = views.each(AccountList, rows, provenance, views.account_list)
    return parsed._replace(cursor=page.cursor)


def parse_list_items(body: bytes, provenance: Provenance) -> Parsed:
    """Parses getList: an edge for each member."""
    page = wire.read_page(wire.decode_list_items_page, body)
    of = page.list_

    def item(raw: Raw, provenance: Provenance) -> ListItem:
        view = wire.decode_list_item(raw)
        return ListItem(
            did=of.creator.did,
            provenance=provenance,
            raw=seen_by_all(raw),
            uri=view.uri,
            list_uri=of.uri,
            subject_did=view.subject.did,
        )

    return views.each(ListItem, page.items, provenance, item)._replace(cursor=page.cursor)
