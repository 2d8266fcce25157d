"""Decides whether a request is retried. Pure: the same attempt leads to the same decision."""

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from harvester.outcomes import Outcome, Policy

RETRIES_OF_UNKNOWN_HOSTS = 2
"""Maximum number of retries for a host that has never answered. Such a host probably does not exist."""


class Advice(StrEnum):
    """Advice of a step on the next attempt, from facts that the policy of the outcome lacks."""

    COUNTED = "counted"
    """Asks for a next attempt, by a route that was not tried yet."""
    FREE = "free"
    """Asks for a next attempt. This one does not count, since the site did not see it."""
    NONE = "none"
    """Forbids a next attempt, since it would have the same result."""


class AttemptResult(NamedTuple):
    """An attempt with a known outcome."""

    outcome: Outcome
    tries: int
    """Number of attempts that count, including this one."""
    retried: int = 0
    """Number of retries as Scrapy counts them, in `meta["retry_times"]`."""
    max_retries: int | None = None
    """Number of retries that the project's RETRY_* settings allow; None if the policy of the outcome decides."""
    host_answered: bool = True
    """True if the host has answered any request in this run."""
    dont_retry: bool = False
    """True if the spider wants no retry (`meta["dont_retry"]`)."""


class Retry(NamedTuple):
    """The decision that the request is retried."""

    is_counted: bool
    """True if the attempt that ended counts as a try."""
    backoff_s: float
    """Seconds to wait before the next attempt, without jitter."""


def strongest(advices: Collection[Advice]) -> Advice | None:
    """Returns the advice that counts: NONE before FREE, and FREE before COUNTED. None without any."""
    return next((advice for advice in (Advice.NONE, Advice.FREE, Advice.COUNTED) if advice in advices), None)


def decide(attempt: AttemptResult, policy: Policy, advices: Collection[Advice] = ()) -> Retry | None:
    """Returns the retry that follows, or None if the outcome of the attempt becomes the outcome of the request.

    Advice overrides the numbers of the policy and of the project, and `dont_retry`.
    """
    advice = strongest(advices)
    if advice is Advice.NONE or (advice is None and (attempt.dont_retry or _is_last(attempt, policy))):
        return None
    is_counted = advice is not Advice.FREE
    doublings = max(0, attempt.tries - 2 + is_counted)
    return Retry(is_counted, min(policy.backoff_s * 2**doublings, policy.most_backoff_s))


def _is_last(attempt: AttemptResult, policy: Policy) -> bool:
    if attempt.max_retries is not None:
        return attempt.retried >= attempt.max_retries
    retries = policy.retries
    if attempt.outcome is Outcome.NETWORK and not attempt.host_answered:
        retries = min(retries, RETRIES_OF_UNKNOWN_HOSTS)
    return attempt.tries > retries
