"""Every event, in every state an item can be in, under every policy: the table, written out."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import pytest
from msgspec.structs import asdict, replace

from harvester.jobs.documents import (
    MOST_ATTEMPTS_SHOWN,
    EndedAttempt,
    Item,
    ItemState,
    LookedAt,
    RetryPolicy,
    SavedResult,
)
from harvester.jobs.transitions import (
    MOST_BACKOFF_S,
    MOST_FAILURES,
    Cancelled,
    Changed,
    Ended,
    Event,
    Fed,
    LimitReached,
    Lost,
    Nearer,
    Removed,
    Retried,
    StageReached,
    transition,
    worst,
)
from harvester.outcomes import Outcome
from harvester.recheck import HISTORY, Due, Look

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


class Hourly(NamedTuple):
    """A policy by which an item is due an hour after its last look."""

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        return Due(looks[-1].at + 3600, "an hour later")


def line(attempt: int, state: ItemState, outcome: str) -> EndedAttempt:
    return EndedAttempt(attempt, THEN, state, outcome, f"{outcome}!", 1, 2)


NEW = Item(id="job:page:a", job="job", kind="page", key="a", depth=2, created_at=THEN, updated_at=THEN)
BEFORE = line(1, ItemState.WAITING, "timeout")
FED = replace(
    NEW, attempts=2, failures=1, fed_at=THEN, fed_depth=2, history=(BEFORE,), counts={"requests": 1, "records": 2}
)
SAID = SavedResult(2, ItemState.DONE, "ok", "all there")
SAID_TO_WAIT = SavedResult(2, ItemState.WAITING, "rate_limited", "used up", LATER)
SAID_BEFORE = SavedResult(1, ItemState.FAILED, "invalid", "of the attempt before")
LOOKED = LookedAt(2, 7, cost=2.0)
LOOKS = (Look((THEN - timedelta(hours=1)).timestamp(), 3),)

ITEMS: dict[str, Item] = {
    "new": NEW,
    "active": replace(FED, state=ItemState.ACTIVE, feeder="f"),
    "spoken for": replace(FED, state=ItemState.ACTIVE, feeder="f", said=SAID),
    "told to wait": replace(FED, state=ItemState.ACTIVE, feeder="f", said=SAID_TO_WAIT),
    "spoken for before": replace(FED, state=ItemState.ACTIVE, feeder="f", said=SAID_BEFORE),
    "looked at": replace(FED, state=ItemState.ACTIVE, feeder="f", looked=LOOKED, looks=LOOKS),
    "looked at before": replace(FED, state=ItemState.ACTIVE, feeder="f", looked=replace(LOOKED, attempt=1)),
    "to be removed": replace(FED, state=ItemState.ACTIVE, feeder="f", removed_at=THEN),
    "between looks": replace(
        NEW,
        attempts=2,
        due_at=LATER,
        why="an hour later",
        looks=LOOKS,
        outcome="ok",
        history=(BEFORE, line(2, ItemState.WAITING, "ok")),
    ),
    "removed": replace(FED, state=ItemState.SKIPPED, outcome="removed", reason="removed"),
    "lost": FED,
    "lost, spoken for": replace(FED, said=SAID),
    "lost, looked at": replace(FED, looked=LOOKED, looks=LOOKS, stage="whole", stage_rank=2),
    "later": replace(
        FED, outcome="network", reason="network!", due_at=LATER, history=(BEFORE, line(2, ItemState.WAITING, "network"))
    ),
    "due again": replace(
        FED, outcome="network", reason="network!", history=(BEFORE, line(2, ItemState.WAITING, "network"))
    ),
    "done": replace(FED, state=ItemState.DONE, outcome="ok", history=(BEFORE, line(2, ItemState.DONE, "ok"))),
    "failed": replace(FED, state=ItemState.FAILED, outcome="gone", history=(BEFORE, line(2, ItemState.FAILED, "gone"))),
    "skipped": replace(FED, state=ItemState.SKIPPED, outcome="cancelled", reason="cancelled"),
}
POLICIES = {
    "plain": RetryPolicy(attempts=3, backoff_s=100),
    "spent": RetryPolicy(attempts=2, backoff_s=100),
    "standing": RetryPolicy(attempts=3, backoff_s=100, recheck=Hourly()),
    "standing, spent": RetryPolicy(attempts=2, backoff_s=100, recheck=Hourly()),
    "cancelled": RetryPolicy(attempts=3, backoff_s=100, cancelled=True),
    "standing, cancelled": RetryPolicy(attempts=2, backoff_s=100, recheck=Hourly(), cancelled=True),
}
COUNTS = {"requests": 3, "records": 5, "rejected": 1}
OF_AN_ATTEMPT: dict[str, Event] = {
    "fed": Fed(0, "feeder"),
    "ended well": Ended(0, "ok", "", COUNTS),
    "not there": Ended(0, "not_found", "404", COUNTS),
    "denied": Ended(0, "policy_denied", "robots.txt", COUNTS),
    "failed for good": Ended(0, "invalid", "no", COUNTS),
    "failed for now": Ended(0, "timeout", "late", COUNTS),
    "lost": Lost(0),
    "said": SavedResult(0, ItemState.SKIPPED, "opt_out", "it says so"),
    "stage": StageReached(0, "half"),
    "looked": LookedAt(0, 4, changed=True, cost=0.5),
}
OF_NO_ATTEMPT: dict[str, Event] = {
    "retried": Retried(),
    "changed": Changed({"url": "another"}),
    "oftener": Changed(often=2.0),
    "the same": Changed({}),
    "removal": Removed(),
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
    if isinstance(of_attempt, SavedResult | LookedAt):
        return replace(of_attempt, attempt=attempt)
    changed: Event = of_attempt._replace(attempt=attempt)
    return changed


Changes = dict[str, Any]


def ended(state: ItemState, outcome: str, reason: str, **more: Any) -> Changes:
    """What the end of the second attempt changes. `of_attempt`: outcome and reason in the history, if others."""
    told, why = more.pop("of_attempt", (outcome, reason))
    history = (BEFORE, EndedAttempt(2, NOW, state, told, why, 3, 5))
    counts = {"requests": 4, "records": 7, "rejected": 1}
    return {"state": state, "outcome": outcome, "reason": reason, "history": history, "counts": counts, **more}


BEGUN = {"state": ItemState.ACTIVE, "attempts": 3, "feeder": "feeder", "fed_at": NOW, "fed_depth": 2}
DONE = ended(ItemState.DONE, "ok", "")
MISSING = ended(ItemState.DONE, "not_found", "404")
DENIED = ended(ItemState.SKIPPED, "policy_denied", "robots.txt")
INVALID = ended(ItemState.FAILED, "invalid", "no", failures=2)
TIMED_OUT = ended(ItemState.FAILED, "timeout", "late", failures=2)
IN_200_S = NOW + timedelta(seconds=200)
"""Twice the backoff: it is the second failure."""
IN_100_S = NOW + timedelta(seconds=100)
TO_BE_TRIED = ended(ItemState.WAITING, "timeout", "late", failures=2, due_at=IN_200_S)
WAITS = ended(ItemState.WAITING, "rate_limited", "used up", due_at=LATER)
"""No failure, whatever the policy."""
AS_SAID = ended(ItemState.DONE, "ok", "all there")
CALLED_OFF = {"state": ItemState.SKIPPED, "outcome": "cancelled", "reason": "cancelled"}
AGAIN = {"state": ItemState.WAITING, "failures": 0, "outcome": ""}


TAKEN_OUT = {"state": ItemState.SKIPPED, "outcome": "removed", "reason": "removed"}
BACK = {"removed_at": None}


def called_off(outcome: str, reason: str, **more: Any) -> Changes:
    """The end of an attempt whose item would wait, if its job were not cancelled."""
    return ended(ItemState.SKIPPED, "cancelled", "cancelled", of_attempt=(outcome, reason), **more)


def out(end: Changes) -> Changes:
    """The same end of an attempt whose item was taken out of its job meanwhile."""
    (*before, last) = end["history"]
    history = (*before, replace(last, state=ItemState.SKIPPED))
    return end | TAKEN_OUT | {"history": history, "due_at": None, "why": ""}


def with_looks(end: Changes) -> Changes:
    """The same end of an attempt of an item that was looked at before."""
    return end | {"looks": (*LOOKS, *end["looks"])} if "looks" in end else end


def as_outcome(end: Changes, outcome: str, reason: str) -> Changes:
    """The same end of an attempt, of a look at something that is not there."""
    (*before, last) = end["history"]
    own = {} if end["outcome"] == "cancelled" else {"outcome": outcome, "reason": reason}
    return end | own | {"history": (*before, replace(last, outcome=outcome, reason=reason))}


AN_HOUR_LATER = {"due_at": THEN + timedelta(hours=1), "why": "an hour later"}
SEEN = (Look(THEN.timestamp(), 0, None, 3.0),)
"""Of an attempt with three requests that found nothing new."""
NOT_SEEN = (Look(THEN.timestamp(), None),)
LOOK = ended(ItemState.WAITING, "ok", "", failures=0, looks=SEEN, **AN_HOUR_LATER)
NO_LOOK = {"failures": 2, "looks": NOT_SEEN, "due_at": IN_200_S, "why": "2 failures"}
"""The policy's hour would be over before the backoff is."""
NOT_BEFORE = {"due_at": IN_200_S, "why": "2 failures"}

ENDS = {
    ("ended well", "plain"): DONE,
    ("ended well", "spent"): DONE,
    ("ended well", "standing"): LOOK,
    ("ended well", "standing, spent"): LOOK,
    ("ended well", "cancelled"): DONE,
    ("ended well", "standing, cancelled"): called_off("ok", "", failures=0, looks=SEEN),
    ("not there", "plain"): MISSING,
    ("not there", "spent"): MISSING,
    ("not there", "standing"): ended(ItemState.WAITING, "not_found", "404", **NO_LOOK),
    ("not there", "standing, spent"): ended(ItemState.WAITING, "not_found", "404", **NO_LOOK),
    ("not there", "cancelled"): MISSING,
    ("not there", "standing, cancelled"): called_off("not_found", "404", failures=2, looks=NOT_SEEN),
    ("denied", "plain"): DENIED,
    ("denied", "spent"): DENIED,
    ("denied", "standing"): ended(ItemState.WAITING, "policy_denied", "robots.txt", **NO_LOOK),
    ("denied", "standing, spent"): ended(ItemState.WAITING, "policy_denied", "robots.txt", **NO_LOOK),
    ("denied", "cancelled"): DENIED,
    ("denied", "standing, cancelled"): called_off("policy_denied", "robots.txt", failures=2, looks=NOT_SEEN),
    ("failed for good", "plain"): INVALID,
    ("failed for good", "spent"): INVALID,
    ("failed for good", "standing"): ended(ItemState.WAITING, "invalid", "no", **NO_LOOK),
    ("failed for good", "standing, spent"): ended(ItemState.WAITING, "invalid", "no", **NO_LOOK),
    ("failed for good", "cancelled"): INVALID,
    ("failed for good", "standing, cancelled"): called_off("invalid", "no", failures=2, looks=NOT_SEEN),
    ("failed for now", "plain"): TO_BE_TRIED,
    ("failed for now", "spent"): TIMED_OUT,
    ("failed for now", "standing"): TO_BE_TRIED | NOT_BEFORE,
    ("failed for now", "standing, spent"): ended(ItemState.WAITING, "timeout", "late", **NO_LOOK),
    ("failed for now", "cancelled"): called_off("timeout", "late", failures=2),
    ("failed for now", "standing, cancelled"): called_off("timeout", "late", failures=2, looks=NOT_SEEN),
}
"""The end of the second attempt of an item that has failed once -> what differs afterwards."""
OF_LOOKED = {
    "standing": LOOK | {"looks": (*LOOKS, Look(THEN.timestamp(), 7, None, 2.0))},
    "standing, spent": LOOK | {"looks": (*LOOKS, Look(THEN.timestamp(), 7, None, 2.0))},
    "standing, cancelled": called_off("ok", "", failures=0, looks=(*LOOKS, Look(THEN.timestamp(), 7, None, 2.0))),
}
"""The good end of an attempt of which a callback said what was found."""
OF_SAID = {
    "standing": ended(ItemState.WAITING, "ok", "all there", failures=0, looks=SEEN, **AN_HOUR_LATER),
    "standing, spent": ended(ItemState.WAITING, "ok", "all there", failures=0, looks=SEEN, **AN_HOUR_LATER),
    "standing, cancelled": called_off("ok", "all there", failures=0, looks=SEEN),
}

TABLE: dict[tuple[str, str, str, str], Changes] = {}
"""Item, event, when, policy -> the fields that differ afterwards. What is not here changes nothing."""
_ENDING = ("ended well", "not there", "denied", "failed for good", "failed for now")
_ACTIVE = (
    *("active", "spoken for", "told to wait", "spoken for before"),
    *("looked at", "looked at before", "to be removed"),
)
_LOST = ("lost", "lost, spoken for", "lost, looked at")
_LATER = ("later", "between looks")
_OTHER_INPUT = {"input": {"url": "another"}}
for _policy in POLICIES:
    _cancelled, _standing = "cancelled" in _policy, "standing" in _policy
    if not _cancelled:
        TABLE["new", "fed", "same", _policy] = BEGUN | {"attempts": 1}
        for _item in _LOST:
            TABLE[_item, "fed", "same", _policy] = BEGUN | {"said": None, "looked": None, "stage_rank": None}
        TABLE["due again", "fed", "same", _policy] = BEGUN | {"outcome": "", "reason": ""}
        TABLE["later", "retried", "", _policy] = {"failures": 0, "outcome": "", "reason": "", "due_at": None}
        TABLE["between looks", "retried", "", _policy] = {"outcome": "", "due_at": None, "why": ""}
        TABLE["done", "retried", "", _policy] = AGAIN
        TABLE["failed", "retried", "", _policy] = AGAIN
        for _item in ("skipped", "removed"):
            TABLE[_item, "retried", "", _policy] = AGAIN | {"reason": ""}
        for _item in ITEMS:
            TABLE[_item, "changed", "", _policy] = _OTHER_INPUT
            TABLE[_item, "oftener", "", _policy] = {"often": 2.0}
            if _standing and _item not in (*_ACTIVE, *_LOST, "new", "due again"):
                TABLE[_item, "changed", "", _policy] = _OTHER_INPUT | TABLE[_item, "retried", "", _policy]
        TABLE["removed", "changed", "", _policy] = AGAIN | {"reason": ""} | _OTHER_INPUT
        TABLE["removed", "oftener", "", _policy] = AGAIN | {"reason": "", "often": 2.0}
        TABLE["removed", "the same", "", _policy] = AGAIN | {"reason": ""}
        for _event in ("changed", "oftener", "the same"):
            TABLE["to be removed", _event, "", _policy] = TABLE.get(("active", _event, "", _policy), {}) | BACK
        if _standing:
            TABLE["between looks", "oftener", "", _policy] = {
                "often": 2.0,
                "due_at": THEN - timedelta(minutes=30),
                "why": "an hour later, 2 times",
            }
            TABLE["between looks", "the same", "", _policy] = {"due_at": THEN}
    for _event in _ENDING:
        TABLE["lost", _event, "same", _policy] = ENDS[_event, _policy]
        for _item in ("active", "looked at before"):
            TABLE[_item, _event, "same", _policy] = ENDS[_event, _policy] | {"feeder": "", "looked": None}
        TABLE["spoken for before", _event, "same", _policy] = ENDS[_event, _policy] | {"feeder": "", "said": None}
        TABLE["told to wait", _event, "same", _policy] = {"feeder": "", "said": None} | (
            called_off("rate_limited", "used up", failures=1) if _cancelled else WAITS
        )
        TABLE["spoken for", _event, "same", _policy] = OF_SAID.get(_policy, AS_SAID) | {"feeder": "", "said": None}
        TABLE["looked at", _event, "same", _policy] = with_looks(ENDS[_event, _policy]) | {"feeder": "", "looked": None}
        TABLE["to be removed", _event, "same", _policy] = out(ENDS[_event, _policy]) | {"feeder": ""} | BACK
    for _event in ("ended well", "not there"):
        if _policy in OF_LOOKED:
            told, why = ("ok", "") if _event == "ended well" else ("not_found", "404")
            TABLE["looked at", _event, "same", _policy] = as_outcome(OF_LOOKED[_policy], told, why) | {
                "feeder": "",
                "looked": None,
            }
    for _item in _LOST[1:]:  # it ends as if it had not been taken for lost
        for _event in _ENDING:
            TABLE[_item, _event, "same", _policy] = TABLE[_item.removeprefix("lost, "), _event, "same", _policy]
    for _item in (*_ACTIVE, *_LOST):
        TABLE[_item, "said", "same", _policy] = {"said": SavedResult(2, ItemState.SKIPPED, "opt_out", "it says so")}
        TABLE[_item, "stage", "same", _policy] = {"stage": "half"}
        TABLE[_item, "looked", "same", _policy] = {"looked": LookedAt(2, 4, changed=True, cost=0.5)}
    del TABLE["lost, looked at", "stage", "same", _policy]  # it has come farther
    for _item in _ACTIVE:
        _skipped = CALLED_OFF if _cancelled else {"state": ItemState.WAITING}
        TABLE[_item, "lost", "same", _policy] = _skipped | {"feeder": ""}
        TABLE[_item, "removal", "", _policy] = {"removed_at": NOW}
    TABLE["to be removed", "lost", "same", _policy] = TAKEN_OUT | {"feeder": ""} | BACK
    del TABLE["to be removed", "removal", "", _policy]
    for _item in ITEMS.keys() - {*_ACTIVE, "removed"}:
        TABLE[_item, "removal", "", _policy] = TAKEN_OUT | ({"due_at": None, "why": ""} if _item in _LATER else {})
    for _item in ("new", *_LOST, "later", "between looks", "due again"):
        _later = {"due_at": None, "why": ""} if _item in _LATER else {}
        TABLE[_item, "cancelled", "", _policy] = CALLED_OFF | _later
        TABLE[_item, "limit", "", _policy] = {
            "state": ItemState.SKIPPED,
            "outcome": "max_items",
            "reason": "max_items",
        } | _later
    for _item in ITEMS:
        TABLE[_item, "nearer", "", _policy] = {"depth": 1}
    if not _cancelled:
        TABLE["done", "nearer", "", _policy] = {"depth": 1, "state": ItemState.WAITING}

PAIRS = [*product(OF_AN_ATTEMPT, WHEN), *((event, "") for event in OF_NO_ATTEMPT)]


def differences(before: Item, after: Item) -> Changes:
    told = asdict(before)
    return {name: value for name, value in asdict(after).items() if value != told[name]}


def with_named(changes: Changes) -> Changes:
    """The changes, with what the reason of the next look names: the policy's own word, or the number of failures."""
    if not (why := changes.get("why")):
        return changes
    failures = re.search(r"\d+ failures?", why)
    return changes | {"why": failures[0] if failures else why.partition(",")[0]}


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
        wanted = {name: expected[name] for name in changed} | {"updated_at": NOW}
        assert with_named(differences(before, after)) == with_named(wanted), event
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
    assert (fed.state, fed.due_at) == (ItemState.ACTIVE, None)


def test_a_change_that_was_made_of_another_input_changes_nothing() -> None:
    item = replace(NEW, input={"url": "a"})
    assert transition(item, Changed({"url": "b"}, seen={"url": "c"}), RetryPolicy(), NOW) is None
    changed = transition(item, Changed({"url": "b"}, seen={"url": "a"}), RetryPolicy(), NOW)
    assert changed
    assert changed.input == {"url": "b"}


def test_an_item_found_nearer_while_it_is_fetched_waits_again_when_it_is_done() -> None:
    nearer = transition(ITEMS["active"], Nearer(1), RetryPolicy(), NOW)
    assert nearer is not None
    done = transition(nearer, Ended(2, "ok"), RetryPolicy(), NOW)
    assert done is not None
    assert (done.state, done.due_at) == (ItemState.WAITING, None)
    called_off = transition(nearer, Ended(2, "ok"), RetryPolicy(cancelled=True), NOW)
    assert called_off is not None
    assert called_off.state is ItemState.DONE


def test_an_item_that_was_fed_within_the_limit_is_not_skipped_for_it() -> None:
    assert transition(replace(NEW, number=3), LimitReached(), RetryPolicy(), NOW) is None


def test_what_a_callback_said_of_an_item_of_a_standing_job_counts_as_a_failure_when_it_says_so() -> None:
    told = replace(ITEMS["active"], said=SavedResult(2, ItemState.FAILED, "invalid", "no such feed"))
    after = transition(told, Ended(2, "ok"), POLICIES["standing"], NOW)
    assert after is not None
    assert (after.state, after.failures, after.due_at) == (ItemState.WAITING, 2, IN_200_S)
    assert [look.found for look in after.looks] == [None]


def test_an_item_of_a_standing_job_that_a_callback_skips_is_left_alone() -> None:
    told = replace(ITEMS["active"], said=SavedResult(2, ItemState.SKIPPED, "gone", "the feed says that it has ended"))
    after = transition(told, Ended(2, "ok"), POLICIES["standing"], NOW)
    assert after is not None
    assert (after.state, after.outcome, after.due_at, after.looks) == (ItemState.SKIPPED, "gone", None, ())


@pytest.mark.parametrize(
    ("outcome", "last"),
    [
        ("timeout", ItemState.FAILED),
        ("not_found", ItemState.FAILED),
        ("invalid", ItemState.FAILED),
        ("policy_denied", ItemState.SKIPPED),
    ],
)
def test_an_item_of_a_standing_job_that_fails_on_and_on_is_left_alone_until_it_is_retried(
    outcome: str, last: ItemState
) -> None:
    item, policy, now = NEW, POLICIES["standing"], NOW
    for attempt in range(1, MOST_FAILURES + 1):
        assert item.state is ItemState.WAITING
        now = max(now, item.due_at or now)
        item = transition(item, Fed(attempt), policy, now) or item
        item = transition(item, Ended(attempt, outcome), policy, now) or item
    assert (item.state, item.due_at) == (last, None)
    assert {look.found for look in item.looks} == {None}
    again = transition(item, Retried(), policy, now)
    assert again is not None
    assert (again.state, again.failures) == (ItemState.WAITING, 0)


def test_an_item_keeps_its_last_good_looks_and_one_ends_a_row_of_failures() -> None:
    item, policy = NEW, POLICIES["standing"]
    for attempt in range(1, 2 * HISTORY + 8):
        now = NOW + timedelta(days=attempt)
        item = transition(item, Fed(attempt), policy, now) or item
        outcome = "invalid" if attempt % 2 else "ok"
        item = transition(item, Ended(attempt, outcome, "", {"new": attempt}), policy, now) or item
        assert item.failures == attempt % 2
    last = 2 * HISTORY + 7
    found = [*range(last + 1 - 2 * HISTORY, last, 2)]
    assert [look.found for look in item.looks] == [*found, None], "of failures the last is enough"


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
    assert after.state is not ItemState.ACTIVE


def test_what_was_said_of_an_attempt_that_was_taken_for_lost_ends_it_and_not_the_next_one() -> None:
    lost, policy = ITEMS["lost, spoken for"], POLICIES["plain"]
    ended = transition(lost, Ended(2, "timeout"), policy, NOW)
    assert ended
    assert (ended.state, ended.outcome, ended.reason) == (ItemState.DONE, "ok", "all there")
    begun = transition(lost, Fed(3), policy, NOW)
    assert begun
    for late in (SavedResult(2, ItemState.FAILED, "invalid"), Ended(2, "ok")):
        assert transition(begun, late, policy, NOW) is None
    ended = transition(begun, Ended(3, "timeout"), policy, NOW)
    assert ended
    assert (ended.state, ended.outcome, ended.reason) == (ItemState.WAITING, "timeout", "")


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


def standing(item: Item, *events: Event, policy: RetryPolicy = POLICIES["standing"], at: datetime = NOW) -> Item:
    for event in events:
        item = transition(item, event, policy, at) or item
    return item


def test_what_a_look_leaves_is_kept_when_it_ends_well_and_is_forgotten_with_what_failed() -> None:
    left = LookedAt(1, 0, left={"mark": 1})
    looked = standing(NEW, Fed(1), left, Ended(1, "ok"))
    assert looked.left == {"mark": 1}
    later = replace(looked, due_at=None)
    failed = standing(later, Fed(2), LookedAt(2, 0, left={"mark": 2}), Ended(2, "timeout"))
    assert failed.left == {"mark": 1}, "pages behind the mark may not have been read"
    assert standing(later, Fed(2), LookedAt(2, 0), Ended(2, "ok")).left == {"mark": 1}
    assert standing(looked, Retried()).left == {"mark": 1}
    assert standing(failed, Retried()).left == {}
    assert standing(looked, Changed({"url": "another"})).left == {}


def test_a_site_s_own_word_puts_a_look_off_and_none_brings_it_forward() -> None:
    much_later = NOW + timedelta(days=2)
    put_off = standing(NEW, Fed(1), LookedAt(1, 0, not_before=much_later), Ended(1, "ok"))
    assert (put_off.due_at, "site" in put_off.why) == (much_later, True)
    assert standing(put_off, Changed(put_off.input)).due_at == much_later, "also when its job is continued"
    usual = standing(NEW, Fed(1), LookedAt(1, 0, not_before=NOW), Ended(1, "ok"))
    assert usual.due_at == standing(NEW, Fed(1), LookedAt(1, 0), Ended(1, "ok")).due_at


def test_an_item_may_have_a_policy_of_its_own_in_a_standing_job_only() -> None:
    own = replace(NEW, recheck="every 30s")
    looked = standing(own, Fed(1), LookedAt(1, 0), Ended(1, "ok"))
    assert looked.due_at
    assert NOW < looked.due_at <= NOW + timedelta(seconds=45)
    assert looked.why == "every 30s"
    slower = standing(looked, Changed(None, None, "every 1h"))
    assert slower.due_at
    assert slower.due_at > looked.due_at
    assert standing(own, Fed(1), Ended(1, "ok"), policy=RetryPolicy()).state is ItemState.DONE
