"""One identity: its session, saved and shared by processes, and started by one login at a time."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from scrapy import Request
from scrapy.http import Response

from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.health import IdentityHealth
from harvester.identities.limited_logins import LimitedLogins, NotNow
from harvester.identities.login_methods import Fetch, LoginFailed, LoginMethod, LoginRefused, shows
from harvester.identities.secret_file import Pause
from harvester.identities.state import IdentityState, Session, StateFile
from harvester.identities.turn_lock import TurnLock
from harvester.outcomes import Verdict
from harvester.sites import Site

logger = logging.getLogger(__name__)

MOST_REFUSED = 4
"""Maximum requests in a row that the site refuses in several new sessions; then an identity that signs in ends. More
than 1, because the page may be the cause."""
MIN_BARRED = 3
"""Failed logins in a row, until all requests get the failure, and not only the one that tried."""
SAVE_S = 1.0
"""Minimum seconds between two saves of changed cookies, or of the time of a chain that continues. Changed cookies of a
serial site are saved at once."""


class Identity:
    """One identity of a site. Call `ready()` before each use, and `expire()` when the site no longer knows the
    session."""

    def __init__(
        self,
        site: Site,
        name: str,
        file: Path,
        credentials: Credentials | None,
        method_of: Callable[[str, Fetch], LoginMethod],
        fetch: Callable[..., Awaitable[Response]],
        pause: Pause,
        count: Callable[[str], None],
    ) -> None:
        self.site = site
        self.name = name
        self.in_use = 0
        self.used_at = 0.0
        self.ended: LoginRefused | None = None
        self.session: Session | None = None
        self._table = site.identities
        self._pause = pause
        self._count = count
        self._file = StateFile(file)
        self._turns = TurnLock(file.with_suffix(".turn.lock"))
        self._state = self._file.read()
        self.health = IdentityHealth(*self._state.health)
        self.health.wake(time.time())
        self._fetch: Fetch = partial(fetch, proxy_session=self._state.proxy_session)
        method = method_of(self._state.proxy_session, self._fetch)
        self._logins = LimitedLogins(site, name, credentials, method, self._file, count)
        self._turn = asyncio.Lock()
        self._refused = 0
        """Requests in a row that were refused in new sessions too."""
        self._expired = ""
        """Generation of the session that the site no longer knows."""
        self._check_at = 0.0
        self._wait_until = 0.0
        """Epoch seconds. Without a session, no login is tried earlier."""
        self._barred: Verdict | None = None
        """The reason if the site refuses the login page."""
        self._unsaved_since = 0.0
        self._saved_at = 0.0
        self._sent: deque[float] = deque()
        """Times of the requests in the current window."""

    def __repr__(self) -> str:
        return f"<Identity {self.site.name}/{self.name}>"

    @property
    def proxy_session(self) -> str:
        """The name of a proxy session that gives the identity the same address each time."""
        return self._state.proxy_session

    @property
    def storage_state(self) -> Path:
        """The file of a browser's storage_state."""
        return self._file.kept.path.with_suffix(".storage.json")

    # Load --------------------------------------------------------------------------------------------------

    def free_at(self, now: float) -> float:
        """Returns when it may send another request, as far as time decides it; `inf` when a response must come
        first."""
        if self.in_use >= (1 if self._table.serial else self._table.at_once):
            return float("inf")
        at = max(now, self.health.rest_until, self._wait_until if self.session is None else 0.0)
        if self._table.requests:
            while self._sent and self._sent[0] <= now - self._table.window_s:
                self._sent.popleft()
            if len(self._sent) >= self._table.requests:
                at = max(at, self._sent[0] + self._table.window_s)
        return at

    def barred(self, now: float) -> Verdict | None:
        """Returns the reason for refused logins, after several in a row, until the next login is due."""
        if self.session is not None or now >= self._wait_until or self._state.failures < MIN_BARRED:
            return None
        return self._barred

    def begin(self, chain: str, now: float, *, begun: bool = False) -> bool:
        """Claims the identity for a request. Returns False if another process or chain has the cookie jar of a serial
        site."""
        if self._table.serial and not self._begin_alone(chain, now, begun):
            return False
        self.in_use += 1
        self.used_at = now
        if self._table.requests:
            self._sent.append(now)
        return True

    def end(self, chain: str, now: float) -> None:
        """Returns the identity after a request; `chain` is the chain that continues. Raises StorageError."""
        self.in_use -= 1
        if self._table.serial:
            goes_on = bool(chain) and chain == self._state.chain
            self._state.chain, self._state.chain_at = chain, now if chain else 0.0
            try:
                if not goes_on or self._unsaved_since or now - self._saved_at >= SAVE_S:
                    self._save()
            finally:
                self._turns.release()
        elif self._unsaved_since and now - self._unsaved_since >= SAVE_S:
            self.save()

    def end_chain(self, chain: str) -> None:
        """Ends a chain without a request under way, so that another one may have the cookie jar of a serial site.

        Other processes learn it from `tell_others`, or at the end of the next request.
        """
        if not self._table.serial:
            return
        if not self._turns.acquire():
            return  # another process has it already
        try:
            self.look()
            if self._state.chain == chain:
                self._state.chain, self._state.chain_at = "", 0.0
                self._unsaved_since = self._unsaved_since or time.time()
        finally:
            self._turns.release()

    def tell_others(self) -> None:
        """Saves a serial site's cookie jar with its owner. Does nothing during a request, because the end of the
        request saves them."""
        if not self._table.serial or not self._unsaved_since or self.in_use:
            return
        if self._turns.acquire():  # else another process does the rest
            try:
                self.look()
                self._save()
            finally:
                self._turns.release()

    def give_back(self) -> None:
        """Returns the identity for a request that was not sent."""
        self.in_use -= 1
        if self._table.serial:
            self._turns.release()

    def knows(self, generation: str) -> bool:
        """Returns True if a session may still be valid, here or in another process."""
        self.look()
        known = self.session.generation if self.session is not None else self._state.generation
        return generation == known and generation != self._expired

    def has_lost(self, chain: str) -> bool:
        """Returns True if the cookie jar of a serial site no longer belongs to the chain."""
        return self._table.serial and self._state.chain != chain

    def _begin_alone(self, chain: str, now: float, begun: bool) -> bool:
        if not self._is_free_for(chain, now, begun):
            return False  # a cheap test first: a refusal is frequent, and the lock costs more
        if not self._turns.acquire():
            return False
        if self._is_free_for(chain, now, begun):
            return True
        self._turns.release()
        return False

    def _is_free_for(self, chain: str, now: float, begun: bool) -> bool:
        """Returns True if no other chain has the cookie jar of a serial site."""
        self.look()
        state = self._state
        unbound = not state.chain or abs(now - state.chain_at) >= self._table.chain_idle_s  # abs: for wrong clocks
        return state.chain == chain or (unbound and not begun)

    # The session -------------------------------------------------------------------------------------------

    async def ready(self) -> Session:
        """Returns a usable session. Raises LoginRefused and NotNow."""
        self.look()
        if (session := self._usable()) is not None:
            return session
        async with self._turn:
            if (session := self._usable()) is not None:
                return session
            if self.ended:
                raise LoginRefused(str(self.ended))
            if self.session is None and time.time() < self._wait_until:
                raise NotNow(self._wait_until, "logins fail", self._barred)
            await self._pause(0.0, "")  # ends the waiting requests when the crawl was stopped
            async with self._file.kept.alone(self._pause, f"logging in to {self.site.name} as {self.name}"):
                try:
                    return await self._had()
                except NotNow as refusal:
                    self._wait_until, self._barred = refusal.until, refusal.verdict
                    raise
                except LoginRefused as refusal:
                    self.ended = refusal
                    raise LoginRefused(str(refusal)) from None

    def expire(self, generation: str) -> bool:
        """Ends the session of this generation, because the site no longer knows it. Only the first caller gets True."""
        if self.session is None or self.session.generation != generation:
            return False
        self._expired, self.session = generation, None
        if self._state.generation == generation:
            self._state.chain = ""  # it has lost the jar, which is free for the next one
        return True

    def accepted(self, generation: str, sent_at: float) -> None:
        """Records that the site accepted a request that was sent at `sent_at`."""
        self._refused = 0
        if self.session is not None and self.session.generation == generation:
            self.session.let_in_at = max(sent_at, self.session.let_in_at)

    def refused(self) -> None:
        """Counts a request that was refused in several new sessions."""
        self._refused += 1
        if self._refused >= MOST_REFUSED and self._table.signs_in:
            self.ended = LoginRefused(f"{self.site.name} refuses the new sessions of {self.name} at once.")

    def lets_in(self, generation: str, sent_at: float) -> bool:
        """Returns True if a later request was accepted, so that the session has not ended."""
        session = self.session
        return session is not None and session.generation == generation and session.let_in_at > sent_at

    def take_in(self, session: Session, response: Response, request: Request) -> None:
        """Stores the cookies that a response sets."""
        if session.jar.take_in(response, request) and session is self.session and not self._unsaved_since:
            self._unsaved_since = time.time()

    def look(self) -> None:
        """Loads the state that another process has written."""
        if not self._file.changed():
            return
        state = self._state = self._file.read()
        session = self.session
        if session is None:
            return
        if state.generation == session.generation:
            if not self._unsaved_since:
                session.jar = Jar(state.cookies)
        elif state.generation not in ("", self._expired):
            self.session = state.session()

    def save(self) -> None:
        """Saves changed cookies and health, unless another process has a newer session."""
        with suppress(Timeout), self._lock():  # while it is locked, a new session replaces it
            self.look()
            if self.session is None or self.session.generation == self._state.generation:
                self._save()

    def keep_storage(self, generation: str, state: dict[str, Any], write: Callable[[], bool]) -> bool:
        """Saves the storage_state that pages changed with `write`, stores its cookies, and returns the result of
        `write`.

        Returns False, and writes nothing, when the session of this generation has ended or was replaced. Raises Timeout
        while another process uses the file.
        """
        if self.session is None or self.session.generation != generation:
            return False
        with self._lock():
            self.look()
            if self.session is None or not self.session.generation == self._state.generation == generation:
                return False
            if not write():
                return False
            self.session.jar.take_over(state["cookies"])
            self._unsaved_since = self._unsaved_since or time.time()
            if not self._table.serial:
                self._save()
            self.tell_others()
            return True

    def _lock(self) -> FileLock:
        return FileLock(self._file.kept.lock_path, timeout=0, mode=0o600, thread_local=False)

    def _save(self) -> None:
        if self.session is not None:
            self._state.take(self.session)
        elif self._state.generation == self._expired:
            self._state.generation = ""
        self._state.health = self.health.kept()
        self._file.write(self._state, synced=False)
        self._unsaved_since, self._saved_at = 0.0, time.time()

    def _usable(self) -> Session | None:
        now = time.time()
        session = self.session
        if session is None or (session.renew_at and now >= session.renew_at):
            return None
        return session if self._table.check is None or now < self._check_at else None

    async def _had(self) -> Session:
        """Returns the session of another process or an earlier run, else a new one. The caller holds the lock."""
        state = self._state = self._file.read()
        kept = state.session() if state.generation != self._expired else None
        if self.session is not None and kept is not None and kept.generation == self.session.generation:
            kept = self.session  # its cookies may be newer
        if kept is not None and not (kept.renew_at and time.time() >= kept.renew_at) and await self._is_alive(kept):
            if self.session is None:
                self._count("resumed")
            self.session = kept
            return kept
        return await self._signed_in(state, kept or state.session())

    async def _is_alive(self, session: Session) -> bool:
        """Asks the site whether the session is alive. An answer that proves nothing counts as alive."""
        check = self._table.check
        if check is None:
            return True
        try:
            answer = await self._fetch(Request(session.at_origin(check.url), dont_filter=True), session)
            says_something = answer.status != 429 and answer.status < 500
            is_over = says_something and not shows(check.success, answer, session.jar)
        except LoginFailed as error:
            logger.warning("The session of %s at %s could not be checked: %s", self.name, self.site.name, error)
        else:
            if is_over:
                self._expired = session.generation
                return False
        self._check_at = time.time() + check.every_s
        return True

    async def _signed_in(self, state: IdentityState, old: Session | None) -> Session:
        self.session = None
        state.health = self.health.kept()
        self.session = session = await self._logins.session(state, old)
        self._state = state
        self._unsaved_since = 0.0
        self._check_at = time.time() + (self._table.check.every_s if self._table.check else 0.0)
        return session
