"""TikTok's Creative Center: a page whose script signs its requests, and a list that requires signatures.

The signature scheme is the sandbox's own. A request without a signature, or with a used one, is refused with code 40101
in a response with status 200.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from harvester.sandbox.responses import HTML_TYPE, SandboxAnswer, json_answer
from harvester.sandbox.sources.popular import Clock, Popular, popular

ROWS, HASHTAGS = 10, 30
"""Numbers of hashtags in a page of the list, and in the whole list."""
NO_PERMISSION = 40101
_COUNTRIES = {"US": "United States", "DE": "Germany"}
_SCRIPT = """
const asked = new URLSearchParams(location.search), list = document.querySelector('main')
const user = String(Math.random())
let page = 0
const sign = async text => {
  let sum = 7
  for (const letter of text) sum = (sum * 31 + letter.charCodeAt(0)) % 1000003
  return String(sum)
}
async function more() {
  page += 1
  const where = {period: asked.get('period'), country_code: asked.get('countryCode')}
  const query = new URLSearchParams({page, limit: ROWS, sort_by: 'popular', ...where})
  const timestamp = String(Date.now()) + page
  const signed = {timestamp, 'user-sign': await sign(user + timestamp)}
  const headers = {'anonymous-user-id': user, 'web-id': 'w1', lang: 'en', ...signed}
  const answer = await fetch('/creative_radar_api/v1/popular_trend/hashtag/list?' + query, {headers})
  const told = await answer.json()
  for (const row of (told.data || {}).list || []) {
    list.appendChild(document.createElement('article')).textContent = '#' + row.hashtag_name
  }
  document.querySelector('button').hidden = !(told.data || {pagination: {}}).pagination.has_more
}
document.querySelector('button').onclick = more
more()
""".replace("ROWS", str(ROWS))
_PAGE = (
    "<!doctype html><html><head><title>Trending hashtags</title></head><body><main></main>"
    f"<button hidden>View More</button><script>{_SCRIPT}</script></body></html>"
)


class TiktokSandbox:
    """The list of hashtags. `pages` limits the pages by country.

    A country's requests beyond its number of pages are refused. With -1 its pages are empty and promise more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._used: set[str] = set()
        self.pages: dict[str, int] = {}

    def answer(self, path: str, asked: Mapping[str, str], headers: Mapping[str, str]) -> SandboxAnswer:
        if path.endswith("/hashtag/pc/en"):
            return SandboxAnswer(_PAGE.encode(), 200, HTML_TYPE)
        if not path.endswith("/popular_trend/hashtag/list"):
            return json_answer({"code": 40400, "msg": "not found"}, 404)
        page = int(asked.get("page", "1"))
        signed = headers.get("anonymous-user-id", "") + headers.get("timestamp", "")
        country = asked.get("country_code", "")
        pages = self.pages.get(country, HASHTAGS // ROWS)
        if signed in self._used or headers.get("user-sign") != _sign(signed) or -1 < pages < page:
            return json_answer({"code": NO_PERMISSION, "msg": "no permission", "request_id": "1"})
        self._used.add(signed)
        day = self._clock.now() // 86_400 * 86_400  # the start of the day, so that all pages of a list agree
        rows = popular(f"tiktok {country} {asked.get('period')}", day)[:HASHTAGS]
        shown = [] if pages < 0 else rows[(page - 1) * ROWS : page * ROWS]
        has_more = pages < 0 or page * ROWS < HASHTAGS
        pagination = {"page": page, "size": ROWS, "total": HASHTAGS, "has_more": has_more}
        data = {"list": [self._row(each, country) for each in shown], "pagination": pagination}
        return json_answer({"code": 0, "msg": "OK", "request_id": "1", "data": data})

    def _row(self, each: Popular, country: str) -> dict[str, Any]:
        day = int(self._clock.now() // 86_400) * 86_400
        return {
            "hashtag_id": hashlib.blake2b(each.name.encode(), digest_size=6).hexdigest(),
            "hashtag_name": each.name.lower(),
            "country_info": {"id": country, "value": _COUNTRIES.get(country, country)},
            "industry_info": {"id": 23_000_000_000, "value": "Education"} if each.rank % 3 == 0 else None,
            "is_promoted": False,
            "trend": [{"time": day - 86_400 * number, "value": round(1 - number / 7, 2)} for number in range(7)],
            "creators": [{"nick_name": "x", "avatar_url": "https://sandbox.test/x.jpg"}],
            "publish_cnt": each.uses,
            "video_views": each.uses * 300,
            "rank": each.rank,
            "rank_diff": each.rank % 4,
            "rank_diff_type": 1,
        }


def _sign(text: str) -> str:
    total = 7
    for letter in text:
        total = (total * 31 + ord(letter)) % 1_000_003
    return str(total)
