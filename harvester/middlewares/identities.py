"""Downloader middleware: sends requests to sites with identities as one of these, and hides their secrets.

A request with meta["authenticate"] is sent as the spider's account, if it leads to the account's own server.

Cookies, tokens and headers are added when a request has passed all middlewares, and removed as soon as its response
arrives, before any middleware sees it. So they are in no queue, redirect, retry or record.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Self
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.http import Response

from harvester.components import get_component
from harvester.config import Config, load_config
from harvester.download.addresses import Refused
from harvester.exceptions import HarvesterError, SessionError, StorageError, TooCostlyError, UsageError
from harvester.fetch.decide import Advice
from harvester.fetch.steps import JudgingStep, get_steps
from harvester.frontier.attempts import Attempts, attempts_of
from harvester.frontier.waiting import wait_in_frontier
from harvester.identities.browser import BrowserLink
from harvester.identities.credentials import SpiderAccount
from harvester.identities.logins import Logins
from harvester.identities.pool import Barred, ChainLost, Checkout, IdentityPool, IdentityRequest, Later, SessionRef
from harvester.identities.state import Session
from harvester.meta import (
    ASKED_AS,
    AUTHENTICATE,
    AVOID_IDENTITY,
    CHAIN_BEGUN,
    CHECKOUT,
    IDENTITY,
    KNOWN_VERDICT,
    LEASE,
    LOGIN,
    REDIRECT_HELD_BACK,
    SENT_OUTDATED,
    SESSION_CHAIN,
    SESSION_CHAIN_END,
    SESSION_RENEWALS,
    SITE_FILE,
    STORAGE_STATE,
    TIER,
)
from harvester.outcomes import Outcome, Verdict
from harvester.parsers.web.join import browser_join
from harvester.patterns import bounded_pattern
from harvester.shutdown import CAUSE, EXIT_CODE, RunEnding, end
from harvester.sites import Site, load_sites, policy_of
from harvester.sites.identities import Identities

logger = logging.getLogger(__name__)

MOST_RENEWALS = 2
"""Maximum number of repeats of a request because its session had ended."""
OTHERS_S = 30.0
"""Seconds, from the start or another site's request, before a site without usable identities ends the run."""
REFUSED_WAIT_S = 30.0
"""Seconds that requests of such a site wait."""


async def account_origin(crawler: Crawler) -> str | None:
    """Returns the origin of the account's server, where meta["authenticate"] counts; None without an account.

    Signs in if necessary. Raises CloseSpider when the sign-in is refused or fails, and RunEnding.
    """
    middleware = crawler.get_downloader_middleware(IdentitiesMiddleware)
    return await middleware.account_origin() if middleware else None


def end_chain(crawler: Crawler, request: Request) -> None:
    """Marks a request as its chain's last one, when only the response shows that."""
    middleware = crawler.get_downloader_middleware(IdentitiesMiddleware)
    if middleware:
        middleware.end_chain(request)


def stay_in_session(follower: Request, request: Request) -> None:
    """Sends a request in the session of an earlier request in its chain. Errbacks call this themselves."""
    chain, asked_as = request.meta.get(SESSION_CHAIN), request.meta.get(ASKED_AS)
    if asked_as and chain and follower.meta.get(SESSION_CHAIN) == chain:
        follower.meta[CHAIN_BEGUN] = tuple(asked_as[:2])
        follower.priority = max(follower.priority, request.priority + 1)  # before chains that have not begun


class IdentitiesMiddleware:
    """Off when no site has identities, and the spider has neither an account nor sites with sessions."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        if not _are_there(crawler):
            raise NotConfigured
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
        connect = crawler.signals.connect
        connect(self._put_on, signals.request_reached_downloader)
        connect(self._take_off, signals.response_downloaded)
        connect(self._take_off, signals.request_left_downloader)
        connect(self._let_go, signals.request_scheduled)
        get_steps(crawler).add(JudgingStep.IDENTITY, self._judge)
        connect(self._save, signals.spider_closed)
        get_component(crawler, BrowserLink).keep = self._keep

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

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

    async def process_request(self, request: Request) -> Request | None:
        self._let_go(request)
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
            return wait_in_frontier(request, later.until, Outcome.RATE_LIMITED, str(later))
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

    def _put_on(self, request: Request) -> None:
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

    def _take_off(self, request: Request) -> None:
        """Restores the headers when the response has arrived, before any middleware sees it."""
        for name, values in self._replaced.pop(request, {}).items():
            if values:
                request.headers.setlist(name, values)
            else:
                request.headers.pop(name, None)

    # After the response -----------------------------------------------------------------------------------

    def process_response(self, request: Request, response: Response) -> Response:
        if (session := request.meta.get(LOGIN)) is not None:
            session.jar.take_in(response, request)
            response.headers.pop("Set-Cookie", None)
            return response
        checkout = self._checkouts.get(request.meta.get(CHECKOUT, 0))
        if checkout is None:
            return response
        site = checkout.identity.site
        if response.url == request.url:
            checkout.identity.take_in(checkout.session, response, request)
        elif self._sites.of(response.url).name == site.name:  # a browser has followed redirects
            checkout.identity.take_in(checkout.session, response, Request(response.url))
        response.headers.pop("Set-Cookie", None)  # the jar has it
        self._let_go(request)
        try:
            self._note_expiry(request, response, site.identities)
        except TooCostlyError as error:  # it is unknown which session the page shows
            request.meta[KNOWN_VERDICT] = (Outcome.INVALID, str(error))
        return response

    @staticmethod
    def _note_expiry(request: Request, response: Response, table: Identities) -> None:
        is_led = response.url != request.url
        if table.expired_url and is_led and bounded_pattern(table.expired_url).search(response.url):
            request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, "the browser was led to the login page")
        elif table.expired_url and _leads_to(table.expired_url, response):
            request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, f"HTTP {response.status} to the login page")
            if not request.meta.get("dont_redirect"):
                request.meta["dont_redirect"] = request.meta[REDIRECT_HELD_BACK] = True
        elif response.status == 401 and table.signs_in:
            request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, "HTTP 401")

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._take_off(request)
        self._let_go(request)

    def _let_go(self, request: Request) -> None:
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

    def _without(self, request: Request, site: Site, error: HarvesterError) -> Request:
        """Delays a request when its site has no usable identity. Without other work, ends the run."""
        self._tell(error)
        refused = isinstance(error, SessionError)
        if refused and LEASE in request.meta and time.monotonic() - self._others_at < OTHERS_S:
            until = time.time() + REFUSED_WAIT_S
            return wait_in_frontier(request, until, Outcome.AUTH_REQUIRED, f"no identity of {site.name}")
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

    def _save(self) -> None:
        for pool in self._pools.values():
            for identity in pool.identities.values():
                try:
                    identity.save()
                except StorageError as error:
                    self._tell(error)


class ChainMiddleware:
    """Spider middleware: requests that a callback yields for the response's chain stay in its session.

    Off under the same conditions as IdentitiesMiddleware.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not _are_there(crawler):
            raise NotConfigured
        return cls(attempts_of(crawler))

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        request = response.request
        is_page = self._attempts.final(response) is None  # for refused responses, errbacks decide themselves
        async for output in result:
            if isinstance(output, Request) and is_page:
                # Spiders often pass on the whole meta of a response.
                for key in (CHAIN_BEGUN, ASKED_AS, SESSION_RENEWALS, AVOID_IDENTITY, SENT_OUTDATED):
                    output.meta.pop(key, None)
                if request:
                    stay_in_session(output, request)
            yield output


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


def _leads_to(pattern: str, response: Response) -> bool:
    """Returns True if a response redirects to a matching URL."""
    location = response.headers.get("Location")
    if location is None or not 300 <= response.status < 400:
        return False
    try:
        address = browser_join(response.url, location.decode("latin-1"))
    except ValueError:  # invalid: the redirect middleware reports it
        return False
    return bounded_pattern(pattern).search(address) is not None


def _is_robots(request: Request) -> bool:
    """Returns True for robots.txt, which is sent without an identity: a login waits for it."""
    return SITE_FILE in request.meta
