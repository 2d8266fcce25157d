"""Every event, in every state an item can be in, under every policy: the table, written out."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from harvester.jobs.documents import MOST_ATTEMPTS_SHOWN, EndedAttempt, Item, RetryPolicy, Said, State
from harvester.jobs.transitions import (
    MOST_BACKOFF_S,
    Cancelled,
    Ended,
    Event,
    Fed,
    LimitReached,
    Lost,
    Nearer,
    Retried,
    StageReached,
    transition,
    worst,
)
from harvester.outcomes import Outcome

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def line(attempt: int, state: State, outcome: str) -> EndedAttempt:
    return EndedAttempt(attempt, THEN, state, outcome, f"{outcome}!", 1, 2)


NEW = Item(id="job:page:a", job="job", kind="page", key="a", depth=2, created_at=THEN, updated_at=THEN)
BEFORE = line(1, State.WAITING, "timeout")
FED = replace(
    NEW, attempts=2, failures=1, fed_at=THEN, fed_depth=2, history=(BEFORE,), counts={"requests": 1, "records": 2}
)
SAID = Said(2, State.DONE, "ok", "all there")
SAID_BEFORE = Said(1, State.FAILED, "invalid", "of the attempt before")

ITEMS: dict[str, Item] = {
    "new": NEW,
    "active": replace(FED, state=State.ACTIVE, feeder="f"),
    "spoken for": replace(FED, state=State.ACTIVE, feeder="f", said=SAID),
    "spoken for before": replace(FED, state=State.ACTIVE, feeder="f", said=SAID_BEFORE),
    "lost": FED,
    "later": replace(
        FED, outcome="network", reason="network!", due_at=LATER, history=(BEFORE, line(2, State.WAITING, "network"))
    ),
    "due again": replace(
        FED, outcome="network", reason="network!", history=(BEFORE, line(2, State.WAITING, "network"))
    ),
    "done": replace(FED, state=State.DONE, outcome="ok", history=(BEFORE, line(2, State.DONE, "ok"))),
    "failed": replace(FED, state=State.FAILED, outcome="gone", history=(BEFORE, line(2, State.FAILED, "gone"))),
    "skipped": replace(FED, state=State.SKIPPED, outcome="cancelled", reason="cancelled"),
}
POLICIES = {
    "plain": RetryPolicy(attempts=3, backoff_s=100),
    "spent": RetryPolicy(attempts=2, backoff_s=100),
    "standing": RetryPolicy(attempts=2, backoff_s=100, standing=True),
    "cancelled": RetryPolicy(attempts=3, backoff_s=100, cancelled=True),
    "standing, cancelled": RetryPolicy(attempts=2, backoff_s=100, standing=True, cancelled=True),
}
COUNTS = {"requests": 3, "records": 5, "rejected": 1}
OF_AN_ATTEMPT: dict[str, Event] = {
    "fed": Fed(0, "feeder"),
    "ended well": Ended(0, "ok", "", COUNTS),
    "denied": Ended(0, "policy_denied", "robots.txt", COUNTS),
    "failed for good": Ended(0, "invalid", "no", COUNTS),
    "failed for now": Ended(0, "timeout", "late", COUNTS),
    "lost": Lost(0),
    "said": Said(0, State.SKIPPED, "opt_out", "it says so"),
    "stage": StageReached(0, "half"),
}
OF_NO_ATTEMPT: dict[str, Event] = {
    "retried": Retried(),
    "cancelled": Cancelled(),
    "limit": LimitReached(),
    "nearer": Nearer(1),
    "as near": Nearer(2),
    "farther": Nearer(3),
}
WHEN = {"older": -1, "same": 0, "newer": 1}
"""The event's attempt, against that of which it could be: the next one for `fed`, else the item's latest."""


def the(event: str, when: str, item: Item) -> Event:
    if event in OF_NO_ATTEMPT:
        return OF_NO_ATTEMPT[event]
    attempt = item.attempts + WHEN[when] + (event == "fed")
    of_attempt: Any = OF_AN_ATTEMPT[event]
    if isinstance(of_attempt, Said):
        return replace(of_attempt, attempt=attempt)
    changed: Event = of_attempt._replace(attempt=attempt)
    return changed


Changes = dict[str, Any]


def ended(state: State, outcome: str, reason: str, **more: Any) -> Changes:
    """What the end of the second attempt changes. `of_attempt`: outcome and reason in the history, if others."""
    told, why = more.pop("of_attempt", (outcome, reason))
    history = (BEFORE, EndedAttempt(2, NOW, state, told, why, 3, 5))
    counts = {"requests": 4, "records": 7, "rejected": 1}
    return {"state": state, "outcome": outcome, "reason": reason, "history": history, "counts": counts, **more}


BEGUN = {"state": State.ACTIVE, "attempts": 3, "feeder": "feeder", "fed_at": NOW, "fed_depth": 2}
DONE = ended(State.DONE, "ok", "")
DENIED = ended(State.SKIPPED, "policy_denied", "robots.txt")
INVALID = ended(State.FAILED, "invalid", "no", failures=2)
TIMED_OUT = ended(State.FAILED, "timeout", "late", failures=2)
IN_200_S = NOW + timedelta(seconds=200)
"""Twice the backoff: it is the second failure."""
IN_100_S = NOW + timedelta(seconds=100)
TO_BE_TRIED = ended(State.WAITING, "timeout", "late", failures=2, due_at=IN_200_S)
AS_SAID = ended(State.DONE, "ok", "all there", said=None)
CALLED_OFF = {"state": State.SKIPPED, "outcome": "cancelled", "reason": "cancelled"}
AGAIN = {"state": State.WAITING, "failures": 0, "outcome": ""}


def called_off(outcome: str, reason: str, failures: int) -> Changes:
    """The end of an attempt whose item would wait, if its job were not cancelled."""
    return ended(State.SKIPPED, "cancelled", "cancelled", of_attempt=(outcome, reason), failures=failures)


ENDS = {
    ("ended well", "plain"): DONE,
    ("ended well", "spent"): DONE,
    ("ended well", "standing"): ended(State.WAITING, "ok", "", failures=0, due_at=IN_100_S),
    ("ended well", "cancelled"): DONE,
    ("ended well", "standing, cancelled"): called_off("ok", "", failures=0),
    ("denied", "plain"): DENIED,
    ("denied", "spent"): DENIED,
    ("denied", "standing"): ended(State.WAITING, "policy_denied", "robots.txt", failures=0, due_at=IN_100_S),
    ("denied", "cancelled"): DENIED,
    ("denied", "standing, cancelled"): called_off("policy_denied", "robots.txt", failures=0),
    ("failed for good", "plain"): INVALID,
    ("failed for good", "spent"): INVALID,
    ("failed for good", "standing"): ended(State.WAITING, "invalid", "no", failures=2, due_at=IN_200_S),
    ("failed for good", "cancelled"): INVALID,
    ("failed for good", "standing, cancelled"): called_off("invalid", "no", failures=2),
    ("failed for now", "plain"): TO_BE_TRIED,
    ("failed for now", "spent"): TIMED_OUT,
    ("failed for now", "standing"): TO_BE_TRIED,
    ("failed for now", "cancelled"): called_off("timeout", "late", failures=2),
    ("failed for now", "standing, cancelled"): called_off("timeout", "late", failures=2),
}
"""The end of the second attempt of an item that has failed once -> what differs afterwards."""

TABLE: dict[tuple[str, str, str, str], Changes] = {}
"""Item, event, when, policy -> the fields that differ afterwards. What is not here changes nothing."""
for _policy in POLICIES:
    _cancelled = "cancelled" in _policy
    if not _cancelled:
        TABLE["new", "fed", "same", _policy] = BEGUN | {"attempts": 1}
        TABLE["lost", "fed", "same", _policy] = BEGUN
        TABLE["due again", "fed", "same", _policy] = BEGUN | {"outcome": "", "reason": ""}
        TABLE["later", "retried", "", _policy] = {"failures": 0, "outcome": "", "reason": "", "due_at": None}
        TABLE["done", "retried", "", _policy] = AGAIN
        TABLE["failed", "retried", "", _policy] = AGAIN
        TABLE["skipped", "retried", "", _policy] = AGAIN | {"reason": ""}
    for _event in ("ended well", "denied", "failed for good", "failed for now"):
        TABLE["lost", _event, "same", _policy] = ENDS[_event, _policy]
        TABLE["active", _event, "same", _policy] = ENDS[_event, _policy] | {"feeder": ""}
        TABLE["spoken for before", _event, "same", _policy] = ENDS[_event, _policy] | {"feeder": "", "said": None}
        TABLE["spoken for", _event, "same", _policy] = {
            "standing": ended(State.WAITING, "ok", "all there", said=None, failures=0, due_at=IN_100_S),
            "standing, cancelled": called_off("ok", "all there", failures=0) | {"said": None},
        }.get(_policy, AS_SAID) | {"feeder": ""}
    for _item in ("active", "spoken for", "spoken for before"):
        _skipped = CALLED_OFF if _cancelled else {"state": State.WAITING}
        TABLE[_item, "lost", "same", _policy] = _skipped | {"feeder": ""}
        TABLE[_item, "said", "same", _policy] = {"said": Said(2, State.SKIPPED, "opt_out", "it says so")}
        TABLE[_item, "stage", "same", _policy] = {"stage": "half"}
    for _item in ("new", "lost", "later", "due again"):
        TABLE[_item, "cancelled", "", _policy] = CALLED_OFF | ({"due_at": None} if _item == "later" else {})
        TABLE[_item, "limit", "", _policy] = {"state": State.SKIPPED, "outcome": "max_items", "reason": "max_items"} | (
            {"due_at": None} if _item == "later" else {}
        )
    for _item in ITEMS:
        TABLE[_item, "nearer", "", _policy] = {"depth": 1}
    if not _cancelled:
        TABLE["done", "nearer", "", _policy] = {"depth": 1, "state": State.WAITING}

PAIRS = [*product(OF_AN_ATTEMPT, WHEN), *((event, "") for event in OF_NO_ATTEMPT)]


def differences(before: Item, after: Item) -> Changes:
    told = asdict(before)
    return {name: value for name, value in asdict(after).items() if value != told[name]}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("item", ITEMS)
def test_an_event_does_what_the_table_says_and_nothing_when_it_comes_again(item: str, policy: str) -> None:
    for event, when in PAIRS:
        before = ITEMS[item]
        told = the(event, when, before)
        after = transition(before, told, POLICIES[policy], NOW)
        expected = TABLE.get((item, event, when, policy))
        if expected is None:
            assert after is None, (event, when)
            continue
        assert after is not None, (event, when)
        changed = {name for name, value in expected.items() if getattr(before, name) != value}
        assert differences(before, after) == {name: expected[name] for name in changed} | {"updated_at": NOW}, event
        assert transition(after, told, POLICIES[policy], LATER) is None, f"{event}, twice"


def test_the_table_names_only_what_is_tried() -> None:
    assert TABLE.keys() <= {(*pair, policy) for *pair, policy in _all()}


def _all() -> list[tuple[str, str, str, str]]:
    return [(item, event, when, policy) for item, (event, when), policy in product(ITEMS, PAIRS, POLICIES)]


def test_an_item_is_not_fed_before_its_time_and_is_then_even_if_nobody_promoted_it() -> None:
    later = replace(NEW, due_at=NOW)
    assert transition(later, Fed(1), RetryPolicy(), NOW - timedelta(seconds=1)) is None
    fed = transition(later, Fed(1), RetryPolicy(), NOW)
    assert fed is not None
    assert (fed.state, fed.due_at) == (State.ACTIVE, None)


def test_an_item_found_nearer_while_it_is_fetched_waits_again_when_it_is_done() -> None:
    nearer = transition(ITEMS["active"], Nearer(1), RetryPolicy(), NOW)
    assert nearer is not None
    done = transition(nearer, Ended(2, "ok"), RetryPolicy(), NOW)
    assert done is not None
    assert (done.state, done.due_at) == (State.WAITING, None)
    called_off = transition(nearer, Ended(2, "ok"), RetryPolicy(cancelled=True), NOW)
    assert called_off is not None
    assert called_off.state is State.DONE


def test_an_item_that_was_fed_within_the_limit_is_not_skipped_for_it() -> None:
    assert transition(replace(NEW, number=3), LimitReached(), RetryPolicy(), NOW) is None


def test_what_a_callback_said_of_an_item_of_a_standing_job_counts_as_a_failure_when_it_says_so() -> None:
    told = replace(ITEMS["active"], said=Said(2, State.FAILED, "invalid", "no such feed"))
    after = transition(told, Ended(2, "ok"), POLICIES["standing"], NOW)
    assert after is not None
    assert (after.state, after.failures, after.due_at) == (State.WAITING, 2, IN_200_S)


def test_the_time_between_attempts_doubles_up_to_a_bound() -> None:
    policy = RetryPolicy(attempts=10_000, backoff_s=600)
    waits = []
    for failures in (0, 1, 2, 9, 5_000):
        item = transition(replace(ITEMS["active"], failures=failures), Ended(2, "timeout"), policy, NOW)
        assert item is not None
        assert item.due_at is not None
        waits.append((item.due_at - NOW).total_seconds())
    assert waits == [600, 1200, 2400, MOST_BACKOFF_S, MOST_BACKOFF_S]


def test_a_history_keeps_the_latest_attempts_and_an_end_still_counts_once() -> None:
    item, policy = NEW, RetryPolicy(attempts=100, backoff_s=1)
    for attempt in range(1, 16):
        fed = transition(item, Fed(attempt), policy, NOW + timedelta(days=attempt))
        assert fed is not None
        again = transition(fed, Ended(attempt, "timeout"), policy, NOW + timedelta(days=attempt))
        assert again is not None
        item = again
    assert [each.attempt for each in item.history] == list(range(16 - MOST_ATTEMPTS_SHOWN, 16))
    assert item.failures == 15
    assert transition(item, Ended(15, "timeout"), policy, NOW + timedelta(days=99)) is None


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ({}, "empty"),
        ({"ok": 24, "not_found": 1}, "ok"),
        ({"not_found": 1}, "not_found"),
        ({"ok": 24, "policy_denied": 1}, "policy_denied"),
        ({"policy_denied": 9, "invalid": 1}, "invalid"),
        ({"invalid": 9, "timeout": 1, "ok": 100}, "timeout"),
        ({"network": 2, "timeout": 1}, "network"),
        ({"invalid": 2, "worker_lost": 1}, "worker_lost"),
        ({"a word of nobody": 1, "ok": 3}, "a word of nobody"),
    ],
)
def test_the_worst_outcome_decides_and_what_passes_goes_before_what_lasts(
    outcomes: dict[str, int], expected: str
) -> None:
    assert worst(outcomes) == expected


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_ends_an_attempt(outcome: Outcome) -> None:
    after = transition(ITEMS["active"], Ended(2, outcome), RetryPolicy(), NOW)
    assert after is not None
    assert after.state is not State.ACTIVE


def test_a_page_that_is_read_late_leads_back_to_no_stage_and_a_new_attempt_begins_anew() -> None:
    item, policy = ITEMS["active"], POLICIES["plain"]
    for stage, rank, expected in (("half", 1, "half"), ("whole", 2, "whole"), ("half", 1, "whole")):
        item = transition(item, StageReached(item.attempts, stage, rank), policy, NOW) or item
        assert item.stage == expected
    waiting = transition(item, Lost(item.attempts), policy, NOW)
    assert waiting
    again = transition(waiting, Fed(item.attempts + 1, "feeder"), policy, NOW)
    assert again
    begun = transition(again, StageReached(again.attempts, "half", 1), policy, NOW)
    assert begun
    assert begun.stage == "half"
