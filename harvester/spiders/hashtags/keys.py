"""Services with an API key and quotas: their keys, and items that wait for a used-up quota."""

from collections.abc import AsyncIterator
from functools import cached_property
from hashlib import sha256
from typing import Any

from twisted.python.failure import Failure

from harvester.identities.credentials import SpiderAccount
from harvester.identities.service_key import key_account
from harvester.internal_meta import ITEMS
from harvester.items import ItemResult
from harvester.meta import AUTHENTICATE
from harvester.middlewares.batch import batched
from harvester.middlewares.quota import waits_until
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.spiders.hashtags.requests import HashtagRequests

YOUTUBE, INSTAGRAM = "youtube", "instagram"
NO_KEY = {
    YOUTUBE: "YouTube wants a key: make one at Google for its Data API, and set HARVESTER_YOUTUBE_KEY",
    INSTAGRAM: (
        "Instagram wants the token of an account of yours that may read public content: set HARVESTER_INSTAGRAM_USER to"
        " the account's id and HARVESTER_INSTAGRAM_TOKEN"
    ),
}
"""Service -> message when its key is missing."""


class ApiKeys(HashtagRequests):
    """Provides the API keys from the settings."""

    HAS_QUOTAS = True

    @cached_property
    def keys(self) -> dict[str, SpiderAccount]:
        """The accounts that send API keys, by service."""
        config, found = self.config, {}
        if key := config.youtube_key:
            headers = {"X-Goog-Api-Key": "{password}"}
            found[YOUTUBE] = key_account(config, YOUTUBE, config.youtube_url, key, headers, NO_KEY[YOUTUBE])
        if config.instagram_user and (key := config.instagram_token):
            headers = {"Authorization": "Bearer {password}"}
            found[INSTAGRAM] = key_account(config, INSTAGRAM, config.instagram_url, key, headers, NO_KEY[INSTAGRAM])
        return found

    @property
    def further_accounts(self) -> list[SpiderAccount]:
        return list(self.keys.values())

    def quota_name(self, service: str, what: str) -> str:
        """Returns the name of a key's quota: each key has its own."""
        key = self.config.youtube_key.get_secret_value() if self.config.youtube_key else ""
        whose = key if service == YOUTUBE else self.config.instagram_user or ""
        return f"{service} {what} {sha256(whose.encode()).hexdigest()[:12]}"

    async def service_failed(self, failure: Failure) -> AsyncIterator[Any]:
        """Errback: an item waits for its quota, and fails with a refused key. Other failures are retried."""
        request = failure.request  # type: ignore[attr-defined]

        async def outputs() -> AsyncIterator[Any]:
            verdict = verdict_of(failure.value)  # type: ignore[arg-type]
            items = [item for item, _ in request.meta[ITEMS]]
            if until := await waits_until(self.crawler, request, verdict):
                for item in items:
                    yield ItemResult(item, "waiting", Outcome.RATE_LIMITED, verdict.reason, until)
            elif get_policy(verdict.outcome).login:
                for item in items:
                    refused = f"the key is refused ({verdict.reason}). {NO_KEY[request.meta[AUTHENTICATE]]}"
                    yield ItemResult(item, "failed", Outcome.AUTH_REQUIRED, refused)

        async for output in batched(outputs(), request):
            yield output
