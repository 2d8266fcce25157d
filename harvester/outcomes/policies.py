"""The consequences of outcomes, in one table. A site's entry may override them: sites/outcomes.py."""

from collections.abc import Mapping
from typing import NamedTuple

from harvester.outcomes.outcome import Outcome


class Policy(NamedTuple):
    """The consequences of an outcome."""

    retries: int
    """Maximum number of retries of the request in this run."""
    backoff_s: float = 0.0
    """Seconds to wait before the first retry. Doubled for each further retry, with jitter."""
    most_backoff_s: float = 60.0
    """Maximum number of seconds to wait before a retry."""
    retryable: bool = False
    """True if a job item that fails with this outcome is retried later."""
    error: bool = True
    """True if it counts against the run's error ratio."""
    site: bool = False
    """True if it concerns the whole site.

    After several such outcomes in a row no more pictures are requested from a host.
    """
    breaker: bool = False
    """True if it counts against the site's breaker."""
    session: bool = False
    """True if it counts against the identity of the request."""
    proxy: bool = False
    """True if it counts against the proxy of the request."""
    new_identity: bool = False
    """True if the next try uses another identity."""
    escalate: bool = False
    """True if the next try may use a more expensive tier of proxies."""
    dead: bool = True
    """True if a request that is not retried becomes a dead letter; else the request is done."""
    absent: bool = False
    """True if there is nothing at the address."""
    no_content: bool = False
    """True if the response shows that there is nothing to read: nothing at the address, or an empty page."""
    page_came: bool = False
    """True if the requested page arrived, with or without the expected content."""
    refusal: bool = False
    """True if the site refuses requests from us."""
    login: bool = False
    """True if the site wants a login, or a new login because the session has ended."""
    no_answer: bool = False
    """True if no connection was made, or no response arrived over it."""
    unavailable: bool = False
    """True if the site currently serves nobody."""
    not_served: bool = False
    """True if a response shows that this request is not served. An old token in the request may be the reason."""
    delay: bool = False
    """True if a server that is known to exist may respond later."""
    session_cost: float = 0.2
    """Amount that is taken from the health of an identity (at most 1.0), if `session` is set."""


POLICIES: Mapping[Outcome, Policy] = {
    Outcome.OK: Policy(0, error=False, dead=False, page_came=True),
    Outcome.UNCHANGED: Policy(0, error=False, dead=False),
    Outcome.EMPTY: Policy(0, error=False, dead=False, no_content=True, page_came=True, not_served=True),
    Outcome.NOT_FOUND: Policy(0, error=False, dead=False, absent=True, no_content=True, not_served=True),
    Outcome.GONE: Policy(0, error=False, dead=False, absent=True, no_content=True, not_served=True),
    # The throttle waits as long as the site says; the backoff is for a site that does not say.
    Outcome.RATE_LIMITED: Policy(
        12, backoff_s=5.0, retryable=True, site=True, session=True, delay=True, session_cost=0.1
    ),
    Outcome.BLOCKED: Policy(
        0,
        retryable=True,
        site=True,
        breaker=True,
        session=True,
        proxy=True,
        new_identity=True,
        escalate=True,
        refusal=True,
        delay=True,
        session_cost=0.5,
    ),
    # A refusal is never answered with another proxy.
    Outcome.CHALLENGE: Policy(
        0, retryable=True, site=True, breaker=True, session=True, refusal=True, delay=True, session_cost=0.5
    ),
    Outcome.AUTH_REQUIRED: Policy(
        0, retryable=True, breaker=True, session=True, refusal=True, login=True, session_cost=0.3
    ),
    Outcome.POLICY_DENIED: Policy(0, refusal=True),
    Outcome.MAINTENANCE: Policy(
        3, backoff_s=20.0, retryable=True, site=True, breaker=True, unavailable=True, delay=True
    ),
    Outcome.TIMEOUT: Policy(
        4, backoff_s=2.0, retryable=True, site=True, breaker=True, proxy=True, no_answer=True, unavailable=True
    ),
    Outcome.DNS: Policy(3, backoff_s=2.0, retryable=True, site=True, breaker=True, no_answer=True, unavailable=True),
    Outcome.NETWORK: Policy(
        6, backoff_s=1.0, retryable=True, site=True, breaker=True, proxy=True, no_answer=True, unavailable=True
    ),
    Outcome.PROXY: Policy(3, backoff_s=1.0, retryable=True, proxy=True, escalate=True, delay=True),
    Outcome.SERVER_ERROR: Policy(5, backoff_s=1.0, retryable=True, breaker=True, unavailable=True, not_served=True),
    Outcome.LAYOUT_CHANGED: Policy(2, backoff_s=1.0, retryable=True, page_came=True),
    Outcome.NAVIGATION_FAILED: Policy(2, backoff_s=1.0, retryable=True, breaker=True),
    Outcome.SESSION_EXPIRED: Policy(0, retryable=True, session=True, login=True, not_served=True, session_cost=0.1),
    Outcome.TOO_MANY: Policy(0),
    # The page came; its records did not reach MongoDB and were not rejected either.
    Outcome.NOT_STORED: Policy(2, backoff_s=2.0, retryable=True),
    Outcome.INVALID: Policy(0, not_served=True),
    # These tries do not count until the machine works. The number limits requests that fail while others succeed.
    Outcome.LOCAL: Policy(5, backoff_s=1.0, retryable=True, delay=True),
}
KINDS = ("absent", "no_content", "page_came", "refusal", "login", "no_answer", "unavailable", "not_served", "delay")
"""Fields that describe the outcome itself. A site's entry cannot change them, nor `session_cost`."""
_POLICIES: Mapping[str, Policy] = {outcome.value: policy for outcome, policy in POLICIES.items()}
_OF_A_SPIDER = Policy(0)


def get_policy(outcome: str) -> Policy:
    """Returns the consequences of an outcome. Words that a spider defines for the end of an item share one policy."""
    return _POLICIES.get(outcome, _OF_A_SPIDER)
