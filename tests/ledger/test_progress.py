"""How far a chain has come counts page by page, whatever the order in which pages and their parts are confirmed."""

import contextlib
import random

import pytest

from harvester.frontier.changes import ChainsFound, Progress, RootsFound, ThreadAnswer, ThreadEnded
from harvester.frontier.ledger import CrawlLedger
from tests.ledger.conftest import Killed, Runs, found, opened

ANN = "did:plc:ann"
ROOT = "at://did:plc:ann/app.bsky.feed.post/1"


def page(number: int, last: bool = False, **more: object) -> Progress:
    return Progress(ANN, "feed", number, None if last else f"c{number + 1}", **more)  # type: ignore[arg-type]


async def todo(runs: Runs, ledger: CrawlLedger) -> object:
    return (await runs.documents(ledger))[ANN]["todo"]


async def test_a_page_does_not_count_before_the_pages_before_it(runs: Runs) -> None:
    ledger = await runs.next()
    await opened(ledger, "ann", "feed")
    await ledger.confirm([page(1)])
    await ledger.confirm([page(2)])
    assert await todo(runs, ledger) == {"feed": None}
    await ledger.confirm([page(0)])
    assert await todo(runs, ledger) == {"feed": "c3"}


async def test_a_page_in_parts_counts_when_all_its_parts_are_there(runs: Runs) -> None:
    ledger = await runs.next()
    await opened(ledger, "ann", "feed")
    part = page(0, parts=3)
    await ledger.confirm([part, part])
    assert await todo(runs, ledger) == {"feed": None}
    await ledger.confirm([part])
    assert await todo(runs, ledger) == {"feed": "c1"}


@pytest.mark.parametrize("seed", range(5))
async def test_parts_of_pages_in_any_order_end_the_chain_once(runs: Runs, seed: int) -> None:
    parts = [page(number, last=number == 6, parts=1 + number % 3) for number in range(7) for _ in range(1 + number % 3)]
    random.Random(seed).shuffle(parts)
    ledger = await runs.next()
    await opened(ledger, "ann", "feed")
    for part in parts[:-1]:
        await ledger.confirm([part])
        assert (await runs.documents(ledger))[ANN]["state"] == "open"
    await ledger.confirm(parts[-1:])
    assert (await runs.documents(ledger))[ANN]["state"] == "closed"
    assert +ledger.stages == {"posts_collected": 1}
    assert not ledger.busy()


async def test_an_error_in_one_part_ends_the_chain_at_its_page_and_later_pages_do_not_count(runs: Runs) -> None:
    ledger = await runs.next()
    await opened(ledger, "ann", "feed", "follows")
    await ledger.confirm([page(2), page(1, parts=2)])
    await ledger.confirm([page(1, parts=2)._replace(cursor="c1", error="timeout: late", later=True)])
    assert await todo(runs, ledger) == {"feed": None, "follows": None}
    await ledger.confirm([page(0)])
    await ledger.confirm([page(3, last=True)])
    document = (await runs.documents(ledger))[ANN]
    assert document["todo"] == {"follows": None}
    assert document["again"] == {"feed": "c1"}
    assert document["reason"] == "feed: timeout: late"


async def test_a_later_run_continues_from_the_cursor_confirmed_last(runs: Runs) -> None:
    ledger = await runs.next()
    await opened(ledger, "ann", "feed", "follows")
    await ledger.confirm([page(0), page(1), page(3)])
    ledger = await runs.next()
    (account,) = await ledger.next_open(10)
    assert account.todo == {"feed": "c2", "follows": None}
    await ledger.confirm([page(0, last=True), Progress(ANN, "follows", 0, None)])
    assert (await runs.documents(ledger))[ANN]["state"] == "closed"


async def test_a_chain_that_failed_for_now_is_continued_beside_those_a_kill_left_unread(runs: Runs) -> None:
    ledger = await runs.next()
    await opened(ledger, "ann", "feed", "follows")
    await ledger.confirm([page(0), page(1)._replace(cursor="c1", error="timeout: late", later=True)])
    ledger = await runs.next()
    (account,) = await ledger.next_open(10)
    assert account.todo == {"feed": "c1", "follows": None}
    await ledger.confirm([page(0, last=True), Progress(ANN, "follows", 0, None)])
    assert (await runs.documents(ledger))[ANN] == {
        "did": ANN,
        "handle": "ann.test",
        "depth": 0,
        "state": "closed",
        "stage": "posts_collected",
        "read_at": 0,
        "todo": {},
    }


async def test_a_chain_that_failed_for_good_is_not_forgotten_when_another_is_tried_again(runs: Runs) -> None:
    ledger = await runs.next()
    await opened(ledger, "ann", "feed", "follows")
    await ledger.confirm([Progress(ANN, "follows", 0, None, error="invalid: no")])
    await ledger.confirm([page(0)._replace(cursor=None, error="timeout: late", later=True)])
    assert (await runs.states(ledger))[ANN] == ("closed", "failed")
    ledger = await runs.next()
    (account,) = await ledger.next_open(10)
    assert account.todo == {"feed": None}
    await ledger.confirm([page(0, last=True)])
    document = (await runs.documents(ledger))[ANN]
    assert (document["stage"], document["reason"]) == ("failed", "follows: invalid: no")
    assert "later" not in document


async def test_lists_found_on_the_way_are_read_before_the_account_is_done(runs: Runs) -> None:
    ledger = await runs.next()
    await opened(ledger, "ann", "lists")
    await ledger.confirm([ChainsFound(ANN, ("list_a", "list_b")), Progress(ANN, "lists", 0, None)])
    assert (await runs.states(ledger))[ANN] == ("open", "profile_collected")
    (account,) = await ledger.next_open(10)
    assert account.todo == {"list_a": None, "list_b": None}
    await ledger.confirm([Progress(ANN, "list_a", 0, None), Progress(ANN, "list_b", 0, None)])
    assert (await runs.states(ledger))[ANN] == ("closed", "posts_collected")
    assert +ledger.stages == {"posts_collected": 1}


async def test_lists_found_again_while_they_are_read_do_not_keep_the_account_open(runs: Runs) -> None:
    ledger = await runs.next()
    await opened(ledger, "ann", "lists", "list_a")
    await ledger.confirm([ChainsFound(ANN, ("list_a",)), Progress(ANN, "lists", 0, None)])
    await ledger.confirm([Progress(ANN, "list_a", 0, None)])
    assert (await runs.states(ledger))[ANN] == ("closed", "posts_collected")


async def test_what_a_page_shows_is_written_before_the_page_counts_as_read(runs: Runs) -> None:
    """A kill may come between any two writes: then the page is read again, and nothing it showed is lost."""
    outcomes = []
    for writes in range(5):
        ledger = await runs.next(scope=f"{writes:08}")
        await opened(ledger, "ann", "feed")
        runs.operations_left = writes
        with contextlib.suppress(Killed):
            await ledger.confirm([found("bob", depth=1), RootsFound((ROOT,)), page(0, last=True)])
        states = await runs.states(ledger)
        thread = await runs.database["thread_queue"].find_one({"crawl": ledger.crawl})
        outcomes.append((thread is not None and "did:plc:bob" in states, states[ANN] == ("closed", "posts_collected")))
    assert outcomes[0] == (False, False)
    assert outcomes[-1] == (True, True)
    assert (False, True) not in outcomes


# Threads


async def stage(runs: Runs) -> str:
    (thread,) = await runs.database["thread_queue"].find().to_list()
    return str(thread["stage"])


async def test_a_thread_of_several_answers_ends_when_all_are_confirmed(runs: Runs) -> None:
    ledger = await runs.next()
    await ledger.confirm([RootsFound((ROOT,))])
    assert await ledger.next_threads(10) == [ROOT]
    assert await ledger.next_threads(10) == []
    await ledger.confirm([ThreadAnswer(ROOT)])
    await ledger.confirm([ThreadEnded(ROOT, "collected", answers=3)])
    assert await stage(runs) == "queued"
    await ledger.confirm([ThreadAnswer(ROOT)])
    assert await stage(runs) == "collected"
    assert not ledger.busy()
    await ledger.confirm([ThreadAnswer(ROOT), ThreadEnded(ROOT, "failed", "late", answers=3), RootsFound((ROOT,))])
    assert await stage(runs) == "collected"
    assert +ledger.thread_stages == {"collected": 1}


async def test_a_thread_that_was_not_read_to_its_end_is_read_again_by_the_next_run(runs: Runs) -> None:
    ledger = await runs.next()
    await ledger.confirm([RootsFound((ROOT,))])
    await ledger.next_threads(10)
    await ledger.confirm([ThreadAnswer(ROOT)])
    ledger = await runs.next()
    assert await ledger.next_threads(10) == [ROOT]
    await ledger.confirm([ThreadEnded(ROOT, "failed", "timeout: late", later=True)])
    ledger = await runs.next()
    assert await ledger.next_threads(10) == [ROOT]
    await ledger.confirm([ThreadEnded(ROOT, "failed", "not_found: gone")])
    ledger = await runs.next()
    assert await ledger.next_threads(10) == []
