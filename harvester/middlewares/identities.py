"""Downloader middleware: a request to a site with identities goes out as one of them, and nobody else sees its secrets.

Cookies, tokens and headers are put on a request when it has passed all middlewares, and taken off as soon as its
answer is there, before any of them sees it. So they are in no queue, redirect, retry or record.
"""

import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any, Self
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response

from harvester.config import Config, load_config
from harvester.exceptions import HarvesterError, SessionError
from harvester.frontier.leases import LEASE, NOT_BEFORE, WHY
from harvester.identities.browser import keepers
from harvester.identities.logins import IDENTITY, LOGIN, Logins
from harvester.identities.pool import ChainLost, Checkout, IdentityPool, IdentityRequest, Later, SessionRef
from harvester.identities.state import Session
from harvester.outcomes import Outcome, Verdict
from harvester.shutdown import RunEnding, end
from harvester.signals import KNOWN_VERDICT, NEXT_TRY, SITE_FILE, NextTry, outcome_told
from harvester.sites import Site, load_sites, policy_of

logger = logging.getLogger(__name__)

CHAIN = "identity_chain"
"""Key in Request.meta: the chain of requests that stays with one identity. A text, chosen by the spider."""
CHAIN_END = "identity_chain_end"
"""Key in Request.meta: True on the last request of a chain, whose identity is then free for another one."""
BEGUN = "harvester_chain_begun"
"""Key in Request.meta: name and generation of the session in which its chain began."""
ASKED_AS = "harvester_asked_as"
"""Key in Request.meta: name and generation of the session in which it was sent, and when (epoch seconds)."""
STORAGE_STATE = "storage_state"
"""Key in Request.meta: of an identity that a browser signed in, the file of the browser's side, and the generation."""
MOST_RENEWALS = 2
"""How often a request is repeated because its session had ended."""
OTHERS_S = 30.0
"""After the start, or a request for another site, how long a site without identities left does not end the run."""
REFUSED_WAIT_S = 30.0
"""How long requests of such a site wait."""
_RENEWALS = "harvester_renewals"
_AVOID = "harvester_avoid"
_HELD_BACK = "harvester_redirect_held_back"
_OUTDATED = "harvester_sent_outdated"
"""Key in Request.meta: it was sent in a session that was known to have ended; it had waited for its turn meanwhile."""
_PLACE = "harvester_place"


class IdentitiesMiddleware:
    """Off when no site has identities."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        if not _are_there():
            raise NotConfigured
        self._sites = load_sites()
        self._crawler = crawler
        self._logins = Logins(crawler, config)
        self._pools: dict[str, IdentityPool] = {}
        self._places: dict[int, Checkout] = {}
        self._numbers = count(1)
        self._replaced: WeakKeyDictionary[Request, dict[str, list[bytes]]] = WeakKeyDictionary()
        """The headers of requests on their way, as they were before."""
        self._others_at = time.monotonic()
        self._told: set[str] = set()
        connect = crawler.signals.connect
        connect(self._put_on, signals.request_reached_downloader)
        connect(self._take_off, signals.response_downloaded)
        connect(self._let_go, signals.request_scheduled)
        connect(self._judge, outcome_told)
        connect(self._save, signals.spider_closed)
        keepers[crawler] = self._keep

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    # The way out ------------------------------------------------------------------------------------------

    async def process_request(self, request: Request) -> Request | None:
        self._let_go(request)
        request.meta.pop(STORAGE_STATE, None)  # of the try before, or of the answer from which a callback made it
        site = self._sites.of(request.url)
        if LOGIN in request.meta:
            self._logins.check(request, site)
            return None
        if site.identities.kind is None or _is_robots(request):
            request.meta.pop(ASKED_AS, None)
            request.meta.pop(IDENTITY, None)
            if site.identities.kind is None:
                self._others_at = time.monotonic()
            return None
        try:
            place = await self._pool(site).take(_wish(request))
        except ChainLost as error:
            request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, str(error))
            raise IgnoreRequest(str(error)) from None
        except Later as later:
            return _back(request, later.until, Outcome.RATE_LIMITED, str(later))
        except HarvesterError as error:
            return self._without(request, site, error)
        number = next(self._numbers)
        self._places[number] = place
        request.meta[_PLACE] = number
        request.meta[ASKED_AS] = (*place.mark, time.time())
        request.meta.pop(_OUTDATED, None)
        request.meta[IDENTITY] = place.identity.proxy_session
        if site.identities.kind == "browser":
            request.meta[STORAGE_STATE] = (str(place.identity.storage_state), place.session.generation)
        return None

    def _put_on(self, request: Request) -> None:
        """It has passed all middlewares."""
        if (place := self._places.get(request.meta.get(_PLACE, 0))) is not None:
            session = self._newest(request, place)
        elif LOGIN in request.meta:
            session = request.meta[LOGIN]
        else:
            return
        headers = self._sites.of(request.url).identities.headers | session.headers
        self._replaced[request] = {name: request.headers.getlist(name) for name in (*headers, "Cookie")}
        for name, value in headers.items():
            request.headers[name] = value
        session.jar.put_on(request)

    def _newest(self, request: Request, place: Checkout) -> Session:
        """Its session, or the one that has replaced it while the request waited for its turn; not within a chain."""
        session = place.identity.session
        if session is None:
            request.meta[_OUTDATED] = True
        elif BEGUN not in request.meta:
            place = self._places[request.meta[_PLACE]] = place._replace(session=session)
        request.meta[ASKED_AS] = (*place.mark, time.time())
        if STORAGE_STATE in request.meta:
            request.meta[STORAGE_STATE] = (request.meta[STORAGE_STATE][0], place.session.generation)
        return place.session

    def _take_off(self, request: Request) -> None:
        """Its answer is there, and no middleware has seen it."""
        for name, values in self._replaced.pop(request, {}).items():
            if values:
                request.headers.setlist(name, values)
            else:
                request.headers.pop(name, None)

    # The way back -----------------------------------------------------------------------------------------

    def process_response(self, request: Request, response: Response) -> Response:
        if (session := request.meta.get(LOGIN)) is not None:
            session.jar.take_in(response, request)
            response.headers.pop("Set-Cookie", None)
            return response
        place = self._places.get(request.meta.get(_PLACE, 0))
        if place is None:
            return response
        site = self._sites.of(request.url)
        if response.url == request.url:
            place.identity.take_in(place.session, response, request)
        elif self._sites.of(response.url).name == site.name:  # a browser has followed redirects
            place.identity.take_in(place.session, response, Request(response.url))
        response.headers.pop("Set-Cookie", None)  # it is in the jar, and nobody else's business
        self._let_go(request)
        table = site.identities
        if table.expired_url and response.url != request.url and re.search(table.expired_url, response.url):
            request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, "the browser was led to the login page")
        elif table.expired_url and _leads_to(table.expired_url, response):
            request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, f"HTTP {response.status} to the login page")
            if not request.meta.get("dont_redirect"):
                request.meta["dont_redirect"] = request.meta[_HELD_BACK] = True
        elif response.status == 401 and table.signs_in:
            request.meta[KNOWN_VERDICT] = (Outcome.SESSION_EXPIRED, "HTTP 401")
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._take_off(request)
        self._let_go(request)

    def _let_go(self, request: Request) -> None:
        """Gives the place back. A request that another middleware has replaced comes here when it is scheduled."""
        place = self._places.pop(request.meta.pop(_PLACE, 0), None)
        if place is not None:
            self._pools[place.identity.site.name].leave(place, over=bool(request.meta.get(CHAIN_END)))

    def _judge(self, request: Request, verdict: Verdict) -> None:
        """Hears of every outcome."""
        if request.meta.pop(_HELD_BACK, False):
            del request.meta["dont_redirect"]
        asked_as = request.meta.get(ASKED_AS)
        site = self._sites.of(request.url)
        pool = self._pools.get(site.name)
        identity = pool.identities.get(asked_as[0]) if pool and asked_as else None
        if pool is None or identity is None or asked_as is None:
            return
        policy = policy_of(site, verdict.outcome)
        if verdict.outcome is Outcome.SESSION_EXPIRED:
            self._expired(request, pool, verdict.reason)
        elif policy.session:
            rest_s = identity.health.bad(verdict.outcome, time.time())
            if rest_s:
                logger.warning("%s at %s rests for %.0f s: %s", identity.name, site.name, rest_s, verdict.outcome)
                self._count(site, "rests")
            if policy.new_identity:
                request.meta[_AVOID] = identity.name
        elif not policy.error:
            identity.health.good(time.time())
            identity.accepted(asked_as[1], asked_as[2])
            request.meta.pop(_RENEWALS, None)

    def _expired(self, request: Request, pool: IdentityPool, reason: str) -> None:
        """Has the session replaced, and the request repeated in the new one, unspent. Not in the midst of a chain."""
        name, generation, sent_at = request.meta[ASKED_AS]
        identity = pool.identities[name]
        renewals = request.meta.get(_RENEWALS, 0)
        let_in = identity.lets_in(generation, sent_at)
        if not let_in and identity.expire(generation):
            logger.info("The session of %s at %s has ended: %s", name, identity.site.name, reason)
            self._count(identity.site, "expired")
        if BEGUN in request.meta or renewals >= MOST_RENEWALS or (let_in and renewals):
            request.meta[NEXT_TRY] = NextTry.NONE.value
            request.meta.pop(_RENEWALS, None)
            identity.health.bad(Outcome.SESSION_EXPIRED, time.time())
            pool.forget(str(request.meta.get(CHAIN) or ""))
        else:
            request.meta[NEXT_TRY] = NextTry.FREE.value
            request.meta[_RENEWALS] = renewals + (0 if request.meta.pop(_OUTDATED, False) else 1)

    def _without(self, request: Request, site: Site, error: HarvesterError) -> Request:
        """There is no identity left. While there is other work its requests wait; then the run ends."""
        if str(error) not in self._told:
            self._told.add(str(error))
            logger.error("%s", error)
        refused = isinstance(error, SessionError)
        if refused and LEASE in request.meta and time.monotonic() - self._others_at < OTHERS_S:
            return _back(request, time.time() + REFUSED_WAIT_S, Outcome.AUTH_REQUIRED, f"no identity of {site.name}")
        end(self._crawler, "session_error" if refused else error.finish_reason, error.exit_code)
        raise RunEnding(f"there is no identity for {site.name}")

    def _pool(self, site: Site) -> IdentityPool:
        pool = self._pools.get(site.name)
        if pool is None:
            pool = self._pools[site.name] = self._logins.pool(site)
        return pool

    def _count(self, site: Site, event: str) -> None:
        self._crawler.stats.inc_value(f"harvester/identities/{event}/{site.name}")

    def _keep(self, path: str, generation: str, state: dict[str, Any], write: Callable[[], bool]) -> bool:
        """What a browser's pages made of an identity's storage_state: see sessions.browser.Keep."""
        for pool in self._pools.values():
            for identity in pool.identities.values():
                if str(identity.storage_state) == path:
                    return identity.keep_storage(generation, state, write)
        return False

    def _save(self) -> None:
        for pool in self._pools.values():
            for identity in pool.identities.values():
                identity.save()


class ChainMiddleware:
    """Spider middleware: the requests that a callback yields for the chain of its answer stay in its session.

    Off when no site has identities.
    """

    def __init__(self) -> None:
        if not _are_there():
            raise NotConfigured

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        request = response.request
        chain, asked_as = (request.meta.get(CHAIN), request.meta.get(ASKED_AS)) if request else (None, None)
        async for output in result:
            if isinstance(output, Request):
                # Spiders like to hand on the whole meta of an answer.
                for key in (BEGUN, ASKED_AS, _RENEWALS, _AVOID, _OUTDATED):
                    output.meta.pop(key, None)
                if request and asked_as and chain and output.meta.get(CHAIN) == chain:
                    output.meta[BEGUN] = tuple(asked_as[:2])
                    output.priority = max(output.priority, request.priority + 1)  # before chains that have not begun
            yield output


def _are_there() -> bool:
    return any(site.identities.kind for site in load_sites())


def _wish(request: Request) -> IdentityRequest:
    meta = request.meta
    chain = str(meta.get(CHAIN) or "")
    asked_as = meta.get(ASKED_AS)
    return IdentityRequest(
        chain,
        begun=SessionRef(*meta[BEGUN]) if chain and BEGUN in meta else None,
        sticky=SessionRef(*asked_as[:2]) if asked_as and meta.get("redirect_times") else None,
        avoid=meta.pop(_AVOID, ""),
        patient=LEASE not in meta,
    )


def _back(request: Request, until: float, outcome: Outcome, said: str) -> Request:
    """The request again, unspent, to wait in the frontier."""
    again = request.replace(dont_filter=True)
    again.meta[NOT_BEFORE] = until
    again.meta[WHY] = (outcome, said, False)
    return again


def _leads_to(pattern: str, response: Response) -> bool:
    """Whether an answer redirects to an address that looks so."""
    location = response.headers.get("Location")
    if location is None or not 300 <= response.status < 400:
        return False
    try:
        address = urljoin(response.url, location.decode("latin-1"))
    except ValueError:  # it is none, which the redirect middleware tells
        return False
    return re.search(pattern, address) is not None


def _is_robots(request: Request) -> bool:
    """robots.txt is asked for by nobody; else a login would wait for it, and it for the login."""
    return SITE_FILE in request.meta
