"""Instagram's Graph API: hashtags by name, their media, and a quota of thirty hashtags in seven days per account."""

from collections.abc import Mapping
from typing import Any

from harvester.sandbox.responses import SandboxAnswer, json_answer
from harvester.sandbox.sources.popular import TAGS, Clock

TOKEN, USER = "sandbox-instagram-token", "17841400000000001"
HASHTAGS, DAYS = 30, 7
MEDIA = 60
"""Number of media with each hashtag."""


class InstagramSandbox:
    """Tracks which hashtags an account has queried, and when."""

    def __init__(self, clock: Clock, base: str) -> None:
        self._clock, self._base = clock, base
        self._uses: dict[str, float] = {}

    def use_up(self, left: int) -> None:
        """Uses up the account's quota, as other programs would, until `left` hashtags are left."""
        self._uses = {f"of others {number}": self._clock.now() for number in range(HASHTAGS - left)}

    def answer(self, path: str, asked: Mapping[str, str], authorization: str) -> SandboxAnswer:
        if authorization != f"Bearer {TOKEN}":
            return _error(190, "Invalid OAuth access token - Cannot parse access token", 400)
        if asked.get("user_id") != USER:
            return _error(100, "Unsupported get request. Object with ID does not exist", 400)
        name = path.removeprefix("/v26.0/")
        if name == "ig_hashtag_search":
            return self._search(asked.get("q", ""))
        number, _, edge = name.partition("/")
        if edge not in ("top_media", "recent_media") or not number.isdecimal():
            return _error(100, f"Unsupported get request: {name}", 400)
        return self._media(int(number), asked)

    def _search(self, tag: str) -> SandboxAnswer:
        now = self._clock.now()
        self._uses = {each: at for each, at in self._uses.items() if at > now - DAYS * 86_400}
        if tag.lower() not in self._uses and len(self._uses) >= HASHTAGS:
            said = "You have exceeded the maximum number of unique hashtags that you can query within 7 days"
            return _error(18, said, 400, 2207034)
        self._uses.setdefault(tag.lower(), now)
        number = next((index for index, each in enumerate(TAGS) if each.casefold() == tag.casefold()), None)
        if number is None and not tag.startswith("other"):
            return _error(24, "The requested resource does not exist", 400, 2207024)
        return json_answer({"data": [{"id": f"1784100000{number or 0:07}"}]})

    def _media(self, number: int, asked: Mapping[str, str]) -> SandboxAnswer:
        tag = TAGS[number % 10**7 % len(TAGS)]
        limit, after = int(asked.get("limit", "25")), int(asked.get("after", "0") or 0)
        numbers = range(after, min(after + limit, MEDIA))
        answer: dict[str, Any] = {"data": [self._row(tag, number, each) for each in numbers]}
        if numbers and numbers[-1] + 1 < MEDIA:
            last = str(numbers[-1] + 1)
            address = f"{self._base}/v26.0/{number}/recent_media?access_token={TOKEN}&after={last}"
            answer["paging"] = {"cursors": {"after": last}, "next": address}
        return json_answer(answer)

    def _row(self, tag: str, number: int, each: int) -> dict[str, Any]:
        row = {
            "id": f"{number}{each:04}",
            "caption": f"Picture {each} #{tag} #art",
            "media_type": "IMAGE",
            "media_url": f"https://scontent.sandbox.test/{each}.jpg",
            "permalink": f"https://www.instagram.com/p/{number}{each}/",
            "timestamp": f"2026-11-{1 + each % 28:02}T10:00:00+0000",
            "comments_count": each % 5,
        }
        return row if each % 4 == 0 else row | {"like_count": each}


def _error(code: int, message: str, status: int, subcode: int = 0) -> SandboxAnswer:
    error: dict[str, Any] = {"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "A"}
    return json_answer({"error": error | ({"error_subcode": subcode} if subcode else {})}, status)
