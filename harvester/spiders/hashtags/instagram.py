"""Instagram: media with a hashtag, from the Graph API, by an account that may read public content."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace
from scrapy import Request
from scrapy.http import Response

from harvester.internal_meta import QUOTA
from harvester.items import Provenance
from harvester.jobs.documents import JobItem
from harvester.meta import AUTHENTICATE
from harvester.parsers.hashtags import instagram as parse
from harvester.parsers.hashtags.rows import VisitContext
from harvester.politeness.quotas import Quota
from harvester.spiders.hashtags.keys import INSTAGRAM, ApiKeys
from harvester.spiders.hashtags.requests import TAG, WantedTag

MOST_ROWS = 50
"""Maximum number of rows in a response."""
TAGS, DAYS = 30, 7
"""Number of different hashtags that may be requested within a rolling window, and its days."""


class Instagram(ApiKeys):
    """Requests a hashtag's id from the Graph API, then its media."""

    def instagram_requests(self, item: JobItem, wanted: WantedTag) -> Iterator[Request]:
        """Yields the first request of an item."""
        tag = str(item.input.get(TAG) or wanted.tag)
        quota = Quota(self.quota_name(INSTAGRAM, "hashtags"), TAGS, tag.lower(), DAYS * 86_400.0)
        left = self.arguments_of(item).max_posts
        meta = {QUOTA: list(quota)}
        yield self._ask_graph("ig_hashtag_search", {"q": tag}, self.read_hashtag_id, meta, tag=tag, left=left)

    def _ask_graph(self, name: str, asked: dict[str, Any], callback: Any, meta: dict[str, Any], **own: Any) -> Request:
        parameters = urlencode({"user_id": self.config.instagram_user} | asked)
        address = f"{self.config.instagram_url}/{name}?{parameters}"
        meta = {AUTHENTICATE: INSTAGRAM, **meta}
        return self.ask_json(address, callback, errback=self.service_failed, meta=meta, **own)

    def read_hashtag_id(self, response: Response, tag: str, left: int) -> Iterator[Any]:
        """Yields the hashtag, and the requests for its popular and recent media."""
        look = VisitContext(parse.SOURCE, "", "", datetime.now(UTC), self._seen(response))
        hashtag = parse.parse_search(response.body, look, tag)
        yield hashtag
        for edge in ("top_media", "recent_media"):
            yield self._media(str(hashtag.id), edge, left)

    def _media(self, hashtag: str, edge: str, left: int, after: str = "") -> Request:
        asked = {"fields": parse.FIELDS, "limit": min(MOST_ROWS, left)} | ({"after": after} if after else {})
        own = {"hashtag": hashtag, "edge": edge, "left": left, "after": after}
        return self._ask_graph(f"{hashtag}/{edge}", asked, self.read_media, {}, **own)

    def read_media(self, response: Response, hashtag: str, edge: str, left: int, after: str) -> Iterator[Any]:
        """Yields a page of media, and the request for the next one."""
        read, following = parse.parse_media(response.body, self._seen(response)), parse.after(response.body)
        yield read.records
        yield from read.rejects
        left -= read.rows
        if following and following != after and read.rows and left > 0:
            yield self._media(hashtag, edge, left, following)

    def _seen(self, response: Response) -> Provenance:
        """Returns the provenance without the account's id in the address."""
        seen = self.provenance(response)
        return replace(seen, url=seen.url.replace(f"user_id={self.config.instagram_user}&", ""))
