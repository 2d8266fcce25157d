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


POLICIES: Mapping[Outcome, Policy] = {
    Outcome.OK: Policy(0, error=False, dead=False),
    Outcome.UNCHANGED: Policy(0, error=False, dead=False),
    Outcome.EMPTY: Policy(0, error=False, dead=False),
    Outcome.NOT_FOUND: Policy(0, error=False, dead=False),
    Outcome.GONE: Policy(0, error=False, dead=False),
    # The throttle waits as long as the site says; the backoff is for a site that does not say.
    Outcome.RATE_LIMITED: Policy(12, backoff_s=5.0, retryable=True, site=True, session=True),
    Outcome.BLOCKED: Policy(
        0, retryable=True, site=True, breaker=True, session=True, proxy=True, new_identity=True, escalate=True
    ),
    # A refusal is never answered with another proxy.
    Outcome.CHALLENGE: Policy(0, retryable=True, site=True, breaker=True, session=True),
    Outcome.AUTH_REQUIRED: Policy(0, retryable=True, breaker=True, session=True),
    Outcome.POLICY_DENIED: Policy(0),
    Outcome.MAINTENANCE: Policy(3, backoff_s=20.0, retryable=True, site=True, breaker=True),
    Outcome.TIMEOUT: Policy(4, backoff_s=2.0, retryable=True, site=True, breaker=True, proxy=True),
    Outcome.DNS: Policy(3, backoff_s=2.0, retryable=True, site=True, breaker=True),
    Outcome.NETWORK: Policy(6, backoff_s=1.0, retryable=True, site=True, breaker=True, proxy=True),
    Outcome.PROXY: Policy(3, backoff_s=1.0, retryable=True, proxy=True, escalate=True),
    Outcome.SERVER_ERROR: Policy(5, backoff_s=1.0, retryable=True, breaker=True),
    Outcome.LAYOUT_CHANGED: Policy(2, backoff_s=1.0, retryable=True),
    Outcome.NAVIGATION_FAILED: Policy(2, backoff_s=1.0, retryable=True, breaker=True),
    Outcome.SESSION_EXPIRED: Policy(0, retryable=True, session=True),
    Outcome.TOO_MANY: Policy(0),
    # The page came; its records did not reach MongoDB and were not rejected either.
    Outcome.NOT_STORED: Policy(2, backoff_s=2.0, retryable=True),
    Outcome.INVALID: Policy(0),
    # Uncounted tries, until the machine is well; the number bounds those that fail while it is well for others.
    Outcome.LOCAL: Policy(5, backoff_s=1.0, retryable=True),
}
