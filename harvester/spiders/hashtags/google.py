"""Google Trends: the feed of what is searched for in a country."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from scrapy import Request
from scrapy.http import Response

from harvester.parsers.hashtags import google as parse
from harvester.spiders.hashtags.requests import HashtagRequests, WantedTag

EVERY = timedelta(hours=1)
"""How often there is something new."""


class Google(HashtagRequests):
    """Asks for the feed of a country."""

    def google_requests(self, wanted: WantedTag) -> Iterator[Request]:
        """Of an item."""
        address = f"{self.config.google_trends_url}/trending/rss?{urlencode({'geo': wanted.place})}"
        yield self.ask(address, self.read_google_trends, region=wanted.place)

    def read_google_trends(self, response: Response, region: str) -> Iterator[Any]:
        """Its trends."""
        look = self.look(response, parse.SOURCE, region, parse.PERIOD, EVERY)
        read = parse.parse_rss(response.body, look)
        yield read.records
        yield from read.rejects
