"""The identities of a crawl: choose the session of each request, and judge it by the outcome."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response

from harvester.components import get_component
from harvester.config import Config, load_config
from harvester.download.addresses import Refused
from harvester.exceptions import HarvesterError, SessionError, StorageError, TooCostlyError, UsageError
from harvester.fetch.decide import Advice
from harvester.fetch.steps import JudgingStep, Wait, get_steps
from harvester.identities.browser import BrowserLink
from harvester.identities.credentials import SpiderAccount
from harvester.identities.expiry import expiry_of
from harvester.identities.logins import Logins
from harvester.identities.pool import Barred, ChainLost, Checkout, IdentityPool, IdentityRequest, Later, SessionRef
from harvester.identities.state import Session
from harvester.internal_meta import (
    ASKED_AS,
    AVOID_IDENTITY,
    CHAIN_BEGUN,
    CHECKOUT,
    IDENTITY,
    KNOWN_VERDICT,
    LEASE,
    LOGIN,
    REDIRECT_HELD_BACK,
    SENT_OUTDATED,
    SESSION_RENEWALS,
    SITE_FILE,
    STORAGE_STATE,
    TIER,
)
from harvester.meta import AUTHENTICATE, SESSION_CHAIN, SESSION_CHAIN_END
from harvester.outcomes import Outcome, Verdict
from harvester.shutdown import CAUSE, EXIT_CODE, RunEnding, end
from harvester.sites import Site, load_sites, policy_of

logger = logging.getLogger(__name__)

MOST_RENEWALS = 2
"""Maximum number of repeats of a request because its session had ended."""
OTHERS_S = 30.0
"""Seconds, from the start or another site's request, before a site without usable identities ends the run."""
REFUSED_WAIT_S = 30.0
"""Seconds that requests of such a site wait."""


def get_identities(crawler: Crawler) -> "CrawlIdentities | None":
    """Returns the identities of the crawl.

    Returns None when no site has identities, and the spider has neither an account nor sites with sessions. Raises
    UsageError when a site's entry has the name of the spider's account.
    """
    if not _are_there(crawler):
        return None
    return get_component(crawler, CrawlIdentities, lambda: CrawlIdentities(crawler, load_config()))


async def account_origin(crawler: Crawler) -> str | None:
    """Returns the origin of the account's server, where meta["authenticate"] counts; None without an account.

    Signs in if necessary. Raises CloseSpider when the sign-in is refused or fails, and RunEnding.
    """
    identities = get_identities(crawler)
    return await identities.account_origin() if identities else None


class CrawlIdentities:
    """Chooses an identity for each request, and returns it when the response has arrived."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._sites = load_sites()
        self._accounts = _accounts_of(crawler)
        self._crawler = crawler
        self._logins = Logins(crawler, config)
        self._pools: dict[str, IdentityPool] = {}
        self._checkouts: dict[int, Checkout] = {}
        self._numbers = count(1)
        self._replaced: WeakKeyDictionary[Request, dict[str, list[bytes]]] = WeakKeyDictionary()
        """Original headers of the requests in progress."""
        self._others_at = time.monotonic()
        self._told: set[str] = set()
        get_steps(crawler).add(JudgingStep.IDENTITY, self._judge)
        get_component(crawler, BrowserLink).keep = self._keep

    async def account_origin(self) -> str | None:
        account = getattr(self._crawler.spider, "account", None)
        if not isinstance(account, SpiderAccount):
            return None
        try:
            session = await self._logins.first_session(self._pool(account.site), account.credentials.advice)
        except HarvesterError as error:
            self._tell(error)
            self._crawler.stats.set_value(EXIT_CODE, error.exit_code)
            self._crawler.stats.set_value(CAUSE, str(error))
            raise CloseSpider(_reason(error)) from None
        return session.origin

    def end_chain(self, request: Request) -> None:
        chain, asked_as = request.meta.get(SESSION_CHAIN), request.meta.get(ASKED_AS)
        pool = self._pools.get(self._site(request).name)
        if pool and chain and asked_as:
            with self._keeping():
                pool.end_chain(str(chain), asked_as[0])

    # Before sending ---------------------------------------------------------------------------------------

    async def before(self, request: Request) -> Wait | None:
        """Claims an identity for the request. Returns how long the request has to wait, or None if it may be sent.

        Raises Refused when the request cannot be sent with any identity, and RunEnding.
        """
        self.let_go(request)
        request.meta.pop(STORAGE_STATE, None)  # copied from an earlier attempt or response
        site = self._site(request)
        if LOGIN in request.meta:
            self._logins.check(request, site)
            return None
        if site.identities.kind is None or _is_robots(request):
            _sent_by_nobody(request)
            if site.identities.kind is None:
                self._others_at = time.monotonic()
            return None
        try:
            checkout = await self._pool(site).take(_wanted(request))
        except ChainLost as error:
            _sent_by_nobody(request)  # so that the outcome does not affect the session
            request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, str(error))
            raise Refused(str(error)) from None
        except Barred as barred:
            _sent_by_nobody(request)
            request.meta.pop(TIER, None)  # tier of an earlier attempt
            request.meta[KNOWN_VERDICT] = (barred.verdict.outcome.value, barred.verdict.reason)
            raise Refused(str(barred)) from None
        except Later as later:
            return Wait(later.until, Outcome.RATE_LIMITED, str(later))
        except HarvesterError as error:
            return self._without(request, site, error)
        if not checkout.session.may_go_to(request.url):
            self._pool(site).leave(checkout)
            _sent_by_nobody(request)
            return None
        number = next(self._numbers)
        self._checkouts[number] = checkout
        request.meta[CHECKOUT] = number
        request.meta[ASKED_AS] = (*checkout.session_ref, time.time())
        request.meta.pop(SENT_OUTDATED, None)
        request.meta[IDENTITY] = checkout.identity.proxy_session
        if site.identities.kind == "browser":
            request.meta[STORAGE_STATE] = (str(checkout.identity.storage_state), checkout.session.generation)
        return None

    def put_on(self, request: Request) -> None:
        """Adds headers and cookies to a request that has passed all middlewares."""
        if (checkout := self._checkouts.get(request.meta.get(CHECKOUT, 0))) is not None:
            session = self._newest(request, checkout)
        elif LOGIN in request.meta:
            session = request.meta[LOGIN]
        else:
            return
        headers = self._site(request).identities.headers | session.headers
        self._replaced[request] = {name: request.headers.getlist(name) for name in (*headers, "Cookie")}
        for name, value in headers.items():
            request.headers[name] = value
        session.jar.put_on(request)

    def _newest(self, request: Request, checkout: Checkout) -> Session:
        """Returns the session, or a newer one that replaced it while the request waited; a chain keeps its session."""
        session = checkout.identity.session
        if session is None:
            request.meta[SENT_OUTDATED] = True
        elif CHAIN_BEGUN not in request.meta and session.origin == checkout.session.origin:
            checkout = self._checkouts[request.meta[CHECKOUT]] = checkout._replace(session=session)
        request.meta[ASKED_AS] = (*checkout.session_ref, time.time())
        if STORAGE_STATE in request.meta:
            request.meta[STORAGE_STATE] = (request.meta[STORAGE_STATE][0], checkout.session.generation)
        return checkout.session

    def take_off(self, request: Request) -> None:
        """Restores the headers when the response has arrived, before any middleware sees it."""
        for name, values in self._replaced.pop(request, {}).items():
            if values:
                request.headers.setlist(name, values)
            else:
                request.headers.pop(name, None)

    # After the response -----------------------------------------------------------------------------------

    def after(self, request: Request, response: Response) -> None:
        """Saves the cookies of the response, returns the identity, and notes whether the session has ended."""
        if (session := request.meta.get(LOGIN)) is not None:
            session.jar.take_in(response, request)
            response.headers.pop("Set-Cookie", None)
            return
        checkout = self._checkouts.get(request.meta.get(CHECKOUT, 0))
        if checkout is None:
            return
        site = checkout.identity.site
        if response.url == request.url:
            checkout.identity.take_in(checkout.session, response, request)
        elif self._sites.of(response.url).name == site.name:  # a browser has followed redirects
            checkout.identity.take_in(checkout.session, response, Request(response.url))
        response.headers.pop("Set-Cookie", None)  # the jar has it
        self.let_go(request)
        try:
            ended = expiry_of(request, response, site.identities)
        except TooCostlyError as error:  # it is unknown which session the page shows
            request.meta[KNOWN_VERDICT] = (Outcome.INVALID, str(error))
        else:
            if ended:
                request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, ended.reason)
                if ended.is_redirect and not request.meta.get("dont_redirect"):
                    request.meta["dont_redirect"] = request.meta[REDIRECT_HELD_BACK] = True

    def let_go(self, request: Request) -> None:
        """Returns the checkout. A request that another middleware has replaced comes here when it is scheduled."""
        checkout = self._checkouts.pop(request.meta.pop(CHECKOUT, 0), None)
        if checkout is not None:
            with self._keeping():
                self._pools[checkout.identity.site.name].leave(checkout, over=bool(request.meta.get(SESSION_CHAIN_END)))

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """Ends the run when sessions cannot be saved. The page is processed nevertheless."""
        try:
            yield
        except StorageError as error:
            self._end(error)

    def _judge(self, request: Request, verdict: Verdict, response: Response | None) -> Advice | None:
        """Judges the identity that sent the request. An ended session is replaced, and the request repeated."""
        if request.meta.pop(REDIRECT_HELD_BACK, False):
            del request.meta["dont_redirect"]
        asked_as = request.meta.get(ASKED_AS)
        site = self._site(request)
        pool = self._pools.get(site.name)
        identity = pool.identities.get(asked_as[0]) if pool and asked_as else None
        if pool is None or identity is None or asked_as is None:
            return None
        policy = policy_of(self._sites.of(request.url), verdict.outcome)
        if verdict.outcome is Outcome.SESSION_EXPIRED:
            return self._expired(request, pool, verdict.reason)
        if policy.session:
            rest_s = identity.health.bad(verdict.outcome, time.time())
            if rest_s:
                logger.warning("%s at %s rests for %.0f s: %s", identity.name, site.name, rest_s, verdict.outcome)
                self._count(site, "rests")
            if policy.new_identity:
                request.meta[AVOID_IDENTITY] = identity.name
        elif not policy.error:
            identity.health.good(time.time())
            identity.accepted(asked_as[1], asked_as[2])
            request.meta.pop(SESSION_RENEWALS, None)
        return None

    def _expired(self, request: Request, pool: IdentityPool, reason: str) -> Advice:
        """Replaces the session, and repeats the request in the new one, unspent; in the middle of a chain it fails."""
        name, generation, sent_at = request.meta[ASKED_AS]
        identity = pool.identities[name]
        renewals = request.meta.get(SESSION_RENEWALS, 0)
        let_in = identity.lets_in(generation, sent_at)
        if not let_in and identity.expire(generation):
            logger.info("The session of %s at %s has ended: %s", name, identity.site.name, reason)
            self._count(identity.site, "expired")
        if renewals >= MOST_RENEWALS and not let_in:
            identity.refused()
        is_spent = renewals >= MOST_RENEWALS or (let_in and renewals)
        if CHAIN_BEGUN in request.meta or (is_spent and not identity.ended):
            request.meta.pop(SESSION_RENEWALS, None)
            identity.health.bad(Outcome.SESSION_EXPIRED, time.time())
            pool.forget(str(request.meta.get(SESSION_CHAIN) or ""))
            return Advice.NONE
        request.meta[SESSION_RENEWALS] = renewals + (0 if request.meta.pop(SENT_OUTDATED, False) else 1)
        return Advice.FREE

    def _without(self, request: Request, site: Site, error: HarvesterError) -> Wait:
        """Delays a request when its site has no usable identity. Without other work, ends the run."""
        self._tell(error)
        refused = isinstance(error, SessionError)
        if refused and LEASE in request.meta and time.monotonic() - self._others_at < OTHERS_S:
            until = time.time() + REFUSED_WAIT_S
            return Wait(until, Outcome.AUTH_REQUIRED, f"no identity of {site.name}")
        self._end(error)
        raise RunEnding(f"there is no identity for {site.name}")

    def _end(self, error: HarvesterError) -> None:
        self._tell(error)
        end(self._crawler, _reason(error), error.exit_code, str(error))

    def _tell(self, error: HarvesterError) -> None:
        """Logs an error once."""
        if str(error) not in self._told:
            self._told.add(str(error))
            logger.error("%s", error)

    def _site(self, request: Request) -> Site:
        """Returns the site whose table provides the identity of the request."""
        wanted = request.meta.get(AUTHENTICATE)
        account = next(iter(self._accounts.values()), None) if wanted is True else self._accounts.get(wanted or "")
        if account:
            return account.site
        return self._sites.of(request.url)

    def _pool(self, site: Site) -> IdentityPool:
        pool = self._pools.get(site.name)
        if pool is None:
            account = self._accounts.get(site.name)
            credentials = account.credentials if account and account.site is site else None
            pool = self._pools[site.name] = self._logins.pool(site, credentials)
        return pool

    def _count(self, site: Site, event: str) -> None:
        self._crawler.stats.inc_value(f"harvester/identities/{event}/{site.name}")

    def _keep(self, path: str, generation: str, state: dict[str, Any], write: Callable[[], bool]) -> bool:
        """Saves changes of a browser to an identity's storage_state: see identities.browser.Keep."""
        for pool in self._pools.values():
            for identity in pool.identities.values():
                if str(identity.storage_state) == path:
                    return identity.keep_storage(generation, state, write)
        return False

    def save(self) -> None:
        for pool in self._pools.values():
            for identity in pool.identities.values():
                try:
                    identity.save()
                except StorageError as error:
                    self._tell(error)


def _accounts_of(crawler: Crawler) -> dict[str, SpiderAccount]:
    """Returns the spider's accounts by name of their sites. Raises UsageError when a site's entry has the same name."""
    spider = crawler.spider
    # A foreign spider may use these attribute names for anything.
    further = getattr(spider, "further_accounts", ())
    given = [getattr(spider, "account", None), *(further if isinstance(further, Sequence) else ())]
    accounts = {account.site.name: account for account in given if isinstance(account, SpiderAccount)}
    for name in accounts:
        if load_sites().named(name).identities.kind:
            raise UsageError(f"The spider's account is called {name}: give that site's entry another name.")
    return accounts


def _are_there(crawler: Crawler) -> bool:
    if _accounts_of(crawler) or getattr(crawler.spider, "IN_SESSIONS", False):
        return True
    return any(site.identities.kind for site in load_sites().having("identities"))


def _reason(error: HarvesterError) -> str:
    """Returns the finish reason."""
    return "session_error" if isinstance(error, SessionError) else error.finish_reason


def _sent_by_nobody(request: Request) -> None:
    request.meta.pop(ASKED_AS, None)
    request.meta.pop(IDENTITY, None)


def _wanted(request: Request) -> IdentityRequest:
    meta = request.meta
    chain = str(meta.get(SESSION_CHAIN) or "")
    asked_as = meta.get(ASKED_AS)
    return IdentityRequest(
        chain,
        begun=SessionRef(*meta[CHAIN_BEGUN]) if chain and CHAIN_BEGUN in meta else None,
        sticky=SessionRef(*asked_as[:2]) if asked_as and meta.get("redirect_times") else None,
        avoid=meta.pop(AVOID_IDENTITY, ""),
        patient=LEASE not in meta,
    )


def _is_robots(request: Request) -> bool:
    """Returns True for robots.txt, which is sent without an identity: a login waits for it."""
    return SITE_FILE in request.meta
