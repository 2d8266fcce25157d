"""Creates the identities of a site, and sends the requests of their logins.

These requests pass through the engine: throttle and breaker apply, and the proxy of the identity is used. Their address
never holds a secret. Other secrets are added after, and removed before, the places where others see the request.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.config import Config
from harvester.exceptions import FetchError, HarvesterError, SessionError, UsageError
from harvester.fetch.decide import Advice, strongest
from harvester.fetch.steps import get_steps
from harvester.identities.browser import BrowserLogin
from harvester.identities.credentials import Credentials, credentials_of
from harvester.identities.form import FormLogin
from harvester.identities.identity import Identity
from harvester.identities.key import KeyLogin
from harvester.identities.limited_logins import NotNow
from harvester.identities.login_methods import Anonymous, LoginFailed, LoginMethod
from harvester.identities.pool import IdentityPool
from harvester.identities.state import Session
from harvester.identities.token import TokenLogin
from harvester.internal_meta import IDENTITY, LEAST_TIER, LOGIN, LOGIN_SITE, PROXIES_ROTATED
from harvester.outcomes import classify, classify_exception
from harvester.politeness.rate_limits import LONGEST_WAIT_S
from harvester.proxies.budget import BudgetSpent
from harvester.shutdown import RunEnding, pause
from harvester.sites import Site, load_sites

TIMEOUT_S = 30.0
MOST_TRIES = 5
"""Logins without a response before a run ends that cannot start without a session."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Logins:
    """The logins during a crawl."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config

    def pool(self, site: Site, credentials: Credentials | None = None) -> IdentityPool:
        """Returns a pool for the given credentials, or for those that the site's entry names.

        Raises UsageError when they are missing, StorageError when sessions cannot be saved.
        """
        table = site.identities
        if credentials is not None:
            identities = [self._identity(site, credentials.name, credentials)]
        elif table.signs_in:
            given = {name: credentials_of(name, self._config, a_key=table.kind == "key") for name in table.names}
            identities = [self._identity(site, name, credentials) for name, credentials in given.items()]
        else:
            identities = [self._identity(site, name, None) for name in table.names]
        return IdentityPool(identities, table.chain_idle_s, self._pause)

    async def first_session(self, pool: IdentityPool, advice: str) -> Session:
        """Returns the session of a pool with one identity, for a run that cannot start without it. Raises
        SessionError."""
        [identity] = pool.identities.values()
        tries = 0
        while True:
            try:
                return await identity.ready()
            except NotNow as later:
                tries += 1
                wait_s = later.until - time.time()
                if tries == MOST_TRIES or wait_s > LONGEST_WAIT_S:
                    said = f"There is no session of {identity.name}: {later}. The next try is due in {wait_s:.0f} s."
                    raise SessionError(f"{said} {advice}") from None
            await self._pause(wait_s, "")

    def check(self, request: Request, site: Site) -> None:
        """Raises LoginFailed if a login would send secrets to another site, or without encryption."""
        shown = _shown(request.url)
        session: Session = request.meta[LOGIN]
        if not session.may_go_to(request.url) or (not session.origin and site.name != request.meta[LOGIN_SITE]):
            raise LoginFailed(f"it leads to {shown}, which is none of the site's hosts")
        if is_open(request.url, self._config):
            raise UsageError(f"The login of {site.name} leads to {shown} over http; passwords want https.")

    def _identity(self, site: Site, name: str, credentials: Credentials | None) -> Identity:
        path = self._config.state_dir / "sessions" / f"{quote(site.name, safe='')}.{quote(name, safe='@')}.json"
        return Identity(
            site,
            name,
            path,
            credentials,
            partial(self._method, site, path.with_suffix(".storage.json"), credentials),
            partial(self._fetch, site),
            self._pause,
            partial(self._count, site),
        )

    def _method(
        self,
        site: Site,
        storage: Path,
        credentials: Credentials | None,
        proxy_session: str,
        fetch: Callable[[Request, Session], Awaitable[Response]],
    ) -> LoginMethod:
        table = site.identities
        if table.form is not None:
            return FormLogin(table.form, credentials, fetch)
        if table.token is not None and credentials is not None:
            return TokenLogin(table.token, credentials, fetch)
        if table.key is not None and credentials is not None:
            return KeyLogin(table.key, credentials)
        if table.browser is not None and credentials is not None:
            return BrowserLogin(self._crawler, site, credentials, proxy_session, storage)
        return Anonymous()

    async def _fetch(self, site: Site, request: Request, session: Session, proxy_session: str) -> Response:
        """Returns the response by the cheapest tier of proxies that the site answers. Raises LoginFailed without
        one."""
        while True:
            response = await self._answer(site, request, session, proxy_session)
            again = self._by_other_way(site, request, response)
            if again is None:
                return response
            request = again

    def _by_other_way(self, site: Site, request: Request, response: Response) -> Request | None:
        """Returns the request for another proxy, if the site refused the page and another route is left."""
        if not site.proxy.is_proxied or request.method != "GET":
            return None  # a password is never sent twice
        sent = response.request or request
        verdict = classify(response, sent, site.outcomes.own)
        if strongest(get_steps(self._crawler).judge(sent, verdict, response)) is not Advice.COUNTED:
            return None
        again = request.replace(dont_filter=True)
        again.meta.update({key: sent.meta[key] for key in (LEAST_TIER, PROXIES_ROTATED) if key in sent.meta})
        return again

    async def _answer(self, site: Site, request: Request, session: Session, proxy_session: str) -> Response:
        request.meta.update({LOGIN: session, LOGIN_SITE: site.name, IDENTITY: proxy_session})
        request.meta.update({"dont_retry": True, "download_timeout": TIMEOUT_S, "render": False})
        assert self._crawler.engine
        try:
            return await self._crawler.engine.download_async(request)
        except FetchError as error:
            raise LoginFailed(classify_exception(error).reason) from None
        except (RunEnding, HarvesterError, LoginFailed, BudgetSpent):
            raise
        except Exception as error:  # noqa: BLE001  a download may end with any error
            raise LoginFailed(f"{type(error).__name__}: {error}") from None

    async def _pause(self, seconds: float, host: str) -> None:
        await pause(self._crawler, seconds)

    def _count(self, site: Site, event: str) -> None:
        self._crawler.stats.inc_value(f"harvester/identities/{event}/{site.name}")


def refuse_secrets(url: str, site: str, config: Config) -> str:
    """Returns the reason why no secret of a site may go to an address; empty if it may."""
    if load_sites().of(url).name != site:
        return f"{_shown(url)} is none of the hosts of {site}"
    return f"{_shown(url)} is asked over http, and passwords want https" if is_open(url, config) else ""


def is_open(url: str, config: Config) -> bool:
    """Returns True if others may read a request to the address."""
    parts = urlsplit(url)
    return parts.scheme != "https" and parts.hostname not in _LOOPBACK and not config.allow_private_hosts


def _shown(url: str) -> str:
    """Returns the part of an address that may be shown."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or f"{parts.scheme}:"
