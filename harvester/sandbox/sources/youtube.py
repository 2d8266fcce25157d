"""YouTube's Data API: popular videos, searches, and daily quotas that reset at midnight in California."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from harvester.sandbox.responses import SandboxAnswer, json_answer
from harvester.sandbox.sources.popular import TAGS, Clock, popular

KEY = "sandbox-youtube-key"
SEARCHES, UNITS = 100, 10_000
"""Daily quotas of searches and of units."""
FOUND = 120
"""Number of videos with each hashtag."""
_PACIFIC = ZoneInfo("America/Los_Angeles")


class YoutubeSandbox:
    """Counts the used part of each quota on the current day of its clock."""

    def __init__(self, clock: Clock, base: str) -> None:
        self._clock, self._base = clock, base
        self._day = date.min
        self._used = {"search": 0, "videos": 0}

    def use_up(self, left: int) -> None:
        """Uses up today's quotas, as other programs with the same key would, until `left` is left."""
        self._today()
        self._used = {"search": SEARCHES - left, "videos": UNITS - left}

    def answer(self, path: str, asked: Mapping[str, str], key: str) -> SandboxAnswer:
        if key != KEY:
            return _error(400, "keyInvalid", "API key not valid. Please pass a valid API key.")
        name = path.rpartition("/")[2]
        if name not in self._used:
            return _error(404, "notFound", "Not found")
        self._today()
        if self._used[name] >= (SEARCHES if name == "search" else UNITS):
            return _error(403, "quotaExceeded", "The request cannot be completed because you have exceeded your quota.")
        self._used[name] += 1
        most, first = int(asked.get("maxResults", "5")), int(asked.get("pageToken", "0").removeprefix("PAGE") or 0)
        rows = self._popular(asked.get("regionCode", "US")) if name == "videos" else self._found(asked.get("q", ""))
        answer: dict[str, Any] = {
            "kind": f"youtube#{name}ListResponse",
            "items": rows[first : first + most],
            "pageInfo": {"totalResults": len(rows), "resultsPerPage": most},
        }
        if first + most < len(rows):
            answer["nextPageToken"] = f"PAGE{first + most}"
        return json_answer(answer)

    def _today(self) -> None:
        day = datetime.fromtimestamp(self._clock.now(), UTC).astimezone(_PACIFIC).date()
        if day != self._day:
            self._day, self._used = day, {"search": 0, "videos": 0}

    def _popular(self, region: str) -> list[dict[str, Any]]:
        rows = popular(f"youtube {region}", self._clock.now())
        return [
            {
                "kind": "youtube#video",
                "id": f"{region}{TAGS.index(each.name):09}",
                "snippet": _snippet(f"All about {each.name}", f"#{each.name} and #2026", each.rank)
                | {"tags": [each.name]},
                "statistics": {"viewCount": str(each.uses * 1000), "likeCount": str(each.uses), "favoriteCount": "0"},
            }
            for each in rows
        ]

    def _found(self, words: str) -> list[dict[str, Any]]:
        tag = words.lstrip("#")
        known = next((index for index, each in enumerate(TAGS) if each.casefold() == tag.casefold()), None)
        return [
            {
                "kind": "youtube#searchResult",
                "id": {"kind": "youtube#video", "videoId": f"v{known:03}{number:07}"},
                "snippet": _snippet(f"Video {number} #{tag}", "", number),
            }
            for number in range(FOUND if known is not None else 0)
        ]


def _snippet(title: str, description: str, number: int) -> dict[str, Any]:
    return {
        "publishedAt": f"2026-11-{1 + number % 28:02}T08:00:00Z",
        "channelId": f"UC{number % 7:022}",
        "channelTitle": f"Channel {number % 7}",
        "title": title,
        "description": description,
        "thumbnails": {"default": {"url": f"https://i.sandbox.test/{number}.jpg"}},
    }


def _error(code: int, reason: str, message: str) -> SandboxAnswer:
    errors = [{"message": message, "domain": "youtube.quota", "reason": reason}]
    return json_answer({"error": {"code": code, "message": message, "errors": errors}}, code)
