"""Logins of one identity: few in an hour, none with credentials that were refused, none too soon after a failure."""

import hashlib
import logging
import random
import time
from collections.abc import Callable

from scrapy import Request

from harvester.identities.credentials import Credentials
from harvester.identities.login_methods import LoginFailed, LoginMethod, LoginRefused
from harvester.identities.state import IdentityState, Session, StateFile
from harvester.outcomes import Outcome, Verdict, classify
from harvester.sites import Site, policy_of

logger = logging.getLogger(__name__)

HOUR_S = 3600.0
REFUSAL_KEPT_S = 600.0
"""How long other processes and later runs believe that the credentials are wrong, and do not try them."""
MOST_BACKOFF_S = 300.0
"""Between logins that fail by the network: 1 second, doubled each time, at most this."""
MOST_ASKED_S = 86_400.0
"""The longest that a server's Retry-After is obeyed."""


class NotNow(Exception):
    """There is no session, and there may be one later. Raised by `session`."""

    def __init__(self, until: float, said: str, verdict: Verdict | None = None) -> None:
        super().__init__(said)
        self.until = until
        """Seconds of the epoch."""
        self.verdict = verdict
        """On the page with which the site lets nobody in; None: it may do so soon."""


def barred(state: IdentityState) -> Verdict | None:
    """Why the site lets nobody in, as the last login found."""
    outcome, reason = state.barred
    return Verdict(Outcome(outcome), reason, rule="login") if outcome else None


class LimitedLogins:
    """What happened is written to the identity's file, so that all processes heed it. Callers hold its lock."""

    def __init__(
        self,
        site: Site,
        name: str,
        credentials: Credentials | None,
        method: LoginMethod,
        file: StateFile,
        count: Callable[[str], None],
    ) -> None:
        self._site = site
        self._name = name
        self._credentials = credentials
        self._method = method
        self._file = file
        self._count = count
        self._limited = site.identities.kind != "anonymous"

    async def session(self, state: IdentityState, old: Session | None) -> Session:
        """A new session, kept; `old` is the one before. Raises LoginRefused and NotNow."""
        now = time.time()
        self._check(state, now)
        if self._limited:
            state.logins.append(now)
            self._file.write(state)  # before it is tried, so that a crash that repeats itself is no storm of logins
        try:
            session = await self._method.sign_in(old)
        except LoginRefused as error:
            self._refused(state, error)
        except LoginFailed as error:
            self._failed(state, error)
        except BaseException:
            self._undo(state)
            raise
        state.take(session)
        state.try_at, state.failures, state.refused, state.chain, state.barred = 0.0, 0, "", "", ("", "")
        self._file.write(state)
        if self._limited:
            logger.info("Logged in to %s as %s", self._site.name, self._name)
            self._count("logins")
        return session

    def _check(self, state: IdentityState, now: float) -> None:
        """Raises when none may be tried now. What lies too far ahead is of a clock that was wrong."""
        was_lately = abs(now - state.refused_at) < REFUSAL_KEPT_S
        if state.refused and was_lately and state.refused_digest == self._digest(state):
            raise self._refusal(state.refused)
        if now < state.try_at <= now + MOST_ASKED_S:
            raise NotNow(state.try_at, state.barred[1] or "logins fail", barred(state))
        state.logins = [at for at in state.logins if abs(now - at) < HOUR_S]
        if len(state.logins) >= self._site.identities.logins_per_hour:
            logger.warning("%s has logged in to %s often enough for this hour", self._name, self._site.name)
            raise NotNow(state.logins[0] + HOUR_S, f"{len(state.logins)} logins in the last hour")

    def _refused(self, state: IdentityState, error: LoginRefused) -> None:
        said = self._hide(str(error))
        state.refused, state.refused_digest, state.refused_at = said, self._digest(state), time.time()
        state.generation = ""
        self._file.write(state)
        self._count("refused")
        raise self._refusal(said) from None

    def _refusal(self, said: str) -> LoginRefused:
        advice = self._credentials.advice if self._credentials else ""
        return LoginRefused(
            f"{self._site.name} refused the login of {self._name} ({said}). {advice}"
            f" The same credentials are tried again after {REFUSAL_KEPT_S / 60:.0f} minutes."
        )

    def _failed(self, state: IdentityState, error: LoginFailed) -> None:
        said = self._hide(str(error))
        backoff_s = min(2.0 ** min(state.failures, 16), MOST_BACKOFF_S) * random.uniform(0.5, 1.0)
        wait_s = max(backoff_s, min(error.wait_s or 0.0, MOST_ASKED_S))
        state.failures += 1
        verdict = self._verdict(error, said)
        state.barred = (verdict.outcome.value, verdict.reason) if verdict else ("", "")
        state.try_at = time.time() + wait_s
        self._undo(state)
        self._count("failed")
        logger.warning("The login of %s at %s failed: %s. Waiting %.1f s", self._name, self._site.name, said, wait_s)
        raise NotNow(state.try_at, f"the login failed: {said}", verdict) from None

    def _verdict(self, error: LoginFailed, said: str) -> Verdict | None:
        """On the page with which the site lets nobody in. None: it may be better soon."""
        if error.answer is None:
            return None
        found = classify(error.answer, Request(error.answer.url), self._site.outcomes.own)
        policy = policy_of(self._site, found.outcome)
        if policy.error and policy.retries:
            return None
        outcome = found.outcome if policy.error else Outcome.LAYOUT_CHANGED  # it is no absent record
        return Verdict(outcome, f"the site lets nobody in: {said}", rule=found.rule)

    def _undo(self, state: IdentityState) -> None:
        """It was none of those that the site counts."""
        if self._limited:
            state.logins.pop()
        self._file.write(state)

    def _hide(self, said: str) -> str:
        return self._credentials.hide(said) if self._credentials else said

    def _digest(self, state: IdentityState) -> str:
        """By which credentials are known again. Slow on purpose."""
        secret = self._credentials.secret() if self._credentials else b""
        return hashlib.scrypt(secret, salt=state.proxy_session.encode(), n=2**14, r=8, p=1).hex()
