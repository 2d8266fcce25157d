"""Bluesky: its trends, posts with a tag if there is a login, and counts of tags in posts harvested before."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from msgspec import json
from scrapy import Request
from scrapy.http import Response

from harvester.identities.bluesky import account_of
from harvester.identities.crawl_identities import account_origin
from harvester.identities.credentials import SpiderAccount
from harvester.items import Batch, ItemResult, Provenance
from harvester.items.trend import WORLD, Trend, normal_tag
from harvester.jobs.documents import JobItem
from harvester.meta import AUTHENTICATE
from harvester.outcomes import Outcome
from harvester.parsers.bluesky.responses import parse_posts
from harvester.parsers.hashtags import bluesky as parse
from harvester.parsers.hashtags.rows import VisitContext
from harvester.spiders.bluesky.requests import xrpc
from harvester.spiders.hashtags.requests import TAG, HashtagRequests, WantedTag
from harvester.stores.mongodb import connect, disconnect

EVERY = timedelta(hours=1)
"""Time between two updates of the source."""
MOST_TRENDS, MOST_POSTS = 25, 100
"""Maximum number of rows in a response."""
MOST_COUNTED = 100
"""Maximum number of counted tags, the most frequent ones, when no tags are given."""
NO_LOGIN = (
    "Bluesky lets only those search who have a login: set HARVESTER_BLUESKY_IDENTIFIER and"
    " HARVESTER_BLUESKY_APP_PASSWORD"
)


class Bluesky(HashtagRequests):
    """Requests trends from the AppView, and posts with a tag from the account's own server."""

    login_origin: str | None = None
    """The signed-in account's own server; None without a login."""

    @cached_property
    def account(self) -> SpiderAccount | None:
        """The account to sign in with. Raises UsageError when half a login is configured."""
        return account_of(self.config)

    async def sign_in(self) -> None:
        """Signs in. Must be called before the first request."""
        self.login_origin = await account_origin(self.crawler)

    def bluesky_requests(self, item: JobItem, wanted: WantedTag) -> Iterator[Request | ItemResult]:
        """Yields the first request of an item, or its result without a login."""
        if not wanted.tag:
            address = xrpc(self.config.bluesky_service, "app.bsky.unspecced.getTrends", {"limit": MOST_TRENDS})
            yield self.ask_json(address, self.read_bluesky_trends)
        elif self.login_origin is None:
            yield ItemResult(item.id, "skipped", Outcome.AUTH_REQUIRED, NO_LOGIN)
        else:
            tag, most = str(item.input.get(TAG) or wanted.tag), self.arguments_of(item).max_posts
            yield self._search_posts(tag, most, first=True)

    def _search_posts(self, tag: str, left: int, cursor: str = "", *, first: bool = False) -> Request:
        parameters: dict[str, object] = {"q": "*", "tag": tag, "sort": "latest", "limit": min(MOST_POSTS, left)}
        address = xrpc(
            str(self.login_origin), "app.bsky.feed.searchPosts", parameters | ({"cursor": cursor} if cursor else {})
        )
        own = {"tag": tag, "left": left, "asked": cursor}
        return self.ask_json(address, self.read_search, meta={AUTHENTICATE: True}, **own)

    def read_bluesky_trends(self, response: Response) -> Iterator[Any]:
        """Yields the trends of the network."""
        read = parse.parse_trends(response.body, self.look(response, parse.SOURCE, WORLD, parse.PERIOD, EVERY))
        yield read.records
        yield from read.rejects

    def read_search(self, response: Response, tag: str, left: int, asked: str) -> Iterator[Any]:
        """Yields a page of posts, and the request for the next one: short or empty pages may come before the last."""
        seen, hits = self.provenance(response), parse.parse_hits(response.body)
        parsed = parse_posts(response.body, seen)
        yield parsed.records
        yield from parsed.rejects
        if not asked and hits.total is not None:
            look = self.look(response, parse.SOURCE, WORLD, parse.ALL, EVERY)
            yield list(parse.trends_of({"tag": tag, "posts": hits.total}, _row(tag, hits.total), None, look))
        left -= len(parsed.records) + len(parsed.rejects)
        if hits.cursor and hits.cursor == asked:
            self.logger.warning("The search for #%s leads to itself: it ends there", tag)
        elif hits.cursor and left > 0:
            yield self._search_posts(tag, left, hits.cursor)

    async def counts(self) -> AsyncIterator[Batch]:
        """Yields the number of harvested posts per day with a tag, for the given tags or the most frequent ones.

        The days are the posts' own. The method sends no requests. A later count replaces an earlier one of the same
        day.
        """
        wanted = {normal_tag(tag) for tag in self.arguments.read_tags()}
        database = connect(self.config)
        try:
            by_day: dict[datetime, dict[str, int]] = {}
            names: dict[str, int] = {}
            async for row in await database["posts"].aggregate(_PER_DAY, allowDiskUse=True):
                tag, day = normal_tag(row["_id"]["tag"]), row["_id"]["day"]
                if tag and (not wanted or tag in wanted):
                    of_day = by_day.setdefault(day, {})
                    of_day[tag] = of_day.get(tag, 0) + row["posts"]
                    names[tag] = names.get(tag, 0) + row["posts"]
        finally:
            await disconnect(database)
        kept = set(sorted(names, key=lambda tag: (-names[tag], tag))[: None if wanted else MOST_COUNTED])
        seen = Provenance("", datetime.now(UTC), self.name, self.crawl_id)
        for day, tags in sorted(by_day.items()):
            look = VisitContext(parse.COUNTED, WORLD, parse.PERIOD, day, seen)
            ordered = sorted(kept.intersection(tags), key=lambda tag: (-tags[tag], tag))
            records: list[Trend] = []
            for rank, tag in enumerate(ordered, 1):
                row = {"tag": tag, "posts": tags[tag]}
                records += parse.trends_of(row, _row(**row), rank, look)  # type: ignore[arg-type]
            if records:
                yield Batch(list(records))


def _row(tag: str, posts: int) -> bytes:
    return json.encode({"tag": tag, "posts": posts})


_OF_FACETS = {"$filter": {"input": {"$ifNull": ["$facets", []]}, "cond": {"$eq": ["$$this.kind", "tag"]}}}
_TAGS = {"$concatArrays": [{"$ifNull": ["$tags", []]}, {"$map": {"input": _OF_FACETS, "in": "$$this.value"}}]}
_DAY = {"$dateTrunc": {"date": {"$ifNull": ["$sort_at", "$created_at"]}, "unit": "day"}}
_PER_DAY: list[dict[str, Any]] = [
    {"$match": {"gone_at": None}},
    {"$project": {"day": _DAY, "tag": {"$setUnion": {"$map": {"input": _TAGS, "in": {"$toLower": "$$this"}}}}}},
    {"$match": {"day": {"$ne": None}}},
    {"$unwind": "$tag"},
    {"$group": {"_id": {"day": "$day", "tag": "$tag"}, "posts": {"$sum": 1}}},
]
"""Day and tag -> number of posts. A post that has a tag twice counts once."""
