"""Google Trends: the feed of popular searches in a country."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from scrapy import Request
from scrapy.http import Response

from harvester.parsers.hashtags import google as parse
from harvester.spiders.hashtags.requests import HashtagRequests, WantedTag

EVERY = timedelta(hours=1)
"""Time between two updates of the source."""


class Google(HashtagRequests):
    """Requests the feed of a country."""

    def google_requests(self, wanted: WantedTag) -> Iterator[Request]:
        """Yields the request of an item."""
        address = f"{self.config.google_trends_url}/trending/rss?{urlencode({'geo': wanted.place})}"
        yield self.ask(address, self.read_google_trends, region=wanted.place)

    def read_google_trends(self, response: Response, region: str) -> Iterator[Any]:
        """Yields the trends in a feed."""
        look = self.look(response, parse.SOURCE, region, parse.PERIOD, EVERY)
        read = parse.parse_rss(response.body, look)
        yield read.records
        yield from read.rejects
