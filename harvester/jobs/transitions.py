"""The state transitions of a job item. Pure: the ledger reads items, calls `transition`, and writes the result.

| event | from | to |
|---|---|---|
| Fed | waiting and due | active |
| Ended | active, or waiting if it was taken for lost | done, failed, skipped, or waiting for its next attempt |
| Lost | active | waiting, and due; no failure is counted |
| Retried | failed, skipped, done, or waiting for a time | waiting, and due |
| Changed | any | unchanged with another input or frequency; waiting, and due, after a new input or a removal |
| Removed | any | skipped; an active item when its attempt has ended |
| Cancelled, LimitReached | waiting | skipped |
| Nearer | any | unchanged with the smaller depth; waiting, if it was done at a greater depth |
| SavedResult, StageReached, LookedAt | active, or waiting if it was taken for lost | unchanged, with a note |

In a recurring job an attempt is a visit. Its end leads to waiting for the next visit, at a time given by the job's
policy. An attempt that fails for a passing reason is first retried, as in any job. An item is failed when it has failed
MOST_FAILURES times in a row, and skipped when a callback reports so.

A result that sets an item to waiting also sets the time of the next attempt. Such an attempt is no failure.

An event of an attempt counts only while that attempt is the item's latest, and its end counts once. An event that does
not apply changes nothing. So every event may come late, or twice.

An attempt that was taken for lost may still go on: its feeder was only silent. Until the next attempt begins, the
reports of its callbacks count, and so does its end: otherwise it would end as if they had reported nothing. The next
attempt drops all notes except the stage. It sends its own requests, its callbacks report again, and the end of the
earlier attempt no longer ends the item.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, NamedTuple

from msgspec.structs import replace

from harvester.formatting import counted
from harvester.jobs.documents import (
    MOST_ATTEMPTS_SHOWN,
    UNFINISHED,
    EndedAttempt,
    Item,
    ItemState,
    LookedAt,
    RetryPolicy,
    SavedResult,
)
from harvester.outcomes import Outcome, get_policy
from harvester.recheck import Due, Look, kept, read_policy
from harvester.recheck import VisitPolicy as Recheck

MOST_BACKOFF_S = 86_400.0
"""Maximum number of seconds to wait before an attempt after failures."""
CANCELLED = "cancelled"
"""Outcome and reason of items that are skipped because their job was cancelled."""
REMOVED = "removed"
"""Outcome and reason of items that a user removed from a job."""
MOST_FAILURES = 10
"""Maximum number of failures in a row. Then an item of a recurring job is not visited until a user retries it. With the
usual backoff that takes three days."""
MAX_ITEMS = "max_items"
"""Outcome and reason of items beyond the job's limit."""
_PASSING = ("worker_lost", "callback_blocked")
"""The frontier's outcomes for requests that were given up because of their workers."""


class Fed(NamedTuple):
    """An attempt begins."""

    attempt: int
    feeder: str = ""


class Ended(NamedTuple):
    """The frontier has no request of an attempt left."""

    attempt: int
    outcome: str
    reason: str = ""
    counts: Mapping[str, int] = {}
    """The sums of the attempt: requests, records, new, rejected."""


class Lost(NamedTuple):
    """The frontier does not know an attempt: it never received it, or has lost it."""

    attempt: int


class Retried(NamedTuple):
    """A user wants a retry now."""


class Cancelled(NamedTuple):
    """The item's job was cancelled."""


class LimitReached(NamedTuple):
    """The job's limit for items of this kind was reached."""


class Changed(NamedTuple):
    """The item gets another input, frequency or policy. None leaves a value unchanged. A removed item comes back."""

    input: Mapping[str, Any] | None = None
    often: float | None = None
    recheck: str | None = None
    seen: Mapping[str, Any] | None = None
    """The input that the change is based on: an item with another input by now stays unchanged. None: any input."""


class Removed(NamedTuple):
    """The item is removed from the job."""

    listing: str = ""
    """The reading of the arguments that did not list the item. An item that a later reading listed stays. Empty: it is
    always removed."""


class Nearer(NamedTuple):
    """The item was found again, at this depth."""

    depth: int


class StageReached(NamedTuple):
    """A callback brought the item into a stage."""

    attempt: int
    stage: str
    rank: int = 0
    """Rank of the stage. The event changes nothing after a stage of a larger rank."""


Event = (
    Fed
    | Ended
    | Lost
    | Retried
    | Changed
    | Removed
    | Cancelled
    | LimitReached
    | Nearer
    | SavedResult
    | StageReached
    | LookedAt
)


def transition(item: Item, event: Event, policy: RetryPolicy, now: datetime) -> Item | None:
    """Returns the item after the event. None when the event changes nothing."""
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
        case Changed():
            return _changed(item, event, policy, now)
        case Removed():
            return _removed(item, event, now)
        case Cancelled() if item.state is ItemState.WAITING:
            return _skipped(item, CANCELLED)
        case LimitReached() if item.state is ItemState.WAITING and item.number is None:
            return _skipped(item, MAX_ITEMS)
        case Nearer():
            return _nearer(item, event, policy)
        case SavedResult() if _may_end(item, event.attempt) and event != item.said:
            return replace(item, said=event)
        case LookedAt() if _may_end(item, event.attempt) and event != item.looked:
            return replace(item, looked=event)
        case StageReached() if _may_end(item, event.attempt) and event.rank >= (item.stage_rank or 0):
            reached = replace(item, stage=event.stage, stage_rank=event.rank or None)
            return reached if reached != item else None
    return None


def _may_end(item: Item, attempt: int) -> bool:
    """Returns True if the end of the attempt would still count. Then reports by its callbacks count, too."""
    return item.state in UNFINISHED and attempt == item.attempts and not _is_noted(item, attempt)


def _fed(item: Item, event: Fed, policy: RetryPolicy, now: datetime) -> Item | None:
    due = item.state is ItemState.WAITING and (item.due_at is None or item.due_at <= now)
    if not due or event.attempt != item.attempts + 1 or policy.cancelled:
        return None
    return replace(
        item,
        state=ItemState.ACTIVE,
        attempts=event.attempt,
        feeder=event.feeder,
        fed_at=now,
        fed_depth=item.depth,
        due_at=None,
        why="",
        said=None,
        looked=None,
        stage_rank=None,
        outcome="",
        reason="",
    )


def _ended(item: Item, event: Ended, policy: RetryPolicy, now: datetime) -> Item | None:
    if not _may_end(item, event.attempt):
        return None
    said = item.said if item.said and item.said.attempt == event.attempt else None
    outcome, reason = (said.outcome, said.reason) if said else (event.outcome, event.reason)
    state = said.state if said else _state_by(outcome, spent=item.failures + 1 >= policy.attempts)
    counts = {name: item.counts.get(name, 0) + event.counts.get(name, 0) for name in (*item.counts, *event.counts)}
    ended = replace(item, state=state, outcome=outcome, reason=reason, counts=counts)
    if said and said.until:
        ended = replace(ended, due_at=said.until)
    elif (recheck := recheck_of(item, policy)) is not None:
        ended = _looked_at(ended, event, said, policy, recheck, now)
    elif state in (ItemState.WAITING, ItemState.FAILED):
        due_at = now + _backoff(item, policy) if state is ItemState.WAITING else None
        ended = replace(ended, failures=item.failures + 1, due_at=due_at)
    elif state is ItemState.DONE and _is_nearer_than_fed(item, item.depth) and not policy.cancelled:
        ended = replace(ended, state=ItemState.WAITING)
    if ended.state is ItemState.WAITING and policy.cancelled:
        ended = _skipped(ended, CANCELLED)
    if item.removed_at:
        ended = _skipped(ended, REMOVED)
    line = EndedAttempt(
        event.attempt,
        now,
        ended.state,
        outcome,
        reason,
        event.counts.get("requests", 0),
        event.counts.get("records", 0),
    )
    history = (*item.history, line)[-MOST_ATTEMPTS_SHOWN:]
    return replace(ended, feeder="", said=None, looked=None, removed_at=None, history=history)


def _looked_at(
    item: Item, event: Ended, said: SavedResult | None, policy: RetryPolicy, recheck: Recheck, now: datetime
) -> Item:
    """Returns the item of a recurring job after a visit. `item` has the state that it would have in another job."""
    if said and item.state is ItemState.SKIPPED:
        return item
    looked = item.looked if item.looked and item.looked.attempt == event.attempt else None
    begun = (item.fed_at or now).timestamp()
    if item.state is ItemState.DONE and (said or looked or not get_policy(item.outcome).absent):
        found = looked or LookedAt(
            event.attempt, event.counts.get("new", 0), cost=max(1, event.counts.get("requests", 0))
        )
        looks = tuple(kept([*item.looks, Look(begun, found.found, found.changed, found.cost)]))
        left = item.left if found.left is None else found.left
        item = replace(item, state=ItemState.WAITING, failures=0, looks=looks, left=left, not_before=found.not_before)
        return replace(item, **_next_look(item, looks, recheck, now))
    backoff, failures = _backoff(item, policy), item.failures + 1
    if failures >= MOST_FAILURES:
        return replace(
            item, state=ItemState.SKIPPED if item.state is ItemState.SKIPPED else ItemState.FAILED, failures=failures
        )
    if (
        item.state is not ItemState.SKIPPED
        and rank_of(item.outcome) is Rank.PASSING
        and failures % policy.attempts
        and not said
    ):
        why = f"tried again after {counted(failures, 'failure')}"
        return replace(item, state=ItemState.WAITING, failures=failures, due_at=now + backoff, why=why)
    looks = tuple(kept([*item.looks, Look(begun, None)]))
    later = _next_look(item, looks, recheck, now)
    if now + backoff > later["due_at"]:
        later = {"due_at": now + backoff, "why": f"later than usual after {counted(failures, 'failure')}"}
    return replace(item, state=ItemState.WAITING, failures=failures, looks=looks, **later)


def _next_look(item: Item, looks: Sequence[Look], recheck: Recheck, now: datetime) -> dict[str, Any]:
    """Returns the fields with the time of the next visit and its reason."""
    due = recheck.due(item.key, looks, now.timestamp())
    at = datetime.fromtimestamp(round(due.at, 3), UTC)
    if item.not_before and item.not_before > at:
        return {"due_at": item.not_before, "why": "the site wants no look before"}
    return {"due_at": at, "why": due.why}


class _Often(NamedTuple):
    """A policy with another frequency for one item."""

    recheck: Recheck
    often: float

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        due = self.recheck.due(key, looks, now)
        if not looks:
            return due
        since = looks[-1].at
        return Due(since + (due.at - since) / self.often, f"{due.why}, {self.often:g} times as often")


def recheck_of(item: Item, policy: RetryPolicy) -> Recheck | None:
    """Returns the visit policy of an item in a recurring job. None in other jobs."""
    recheck = read_policy(item.recheck) if item.recheck and policy.recheck is not None else policy.recheck
    return _Often(recheck, item.often) if recheck is not None and item.often is not None else recheck


def _backoff(item: Item, policy: RetryPolicy) -> timedelta:
    """Returns the wait before the attempt that follows the current failure."""
    return timedelta(seconds=min(MOST_BACKOFF_S, policy.backoff_s * 2.0 ** min(item.failures, 60)))


def _is_noted(item: Item, attempt: int) -> bool:
    """Returns True if this attempt has ended, or never began."""
    return attempt < 1 or (bool(item.history) and item.history[-1].attempt >= attempt)


def _state_by(outcome: str, *, spent: bool) -> ItemState:
    """Returns the state of an item after an attempt with this outcome. `spent`: no failures are left."""
    match rank_of(outcome):
        case Rank.GOOD:
            return ItemState.DONE
        case Rank.DENIED:
            return ItemState.SKIPPED
        case Rank.PASSING if not spent:
            return ItemState.WAITING
    return ItemState.FAILED


def _lost(item: Item, event: Lost, policy: RetryPolicy) -> Item | None:
    if item.state is not ItemState.ACTIVE or event.attempt != item.attempts:
        return None
    waiting = replace(item, state=ItemState.WAITING, feeder="", removed_at=None)
    if item.removed_at:
        return _skipped(waiting, REMOVED)
    return _skipped(waiting, CANCELLED) if policy.cancelled else waiting


def _retried(item: Item, policy: RetryPolicy) -> Item | None:
    if policy.cancelled or item.state is ItemState.ACTIVE or (item.state is ItemState.WAITING and item.due_at is None):
        return None
    left = {} if item.failures else item.left  # a failed item starts from the beginning
    return replace(item, state=ItemState.WAITING, due_at=None, why="", failures=0, outcome="", reason="", left=left)


def _changed(item: Item, event: Changed, policy: RetryPolicy, now: datetime) -> Item | None:
    if event.seen is not None and event.seen != item.input:
        return None
    changed = replace(
        item,
        input=item.input if event.input is None else dict(event.input),
        often=item.often if event.often is None else event.often,
        recheck=item.recheck if event.recheck is None else event.recheck,
        removed_at=None,
    )
    if changed.input != item.input:
        changed = replace(changed, left={})
    was_removed = item.state is ItemState.SKIPPED and item.outcome == REMOVED
    is_other = changed.input != item.input and policy.recheck is not None
    if policy.cancelled:
        return None
    if was_removed or (is_other and item.state is not ItemState.ACTIVE):
        return _retried(changed, policy) or changed
    recheck = recheck_of(changed, policy)
    if changed.due_at and item.looks and not item.failures and recheck is not None:
        changed = replace(changed, **_next_look(changed, item.looks, recheck, now))
    return changed if changed != item else None


def _removed(item: Item, event: Removed, now: datetime) -> Item | None:
    if event.listing and item.listed >= event.listing:
        return None
    if item.state is ItemState.ACTIVE:
        return None if item.removed_at else replace(item, removed_at=now)
    return _skipped(item, REMOVED) if item.outcome != REMOVED else None


def _skipped(item: Item, why: str) -> Item:
    return replace(item, state=ItemState.SKIPPED, outcome=why, reason=why, due_at=None, why="")


def _nearer(item: Item, event: Nearer, policy: RetryPolicy) -> Item | None:
    if event.depth >= item.depth:
        return None
    nearer = replace(item, depth=event.depth)
    again = item.state is ItemState.DONE and _is_nearer_than_fed(item, event.depth) and not policy.cancelled
    return replace(nearer, state=ItemState.WAITING) if again else nearer


def _is_nearer_than_fed(item: Item, depth: int) -> bool:
    """Returns True if items found through this item count as farther away than they are."""
    return item.fed_depth is not None and depth < item.fed_depth


class Rank(IntEnum):
    """The effect of an outcome on an item. The greatest rank decides if requests of an attempt ended differently."""

    GOOD = 0
    DENIED = 1
    """Access is denied, by robots.txt for example."""
    LASTING = 2
    """A retry would end in the same way."""
    PASSING = 3
    """A retry may succeed. It outranks LASTING, since it may bring the missing part."""


def rank_of(outcome: str) -> Rank:
    """Returns the rank of an outcome. A spider's own outcome, which is not in Outcome, is LASTING."""
    if outcome == Outcome.POLICY_DENIED:
        return Rank.DENIED
    if outcome in _PASSING:
        return Rank.PASSING
    policy = get_policy(outcome)
    return Rank.GOOD if not policy.dead else Rank.PASSING if policy.retryable else Rank.LASTING


def is_good_look(outcome: str) -> bool:
    """Returns True if the visit found the item of a recurring job. An absent item may come back later."""
    return bool(outcome) and rank_of(outcome) is Rank.GOOD and not get_policy(outcome).absent


def was_missing(item: Item) -> bool:
    """Returns True if an attempt since the last successful visit found the item missing."""
    for line in reversed(item.history):
        if get_policy(line.outcome).absent:
            return True
        if is_good_look(line.outcome):
            break
    return False


def worst(outcomes: Mapping[str, int]) -> str:
    """Returns the outcome of an attempt from the outcomes of its requests (outcome -> number). Without any it is
    `empty`.

    The rank decides, then the number, then the name.
    """
    if not outcomes:
        return Outcome.EMPTY
    return max(outcomes, key=lambda outcome: (rank_of(outcome), outcomes[outcome], outcome))
