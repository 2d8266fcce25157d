"""One run after the other, and two at once: what a crawl continues with, and who may."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psutil
import pytest
from pymongo.database import Database

from harvester.frontier.changes import Ended, Progress, RootsFound, SeedEnded
from harvester.frontier.ledger import CrawlLedger
from tests.ledger.conftest import LAST_DEPTH, LEASE_SECONDS, Killed, Runs, collected, found, opened
from tests.root import ROOT

Document = dict[str, Any]


async def test_an_unfinished_crawl_is_continued_and_a_finished_one_begun_anew(runs: Runs) -> None:
    first = await runs.next()
    await opened(first, "ann", "feed")
    assert not await first.close()
    second = await runs.next()
    assert (second.crawl, second.resumed) == (first.crawl, True)
    await second.next_open(1)
    await second.confirm([Progress("did:plc:ann", "feed", 0, None)])
    assert await second.close()
    third = await runs.next()
    assert (third.crawl, third.resumed) == ("bluesky-01234567-2", False)
    assert third.stages == {}
    assert (await runs.next(scope="ffffffff")).crawl == "bluesky-ffffffff-1"


async def test_a_run_killed_while_it_opens_the_crawl_is_followed_by_one_that_opens_it(runs: Runs) -> None:
    for operations in itertools.count():
        with contextlib.suppress(Killed):
            await runs.next(operations=operations)
            break
    assert operations > 4
    assert (await runs.next()).crawl == "bluesky-01234567-1"


async def test_what_failed_for_a_passing_reason_is_tried_again_by_the_next_run_and_nothing_else(runs: Runs) -> None:
    ledger = await runs.next()
    await ledger.confirm([found("passing", "lasting", "left.out")])
    await ledger.next_accounts(10)
    await ledger.confirm(
        [
            Ended("did:plc:passing", "failed", "timeout: late", later=True),
            Ended("did:plc:lasting", "failed", "gone: AccountDeactivated"),
            Ended("did:plc:left.out", "skipped", "opt_out: no"),
        ]
    )
    assert await ledger.next_accounts(10) == []
    assert not await ledger.close()
    ledger = await runs.next()
    assert +ledger.stages == {"queued": 1, "failed": 1, "skipped": 1}
    assert [account.did for account in await ledger.next_accounts(10)] == ["did:plc:passing"]
    await ledger.confirm([collected("passing")])
    assert await ledger.close()
    assert await ledger.reasons() == {
        ("accounts", "failed", "gone: AccountDeactivated"): 1,
        ("accounts", "skipped", "opt_out: no"): 1,
    }


async def test_every_seed_has_a_fate(runs: Runs) -> None:
    ledger = await runs.next()
    await ledger.add_seeds(["ann.test", "bob.test", "gone.test", "late.test"])
    await ledger.reject_seed("no seed", "neither a handle nor a DID")
    assert sorted(await ledger.next_seeds(10)) == ["ann.test", "bob.test", "gone.test", "late.test"]
    assert await ledger.next_seeds(10) == []
    assert ledger.seeds_in_flight() == 4
    await ledger.confirm(
        [
            SeedEnded("ann.test", "did:plc:ann"),
            SeedEnded("gone.test", None, "not_found: Profile not found"),
            SeedEnded("late.test", None, "timeout: late", later=True),
        ]
    )
    assert ledger.busy()
    seeds = {seed["seed"]: seed async for seed in runs.database["seeds"].find({}, {"_id": 0, "updated_at": 0})}
    fates = {name: (seed["state"], seed["stage"], seed.get("did"), seed.get("reason")) for name, seed in seeds.items()}
    assert fates == {
        "ann.test": ("closed", "resolved", "did:plc:ann", None),
        "bob.test": ("waiting", "queued", None, None),
        "gone.test": ("closed", "failed", None, "not_found: Profile not found"),
        "late.test": ("closed", "failed", None, "timeout: late"),
        "no seed": ("closed", "failed", None, "neither a handle nor a DID"),
    }
    assert (await runs.states(ledger)) == {"did:plc:ann": ("waiting", "queued")}
    ledger = await runs.next()
    await ledger.add_seeds(["ann.test", "bob.test", "gone.test", "late.test"])
    assert sorted(await ledger.next_seeds(10)) == ["bob.test", "late.test"]


# Several at once


async def runners(runs: Runs, ledger: CrawlLedger) -> list[Document]:
    crawl = await runs.database["crawls"].find_one({"_id": ledger.crawl})
    assert crawl
    return list(crawl["runners"])


@contextmanager
def another_run(mongodb: Database[Document], uri: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that runs the same crawl and has claimed Ann's account, until it is killed."""
    command = [sys.executable, "-m", "tests.ledger.run_crawl", uri, mongodb.name]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert json.loads(process.stdout.readline())["crawl"] == "bluesky-01234567-1"
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_a_second_process_joins_and_takes_over_at_once_what_a_killed_one_had(
    runs: Runs, mongodb: Database[Document], mongodb_uri: str
) -> None:
    with another_run(mongodb, mongodb_uri) as process:
        ledger = await runs.next()
        assert (ledger.resumed, ledger.shared, ledger.others()) == (True, True, "1 other process")
        assert await ledger.next_accounts(10) == []
        assert await ledger.is_left(), "the other has Ann"
        os.kill(process.pid, signal.SIGKILL)
        dying = psutil.Process(process.pid)
        while dying.status() != psutil.STATUS_ZOMBIE:  # nobody has waited for it: it is dead all the same
            pass
        assert await ledger.is_left()
        assert [account.did for account in await ledger.next_accounts(10)] == ["did:plc:ann"]
        assert len(await runners(runs, ledger)) == 1


def elsewhere(runner: Document) -> Document:
    return runner | {"place": "elsewhere"}


def reborn(runner: Document) -> Document:
    """The same number, given to another process."""
    return runner | {"pid": os.getppid(), "born": 1.0}


def given_to_us(runner: Document) -> Document:
    return runner | {"id": "an earlier process"}


def ancient(runner: Document) -> Document:
    return elsewhere(runner) | {"seen_at": runner["seen_at"] - timedelta(seconds=LEASE_SECONDS + 1)}


def clock_was_set(runner: Document) -> Document:
    """Start times are told by the clock; setting it moves them a little."""
    parent = os.getppid()
    return runner | {"pid": parent, "born": psutil.Process(parent).create_time() + 0.5}


@pytest.mark.parametrize(
    ("change", "alive"),
    [(elsewhere, True), (ancient, False), (reborn, False), (given_to_us, False), (clock_was_set, True)],
)
async def test_a_process_counts_as_running_while_it_is_or_was_heard_of(
    runs: Runs, change: Callable[[Document], Document], alive: bool
) -> None:
    first = await runs.next()
    await first.confirm([found("ann")])
    await first.next_accounts(1)
    (runner,) = await runners(runs, first)
    changed = change(runner)
    crawl = {"_id": first.crawl}
    await runs.database["crawls"].update_one(crawl, {"$set": {"runners": [changed]}})
    await runs.database["accounts"].update_many({}, {"$set": {"claimed_by": changed["id"]}})
    second = await runs.next()
    assert second.shared == alive
    assert len(await second.next_accounts(1)) == (0 if alive else 1)


async def test_what_a_process_writes_that_was_taken_for_dead_counts_no_more(runs: Runs) -> None:
    first = await runs.next()
    await opened(first, "ann", "feed")
    second = await runs.next()
    (account,) = await second.next_open(1)
    await first.confirm([Progress(account.did, "feed", 0, None)])
    assert (await runs.states(second))[account.did] == ("open", "profile_collected")
    await second.confirm([Progress(account.did, "feed", 0, "c1")])
    await first.close()
    assert len(await runners(runs, second)) == 1
    assert (await runs.documents(second))[account.did]["todo"] == {"feed": "c1"}


async def test_an_account_that_a_process_lost_and_still_reads_is_not_handed_to_it_again(runs: Runs) -> None:
    """Its pages would be taken for those of the new reading."""
    ledger = await runs.next()
    await opened(ledger, "ann", "feed")
    await runs.database["accounts"].update_many({}, {"$unset": {"claimed_by": ""}})
    assert await ledger.next_open(10) == []
    await ledger.confirm([Progress("did:plc:ann", "feed", 0, None)])
    (account,) = await ledger.next_open(10)
    assert account.todo == {"feed": None}


async def test_each_of_several_processes_is_handed_something_else(runs: Runs) -> None:
    ledgers = [await runs.next(alone=False) for _ in range(3)]
    names = set(map(str, range(100)))
    await ledgers[0].confirm([found(*names)])
    handed: list[str] = []
    while batches := [*filter(None, await asyncio.gather(*(ledger.next_accounts(25) for ledger in ledgers)))]:
        handed += [account.did.removeprefix("did:plc:") for batch in batches for account in batch]
    assert sorted(handed) == sorted(names)


async def test_no_more_than_max_accounts_are_handed_to_all_processes_together(runs: Runs) -> None:
    ledgers = [await runs.next(max_accounts=50, alone=False) for _ in range(3)]
    await ledgers[0].confirm([found(*map(str, range(90)))])
    handed: list[str] = []
    while await ledgers[0].is_left() and len(handed) < 50:
        for ledger in ledgers:
            ledger._full_until = 0.0
        batches = await asyncio.gather(*(ledger.next_accounts(7) for ledger in ledgers))
        for ledger, batch in zip(ledgers, batches, strict=True):
            handed += [account.did for account in batch]
            await ledger.confirm([collected(account.did.removeprefix("did:plc:")) for account in batch])
    assert len(handed) == len(set(handed)) == 50
    assert not await ledgers[1].is_left()
    for ledger in ledgers:
        await ledger.skip_rest()
    assert [await ledger.close() for ledger in ledgers] == [True, True, True]
    assert +ledgers[2].stages == {"profile_collected": 50, "skipped": 40}


async def test_the_place_of_a_dead_process_among_max_accounts_goes_to_another(runs: Runs) -> None:
    first = await runs.next(max_accounts=2)
    await first.confirm([found("ann", "bob", "cid")])
    assert len(await first.next_accounts(2)) == 2
    second = await runs.next(max_accounts=2)
    assert len(await second.next_accounts(5)) == 2
    await second.confirm([collected("ann"), collected("bob")])
    assert not await second.is_left()


async def test_the_crawl_is_finished_by_the_last_to_leave_it_and_the_next_one_is_another(runs: Runs) -> None:
    first, second = await runs.next(), await runs.next(alone=False)
    await first.confirm([found("ann")])
    await first.next_accounts(1)
    assert await second.is_left()
    await first.confirm([collected("ann")])
    assert not await second.is_left()
    assert await second.close()
    crawl = await runs.database["crawls"].find_one({"_id": first.crawl})
    assert crawl
    assert crawl["state"] == "running"
    assert await first.close()
    third = await runs.next(alone=False)
    assert (third.crawl, third.resumed) == ("bluesky-01234567-2", False)
    crawl = await runs.database["crawls"].find_one({"_id": first.crawl})
    assert crawl
    assert (crawl["state"], crawl["runners"]) == ("finished", [])


async def test_a_process_that_leaves_early_gives_back_what_it_had(runs: Runs) -> None:
    first, second = await runs.next(), await runs.next(alone=False)
    await first.add_seeds(["dan.test"])
    await first.confirm([found("ann"), RootsFound(("at://did:plc:ann/app.bsky.feed.post/1",))])
    await opened(first, "bob", "feed")
    assert (len(await first.next_seeds(9)), len(await first.next_threads(9))) == (1, 1)
    assert not await first.close()
    assert await second.next_seeds(9) == ["dan.test"]
    assert len(await second.next_threads(9)) == len(await second.next_open(9)) == 1
    assert (await second.next_accounts(9))[0].did == "did:plc:ann"


async def test_a_process_that_left_takes_nothing_and_frees_nothing_of_others(runs: Runs) -> None:
    first, second = await runs.next(), await runs.next(alone=False)
    await second.confirm([found("ann", "bob")])
    assert len(await second.next_accounts(1)) == 1
    await first.close()
    await first.relieve()
    assert await first.next_accounts(9) == []
    assert [len(await second.next_accounts(9)), len(await runners(runs, second))] == [1, 1]


async def test_what_failed_for_now_is_not_tried_again_by_a_process_that_joins(runs: Runs) -> None:
    first = await runs.next()
    await first.confirm([found("late")])
    await first.next_accounts(1)
    await first.confirm([Ended("did:plc:late", "failed", "timeout: late", later=True)])
    second = await runs.next(alone=False)
    assert await second.next_accounts(1) == []
    third = await runs.next()
    assert len(await third.next_accounts(1)) == 1


async def test_a_batch_that_was_claimed_and_not_handed_out_is_not_lost(runs: Runs) -> None:
    ledger = await runs.next()
    await ledger.confirm([found("ann")])
    await ledger.next_accounts(1)
    ledger._in_flight.accounts.clear()
    assert await ledger.is_left()
    assert len(await ledger.next_accounts(1)) == 1


# Seeds that come late


def feeder(runs: Runs) -> CrawlLedger:
    """What brings seeds to the crawl and does not run it."""
    arguments = {"collect": ["graph"], "depth": LAST_DEPTH, "direction": "follows"}
    spider, scope = "bluesky", "0123456789abcdef"
    return CrawlLedger(runs.database, runs.patiently, spider=spider, scope=scope, arguments=arguments, served=True)


async def test_a_seed_that_comes_late_has_its_lists_read_again_as_if_it_had_come_at_first(runs: Runs) -> None:
    await feeder(runs).feed(["did:plc:ann"])
    ledger = await runs.next(served=True)
    await ledger.confirm([SeedEnded(seed, seed) for seed in await ledger.next_seeds(9)])
    await ledger.next_accounts(9)
    await ledger.confirm([collected("ann", "follows")])
    await ledger.next_open(9)
    await ledger.confirm([found("bob", depth=1), Progress("did:plc:ann", "follows", 0, None)])
    await ledger.next_accounts(9)
    await ledger.confirm([collected("bob", "follows")])
    await ledger.next_open(9)
    await ledger.confirm([found("cid", depth=2), Progress("did:plc:bob", "follows", 0, None)])
    await feeder(runs).feed(["did:plc:bob"])
    assert await ledger.is_left()
    ledger._seeds_at = 0.0
    await ledger.confirm([SeedEnded(seed, seed) for seed in await ledger.next_seeds(9)])
    assert await ledger.reopen_nearer() == 1
    (bob,) = await ledger.next_open(9)
    assert (bob.did, bob.depth) == ("did:plc:bob", 0)


async def test_a_crawl_is_not_finished_over_a_seed_that_came_at_its_end(runs: Runs) -> None:
    """Wherever between two of its operations the seed comes."""
    for operation in range(12):
        ledger = await runs.next(served=True, scope="0123456789abcdef")
        at = operation

        async def meanwhile() -> None:
            nonlocal at
            at -= 1
            runs.meanwhile = meanwhile
            if at == 0:
                runs.meanwhile = None
                await feeder(runs).feed([f"seed-{operation}.test"])  # noqa: B023

        runs.meanwhile = meanwhile
        await ledger.close()
        runs.meanwhile = None
        if at > 0:
            break
        following = await runs.next(served=True)
        seeds = await following.next_seeds(9)
        assert seeds == ([f"seed-{operation}.test"] if operation else []), operation
        await following.confirm([SeedEnded(seed, None, "not_found: no") for seed in seeds])
        assert await following.close()
    assert operation > 5
