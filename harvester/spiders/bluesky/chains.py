"""The lists of an account, each read page by page: who follows it, its posts, its records, its own lists."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from scrapy import Request
from scrapy.http import Response

from harvester.frontier.changes import Account, ChainsFound, Change, Progress, RootsFound
from harvester.items import Record
from harvester.items.bluesky import AccountList, Like, Post, Repost
from harvester.outcomes import BAD_CURSOR, POLICIES, Outcome, Verdict
from harvester.parsers.bluesky import answers as parse
from harvester.parsers.bluesky import repository
from harvester.parsers.bluesky.car import parse_repository
from harvester.parsers.bluesky.wire import did_of
from harvester.spiders.bluesky.calls import Output, xrpc

if TYPE_CHECKING:
    from harvester.spiders.bluesky.spider import BlueskySpider

T = TypeVar("T")

PAGE = 100
POSTS_A_CALL = 25
EDGES_A_BATCH = 500

POST, REPOST, LIKE = "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.feed.like"
COLLECTIONS = {"posts": POST, "reposts": REPOST, "likes": LIKE}
LIST_PREFIX = "list_"
"""Of the chain that reads the members of a list; its record key follows."""


class Step(NamedTuple):
    """One page of a chain."""

    account: Account
    chain: str
    page: int
    cursor: str | None

    def next(self, cursor: str | None) -> "Step":
        return self._replace(page=self.page + 1, cursor=cursor)

    def done(self, cursor: str | None, parts: int = 1) -> Progress:
        """This page is read; `cursor` is the next one's."""
        return Progress(self.account.did, self.chain, self.page, cursor, parts)


class Chains:
    """Asks for the pages of an account's chains and reads them. A chain asks one page at a time."""

    def __init__(self, spider: "BlueskySpider") -> None:
        self._spider = spider
        self._arguments = spider.arguments

    def wanted(self) -> tuple[str, ...]:
        """The chains that every harvested account has."""
        chains: list[str] = []
        if "graph" in self._arguments.collect:
            both = self._arguments.direction == "both"
            chains += ["followers", "follows"] if both else [self._arguments.direction]
        if "posts" in self._arguments.collect:
            chains += {"appview": ["feed"], "records": [*COLLECTIONS], "car": ["repository"]}[self._arguments.history]
        if "lists" in self._arguments.collect:
            chains += ["lists", "starter_packs"]
        return tuple(chains)

    def begin(self, account: Account) -> Iterator[Request]:
        """The first page of each chain that is to be read, or the page an earlier run had come to."""
        for chain, cursor in account.todo.items():
            yield self.ask(Step(account, chain, 0, cursor))

    def ask(self, step: Step) -> Request:
        did = step.account.did
        actor = {"actor": did, "limit": PAGE} | ({"cursor": step.cursor} if step.cursor else {})
        match step.chain:
            case "followers":
                return self._service("app.bsky.graph.getFollowers", actor, self.read_graph, step)
            case "follows":
                return self._service("app.bsky.graph.getFollows", actor, self.read_graph, step)
            case "feed":
                parameters = {**actor, "filter": "posts_with_replies"}
                return self._service("app.bsky.feed.getAuthorFeed", parameters, self.read_feed, step)
            case "lists":
                return self._service("app.bsky.graph.getLists", actor, self.read_lists, step)
            case "starter_packs":
                return self._service("app.bsky.graph.getActorStarterPacks", actor, self.read_lists, step)
            case "repository":
                url = xrpc(step.account.pds or "", "com.atproto.sync.getRepo", {"did": did})
                most = self._spider.config.max_repository_mb * 1024 * 1024
                return self._spider.ask(
                    url, partial(self.read_repository, step), partial(self.fail, step), download_maxsize=most
                )
            case chain if chain.startswith(LIST_PREFIX):
                uri = f"at://{did}/app.bsky.graph.list/{chain.removeprefix(LIST_PREFIX).replace('%2E', '.')}"
                parameters = {"list": uri, "limit": PAGE} | ({"cursor": step.cursor} if step.cursor else {})
                return self._service("app.bsky.graph.getList", parameters, self.read_members, step)
            case chain:
                parameters = {"repo": did, "collection": COLLECTIONS[chain], "limit": PAGE}
                parameters |= {"cursor": step.cursor} if step.cursor else {}
                url = xrpc(step.account.pds or "", "com.atproto.repo.listRecords", parameters)
                return self._spider.ask(url, partial(self.read_records, step), partial(self.fail, step))

    def _service(
        self,
        call: str,
        parameters: Mapping[str, object],
        read: Callable[[Step, Response], Iterable[Output]],
        step: Step,
    ) -> Request:
        return self._spider.ask_service(call, parameters, partial(read, step), partial(self.fail, step))

    def fail(self, step: Step, verdict: Verdict) -> Iterator[Output]:
        """Ends the chain; but a stored cursor that is refused is given up, and the chain begun anew."""
        refused = verdict.reason == BAD_CURSOR or verdict.outcome is Outcome.SERVER_ERROR
        if step.page == 0 and step.cursor and refused:
            yield self.ask(step._replace(cursor=None))
            return
        yield Progress(
            step.account.did,
            step.chain,
            step.page,
            None if verdict.reason == BAD_CURSOR else step.cursor,
            error=f"{verdict.outcome}: {verdict.reason}",
            later=POLICIES[verdict.outcome].retryable,
        )

    def _go_on(self, step: Step, cursor: str | None) -> tuple[str | None, list[Request]]:
        """The cursor to go on from, and the request for the next page. A list ends only when no cursor comes."""
        if cursor is None:
            return None, []
        if cursor == step.cursor:
            self._spider.logger.warning("%s of %s repeats its cursor; it ends here", step.chain, step.account.did)
            self._spider.crawler.stats.inc_value("harvester/cursors/repeated")
            return None, []
        return cursor, [self.ask(step.next(cursor))]

    # Reading ----------------------------------------------------------------------------------------------

    def read_graph(self, step: Step, response: Response) -> Iterator[Output]:
        parsed, members = parse.parse_graph(response.body, self._spider.provenance(response))
        cursor, next_page = self._go_on(step, parsed.cursor)
        yield parsed.records
        yield from parsed.rejects
        yield from self._spider.found(members, step.account.depth)
        yield step.done(cursor)
        yield from next_page

    def read_feed(self, step: Step, response: Response) -> Iterator[Output]:
        parsed = parse.parse_feed(response.body, self._spider.provenance(response))
        times = [_time(record) for record in parsed.records]
        wanted = [record for record, at in zip(parsed.records, times, strict=True) if self._in_time(at)]
        cursor, next_page = self._go_on(step, None if self._all_too_old(times) else parsed.cursor)
        yield wanted
        yield from parsed.rejects
        yield from self._roots(wanted)
        yield step.done(cursor)
        yield from next_page

    def read_records(self, step: Step, response: Response) -> Iterator[Output]:
        collection = COLLECTIONS[step.chain]
        rows, cursor = repository.parse_list_records(response.body, step.account.did, collection)
        times = [repository.created_at(row.value) for row in rows]
        cursor, next_page = self._go_on(step, None if self._all_too_old(times) else cursor)
        rows = [row for row, at in zip(rows, times, strict=True) if self._in_time(at)]
        yield from self._keep(step, response, {collection: rows}, cursor)
        yield from next_page

    def read_repository(self, step: Step, response: Response) -> Iterator[Output]:
        by_collection: dict[str, list[repository.RepoRecord]] = {name: [] for name in COLLECTIONS.values()}
        for row in parse_repository(response.body, step.account.did, frozenset(by_collection)):
            if self._in_time(repository.created_at(row.value)):
                by_collection[row.uri.split("/")[3]].append(row)
        yield from self._keep(step, response, by_collection, None)

    def _keep(
        self,
        step: Step,
        response: Response,
        by_collection: Mapping[str, Sequence[repository.RepoRecord]],
        cursor: str | None,
    ) -> Iterator[Output]:
        """Edges as they are; posts as the AppView shows them: with counts, and without what moderation hides."""
        provenance = self._spider.provenance(response)
        edges = [
            (kind, rows)
            for collection, kind in ((REPOST, Repost), (LIKE, Like))
            for rows in _cut(by_collection.get(collection, ()), EDGES_A_BATCH)
        ]
        posts = _cut([row.uri for row in by_collection.get(POST, ())], POSTS_A_CALL)
        done = step.done(cursor, parts=max(1, len(edges) + len(posts)))
        if not edges and not posts:
            yield done
        for kind, rows in edges:
            parsed = repository.parse_edges(kind, rows, provenance)
            yield parsed.records
            yield from parsed.rejects
            yield done
        for uris in posts:
            yield self._spider.ask_service(
                "app.bsky.feed.getPosts",
                [("uris", uri) for uri in uris],
                partial(self.read_posts, done, len(uris)),
                partial(self.fail_posts, done, step.cursor),
            )

    def read_posts(self, done: Progress, asked: int, response: Response) -> Iterator[Output]:
        parsed = parse.parse_posts(response.body, self._spider.provenance(response))
        if missing := asked - len(parsed.records) - len(parsed.rejects):
            self._spider.crawler.stats.inc_value("harvester/posts/not_shown", missing)
        yield parsed.records
        yield from parsed.rejects
        yield from self._roots(parsed.records)
        yield done

    def fail_posts(self, done: Progress, cursor: str | None, verdict: Verdict) -> Iterator[Output]:
        error = f"{verdict.outcome}: {verdict.reason}"
        yield done._replace(cursor=cursor, error=error, later=POLICIES[verdict.outcome].retryable)

    def read_lists(self, step: Step, response: Response) -> Iterator[Output]:
        parsed = parse.parse_lists(response.body, self._spider.provenance(response))
        cursor, next_page = self._go_on(step, parsed.cursor)
        yield parsed.records
        yield from parsed.rejects
        uris = {record.list_uri or record.key for record in parsed.records if isinstance(record, AccountList)}
        own = sorted(uri for uri in uris if did_of(uri) == step.account.did)
        chains = tuple(LIST_PREFIX + uri.rpartition("/")[2].replace(".", "%2E") for uri in own)
        if chains:
            yield ChainsFound(step.account.did, chains)
        yield step.done(cursor)
        yield from next_page

    def read_members(self, step: Step, response: Response) -> Iterator[Output]:
        parsed = parse.parse_list_items(response.body, self._spider.provenance(response))
        cursor, next_page = self._go_on(step, parsed.cursor)
        yield parsed.records
        yield from parsed.rejects
        yield step.done(cursor)
        yield from next_page

    # Time and threads -------------------------------------------------------------------------------------

    def _roots(self, records: Iterable[Record]) -> Iterator[Change]:
        """The threads of posts that have replies, by their first post."""
        if "threads" in self._arguments.collect:
            posts = [record for record in records if isinstance(record, Post) and record.reply_count]
            roots = {post.root_uri or post.uri for post in posts}
            if roots:
                yield RootsFound(tuple(sorted(roots)))

    def _in_time(self, at: datetime | None) -> bool:
        since, until = self._arguments.since, self._arguments.until
        if at is None:
            return since is None and until is None
        return (since is None or at >= since) and (until is None or at < until)

    def _all_too_old(self, times: Sequence[datetime | None]) -> bool:
        """Whether a page, newest first, lies wholly before the time asked for."""
        since = self._arguments.since
        return since is not None and bool(times) and all(at is not None and at < since for at in times)


def _time(record: Record) -> datetime | None:
    return record.sort_at if isinstance(record, Post) else getattr(record, "created_at", None)


def _cut(rows: Sequence[T], size: int) -> list[Sequence[T]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]
