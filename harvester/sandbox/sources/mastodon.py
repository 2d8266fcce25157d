"""A Mastodon instance: its trends, its timelines of tags, and the access to them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from harvester.sandbox.responses import SandboxAnswer, json_answer
from harvester.sandbox.sources.popular import TAGS, Clock, popular

POSTS = 95
"""Number of posts with each tag."""
DAY_S = 86_400
TOKEN = "sandbox-mastodon-token"
"""Access token of a login."""
LIMIT, WINDOW_S = 300, 300
_AUTHORS = (
    {"acct": "ann", "display_name": "Ann :cat:", "note": "<p>I like trains</p>", "indexable": True, "noindex": False},
    {"acct": "ben@far.example", "display_name": "Ben", "note": "", "indexable": True, "noindex": False},
    {"acct": "cy", "display_name": "", "note": "<p>no robots <a href='#'>#<span>nobot</span></a></p>"},
    {"acct": "dee@far.example", "display_name": "Dee", "note": "", "indexable": True, "noindex": True},
    {"acct": "eve", "display_name": "Eve", "note": "", "indexable": False},
    {"acct": "fay", "display_name": "Fay", "note": "<p>older servers say nothing</p>"},
)
"""Authors of posts. The second half refuses to be harvested, except the last."""
REFUSING = ("cy", "dee@far.example", "eve")


class MastodonSandbox:
    """A Mastodon server. `access` to timelines of tags: public, authenticated (401), disabled (an empty list)."""

    def __init__(self, clock: Clock, base: str) -> None:
        self._clock, self._base = clock, base
        self.access = "public"
        self._window, self._used = 0, 0

    def answer(self, path: str, asked: Mapping[str, str], authorization: str) -> SandboxAnswer:
        """Responds to a request, with rate limit headers."""
        answer = self._answer(path, asked, authorization)
        window = int(self._clock.now() // WINDOW_S)
        self._used = self._used + 1 if window == self._window else 1
        self._window = window
        ends = datetime.fromtimestamp((window + 1) * WINDOW_S, UTC)
        answer.headers |= {
            "x-ratelimit-limit": str(LIMIT),
            "x-ratelimit-remaining": str(max(0, LIMIT - self._used)),
            "x-ratelimit-reset": ends.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        return answer

    def _answer(self, path: str, asked: Mapping[str, str], authorization: str) -> SandboxAnswer:
        logged_in = authorization == f"Bearer {TOKEN}"
        if authorization and not logged_in:
            return json_answer({"error": "The access token is invalid"}, 401)
        if path == "/api/v2/instance":
            access = {"local": self.access, "remote": self.access}
            timelines = {"live_feeds": access, "hashtag_feeds": access, "trending_link_feeds": access}
            return json_answer({"domain": "sandbox.test", "configuration": {"timelines_access": timelines}})
        if path == "/api/v1/trends/tags":
            return json_answer(self._trends(_number(asked, "limit", 10, 20), _number(asked, "offset", 0, 1000)))
        if path.startswith("/api/v1/timelines/tag/"):
            if self.access == "authenticated" and not logged_in:
                return json_answer({"error": "The access token is invalid"}, 401)
            return self._timeline(unquote(path.rpartition("/")[2]), asked)
        return json_answer({"error": "Record not found"}, 404)

    def _trends(self, limit: int, offset: int) -> list[dict[str, Any]]:
        now = self._clock.now()
        today = int(now // DAY_S) * DAY_S
        days = [{each.name: each.uses for each in popular("", now - day * DAY_S)} for day in range(7)]
        return [
            {
                "name": each.name.lower(),
                "url": f"{self._base}/tags/{each.name}",
                "history": [
                    {
                        "day": str(today - day * DAY_S),
                        "uses": str(uses[each.name]),
                        "accounts": str(uses[each.name] // 3),
                    }
                    for day, uses in enumerate(days)
                ],
            }
            for each in popular("", now)[offset : offset + limit]
        ]

    def _timeline(self, tag: str, asked: Mapping[str, str]) -> SandboxAnswer:
        name = next((each for each in TAGS if each.casefold() == tag.casefold()), "")
        if not name:
            return json_answer({"error": "Record not found"}, 404)
        if self.access == "disabled":
            return json_answer([])
        limit, below = _number(asked, "limit", 20, 40), _number(asked, "max_id", POSTS + 1, POSTS + 1)
        numbers = range(below - 1, max(0, below - 1 - limit), -1)
        answer = json_answer([self._status(name, number) for number in numbers])
        if numbers:
            address = f"{self._base}/api/v1/timelines/tag/{tag}?limit={limit}"
            next_page, before = f'<{address}&max_id={numbers[-1]}>; rel="next"', f"<{address}&min_id={numbers[0]}>"
            answer.headers["link"] = f'{next_page}, {before}; rel="prev"'
        return answer

    def _status(self, tag: str, number: int) -> dict[str, Any]:
        author = _AUTHORS[number % len(_AUTHORS)]
        user, _, host = str(author["acct"]).partition("@")
        home = f"https://{host or 'sandbox.test'}"
        at = datetime(2026, 1, 1, number % 24, number % 60, tzinfo=UTC)
        return {
            "id": str(number),
            "uri": f"{home}/users/{user}/statuses/{TAGS.index(tag)}{number:04}",
            "url": f"{home}/@{user}/{TAGS.index(tag)}{number:04}",
            "created_at": at.isoformat().replace("+00:00", "Z"),
            "edited_at": None,
            "language": "en",
            "content": f"<p>Number {number} &amp; more<br>about <a href='/t'>#<span>{tag}</span></a></p><p>The end</p>",
            "account": author | {"url": f"{home}/@{user}", "uri": f"{home}/users/{user}"},
            "tags": [{"name": tag.lower(), "url": f"{self._base}/tags/{tag}"}],
            "media_attachments": [{"type": "image", "url": f"{home}/{number}.png"}] if number % 5 == 0 else [],
            "replies_count": number % 3,
            "reblogs_count": number % 7,
            "favourites_count": number % 11,
        }


def _number(asked: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = asked.get(name, "")
    return min(int(text), most) if text.isdecimal() else default
