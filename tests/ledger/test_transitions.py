"""Every change, in every state an account can be in: what it makes of it, and that making it twice does no harm."""

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any, TypeAlias

import pytest

from harvester.frontier.changes import ChainsFound, Change, Ended, Progress
from harvester.frontier.ledger import CrawlLedger
from tests.ledger.conftest import Runs, collected, found, opened

State: TypeAlias = Callable[[CrawlLedger], Awaitable[None]]
"""Brings Ann's account into a state."""

ANN = "did:plc:ann"


async def unknown(ledger: CrawlLedger) -> None:
    await ledger.confirm([found("somebody", depth=2)])


async def waiting(ledger: CrawlLedger) -> None:
    await ledger.confirm([found("ann", depth=2)])


async def asked(ledger: CrawlLedger) -> None:
    await waiting(ledger)
    await ledger.next_accounts(1)


async def to_be_read(ledger: CrawlLedger) -> None:
    await asked(ledger)
    await ledger.confirm([collected("ann", "follows", "feed")])


async def being_read(ledger: CrawlLedger) -> None:
    await opened(ledger, "ann", "follows", "feed", depth=2)


async def being_read_to_its_end(ledger: CrawlLedger) -> None:
    await opened(ledger, "ann", "follows", depth=2)


async def being_read_after_an_error(ledger: CrawlLedger) -> None:
    await being_read(ledger)
    await ledger.confirm([Progress(ANN, "feed", 0, None, error="invalid: no")])


async def read(ledger: CrawlLedger) -> None:
    await being_read_to_its_end(ledger)
    await ledger.confirm([Progress(ANN, "follows", 0, None)])


async def failed(ledger: CrawlLedger) -> None:
    await asked(ledger)
    await ledger.confirm([Ended(ANN, "failed", "gone: AccountDeactivated")])


async def failed_for_now(ledger: CrawlLedger) -> None:
    await asked(ledger)
    await ledger.confirm([Ended(ANN, "failed", "timeout: late", later=True)])


async def skipped(ledger: CrawlLedger) -> None:
    await asked(ledger)
    await ledger.confirm([Ended(ANN, "skipped", "opt_out: no")])


STATES: list[State] = [
    unknown,
    waiting,
    asked,
    to_be_read,
    being_read,
    being_read_to_its_end,
    being_read_after_an_error,
    read,
    failed,
    failed_for_now,
    skipped,
]

CHANGES: dict[str, Change] = {
    "found nearer": found("ann", depth=1),
    "found farther": found("ann", depth=3),
    "profile": collected("ann", "follows", "feed"),
    "profile alone": collected("ann"),
    "more chains": ChainsFound(ANN, ("list_a",)),
    "page": Progress(ANN, "follows", 0, "next"),
    "last page": Progress(ANN, "follows", 0, None),
    "error": Progress(ANN, "follows", 0, "here", error="invalid: no"),
    "error for now": Progress(ANN, "follows", 0, "here", error="timeout: late", later=True),
    "failed": Ended(ANN, "failed", "not_found: gone"),
    "failed for now": Ended(ANN, "failed", "timeout: late", later=True),
    "skipped": Ended(ANN, "skipped", "purged"),
}

NEW = {"did": ANN, "handle": "ann.test", "state": "waiting", "stage": "queued"}
TIMED_OUT = {"reason": "follows: timeout: late", "later": True, "again": {"follows": "here"}}
INVALID = {"reason": "follows: invalid: no", "lasting": True}
FED = {"reason": "feed: invalid: no", "lasting": True}

TABLE: dict[tuple[State, str], dict[str, Any]] = {
    (unknown, "found nearer"): NEW | {"depth": 1},
    (unknown, "found farther"): NEW | {"depth": 3},
    (asked, "profile"): {"state": "open", "stage": "profile_collected", "todo": {"follows": None, "feed": None}},
    (asked, "profile alone"): {"state": "closed", "stage": "profile_collected", "todo": {}},
    (asked, "failed"): {"state": "closed", "stage": "failed", "reason": "not_found: gone"},
    (asked, "failed for now"): {"state": "closed", "stage": "failed", "reason": "timeout: late", "later": True},
    (asked, "skipped"): {"state": "closed", "stage": "skipped", "reason": "purged"},
    (being_read, "more chains"): {"todo": {"follows": None, "feed": None, "list_a": None}},
    (being_read, "page"): {"read_at": 2, "todo": {"follows": "next", "feed": None}},
    (being_read, "last page"): {"read_at": 2, "todo": {"feed": None}},
    (being_read, "error"): {"read_at": 2, "todo": {"feed": None}} | INVALID,
    (being_read, "error for now"): {"read_at": 2, "todo": {"feed": None}} | TIMED_OUT,
    (being_read_to_its_end, "more chains"): {"todo": {"follows": None, "list_a": None}},
    (being_read_to_its_end, "page"): {"read_at": 2, "todo": {"follows": "next"}},
    (being_read_to_its_end, "last page"): {"read_at": 2, "state": "closed", "stage": "posts_collected", "todo": {}},
    (being_read_to_its_end, "error"): {"read_at": 2, "state": "closed", "stage": "failed", "todo": {}} | INVALID,
    (being_read_to_its_end, "error for now"): {"read_at": 2, "state": "closed", "stage": "failed", "todo": {}}
    | TIMED_OUT,
    (being_read_after_an_error, "more chains"): {"todo": {"follows": None, "list_a": None}},
    (being_read_after_an_error, "page"): {"read_at": 2, "todo": {"follows": "next"}},
    (being_read_after_an_error, "last page"): {"read_at": 2, "state": "closed", "stage": "failed", "todo": {}} | FED,
    (being_read_after_an_error, "error"): {"read_at": 2, "state": "closed", "stage": "failed", "todo": {}} | FED,
    (being_read_after_an_error, "error for now"): {"read_at": 2, "state": "closed", "stage": "failed", "todo": {}}
    | FED
    | {"later": True, "again": {"follows": "here"}},
}
"""State and change -> the fields that differ afterwards. A pair that is not here changes nothing."""
for _state in STATES:
    if _state is not unknown:
        TABLE[_state, "found nearer"] = {"depth": 1}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
async def test_a_change_does_what_the_table_says_and_nothing_when_made_again(runs: Runs, state: State) -> None:
    for number, (name, change) in enumerate(CHANGES.items()):
        ledger = await runs.next(scope=f"{number:08}")
        await state(ledger)
        before = (await runs.documents(ledger)).get(ANN)
        await ledger.confirm([change])
        after = (await runs.documents(ledger)).get(ANN)
        if expected := TABLE.get((state, name)):
            assert after == (before or {}) | expected, name
        else:
            assert after == before, name
        await ledger.confirm([change])
        documents = await runs.documents(ledger)
        assert documents.get(ANN) == after, f"{name}, twice"
        stages = [document["stage"] for document in documents.values()]
        assert +ledger.stages == Counter(stages), name


def test_the_table_names_only_what_is_tried() -> None:
    assert TABLE.keys() <= set(product(STATES, CHANGES))
