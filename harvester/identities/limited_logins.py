"""Limits the logins of an identity: few in an hour, none with refused credentials, none soon after a failure."""

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
"""Seconds that a refusal of credentials counts, also for other processes and later runs."""
MOST_BACKOFF_S = 300.0
"""Maximum seconds between logins that fail by the network; the first wait is 1 second, doubled each time."""
MOST_ASKED_S = 86_400.0
"""Maximum seconds of a server's Retry-After that are applied."""


class NotNow(Exception):
    """Raised by `session` without a session now, if there may be one later."""

    def __init__(self, until: float, said: str, verdict: Verdict | None = None) -> None:
        super().__init__(said)
        self.until = until
        """Epoch seconds of the next try."""
        self.verdict = verdict
        """The verdict on the page that refused the login; None if a retry may soon succeed."""


def barred(state: IdentityState) -> Verdict | None:
    """Returns the reason why the site refuses logins, from the last login."""
    outcome, reason = state.barred
    return Verdict(Outcome(outcome), reason, rule="login") if outcome else None


class LimitedLogins:
    """Signs in within the limits. It records each login in the identity's file for all processes; callers hold its
    lock."""

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
        """Returns a new, saved session; `old` is the one before. Raises LoginRefused and NotNow."""
        now = time.time()
        self._check(state, now)
        if self._limited:
            state.logins.append(now)
            self._file.write(state)  # before the try, so that a crash in a loop causes no storm of logins
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
        """Raises if no login may be tried now. A time too far ahead comes from a wrong clock, and is ignored."""
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
        """Returns the verdict on the page that refused the login; None if a retry may soon succeed."""
        if error.answer is None:
            return None
        found = classify(error.answer, Request(error.answer.url), self._site.outcomes.own)
        policy = policy_of(self._site, found.outcome)
        if policy.error and policy.retries:
            return None
        outcome = found.outcome if policy.error else Outcome.LAYOUT_CHANGED  # not a missing record
        return Verdict(outcome, f"the site lets nobody in: {said}", rule=found.rule)

    def _undo(self, state: IdentityState) -> None:
        """Removes a login from the count, because the site has not counted it."""
        if self._limited:
            state.logins.pop()
        self._file.write(state)

    def _hide(self, said: str) -> str:
        return self._credentials.hide(said) if self._credentials else said

    def _digest(self, state: IdentityState) -> str:
        """Returns a digest that identifies credentials. Slow on purpose."""
        secret = self._credentials.secret() if self._credentials else b""
        return hashlib.scrypt(secret, salt=state.proxy_session.encode(), n=2**14, r=8, p=1).hex()
