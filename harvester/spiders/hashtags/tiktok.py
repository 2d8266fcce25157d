"""TikTok's Creative Center: its page is shown by a browser, and the answers that it got are read.

Nothing is signed here: what the page is refused is refused.
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
"""How often there is something new."""
PERIODS = ("7", "30", "120")
"""Days over which it counts."""
PATH = "/business/creativecenter/inspiration/popular/hashtag/pc/en"
LIST = "/popular_trend/hashtag/list"
MORE = 4
"""How often more is asked for: a page has 20 hashtags, of the hundred that there are."""
ANSWER_S, MORE_S = 30.0, 3.0
"""How long the first answer, and the button for more, may not be there."""
_STEPS: list[dict[str, Any]] = [
    {"captured": f"*{LIST}?*", "timeout_s": ANSWER_S, "optional": True},
    *[{"click": ':text-is("View More")', "timeout_s": MORE_S, "optional": True}, {"scroll": "end", "most": 3}] * MORE,
]


class Tiktok(HashtagRequests):
    """Has a browser show the page of a country."""

    def tiktok_requests(self, wanted: WantedTag) -> Iterator[Request]:
        """Of an item, whose place is a country and a number of days."""
        region, _, days = wanted.place.partition(" ")
        address = f"{self.config.tiktok_url}{PATH}?{urlencode({'countryCode': region, 'period': days})}"
        rendering = {"steps": _STEPS, "capture": [f"*{LIST}?*"], "locale": "en-US", "timeout_s": 3 * ANSWER_S}
        yield self.ask(address, self.read_hashtags, meta={RENDER: True, RENDERING: rendering}, region=region, days=days)

    def read_hashtags(self, response: Response, region: str, days: str) -> Iterator[Any]:
        """What the page was answered, or else what it holds. Raises PageFailed when it was refused all."""
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
