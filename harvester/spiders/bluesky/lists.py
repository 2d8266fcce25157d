"""The lists of an account, each read page by page: its followers and follows, posts, records, and own lists."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.bounded.process import Bounds
from harvester.items import Found, Record, Stage
from harvester.items.bluesky import AccountList, Like, Post, Repost
from harvester.outcomes import BAD_CURSOR, verdict_of
from harvester.parsers.bluesky import repository
from harvester.parsers.bluesky import responses as parse
from harvester.parsers.bluesky.car import read_repository
from harvester.parsers.bluesky.wire import did_of
from harvester.recheck.stopping import MOST_CURSORS, digest
from harvester.spiders.bluesky.accounts import BLOCKS, absent, is_absent
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.authors import authors_of
from harvester.spiders.bluesky.declarations import Account
from harvester.spiders.bluesky.gaps import Gaps, own_posts
from harvester.spiders.bluesky.requests import ACCOUNT, THREAD, xrpc
from harvester.spiders.bluesky.revisits import collected
from harvester.spiders.job import errback
from harvester.spiders.pagination import cut_short

T = TypeVar("T")

PAGE = 100
POSTS_A_CALL = 25
EDGES_A_BATCH = 500
KEY_SLACK = timedelta(days=1)
"""Time that may pass between a key's time and the record's first appearance: clocks differ, networks are slow."""

POST, REPOST, LIKE = "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.feed.like"
COLLECTIONS = {"posts": POST, "reposts": REPOST, "likes": LIKE}


def repository_bounds(size: int) -> Bounds:
    """Returns the limits for reading a repository of `size` bytes.

    A typical repository needs a fifth of the time and half of the memory.
    """
    mb = size >> 20
    return Bounds(cpu_s=20.0 + 0.5 * mb, memory_mb=64 + 4 * mb, result_mb=64 + 4 * mb, silence_s=120.0)


class Trail(NamedTuple):
    """The history of a list that is being read; carried, as a list, by the requests for its pages."""

    cursors: Sequence[str] = ()
    """Digests of the last cursors that were used."""
    anew: bool = False
    """True if the list was restarted because a cursor was refused."""
    came: int = 0
    """Number of rows seen so far, to compare with the count in the account's profile."""


Kept = Sequence[Any]
"""A Trail, as requests carry it."""


class Lists(Gaps):
    """Requests the pages of an account's lists and reads them, one page of a list at a time."""

    def list_requests(self, asked_for: BlueskyArguments, account: Account) -> Iterator[Request]:
        """Yields requests for the first pages of all wanted lists."""
        for name in lists_wanted(asked_for):
            yield self.ask_list(asked_for, account, name)

    def ask_list(
        self,
        asked_for: BlueskyArguments,
        account: Account,
        name: str,
        cursor: str | None = None,
        trail: Kept = (),
    ) -> Request:
        """Returns the request for a page of a list.

        `name`: followers, follows, feed, lists, starter_packs, a key of COLLECTIONS, or repository.
        """
        own: dict[str, Any] = {"errback": self.list_failed, "items": [account["id"]], "part": name}
        own |= {"account": account, "list_name": name, "cursor": cursor, "trail": list(trail)}
        page = {"limit": PAGE} | ({"cursor": cursor} if cursor else {})
        actor = {"actor": account["did"], **page}
        match name:
            case "followers":
                return self.call(asked_for, "app.bsky.graph.getFollowers", actor, self.read_graph, **own)
            case "follows":
                return self.call(asked_for, "app.bsky.graph.getFollows", actor, self.read_graph, **own)
            case "feed":
                parameters = {**actor, "filter": "posts_with_replies"}
                return self.call(asked_for, "app.bsky.feed.getAuthorFeed", parameters, self.read_feed, **own)
            case "lists":
                return self.call(asked_for, "app.bsky.graph.getLists", actor, self.read_lists, **own)
            case "starter_packs":
                name_of_call = "app.bsky.graph.getActorStarterPacks"
                return self.call(asked_for, name_of_call, actor, self.read_lists, **own)
            case "repository":
                url = xrpc(account["pds"], "com.atproto.sync.getRepo", {"did": account["did"]})
                meta = {"download_maxsize": self.config.max_repository_mb * 1024 * 1024}
                return self.ask(url, self.read_repository, meta=meta, **own)
            case collection:
                parameters = {"repo": account["did"], "collection": COLLECTIONS[collection], **page}
                url = xrpc(account["pds"], "com.atproto.repo.listRecords", parameters)
                return self.ask(url, self.read_records, **own)

    def asked_of(self, page: Response, account: Account) -> BlueskyArguments:
        """Returns the arguments for an account: after an earlier visit, only for newer posts."""
        asked_for: BlueskyArguments = self.arguments_of(page)
        since = account.get("since")
        return asked_for.from_then_on(datetime.fromisoformat(since) if since else None)

    def _ask_members(
        self, asked_for: BlueskyArguments, account: Account, name: str, cursor: str | None, trail: Kept = ()
    ) -> Request:
        """Returns the request for a page of members; `name`: the address of a list that the account owns."""
        parameters = {"list": name, "limit": PAGE} | ({"cursor": cursor} if cursor else {})
        return self.call(
            asked_for,
            "app.bsky.graph.getList",
            parameters,
            self.read_members,
            errback=self.list_failed,
            items=[account["id"]],
            part="members",
            account=account,
            list_name=name,
            cursor=cursor,
            trail=list(trail),
        )

    @errback
    def list_failed(self, failure: Failure) -> Iterator[Any]:
        """Restarts a list once when its cursor is refused: a list may be continued after weeks."""
        assert failure.value
        request: Request = failure.request  # type: ignore[attr-defined]
        told, verdict = request.cb_kwargs, verdict_of(failure.value)
        if verdict.rule == BLOCKS:
            yield absent(told["account"]["id"], verdict)
        elif told["account"].get("instead"):
            yield from self.other_history_failed(told["account"], verdict)
        elif is_absent(verdict):
            yield self.ask_whether_there(self.arguments_of(request), told["account"], told["list_name"], verdict)
        elif verdict.reason == BAD_CURSOR and told["cursor"] and not Trail(*told.get("trail", ())).anew:
            yield self._ask_page(self.arguments_of(request), told["account"], told["list_name"], None, Trail(anew=True))

    def _go_on(
        self,
        page: Response,
        account: Account,
        name: str,
        asked_with: str | None,
        cursor: str | None,
        trail: Kept,
        came: int = 0,
    ) -> Iterator[Request | Stage]:
        """Yields the request for the next page. Only a missing cursor ends a list; a repeated one leads nowhere.

        `came`: number of the account's rows on this page.
        """
        known = Trail(*trail)
        known = known._replace(came=known.came + came)
        cursors = [*known.cursors, *([digest(asked_with)] if asked_with else ())][-MOST_CURSORS:]
        if cursor and digest(cursor) in cursors:
            yield cut_short(self, account["id"], f"{name} of {account['did']}", "repeats its cursor")
        elif cursor:
            yield self._ask_page(self.arguments_of(page), account, name, cursor, known._replace(cursors=cursors))

    def _ask_page(
        self, asked_for: BlueskyArguments, account: Account, name: str, cursor: str | None, trail: Trail
    ) -> Request:
        """Returns the request for a page of a list or its members. A restarted list requests known pages again."""
        ask = self._ask_members if name.startswith("at://") else self.ask_list
        request = ask(asked_for, account, name, cursor, trail)
        return request.replace(dont_filter=True) if trail.anew else request

    # Reading ----------------------------------------------------------------------------------------------

    def read_graph(
        self, response: Response, account: Account, list_name: str, cursor: str | None, trail: Kept = ()
    ) -> Iterator[Any]:
        """Reads a page of followers or follows."""
        asked_for = self.arguments_of(response)
        parsed, members = parse.parse_graph(response.body, self.provenance(response))
        yield parsed.records
        yield from parsed.rejects
        yield from found_of(asked_for, account, members)
        came = len(members) + len(parsed.rejects)
        yield from self._go_on(response, account, list_name, cursor, parsed.cursor, trail, came)
        if not parsed.cursor:
            yield from self.check_members(account, list_name, Trail(*trail).came + came)

    def read_feed(
        self, response: Response, account: Account, list_name: str, cursor: str | None, trail: Kept = ()
    ) -> Iterator[Any]:
        """Reads a page of posts and reposts from the AppView's feed."""
        asked_for = self.asked_of(response, account)
        parsed = parse.parse_feed(response.body, self.provenance(response))
        wanted, is_over = in_time(asked_for, parsed.records)
        yield wanted
        yield from parsed.rejects
        yield from threads_of(asked_for, wanted, parsed.cut_off)
        yield from authors_of(asked_for, wanted, account["did"])
        came = len(own_posts(account, parsed))
        going = () if is_over else self._go_on(response, account, list_name, cursor, parsed.cursor, trail, came)
        following = [*going]
        yield from following
        if any(isinstance(each, Request) for each in following):
            return
        if is_over or asked_for.since or asked_for.until or following:
            yield collected(account)
        else:
            yield from self.check_feed(asked_for, account, Trail(*trail).came + came)

    def read_records(
        self, response: Response, account: Account, list_name: str, cursor: str | None, trail: Kept = ()
    ) -> Iterator[Any]:
        """Reads a page of a collection from the account's own server."""
        asked_for = self.asked_of(response, account)
        rows, next_cursor = repository.parse_list_records(response.body, account["did"], COLLECTIONS[list_name])
        yield from self._keep(asked_for, response, account, {COLLECTIONS[list_name]: rows})
        is_over = bool(rows) and is_key_too_old(asked_for, rows[-1].uri)
        following = [] if is_over else [*self._go_on(response, account, list_name, cursor, next_cursor, trail)]
        yield from following
        if list_name == "posts" and not any(isinstance(each, Request) for each in following):
            yield self.read_instead(account) if account.get("instead") else collected(account)

    async def read_repository(
        self, response: Response, account: Account, list_name: str, cursor: str | None, trail: Kept = ()
    ) -> AsyncIterator[Any]:
        """Reads the account's whole repository from a single response."""
        asked_for, wanted = self.asked_of(response, account), frozenset(COLLECTIONS.values())
        bounds = repository_bounds(len(response.body))
        async with aclosing(self.read_items(bounds, read_repository, response.body, account["did"], wanted)) as batches:
            async for rows in batches:
                by_collection: dict[str, list[repository.RepoRecord]] = {each: [] for each in wanted}
                for row in rows:
                    by_collection[row.uri.split("/")[3]].append(row)
                for output in self._keep(asked_for, response, account, by_collection):
                    yield output
        yield collected(account)

    def _keep(
        self,
        asked_for: BlueskyArguments,
        response: Response,
        account: Account,
        by_collection: Mapping[str, Sequence[repository.RepoRecord]],
    ) -> Iterator[Any]:
        """Yields reposts and likes from the records, and requests for posts.

        Posts come from the AppView: with counts, and without the hidden ones.
        """
        provenance = self.provenance(response)
        now = provenance.fetched_at
        for collection, kind in ((REPOST, Repost), (LIKE, Like)):
            edges = [row for row in by_collection.get(collection, ()) if is_edge_in_time(asked_for, row, now)]
            for rows in _cut(edges, EDGES_A_BATCH):
                parsed = repository.parse_edges(kind, rows, provenance)
                yield parsed.records
                yield from parsed.rejects
        posts = [row.uri for row in by_collection.get(POST, ()) if may_be_in_time(asked_for, row, now)]
        for uris in _cut(posts, POSTS_A_CALL):
            parameters = [("uris", uri) for uri in uris]
            own = {"items": [account["id"]], "part": "posts", "asked": len(uris), "account": account}
            yield self.call(asked_for, "app.bsky.feed.getPosts", parameters, self.read_posts, **own)

    def read_posts(self, response: Response, asked: int, account: Account) -> Iterator[Any]:
        """Reads posts that were requested by address; hidden posts are absent.

        When all are absent, the account itself may be hidden.
        """
        asked_for = self.arguments_of(response)
        parsed = parse.parse_posts(response.body, self.provenance(response))
        if missing := asked - len(parsed.records) - len(parsed.rejects):
            self.crawler.stats.inc_value("harvester/posts/not_shown", missing)
        wanted, _ = in_time(asked_for, parsed.records)
        yield wanted
        yield from parsed.rejects
        yield from authors_of(asked_for, wanted, account["did"])
        if missing == asked:
            yield self.ask_whether_there(asked_for, account)
        if "threads" in asked_for.collect:
            yield from self._threads_above(asked_for, wanted)

    def _threads_above(self, asked_for: BlueskyArguments, records: Iterable[Record]) -> Iterator[Any]:
        """Yields the threads of answered posts. Requests the posts that they reply to, since those may be hidden."""
        answered = [record for record in records if isinstance(record, Post) and record.reply_count]
        yield from threads_of(asked_for, [post for post in answered if post.root_uri is None])
        for posts in _cut([post for post in answered if post.root_uri], POSTS_A_CALL // 2):
            above = {post.uri: [post.root_uri, post.parent_uri] for post in posts}
            uris = sorted({uri for pair in above.values() for uri in pair if uri})
            parameters = [("uris", uri) for uri in uris]
            yield self.call(asked_for, "app.bsky.feed.getPosts", parameters, self.read_above, part="posts", above=above)

    def read_above(self, response: Response, above: dict[str, list[str]]) -> Iterator[Any]:
        """Yields a thread from its first post if that is shown, or else from the reply.

        `above`: reply -> the thread's first post, and the reply's parent.
        """
        shown = parse.parse_uris(response.body)
        cut_off = [uri for uri, pair in above.items() if not shown.issuperset(pair)]
        for root in sorted({root for uri, (root, _) in above.items() if uri not in cut_off}):
            yield Found(THREAD, root, depth=0)
        for uri in cut_off:
            yield Found(THREAD, uri, {"root": above[uri][0]}, depth=0)

    def read_lists(
        self, response: Response, account: Account, list_name: str, cursor: str | None, trail: Kept = ()
    ) -> Iterator[Any]:
        """Reads a page of lists or starter packs, and requests the members of the account's own lists."""
        asked_for = self.arguments_of(response)
        parsed = parse.parse_lists(response.body, self.provenance(response))
        yield parsed.records
        yield from parsed.rejects
        uris = {record.list_uri or record.key for record in parsed.records if isinstance(record, AccountList)}
        for uri in sorted(uri for uri in uris if did_of(uri) == account["did"]):
            yield self._ask_members(asked_for, account, uri, None)
        yield from self._go_on(response, account, list_name, cursor, parsed.cursor, trail)

    def read_members(
        self, response: Response, account: Account, list_name: str, cursor: str | None, trail: Kept = ()
    ) -> Iterator[Any]:
        """Reads a page of a list's members."""
        parsed = parse.parse_list_items(response.body, self.provenance(response))
        yield parsed.records
        yield from parsed.rejects
        yield from self._go_on(response, account, list_name, cursor, parsed.cursor, trail)


def lists_wanted(asked_for: BlueskyArguments) -> list[str]:
    """Returns the names of the lists to read for each account, for `ask_list`."""
    names: list[str] = []
    if "graph" in asked_for.collect:
        names += ["followers", "follows"] if asked_for.direction == "both" else [asked_for.direction]
    if "posts" in asked_for.collect:
        names += {"appview": ["feed"], "records": [*COLLECTIONS], "car": ["repository"]}[asked_for.history]
    if "lists" in asked_for.collect:
        names += ["lists", "starter_packs"]
    return names


def found_of(asked_for: BlueskyArguments, account: Account, members: Iterable[parse.Member]) -> Iterator[Found]:
    """Yields the accounts of a list, unless they would be too deep."""
    if account["depth"] < asked_for.depth:
        for member in members:
            yield Found(ACCOUNT, member.did, {"handle": member.handle}, depth=account["depth"] + 1)


def threads_of(
    asked_for: BlueskyArguments, records: Iterable[Record], cut_off: frozenset[str] = frozenset()
) -> Iterator[Found]:
    """Yields the threads of posts with replies: from the first post, or from the post itself if that is hidden."""
    if "threads" in asked_for.collect:
        posts = [record for record in records if isinstance(record, Post) and record.reply_count]
        for uri in sorted({post.root_uri or post.uri for post in posts if post.uri not in cut_off}):
            yield Found(THREAD, uri, depth=0)
        for post in posts:
            if post.uri in cut_off:
                yield Found(THREAD, post.uri, {"root": post.root_uri}, depth=0)


def in_time(asked_for: BlueskyArguments, records: Sequence[Record]) -> tuple[list[Record], bool]:
    """Selects the records in the wanted time. Also returns True if the page, newest first, is entirely older."""
    times = [_time(record) for record in records]
    wanted = [record for record, at in zip(records, times, strict=True) if is_in_time(asked_for, at)]
    return wanted, are_too_old(asked_for, times)


def may_be_in_time(asked_for: BlueskyArguments, row: repository.RepoRecord, now: datetime) -> bool:
    """Returns True if a post may be in the wanted time: its `sort_at` is known only from the AppView."""
    if asked_for.since is None and asked_for.until is None:
        return True
    created_at, key_at = repository.created_at(row.value), repository.key_time(row.uri)
    if created_at is None:
        return True
    if asked_for.since and created_at < asked_for.since:
        return False
    is_later = asked_for.until and created_at >= asked_for.until and key_at and asked_for.until <= key_at <= now
    return not is_later


def is_edge_in_time(asked_for: BlueskyArguments, row: repository.RepoRecord, now: datetime) -> bool:
    """Returns True if an edge is in the wanted time: it was made no later than its key says and than it was seen."""
    if asked_for.since is None and asked_for.until is None:
        return True
    times = [at for at in (repository.created_at(row.value), repository.key_time(row.uri)) if at]
    return is_in_time(asked_for, min(*times, now) if times else None)


def is_key_too_old(asked_for: BlueskyArguments, uri: str) -> bool:
    """Returns True if the rest of a list, ordered by keys with the newest first, is older than the wanted time."""
    key_at = repository.key_time(uri)
    return bool(asked_for.since and key_at and key_at < asked_for.since - KEY_SLACK)


def is_in_time(asked_for: BlueskyArguments, at: datetime | None) -> bool:
    """Returns True if a time is in the wanted range. Without a time, only an open range matches."""
    since, until = asked_for.since, asked_for.until
    if at is None:
        return since is None and until is None
    return (since is None or at >= since) and (until is None or at < until)


def are_too_old(asked_for: BlueskyArguments, times: Sequence[datetime | None]) -> bool:
    """Returns True if a page, newest first, is entirely older than the wanted time."""
    since = asked_for.since
    return since is not None and bool(times) and all(at is not None and at < since for at in times)


def _time(record: Record) -> datetime | None:
    return record.sort_at if isinstance(record, Post) else getattr(record, "created_at", None)


def _cut(rows: Sequence[T], size: int) -> list[Sequence[T]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]
