"""The identities at one site: a request gets the healthiest free one; a chain of requests stays with its own."""

import asyncio
import random
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import NamedTuple

from harvester.exceptions import SessionError
from harvester.identities.identity import Identity
from harvester.identities.limited_logins import NotNow
from harvester.identities.login_methods import LoginRefused
from harvester.identities.state import Session
from harvester.outcomes import Verdict
from harvester.shutdown import CHECK_S

WAIT_HERE_S = 2.0
"""Seconds that a request with patient=False waits here."""
MOST_NEXT = 16
"""Maximum number of such requests that wait longer, because they are next."""
CHECK_NEXT_S = 0.5
"""Seconds between the checks for the end of the run, for requests that are not first in the queue."""
MOST_CHAINS = 100_000
"""Maximum number of chains whose identity is saved."""


class Later(Exception):
    """Raised by `take` with patient=False: no identity is free for long."""

    def __init__(self, until: float, said: str) -> None:
        super().__init__(said)
        self.until = until
        """Epoch seconds of the next try."""


class Barred(Exception):
    """Raised by `take`: the site refuses all logins, or their page is wrong."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class ChainLost(Exception):
    """Raised by `take`: the session that a chain of requests began in has ended."""


class SessionRef(NamedTuple):
    """A session: the name of the identity, and the generation."""

    name: str
    generation: str


class IdentityRequest(NamedTuple):
    """The identity that a request wants."""

    chain: str = ""
    begun: SessionRef | None = None
    """The session that the chain began in; no other one will do."""
    sticky: SessionRef | None = None
    """The session before a redirect, preferred if there is a choice."""
    avoid: str = ""
    """Name of an identity that was refused, avoided if there is a choice."""
    patient: bool = True
    """True if the request has to wait here."""


class Checkout(NamedTuple):
    """An identity that one request uses. `leave` returns it."""

    identity: Identity
    session: Session
    chain: str

    @property
    def session_ref(self) -> SessionRef:
        return SessionRef(self.identity.name, self.session.generation)


class _Waiter:
    """A request in the queue."""

    def __init__(self, wanted: IdentityRequest) -> None:
        self.wanted = wanted
        self.given: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()


class IdentityPool:
    """The identities of a site. Call `take` before a request, and `leave` after it."""

    def __init__(
        self, identities: Sequence[Identity], chain_idle_s: float, pause: Callable[[float, str], Awaitable[None]]
    ) -> None:
        self.identities = {identity.name: identity for identity in identities}
        self._pause = pause
        self._chain_idle_s = chain_idle_s
        self._chains: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """Chain -> its last identity, and the time when it was used; the oldest first."""
        self._waiting: deque[_Waiter] = deque()

    async def take(self, wanted: IdentityRequest) -> Checkout:
        """Waits for a free identity. Raises Barred, ChainLost, Later, RunEnding, and SessionError when all have
        ended."""
        waited_until = time.time() + WAIT_HERE_S
        while True:
            identity = await self._chosen(wanted, waited_until)
            try:
                session = await identity.ready()
            except LoginRefused:
                self._give_back(identity)
                continue
            except NotNow as later:
                self._give_back(identity)
                if later.verdict and not self._has_session():
                    raise Barred(later.verdict) from None
                continue
            except BaseException:
                self._give_back(identity)
                raise
            if wanted.begun and session.generation != wanted.begun.generation:
                self._give_back(identity)
                raise ChainLost(f"the session of {identity.name} has ended")
            if wanted.chain:
                self._remember(wanted.chain, identity)
            return Checkout(identity, session, wanted.chain)

    def leave(self, checkout: Checkout, *, over: bool = False) -> None:
        """Returns the identity at the end of a request. With `over` its chain ends too."""
        goes_on = bool(checkout.chain) and not over
        checkout.identity.end(checkout.chain if goes_on else "", time.time())
        if over:
            self._chains.pop(checkout.chain, None)
        self._serve(bound_only=goes_on and checkout.identity.site.identities.serial)

    def forget(self, chain: str) -> None:
        """Drops the identity of a chain that will restart."""
        self._chains.pop(chain, None)

    def end_chain(self, chain: str, name: str) -> None:
        """Ends a chain whose last request did not say so."""
        self._chains.pop(chain, None)
        identity = self.identities.get(name)
        if identity is not None:
            identity.end_chain(chain)
        self._serve()
        if identity is not None:
            identity.tell_others()

    def _give_back(self, identity: Identity) -> None:
        identity.give_back()
        self._serve()

    async def _chosen(self, wanted: IdentityRequest, waited_until: float) -> Identity:
        await self._pause(0.0, "")
        if not self._waiting and (identity := self._choose(wanted)):
            return identity
        waiter = _Waiter(wanted)
        self._waiting.append(waiter)
        if self._is_bound(wanted):
            self._serve(bound_only=True)  # its own jar may be free, although others wait before it
        try:
            while True:
                is_first = bool(self._waiting) and self._waiting[0] is waiter
                if is_first:
                    self._serve()
                await asyncio.wait([waiter.given], timeout=CHECK_S if is_first else CHECK_NEXT_S)
                if waiter.given.done():
                    return waiter.given.result()
                await self._pause(0.0, "")
                if not wanted.patient and time.time() >= waited_until and not self._is_next(waiter):
                    until = max(self._free_at(), time.time() + WAIT_HERE_S)
                    raise Later(until + random.uniform(0.0, WAIT_HERE_S), "no identity is free")  # noqa: TRY301
        except BaseException:
            if waiter.given.done() and not waiter.given.exception():
                self._give_back(waiter.given.result())
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _is_next(self, waiter: _Waiter) -> bool:
        """Returns True if the request is soon served. A few requests stay, so that no identity idles."""
        few = islice(self._waiting, min(len(self.identities), MOST_NEXT))
        return waiter in few and self._free_at() <= time.time() + WAIT_HERE_S

    def _free_at(self) -> float:
        """Returns when the first rest or window ends; 0 when a response will free an identity earlier."""
        now = time.time()
        times = [each.free_at(now) for each in self.identities.values() if each.ended is None]
        return min((at for at in times if at != float("inf")), default=0.0)

    def _serve(self, *, bound_only: bool = False) -> None:
        """Gives identities to the waiting requests in their order. With `bound_only` only to chains that have one."""
        none_free = bound_only
        for waiter in list(self._waiting):
            is_bound = self._is_bound(waiter.wanted)
            if none_free and not is_bound:
                continue
            try:
                identity = self._choose(waiter.wanted)
            except (Barred, ChainLost, SessionError) as error:
                waiter.given.set_exception(error)
            else:
                if identity is None:
                    none_free = none_free or not is_bound
                    continue
                waiter.given.set_result(identity)
            self._waiting.remove(waiter)

    def _is_bound(self, wanted: IdentityRequest) -> bool:
        """Returns True if an identity may be reserved for the chain, even after its first request failed."""
        return wanted.begun is not None or wanted.chain in self._chains

    def _choose(self, wanted: IdentityRequest) -> Identity | None:
        """Claims an identity for the request; None when all are in use.

        Raises Barred, ChainLost and SessionError.
        """
        now = time.time()
        living = [identity for identity in self.identities.values() if identity.ended is None]
        if not living:
            raise SessionError(" ".join(str(identity.ended) for identity in self.identities.values()))
        barred = [each.barred(now) for each in living]
        if barred[0] and all(barred) and not wanted.begun:
            raise Barred(barred[0])
        if wanted.begun:
            bound = self.identities.get(wanted.begun.name)
            if bound is None or bound.ended or not bound.knows(wanted.begun.generation):
                raise ChainLost(f"the session of {wanted.begun.name} has ended")
            if bound.has_lost(wanted.chain):
                raise ChainLost(f"another chain has the session of {wanted.begun.name}")
            candidates = [bound]
        else:
            known = self._chains.get(wanted.chain, ("", 0.0)) if wanted.chain else ("", 0.0)
            own = self.identities.get(known[0]) if now - known[1] < self._chain_idle_s else None
            if own is not None and own.ended is None:
                candidates = [own]
            else:
                candidates = sorted(living, key=lambda each: _rank(each, wanted, now))
        for identity in candidates:
            if identity.free_at(now) <= now and identity.begin(wanted.chain, now, begun=wanted.begun is not None):
                return identity
        return None

    def _has_session(self) -> bool:
        return any(each.session is not None for each in self.identities.values() if each.ended is None)

    def _remember(self, chain: str, identity: Identity) -> None:
        self._chains[chain] = (identity.name, time.time())
        self._chains.move_to_end(chain)
        if len(self._chains) > MOST_CHAINS:
            self._chains.popitem(last=False)


def _rank(identity: Identity, wanted: IdentityRequest, now: float) -> tuple[bool, bool, float, int, float]:
    """Returns the rank of an identity; the lowest is chosen."""
    sticky = wanted.sticky is not None and identity.name == wanted.sticky.name
    health = round(identity.health.level(now), 1)  # rounded, so that a small difference does not put all load on one
    return not sticky, identity.name == wanted.avoid, -health, identity.in_use, identity.used_at
