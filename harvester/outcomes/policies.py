"""What follows from an outcome: the one table. A site's entry may say otherwise: sites/outcomes.py."""

from collections.abc import Mapping
from typing import NamedTuple

from harvester.outcomes.outcome import Outcome


class Policy(NamedTuple):
    """What follows from an outcome."""

    retries: int
    """How often the request is tried again in this run."""
    backoff_s: float = 0.0
    """Before the first retry; doubled for each one after, jittered."""
    most_backoff_s: float = 60.0
    """The longest backoff."""
    retryable: bool = False
    """Whether a job item that fails with it is tried again later."""
    error: bool = True
    """Whether it counts against the run's error ratio."""
    site: bool = False
    """Whether it says something of the whole site: after a row of them a host is asked for no further picture."""
    breaker: bool = False
    """Whether it counts against the site's breaker."""
    session: bool = False
    """Whether it counts against the identity that asked."""
    proxy: bool = False
    """Whether it counts against the proxy that carried it."""
    new_identity: bool = False
    """Whether the next try goes out as somebody else."""
    escalate: bool = False
    """Whether the next try may use a dearer tier of proxies."""
    dead: bool = True
    """Whether what is not tried again is a dead letter; else it is done."""
    absent: bool = False
    """Whether there is nothing at the address."""
    no_content: bool = False
    """Whether the answer is that there is nothing to read: nothing at the address, or an empty page."""
    page_came: bool = False
    """Whether the page came that was asked for, with or without what was expected in it."""
    refusal: bool = False
    """Whether the site does not want to be asked by us."""
    login: bool = False
    """Whether the site wants a login, or another one."""
    no_answer: bool = False
    """Whether no connection came about, or no answer over it."""
    unavailable: bool = False
    """Whether the site serves nobody just now."""
    not_served: bool = False
    """Whether an answer says that this request is not served, which may be due to an old token in it."""
    delay: bool = False
    """Whether a server that is known to be there may answer later."""
    session_cost: float = 0.2
    """What it takes from the health of an identity, which is 1.0 at most, where `session` is set."""


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
    # Uncounted tries, until the machine is well; the number bounds those that fail while it is well for others.
    Outcome.LOCAL: Policy(5, backoff_s=1.0, retryable=True, delay=True),
}
KINDS = ("absent", "no_content", "page_came", "refusal", "login", "no_answer", "unavailable", "not_served", "delay")
"""Fields that say what an outcome is. A site's entry does not change them, nor `session_cost`."""
_POLICIES: Mapping[str, Policy] = {outcome.value: policy for outcome, policy in POLICIES.items()}
_OF_A_SPIDER = Policy(0)


def get_policy(outcome: str) -> Policy:
    """Returns what follows from an outcome. A spider's own word for how an item ended has a policy of its own."""
    return _POLICIES.get(outcome, _OF_A_SPIDER)
