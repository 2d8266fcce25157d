"""The spider `feeds`: RSS, Atom, JSON Feed and sitemaps, visited as often as new entries appear."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from pydantic import Field, field_validator
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.download.addresses import origin_of
from harvester.exceptions import ParseError, UsageError
from harvester.hosts import user_of, without_user
from harvester.internal_meta import STEP
from harvester.items import Found, ItemResult, Provenance, Record, Reject
from harvester.items.feed import Feed, FeedEntry
from harvester.jobs.documents import JobItem
from harvester.jobs.inputs import items_of_file
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.web import feed as parse
from harvester.parsers.web.packed import MOST_BYTES
from harvester.parsers.web.robots import parse_robots
from harvester.parsers.web.values import is_address, joined
from harvester.recheck import read_policy
from harvester.recheck.hints import Hints, not_before
from harvester.recheck.stopping import ListEntry, Position
from harvester.spiders.base import SpiderArguments, YesOrNo
from harvester.spiders.job import errback
from harvester.spiders.pagination import ListPage, PagedItem, PaginationSpider
from harvester.spiders.sitemaps import MOST_LEVELS

FEED = "feed"
"""Kind of an item: a feed, a sitemap, or a page that links to them. Its key is its address."""
LEVEL = "level"
"""Key in an item's input: the number of lists and pages that led to it."""
ACCEPT = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.5"
ABOUT = "about the feed"
"""Key of the entry for the feed's own metadata."""
USUAL_RECHECK = "adaptive 1 to 48 a day"
WAITS = "the feed wants no look in this hour (skipHours, skipDays)"
"""Reason why an item waits although it is due."""
MOST_REPEATED = 500
"""Maximum number of ids per feed that are remembered because several entries share them."""
REPEATED_IDS = "harvester/feeds/repeated_ids"
"""Stat: ids that several entries of a feed share."""


class FeedsArguments(SpiderArguments):
    """Arguments of the spider `feeds`."""

    feeds: str = Field(
        "",
        description="addresses of feeds, sitemaps, or pages that name them, comma-separated; or @FILE: one a line, CSV"
        " with the column `url`, or JSON lines",
    )
    recheck: str = Field(USUAL_RECHECK, description="how often they are looked at, as in `every 1h`; see docs/feeds.md")
    history: YesOrNo = Field(
        False, description="whether older pages are read, where a feed names them, until what is known: yes or no"
    )

    @field_validator("recheck")
    @classmethod
    def _policy(cls, value: str) -> str:
        try:
            return str(read_policy(value))
        except UsageError as error:
            raise ValueError(str(error)) from None

    def identity(self) -> dict[str, Any]:
        """Returns the path when the feeds come from a file: the job continues when its content has changed."""
        if not self.feeds.startswith("@"):
            return {"feeds": self.feeds}
        return {"feeds": f"@{Path(os.path.expanduser(self.feeds[1:])).resolve()}"}

    def kept(self) -> dict[str, Any]:
        return {**self.identity(), "recheck": self.recheck, "history": self.history}

    def read(self) -> Iterator[Found]:
        """Yields the feeds. Raises UsageError for a file that cannot be read or used, with the bad lines."""
        if self.feeds.startswith("@"):
            path = os.path.expanduser(self.feeds[1:])
            yield from items_of_file(path, "feeds", FEED, "", ("url", "key"), lambda found: _problem(found.key))
            return
        for each in filter(None, map(str.strip, self.feeds.split(","))):
            if problem := _problem(each):
                raise UsageError(f"-a feeds={without_user(each)}: {problem}")
            yield Found(FEED, each, depth=0)


def _problem(address: str) -> str:
    if user_of(address):
        return "a password in an address would stand in records and logs: give its site a key (docs/sessions.md)"
    return "" if is_address(address) else f"{address!r} is no address; give one like 'https://example.org/feed.xml'"


class FeedsSpider(PaginationSpider):
    """Harvests the entries of feeds repeatedly: RSS, Atom, JSON Feed, and the pages that sitemaps list.

    Domain: each feed's own. Caveats: a feed shows only its last entries, so one that is visited too seldom may lose
    some; HTML in entries is not cleaned. Arguments: `-a feeds=https://example.org/feed.xml`, see docs/feeds.md.
    """

    name = "feeds"
    Arguments = FeedsArguments
    ITEM_KINDS: ClassVar[tuple[str, ...]] = (FEED,)
    arguments: FeedsArguments

    @classmethod
    def parse_arguments(cls, given: dict[str, Any]) -> SpiderArguments:
        """Parses the arguments and reads the file. Raises UsageError when it has no feeds."""
        arguments = super().parse_arguments(given)
        if isinstance(arguments, FeedsArguments) and "job" not in given and not sum(1 for _ in arguments.read()):
            raise UsageError(
                "There is no feed to look at. Give addresses: -a feeds=https://example.org/feed.xml, or @FILE."
            )
        return arguments

    @classmethod
    def first_items(cls, arguments: FeedsArguments) -> Iterable[Found]:
        return arguments.read()

    @classmethod
    def recheck_of(cls, arguments: FeedsArguments) -> str | None:
        return arguments.recheck

    @classmethod
    def check_item(cls, found: Found) -> Found:
        if problem := _problem(found.key):
            raise UsageError(problem)
        return found

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        family: type[Feed | FeedEntry] = Feed if kind == Feed.KIND else FeedEntry
        given = {**msgspec.json.decode(raw), "raw": raw, "provenance": provenance}
        return msgspec.convert(given, family, strict=False)

    # Feeds ------------------------------------------------------------------------------------------------------

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Any]:
        for item in items:
            hints = msgspec.structs.replace(_hints_in(item.left.get("kept", {})), interval_s=0)
            if until := not_before(hints, datetime.now(UTC)):
                yield ItemResult(item.id, "waiting", Outcome.RATE_LIMITED, WAITS, until)
            else:
                yield from super().requests_of([item])

    def page_request(self, of: PagedItem, at: Position) -> Request:
        most = self.settings.getint("DOWNLOAD_MAXSIZE")
        meta = {"download_maxsize": max(most, MOST_BYTES) if most else most}
        return Request(str(at or of.key), headers={"Accept": ACCEPT}, meta=meta)

    async def read_page(self, response: Response, of: PagedItem, kept: Mapping[str, Any]) -> ListPage:
        kind = (response.headers.get("Content-Type") or b"").decode("latin-1")
        level = int(of.input.get(LEVEL, 0))
        if parse.is_page(response.body, kind):
            return await self._of_page(response, of.key, level)
        answer = sha256(response.body).hexdigest()[:16]
        if kept.get("answer") == answer:
            return ListPage([], [], kept=kept)
        known = kept.get("repeated", ())
        read = await self.read(parse.parse_feed, response.body, of.key, kind, self.provenance(response), [*known])
        repeated = [*dict.fromkeys([*read.repeated, *known])][:MOST_REPEATED]
        if new := len({*read.repeated}.difference(known)):
            self.crawler.stats.inc_value(REPEATED_IDS, new)
            said = "%s: %d of its ids stand at several entries; each entry has a digest behind its id"
            self.logger.info(said, without_user(of.key), new)
        entries = [ListEntry(ABOUT, sha256(read.feed.raw).hexdigest()[:16], pinned=True)]
        outputs: list[Any] = [read.feed]
        for each in read.entries:
            if isinstance(each, Reject):
                entries.append(ListEntry(each.raw.decode("utf-8", "replace")))
            else:
                entries.append(ListEntry(each.id, sha256(each.raw).hexdigest()[:16], each.published_at))
            outputs.append(each)
        for text in read.unread:
            reason = "what stands where its address should is none"
            entries.append(ListEntry(text))
            outputs.append(
                Reject(FeedEntry.KIND, reason, "", text.encode("utf-8", "replace"), without_user(response.url))
            )
        if level < MOST_LEVELS:
            entries += [ListEntry(address) for address in read.sitemaps]
            outputs += [Found(FEED, address, {LEVEL: level + 1}) for address in read.sitemaps]
        if response.cb_kwargs["at"] is None:  # hints on older pages concern only those
            cache = (response.headers.get("Cache-Control") or b"").decode("latin-1")
            hints = msgspec.structs.replace(read.hints, interval_s=max(read.hints.interval_s, parse.max_age(cache)))
            kept = {"answer": "" if read.cut else answer, "hints": msgspec.to_builtins(hints)}
        kept = {**kept, "repeated": repeated} if repeated else kept
        leads_to = read.next if self.arguments_of(response).history else None
        is_window = response.cb_kwargs["at"] is None and read.feed.form != "sitemap" and not leads_to
        return ListPage(entries, outputs, leads_to, kept=kept, is_window=is_window, cut=read.cut)

    def rest_of(self, kept: Mapping[str, Any]) -> datetime | None:
        return not_before(_hints_in(kept), datetime.now(UTC))

    # Pages that link to feeds -----------------------------------------------------------------------------------

    async def _of_page(self, response: Response, url: str, level: int) -> ListPage:
        """Returns the feeds that a page links to, or else a request for robots.txt, to find the site's sitemaps."""
        if level >= MOST_LEVELS:
            raise ParseError("it is a web page, and no feed")
        feeds = await self.read(parse.feeds_of_page, response.body, response.url)
        found: list[Any] = [Found(FEED, address, {LEVEL: level + 1}) for address in feeds]
        if not found:
            found = [self._robots(origin_of(response.url), level)]
        return ListPage([ListEntry(getattr(each, "key", "robots.txt")) for each in found], found)

    def _robots(self, origin: str, level: int) -> Request:
        told = {"origin": origin, "level": level}
        return Request(
            f"{origin}/robots.txt",
            self.parse_sitemap_names,
            errback=self.sitemaps_unnamed,
            cb_kwargs=told,
            meta={STEP: True},
            dont_filter=True,
        )

    def parse_sitemap_names(self, response: Response, origin: str, level: int) -> Iterator[Found]:
        """Yields the sitemaps that a robots.txt names, or the usual /sitemap.xml."""
        said = parse_robots(response.body, ()).sitemaps
        named = [address for each in said if (address := joined(response.url, each))]
        for address in dict.fromkeys(named or [f"{origin}/sitemap.xml"]):
            yield Found(FEED, address, {LEVEL: level + 1})

    @errback
    def sitemaps_unnamed(self, failure: Failure) -> Iterator[Found]:
        """Yields /sitemap.xml: a site without robots.txt may have a sitemap."""
        if get_policy(verdict_of(failure.value).outcome).no_content:  # type: ignore[arg-type]
            told = failure.request.cb_kwargs  # type: ignore[attr-defined]
            yield Found(FEED, f"{told['origin']}/sitemap.xml", {LEVEL: told["level"] + 1})


def _hints_in(kept: Mapping[str, Any]) -> Hints:
    return msgspec.convert(kept.get("hints", {}), Hints)
