"""How a job item comes from one state into another. Pure: the ledger reads items, asks here, and writes.

| event | from | to |
|---|---|---|
| Fed | waiting and due | active |
| Ended | active, or waiting when it was taken for lost | done, failed, skipped, or waiting for its next attempt |
| Lost | active | waiting, and due; nothing is spent |
| Retried | failed, skipped, done, or waiting for a time | waiting, and due |
| Changed | any | the same with another input or pace; waiting, and due, when its input changes, or it was removed |
| Removed | any | skipped; an active one when its attempt has ended |
| Cancelled, LimitReached | waiting | skipped |
| Nearer | any | the same with the smaller depth; waiting, when it was done as something farther away |
| Said, StageReached, LookedAt | active, or waiting when it was taken for lost | the same, with a note |

In a standing job the end of an attempt is a look: it leads to waiting for the next one, whose time the job's policy
says. An attempt that fails for a passing reason is first tried again, as in any job. An item is failed when it has
failed MOST_FAILURES times in a row, and skipped when a callback says so.

Whoever says that an item waits says until when: that attempt is no failure.

An event of an attempt counts only while that is the item's latest, and its end counts once. What does not apply
changes nothing, so that every event may come late, or twice.

An attempt that was taken for lost may go on: its feeder was only silent. Until the next one begins, what its callbacks
say counts as its end does, or it would end as if they had said nothing. With the next attempt all notes are gone, but
for the stage: that asks again, its own callbacks say what they see, and what ends the one before ends the item no more.
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
"""The longest time between two attempts that is due to failures."""
CANCELLED = "cancelled"
"""Outcome and reason of items that are not fed since their job was cancelled."""
REMOVED = "removed"
"""The same of items that somebody took out of a job."""
MOST_FAILURES = 10
"""In a row, after which an item of a standing job is left alone until somebody has it tried again. With the usual
backoff that is after three days."""
MAX_ITEMS = "max_items"
"""The same of items beyond the job's limit."""
_PASSING = ("worker_lost", "callback_blocked")
"""What the frontier says of requests that were given up because of the workers that had them."""


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
    """Of the attempt: requests, records, new, rejected."""


class Lost(NamedTuple):
    """The frontier does not know of an attempt: it was never told, or has forgotten."""

    attempt: int


class Retried(NamedTuple):
    """A person wants another try, now."""


class Cancelled(NamedTuple):
    """The item's job was cancelled."""


class LimitReached(NamedTuple):
    """As many items of its kind were fed as the job allows."""


class Changed(NamedTuple):
    """Another input or pace. None: as it was. An item that was removed is there again."""

    input: Mapping[str, Any] | None = None
    often: float | None = None
    recheck: str | None = None
    seen: Mapping[str, Any] | None = None
    """The input of which that was made: an item that has another by now stays as it is. None: whatever it has."""


class Removed(NamedTuple):
    """It is not asked for any more."""

    listing: str = ""
    """The word of the reading that did not name it: one that a later reading has named stays. Empty: it goes anyhow."""


class Nearer(NamedTuple):
    """The item was found again, at this depth."""

    depth: int


class StageReached(NamedTuple):
    """A callback brought the item into a stage."""

    attempt: int
    stage: str
    rank: int = 0
    """Does nothing when one of a larger rank was reached before."""


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
    """Whether the end of this attempt would count, and so what is said of it."""
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
    """An item of a standing job whose attempt has just ended, in the state that it would be in in another job."""
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
    """When, and why then."""
    due = recheck.due(item.key, looks, now.timestamp())
    at = datetime.fromtimestamp(round(due.at, 3), UTC)
    if item.not_before and item.not_before > at:
        return {"due_at": item.not_before, "why": "the site wants no look before"}
    return {"due_at": at, "why": due.why}


class _Often(NamedTuple):
    """A policy for an item that is looked at more often than it says, or less."""

    recheck: Recheck
    often: float

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        due = self.recheck.due(key, looks, now)
        if not looks:
            return due
        since = looks[-1].at
        return Due(since + (due.at - since) / self.often, f"{due.why}, {self.often:g} times as often")


def recheck_of(item: Item, policy: RetryPolicy) -> Recheck | None:
    """By which an item of a standing job is looked at again; None in other jobs."""
    recheck = read_policy(item.recheck) if item.recheck and policy.recheck is not None else policy.recheck
    return _Often(recheck, item.often) if recheck is not None and item.often is not None else recheck


def _backoff(item: Item, policy: RetryPolicy) -> timedelta:
    """Before the attempt after the failure that is counted next."""
    return timedelta(seconds=min(MOST_BACKOFF_S, policy.backoff_s * 2.0 ** min(item.failures, 60)))


def _is_noted(item: Item, attempt: int) -> bool:
    """Whether this attempt has ended, or never was."""
    return attempt < 1 or (bool(item.history) and item.history[-1].attempt >= attempt)


def _state_by(outcome: str, *, spent: bool) -> ItemState:
    """Into which an attempt brings its item that ended so; `spent`: with it, as many have failed as may."""
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
    left = {} if item.failures else item.left  # what cannot go on is begun anew
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
    if outcome in _PASSING:
        return Rank.PASSING
    policy = get_policy(outcome)
    return Rank.GOOD if not policy.dead else Rank.PASSING if policy.retryable else Rank.LASTING


def is_good_look(outcome: str) -> bool:
    """Returns whether an item of a standing job was there. One that is absent may be there again."""
    return bool(outcome) and rank_of(outcome) is Rank.GOOD and not get_policy(outcome).absent


def was_missing(item: Item) -> bool:
    """Whether an attempt since the last look that went well found that the item is not there."""
    for line in reversed(item.history):
        if get_policy(line.outcome).absent:
            return True
        if is_good_look(line.outcome):
            break
    return False


def worst(outcomes: Mapping[str, int]) -> str:
    """Which of an attempt's outcomes (-> how many requests) is that of the item. Without any, it is `empty`.

    The rank decides, then the number, then the name.
    """
    if not outcomes:
        return Outcome.EMPTY
    return max(outcomes, key=lambda outcome: (rank_of(outcome), outcomes[outcome], outcome))
