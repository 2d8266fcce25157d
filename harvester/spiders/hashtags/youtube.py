"""YouTube: popular videos of a country, and videos with a hashtag. Searches have their own small quota."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from msgspec import json
from scrapy import Request
from scrapy.http import Response

from harvester.internal_meta import QUOTA
from harvester.items.trend import WORLD
from harvester.jobs.documents import JobItem
from harvester.meta import AUTHENTICATE
from harvester.parsers.hashtags import youtube as parse
from harvester.politeness.quotas import Quota
from harvester.spiders.hashtags.keys import YOUTUBE, ApiKeys
from harvester.spiders.hashtags.requests import TAG, WantedTag

EVERY = timedelta(hours=1)
"""Time between two updates of the source."""
MOST_ROWS = 50
"""Maximum number of rows in a response."""
SEARCHES_A_DAY, UNITS_A_DAY = 100, 10_000
ZONE = "America/Los_Angeles"
"""The time zone whose midnight resets quotas."""


class Youtube(ApiKeys):
    """Requests videos from the Data API."""

    def youtube_requests(self, item: JobItem, wanted: WantedTag) -> Iterator[Request]:
        """Yields the first request of an item."""
        most = self.arguments_of(item).max_posts
        if wanted.tag:
            yield self._search_videos(str(item.input.get(TAG) or wanted.tag), most)
        else:
            yield self._popular_videos(wanted.place, 1, most)

    def _popular_videos(self, region: str, first: int, left: int, page: str = "") -> Request:
        asked = {"part": "snippet,statistics", "chart": "mostPopular", "regionCode": region}
        quota = Quota(self.quota_name(YOUTUBE, "units"), UNITS_A_DAY, zone=ZONE)
        own = {"region": region, "first": first, "left": left}
        return self._ask_youtube("videos", asked, page, quota, self.read_popular, own)

    def _search_videos(self, tag: str, left: int, page: str = "") -> Request:
        asked = {"part": "snippet", "q": f"#{tag}", "type": "video", "order": "date"}
        quota = Quota(self.quota_name(YOUTUBE, "searches"), SEARCHES_A_DAY, zone=ZONE)
        own = {"tag": tag, "left": left, "asked": page}
        return self._ask_youtube("search", asked, page, quota, self.read_found, own)

    def _ask_youtube(
        self, name: str, asked: dict[str, str], page: str, quota: Quota, callback: Any, own: dict[str, Any]
    ) -> Request:
        asked |= {"maxResults": str(min(MOST_ROWS, own["left"]))} | ({"pageToken": page} if page else {})
        address = f"{self.config.youtube_url}/{name}?{urlencode(asked)}"
        meta = {AUTHENTICATE: YOUTUBE, QUOTA: list(quota)}
        return self.ask_json(address, callback, errback=self.service_failed, meta=meta, **own)

    def read_popular(self, response: Response, region: str, first: int, left: int) -> Iterator[Any]:
        """Yields a page of the chart, and the request for the next one."""
        look = self.look(response, parse.SOURCE, region, parse.PERIOD, EVERY)
        read, rest = parse.parse_popular(response.body, look, first), parse.rest_of(response.body)
        yield read.records
        yield from read.rejects
        left -= read.rows
        if rest.next_page and read.rows and left > 0:
            yield self._popular_videos(region, first + read.rows, left, rest.next_page)

    def read_found(self, response: Response, tag: str, left: int, asked: str) -> Iterator[Any]:
        """Yields a page of videos, and the request for the next one."""
        read, rest = parse.parse_found(response.body, self.provenance(response)), parse.rest_of(response.body)
        yield read.records
        yield from read.rejects
        if not asked and rest.total is not None:
            row = {"tag": tag, "posts": rest.total}
            look = self.look(response, parse.SOURCE, WORLD, parse.ALL, EVERY)
            yield list(parse.trends_of(row, json.encode(row), None, look))
        left -= read.rows
        if rest.next_page and rest.next_page != asked and read.rows and left > 0:
            yield self._search_videos(tag, left, rest.next_page)
