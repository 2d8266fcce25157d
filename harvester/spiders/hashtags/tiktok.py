"""TikTok's Creative Center: a browser shows its page, and the spider reads the captured responses.

The spider signs no requests: it gets only what the page gets.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from scrapy import Request
from scrapy.http import Response

from harvester.browser.render_options import captured_of
from harvester.exceptions import PageFailed
from harvester.items import ItemResult
from harvester.meta import RENDER, RENDERING
from harvester.outcomes import Outcome
from harvester.parsers.hashtags import tiktok as parse
from harvester.spiders.hashtags.requests import HashtagRequests, WantedTag

EVERY = timedelta(days=1)
"""Time between two updates of the source."""
PERIODS = ("7", "30", "120")
"""Periods of the counts, in days."""
PATH = "/business/creativecenter/inspiration/popular/hashtag/pc/en"
LIST = "/popular_trend/hashtag/list"
MORE = 4
"""Number of clicks for more: a page has 20 of about a hundred hashtags."""
ANSWER_S, MORE_S = 30.0, 3.0
"""Seconds to wait for the first response, and for the button for more."""
_STEPS: list[dict[str, Any]] = [
    {"captured": f"*{LIST}?*", "timeout_s": ANSWER_S, "optional": True},
    *[{"click": ':text-is("View More")', "timeout_s": MORE_S, "optional": True}, {"scroll": "end", "most": 3}] * MORE,
]


class Tiktok(HashtagRequests):
    """Lets a browser show the page of a country."""

    def tiktok_requests(self, wanted: WantedTag) -> Iterator[Request]:
        """Yields the request of an item, whose place is a country and a number of days."""
        region, _, days = wanted.place.partition(" ")
        address = f"{self.config.tiktok_url}{PATH}?{urlencode({'countryCode': region, 'period': days})}"
        rendering = {"steps": _STEPS, "capture": [f"*{LIST}?*"], "locale": "en-US", "timeout_s": 3 * ANSWER_S}
        yield self.ask(address, self.read_hashtags, meta={RENDER: True, RENDERING: rendering}, region=region, days=days)

    def read_hashtags(self, response: Response, region: str, days: str) -> Iterator[Any]:
        """Yields the hashtags in the captured responses and the page. Raises PageFailed when all were refused."""
        look = self.look(response, parse.SOURCE, region, f"{days}d", EVERY)
        answers = [
            parse.parse_list(answer.body, look) for answer in captured_of(response) if LIST in urlsplit(answer.url).path
        ]
        reads = [parse.parse_page(response.body, look), *(answer.read for answer in answers if not answer.code)]
        refusal = next((f"code {answer.code} {answer.said}".strip() for answer in answers if answer.code), "")
        rows = sum(read.rows for read in reads)
        if refusal and not rows:
            raise PageFailed(Outcome.AUTH_REQUIRED, f"TikTok refuses its own page the list: {refusal}")
        if not answers and not rows:
            raise PageFailed(Outcome.LAYOUT_CHANGED, "the page holds no hashtags, and was answered none")
        for read in reads:
            yield read.records
            yield from read.rejects
        if refusal:
            shown = f"TikTok shows {rows} hashtags to those who are not logged in, and refuses more: {refusal}"
            yield ItemResult(self.item_of(response).id, "done", Outcome.OK, shown)
        elif not rows:
            yield ItemResult(self.item_of(response).id, "done", Outcome.EMPTY, "the list is empty")
