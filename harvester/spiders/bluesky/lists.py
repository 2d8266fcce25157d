"""The lists of an account, each read page by page: who follows it, its posts, its records, its own lists."""

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
"""By how much a record may be seen later than its key says: clocks differ, and the network may be slow."""

POST, REPOST, LIKE = "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.feed.like"
COLLECTIONS = {"posts": POST, "reposts": REPOST, "likes": LIKE}


def repository_bounds(size: int) -> Bounds:
    """The bounds of reading a repository of so many bytes. A usual one takes a fifth of the time, half of the rest."""
    mb = size >> 20
    return Bounds(cpu_s=20.0 + 0.5 * mb, memory_mb=64 + 4 * mb, result_mb=64 + 4 * mb, silence_s=120.0)


class Trail(NamedTuple):
    """How a list was read so far; it goes along, as a list, with the request for each of its pages."""

    cursors: Sequence[str] = ()
    """Digests of the last ones that it was asked with."""
    anew: bool = False
    """Whether it was begun anew, since a cursor was refused."""
    came: int = 0
    """Rows of the account that its pages had, to be compared with what the account's profile says."""


Kept = Sequence[Any]
"""A Trail, as requests carry it."""


class Lists(Gaps):
    """Asks for the pages of an account's lists and reads them. Of a list one page at a time is asked for."""

    def list_requests(self, asked_for: BlueskyArguments, account: Account) -> Iterator[Request]:
        """The first page of each list that every harvested account has."""
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
        """A page of a list: followers, follows, feed, lists, starter_packs, one of COLLECTIONS, or repository."""
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
        """What is asked for of an account: when it was looked at before, only what may be newer."""
        asked_for: BlueskyArguments = self.arguments_of(page)
        since = account.get("since")
        return asked_for.from_then_on(datetime.fromisoformat(since) if since else None)

    def _ask_members(
        self, asked_for: BlueskyArguments, account: Account, name: str, cursor: str | None, trail: Kept = ()
    ) -> Request:
        """A page of the members of one of the account's own lists; `name`: the list's address."""
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
        """A cursor that is refused (a list may be read on weeks later) is given up, and the list begun anew, once."""
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
        """The next page. A list ends only when no cursor comes; one that came before leads nowhere.

        `came`: rows of the account that this page had.
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
        """A page of a list or of its members. Those of a list that is begun anew were asked for before."""
        ask = self._ask_members if name.startswith("at://") else self.ask_list
        request = ask(asked_for, account, name, cursor, trail)
        return request.replace(dont_filter=True) if trail.anew else request

    # Reading ----------------------------------------------------------------------------------------------

    def read_graph(
        self, response: Response, account: Account, list_name: str, cursor: str | None, trail: Kept = ()
    ) -> Iterator[Any]:
        """Followers or follows."""
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
        """Posts and reposts, as the AppView shows them."""
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
        """A page of one of COLLECTIONS, from the account's own server."""
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
        """All that an account ever wrote, in one answer."""
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
        """Edges as they are; posts as the AppView shows them: with counts, and without what moderation hides."""
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
        """Posts that were asked for by their addresses; those that are hidden are absent.

        When all of them are, it may be that the account is hidden.
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
        """Threads of posts of which it is not known whether what they reply to is shown: that is asked."""
        answered = [record for record in records if isinstance(record, Post) and record.reply_count]
        yield from threads_of(asked_for, [post for post in answered if post.root_uri is None])
        for posts in _cut([post for post in answered if post.root_uri], POSTS_A_CALL // 2):
            above = {post.uri: [post.root_uri, post.parent_uri] for post in posts}
            uris = sorted({uri for pair in above.values() for uri in pair if uri})
            parameters = [("uris", uri) for uri in uris]
            yield self.call(asked_for, "app.bsky.feed.getPosts", parameters, self.read_above, part="posts", above=above)

    def read_above(self, response: Response, above: dict[str, list[str]]) -> Iterator[Any]:
        """Which posts are shown that others reply to. `above`: reply -> first post of its thread, and its parent."""
        shown = parse.parse_uris(response.body)
        cut_off = [uri for uri, pair in above.items() if not shown.issuperset(pair)]
        for root in sorted({root for uri, (root, _) in above.items() if uri not in cut_off}):
            yield Found(THREAD, root, depth=0)
        for uri in cut_off:
            yield Found(THREAD, uri, {"root": above[uri][0]}, depth=0)

    def read_lists(
        self, response: Response, account: Account, list_name: str, cursor: str | None, trail: Kept = ()
    ) -> Iterator[Any]:
        """An account's lists or starter packs. The members of its own lists are asked for, too."""
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
        """A page of a list's members."""
        parsed = parse.parse_list_items(response.body, self.provenance(response))
        yield parsed.records
        yield from parsed.rejects
        yield from self._go_on(response, account, list_name, cursor, parsed.cursor, trail)


def lists_wanted(asked_for: BlueskyArguments) -> list[str]:
    """Names of the lists that every harvested account has, as `ask_list` takes them."""
    names: list[str] = []
    if "graph" in asked_for.collect:
        names += ["followers", "follows"] if asked_for.direction == "both" else [asked_for.direction]
    if "posts" in asked_for.collect:
        names += {"appview": ["feed"], "records": [*COLLECTIONS], "car": ["repository"]}[asked_for.history]
    if "lists" in asked_for.collect:
        names += ["lists", "starter_packs"]
    return names


def found_of(asked_for: BlueskyArguments, account: Account, members: Iterable[parse.Member]) -> Iterator[Found]:
    """Accounts of a list, to be harvested too unless that is deep enough."""
    if account["depth"] < asked_for.depth:
        for member in members:
            yield Found(ACCOUNT, member.did, {"handle": member.handle}, depth=account["depth"] + 1)


def threads_of(
    asked_for: BlueskyArguments, records: Iterable[Record], cut_off: frozenset[str] = frozenset()
) -> Iterator[Found]:
    """The threads of posts that have replies, by their first post; of posts that it does not show, by themselves."""
    if "threads" in asked_for.collect:
        posts = [record for record in records if isinstance(record, Post) and record.reply_count]
        for uri in sorted({post.root_uri or post.uri for post in posts if post.uri not in cut_off}):
            yield Found(THREAD, uri, depth=0)
        for post in posts:
            if post.uri in cut_off:
                yield Found(THREAD, post.uri, {"root": post.root_uri}, depth=0)


def in_time(asked_for: BlueskyArguments, records: Sequence[Record]) -> tuple[list[Record], bool]:
    """Those of the time asked for, and whether the page, newest first, lies wholly before it."""
    times = [_time(record) for record in records]
    wanted = [record for record, at in zip(records, times, strict=True) if is_in_time(asked_for, at)]
    return wanted, are_too_old(asked_for, times)


def may_be_in_time(asked_for: BlueskyArguments, row: repository.RepoRecord, now: datetime) -> bool:
    """Whether a post may be of the time asked for: its `sort_at` is known when the AppView has shown it."""
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
    """An edge of a repository was made not later than its key says, and not later than it was seen."""
    if asked_for.since is None and asked_for.until is None:
        return True
    times = [at for at in (repository.created_at(row.value), repository.key_time(row.uri)) if at]
    return is_in_time(asked_for, min(*times, now) if times else None)


def is_key_too_old(asked_for: BlueskyArguments, uri: str) -> bool:
    """Whether a list that is ordered by keys, newest first, lies before the time asked for from there on."""
    key_at = repository.key_time(uri)
    return bool(asked_for.since and key_at and key_at < asked_for.since - KEY_SLACK)


def is_in_time(asked_for: BlueskyArguments, at: datetime | None) -> bool:
    """What has no time is of none that was asked for."""
    since, until = asked_for.since, asked_for.until
    if at is None:
        return since is None and until is None
    return (since is None or at >= since) and (until is None or at < until)


def are_too_old(asked_for: BlueskyArguments, times: Sequence[datetime | None]) -> bool:
    """Whether a page, newest first, lies wholly before the time asked for."""
    since = asked_for.since
    return since is not None and bool(times) and all(at is not None and at < since for at in times)


def _time(record: Record) -> datetime | None:
    return record.sort_at if isinstance(record, Post) else getattr(record, "created_at", None)


def _cut(rows: Sequence[T], size: int) -> list[Sequence[T]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]
