"""Mastodon, and other programs with its API: trends of an instance, and its timelines of tags."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.internal_meta import ITEMS
from harvester.items import ItemResult
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.hashtags import mastodon as parse
from harvester.parsers.web.links import next_link
from harvester.spiders.hashtags.requests import TAG, HashtagRequests, WantedTag
from harvester.spiders.job import errback

EVERY = timedelta(hours=1)
"""Time between two updates of the source."""
MOST_TRENDS, MOST_POSTS = 20, 40
"""Maximum number of rows in a response."""
TOKEN = "docs/hashtags.md says how to give harvester a token of yours"


class Mastodon(HashtagRequests):
    """Requests trends from instances, and the latest posts with a tag."""

    def mastodon_requests(self, item: JobItem, wanted: WantedTag) -> Iterator[Request]:
        """Yields the first request of an item."""
        if not wanted.tag:
            address = f"{origin_of_instance(wanted.place)}/api/v1/trends/tags?{urlencode({'limit': MOST_TRENDS})}"
            yield self.ask_json(address, self.read_mastodon_trends, place=wanted.place)
            return
        most = self.arguments_of(item).max_posts
        tag = quote(str(item.input.get(TAG) or wanted.tag), safe="")
        path = f"/api/v1/timelines/tag/{tag}?{urlencode({'limit': min(MOST_POSTS, most)})}"
        address = origin_of_instance(wanted.place) + path
        yield self.ask_json(address, self.read_timeline, errback=self.timeline_failed, place=wanted.place, left=most)

    def read_mastodon_trends(self, response: Response, place: str) -> Iterator[Any]:
        """Yields the trends of an instance."""
        read = parse.parse_trends(response.body, self.look(response, parse.SOURCE, _host(place), parse.PERIOD, EVERY))
        yield read.records
        yield from read.rejects

    def read_timeline(self, response: Response, place: str, left: int) -> Iterator[Any]:
        """Yields a page of posts, and the request for the next one until `max_posts` is reached."""
        honours = self.arguments_of(response).honour_opt_outs
        page = parse.parse_timeline(response.body, self.provenance(response), honour_opt_outs=honours)
        yield page.read.records
        yield from page.read.rejects
        if page.left_out:
            self.crawler.stats.inc_value("harvester/hashtags/left_out/mastodon", page.left_out)
        left -= page.read.rows
        link = next_link([value.decode("latin-1") for value in response.headers.getlist("Link")], response.url)
        if page.read.rows and link and left > 0:
            # Only the link's query is used: an instance behind a proxy may send another address.
            query = urlencode(dict(parse_qsl(urlsplit(link).query)) | {"limit": min(MOST_POSTS, left)})
            address = urlsplit(response.url)._replace(query=query).geturl()
            if query == urlsplit(response.url).query:
                self.logger.warning("%s leads to itself: its timeline ends there", address)
            else:
                yield self.ask_json(address, self.read_timeline, errback=self.timeline_failed, place=place, left=left)
        elif not page.read.rows and "max_id=" not in urlsplit(response.url).query:
            yield self.ask_json(
                f"{origin_of_instance(place)}/api/v2/instance", self.read_access, errback=self.access_unknown
            )

    def read_access(self, response: Response) -> Iterator[Any]:
        """Yields the reason for an empty timeline: the tag has no posts, or the instance hides timelines."""
        access = parse.feeds_access(response.body)
        if access in ("disabled", "authenticated"):
            to_whom = "nobody" if access == "disabled" else f"those who log in only: {TOKEN}"
            reason = f"{urlsplit(response.url).netloc} shows timelines of tags to {to_whom}"
            yield ItemResult(self.item_of(response).id, "skipped", Outcome.POLICY_DENIED, reason)
        else:
            yield ItemResult(self.item_of(response).id, "done", Outcome.EMPTY, "there is no post with this tag")

    @errback
    def access_unknown(self, failure: Failure) -> Iterator[Any]:
        """Ends the item of an instance without this information: older versions show timelines to everybody."""
        request = failure.request  # type: ignore[attr-defined]
        outcome = verdict_of(failure.value).outcome  # type: ignore[arg-type]
        if get_policy(outcome).absent or outcome is Outcome.LAYOUT_CHANGED:
            ((item, _),) = request.meta[ITEMS]
            yield ItemResult(item, "done", Outcome.EMPTY, "there is no post with this tag")

    @errback
    def timeline_failed(self, failure: Failure) -> Iterator[Any]:
        """Skips an instance that wants a login: a retry would be refused, too."""
        request = failure.request  # type: ignore[attr-defined]
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        if verdict.outcome is Outcome.AUTH_REQUIRED:
            ((item, _),) = request.meta[ITEMS]
            reason = f"{urlsplit(request.url).netloc} wants a login ({verdict.reason}): {TOKEN}"
            yield ItemResult(item, "skipped", Outcome.AUTH_REQUIRED, reason)


def origin_of_instance(place: str) -> str:
    """Returns the origin of an instance's API."""
    return place if "://" in place else f"https://{place}"


def _host(place: str) -> str:
    return urlsplit(origin_of_instance(place)).netloc
