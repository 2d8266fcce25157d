"""The identity of the account in the settings, without a crawl."""

from typing import Any

from scrapy import Request
from scrapy.http import Response

from harvester.config import Config
from harvester.identities.bluesky import account_of
from harvester.identities.identity import Identity
from harvester.identities.logins import Logins
from harvester.identities.state import Session
from harvester.internal_meta import LOGIN, LOGIN_SITE
from harvester.sites import Registry, Site
from tests.identities import without_crawl


class LoginsWithoutCrawl(Logins):
    """Sends requests by a client of its own."""

    async def _fetch(self, site: Site, request: Request, session: Session, proxy_session: str) -> Response:
        request.meta.update({LOGIN: session, LOGIN_SITE: site.name})
        self.check(request, Registry().of(request.url))
        return await without_crawl.fetch(request, session, proxy_session)

    async def _pause(self, seconds: float, host: str) -> None:
        await without_crawl.pause(seconds, host)

    def _count(self, site: Site, event: str) -> None:
        """Nobody asks."""


def identity_of(config: Config) -> Identity:
    """Of this process."""
    account, crawler = account_of(config), Any
    assert account is not None
    logins = LoginsWithoutCrawl(crawler, config)  # type: ignore[arg-type]
    [identity] = logins.pool(account.site, account.credentials).identities.values()
    return identity
