"""How a job item comes from one state into another. Pure: the ledger reads items, asks here, and writes.

| event | from | to |
|---|---|---|
| Fed | waiting and due | active |
| Ended | active, or waiting when it was taken for lost | done, failed, skipped, or waiting for its next attempt |
| Lost | active | waiting, and due; nothing is spent |
| Retried | failed, skipped, done, or waiting for a time | waiting, and due |
| Cancelled, LimitReached | waiting | skipped |
| Nearer | any | the same with the smaller depth; waiting, when it was done as something farther away |
| Said, StageReached | active | the same, with a note |

An event of an attempt counts only while that is the item's latest, and its end counts once. What does not apply
changes nothing, so that every event may come late, or twice.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import IntEnum
from typing import NamedTuple

from msgspec.structs import replace

from harvester.jobs.documents import MOST_ATTEMPTS_SHOWN, EndedAttempt, Item, RetryPolicy, Said, State
from harvester.outcomes import POLICIES, Outcome, Policy

MOST_BACKOFF_S = 86_400.0
"""The longest time between two attempts that is due to failures."""
CANCELLED = "cancelled"
"""Outcome and reason of items that are not fed since their job was cancelled."""
MAX_ITEMS = "max_items"
"""The same of items beyond the job's limit."""
_PASSING = ("worker_lost", "callback_blocked")
"""What the frontier says of requests that were given up because of the workers that had them."""
_POLICIES: Mapping[str, Policy] = {outcome.value: policy for outcome, policy in POLICIES.items()}


class Fed(NamedTuple):
    """An attempt begins."""

    attempt: int
    feeder: str = ""


class Ended(NamedTuple):
    """The frontier has no request of an attempt any more."""

    attempt: int
    outcome: str
    reason: str = ""
    counts: Mapping[str, int] = {}
    """Of the attempt: requests, records, rejected."""


class Lost(NamedTuple):
    """The frontier does not know of an attempt: it was never told, or has forgotten."""

    attempt: int


class Retried(NamedTuple):
    """A person wants another try, now."""


class Cancelled(NamedTuple):
    """The item's job was cancelled."""


class LimitReached(NamedTuple):
    """As many items of its kind were fed as the job allows."""


class Nearer(NamedTuple):
    """The item was found again, at this depth."""

    depth: int


class StageReached(NamedTuple):
    """A callback brought the item into a stage."""

    attempt: int
    stage: str
    rank: int = 0
    """Does nothing when one of a larger rank was reached before."""


Event = Fed | Ended | Lost | Retried | Cancelled | LimitReached | Nearer | Said | StageReached


def transition(item: Item, event: Event, policy: RetryPolicy, now: datetime) -> Item | None:
    """The item after the event; None when the event changes nothing."""
    after = _after(item, event, policy, now)
    return None if after is None else replace(after, updated_at=now)


def _after(item: Item, event: Event, policy: RetryPolicy, now: datetime) -> Item | None:
    match event:
        case Fed():
            return _fed(item, event, policy, now)
        case Ended():
            return _ended(item, event, policy, now)
        case Lost():
            return _lost(item, event, policy)
        case Retried():
            return _retried(item, policy)
        case Cancelled() if item.state is State.WAITING:
            return _skipped(item, CANCELLED)
        case LimitReached() if item.state is State.WAITING and item.number is None:
            return _skipped(item, MAX_ITEMS)
        case Nearer():
            return _nearer(item, event, policy)
        case Said() if _is_running(item, event.attempt) and event != item.said:
            return replace(item, said=event)
        case StageReached() if _is_running(item, event.attempt) and event.rank >= (item.stage_rank or 0):
            reached = replace(item, stage=event.stage, stage_rank=event.rank or None)
            return reached if reached != item else None
    return None


def _is_running(item: Item, attempt: int) -> bool:
    return item.state is State.ACTIVE and attempt == item.attempts


def _fed(item: Item, event: Fed, policy: RetryPolicy, now: datetime) -> Item | None:
    due = item.state is State.WAITING and (item.due_at is None or item.due_at <= now)
    if not due or event.attempt != item.attempts + 1 or policy.cancelled:
        return None
    return replace(
        item,
        state=State.ACTIVE,
        attempts=event.attempt,
        feeder=event.feeder,
        fed_at=now,
        fed_depth=item.depth,
        due_at=None,
        said=None,
        stage_rank=None,
        outcome="",
        reason="",
    )


def _ended(item: Item, event: Ended, policy: RetryPolicy, now: datetime) -> Item | None:
    unfinished = item.state is State.ACTIVE or item.state is State.WAITING
    if not unfinished or event.attempt != item.attempts or _is_noted(item, event.attempt):
        return None
    said = item.said if item.said and item.said.attempt == event.attempt else None
    outcome, reason = (said.outcome, said.reason) if said else (event.outcome, event.reason)
    state = said.state if said else _state_by(outcome, spent=item.failures + 1 >= policy.attempts)
    failed = state in (State.WAITING, State.FAILED)
    delay_s = min(MOST_BACKOFF_S, policy.backoff_s * 2.0 ** min(item.failures, 60)) if failed else policy.backoff_s
    failures = item.failures + failed
    if policy.standing:
        state, failures = State.WAITING, failures if failed else 0
    due_at = now + timedelta(seconds=delay_s) if state is State.WAITING else None
    if state is State.DONE and _is_nearer_than_fed(item, item.depth) and not policy.cancelled:
        state = State.WAITING
    counts = {name: item.counts.get(name, 0) + event.counts.get(name, 0) for name in (*item.counts, *event.counts)}
    ended = replace(
        item, state=state, outcome=outcome, reason=reason, failures=failures, counts=counts, due_at=due_at, said=None
    )
    if policy.cancelled and state is State.WAITING:
        ended = _skipped(ended, CANCELLED)
    line = EndedAttempt(
        event.attempt,
        now,
        ended.state,
        outcome,
        reason,
        event.counts.get("requests", 0),
        event.counts.get("records", 0),
    )
    return replace(ended, feeder="", history=(*item.history, line)[-MOST_ATTEMPTS_SHOWN:])


def _is_noted(item: Item, attempt: int) -> bool:
    """Whether this attempt has ended, or never was."""
    return attempt < 1 or (bool(item.history) and item.history[-1].attempt >= attempt)


def _state_by(outcome: str, *, spent: bool) -> State:
    """Into which an attempt brings its item that ended so; `spent`: with it, as many have failed as may."""
    match rank_of(outcome):
        case Rank.GOOD:
            return State.DONE
        case Rank.DENIED:
            return State.SKIPPED
        case Rank.PASSING if not spent:
            return State.WAITING
    return State.FAILED


def _lost(item: Item, event: Lost, policy: RetryPolicy) -> Item | None:
    if not _is_running(item, event.attempt):
        return None
    waiting = replace(item, state=State.WAITING, feeder="")
    return _skipped(waiting, CANCELLED) if policy.cancelled else waiting


def _retried(item: Item, policy: RetryPolicy) -> Item | None:
    if policy.cancelled or item.state is State.ACTIVE or (item.state is State.WAITING and item.due_at is None):
        return None
    return replace(item, state=State.WAITING, due_at=None, failures=0, outcome="", reason="")


def _skipped(item: Item, why: str) -> Item:
    return replace(item, state=State.SKIPPED, outcome=why, reason=why, due_at=None)


def _nearer(item: Item, event: Nearer, policy: RetryPolicy) -> Item | None:
    if event.depth >= item.depth:
        return None
    nearer = replace(item, depth=event.depth)
    again = item.state is State.DONE and _is_nearer_than_fed(item, event.depth) and not policy.cancelled
    return replace(nearer, state=State.WAITING) if again else nearer


def _is_nearer_than_fed(item: Item, depth: int) -> bool:
    """Whether what was found through the item counts as farther away than it is."""
    return item.fed_depth is not None and depth < item.fed_depth


class Rank(IntEnum):
    """What an outcome makes of an item. The greater decides, where requests of an attempt ended differently."""

    GOOD = 0
    DENIED = 1
    """By robots.txt and the like."""
    LASTING = 2
    """Another try would end in the same way."""
    PASSING = 3
    """Before LASTING: another try may bring what is missing."""


def rank_of(outcome: str) -> Rank:
    """A spider's own word for how an item ended, which is none of Outcome, counts as lasting."""
    if outcome == Outcome.POLICY_DENIED:
        return Rank.DENIED
    if outcome not in _POLICIES:
        return Rank.PASSING if outcome in _PASSING else Rank.LASTING
    policy = _POLICIES[outcome]
    return Rank.GOOD if not policy.dead else Rank.PASSING if policy.retryable else Rank.LASTING


def worst(outcomes: Mapping[str, int]) -> str:
    """Which of an attempt's outcomes (-> how many requests) is that of the item. Without any, it is `empty`.

    The rank decides, then the number, then the name.
    """
    if not outcomes:
        return Outcome.EMPTY
    return max(outcomes, key=lambda outcome: (rank_of(outcome), outcomes[outcome], outcome))
