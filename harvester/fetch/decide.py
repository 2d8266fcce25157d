"""Decides whether a request is tried again. Pure: the same attempt leads to the same decision."""

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from harvester.outcomes import Outcome, Policy

RETRIES_OF_UNKNOWN_HOSTS = 2
"""A host that has never answered is probably not there."""


class Advice(StrEnum):
    """What a step knows of the next attempt that the policy of the outcome does not know."""

    COUNTED = "counted"
    """There is a next attempt, by a route that was not tried yet."""
    FREE = "free"
    """There is a next attempt, and this one does not count: the site knows nothing of it."""
    NONE = "none"
    """There is no next attempt: it would come to the same."""


class AttemptResult(NamedTuple):
    """An attempt of which the outcome is known."""

    outcome: Outcome
    tries: int
    """Attempts that count, with this one."""
    retried: int = 0
    """Retries as Scrapy counts them, in `meta["retry_times"]`."""
    max_retries: int | None = None
    """Retries that the project's RETRY_* settings allow; None where the policy of the outcome says it."""
    host_answered: bool = True
    """Whether the host has answered any request in this run."""
    dont_retry: bool = False
    """Whether the spider wants no retry (`meta["dont_retry"]`)."""


class Retry(NamedTuple):
    """The request is tried again."""

    is_counted: bool
    """Whether the attempt that ended counts as a try."""
    backoff_s: float
    """Before the next attempt, without jitter."""


def strongest(advices: Collection[Advice]) -> Advice | None:
    """Returns the advice that counts: NONE before FREE, and FREE before COUNTED. None without any."""
    return next((advice for advice in (Advice.NONE, Advice.FREE, Advice.COUNTED) if advice in advices), None)


def decide(attempt: AttemptResult, policy: Policy, advices: Collection[Advice] = ()) -> Retry | None:
    """Returns the retry that follows, or None when the outcome of the attempt is that of the request.

    Advice comes before the numbers of the policy and of the project, and before `dont_retry`.
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
