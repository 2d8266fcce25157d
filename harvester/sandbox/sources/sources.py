"""Chooses the source of trends for a path of the sandbox."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from harvester.sandbox.responses import SandboxAnswer
from harvester.sandbox.sources.google import feed
from harvester.sandbox.sources.instagram import InstagramSandbox
from harvester.sandbox.sources.mastodon import MastodonSandbox
from harvester.sandbox.sources.popular import Clock
from harvester.sandbox.sources.tiktok import TiktokSandbox
from harvester.sandbox.sources.youtube import YoutubeSandbox


class Sources:
    """All sources of trends, with a common clock."""

    def __init__(self, base: str) -> None:
        self._base = base
        self.clock = Clock()
        self.mastodon = MastodonSandbox(self.clock, base)
        self.tiktok = TiktokSandbox(self.clock)
        self.instagram = InstagramSandbox(self.clock, base)
        self.youtube = YoutubeSandbox(self.clock, base)

    def answer(self, path: str, query: str, headers: Mapping[str, str]) -> SandboxAnswer | None:
        """Returns the response of the source at this path, or None without a source."""
        asked = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
        if path == "/trending/rss":
            return feed(asked.get("geo", "US"), self.clock, self._base)
        if path.startswith(("/api/v1/", "/api/v2/")):
            return self.mastodon.answer(path, asked, headers.get("authorization", ""))
        if path.startswith(("/business/creativecenter/", "/creative_radar_api/")):
            return self.tiktok.answer(path, asked, headers)
        if path.startswith("/v26.0/"):
            return self.instagram.answer(path, asked, headers.get("authorization", ""))
        if path.startswith("/youtube/v3/"):
            return self.youtube.answer(path, asked, headers.get("x-goog-api-key", ""))
        return None

    def set(self, wishes: Mapping[str, Any]) -> None:
        """Changes `clock_forward` (seconds), `mastodon_access`, `tiktok_pages` and `quotas_left` (unused uses)."""
        self.clock.ahead_s += wishes.get("clock_forward", 0)
        self.mastodon.access = wishes.get("mastodon_access", self.mastodon.access)
        self.tiktok.pages = wishes.get("tiktok_pages", self.tiktok.pages)
        if "quotas_left" in wishes:
            self.instagram.use_up(wishes["quotas_left"])
            self.youtube.use_up(wishes["quotas_left"])
