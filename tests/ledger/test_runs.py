"""One run after the other, and two at once: what a crawl continues with, and who may."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import pytest
from pymongo.database import Database

from harvester.exceptions import UsageError
from harvester.frontier.changes import Ended, Progress, SeedEnded
from harvester.frontier.runner import SILENT_SECONDS
from tests.ledger.conftest import Killed, Runs, collected, found, opened
from tests.sandbox.process import ROOT

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


# Two at once


@contextmanager
def another_run(mongodb: Database[Document], uri: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that runs the same crawl, until it is killed."""
    command = [sys.executable, "-m", "tests.ledger.run_crawl", uri, mongodb.name]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert json.loads(process.stdout.readline())["crawl"] == "bluesky-01234567-1"
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_a_second_process_is_refused_and_a_killed_one_is_succeeded_at_once(
    runs: Runs, mongodb: Database[Document], mongodb_uri: str
) -> None:
    with another_run(mongodb, mongodb_uri) as process:
        with pytest.raises(UsageError, match=f"bluesky-01234567-1 is being run by process {process.pid}"):
            await runs.next()
        os.kill(process.pid, signal.SIGKILL)
        dying = psutil.Process(process.pid)
        while dying.status() != psutil.STATUS_ZOMBIE:  # nobody has waited for it: it is dead all the same
            pass
        ledger = await runs.next()
        assert ledger.resumed


def elsewhere(runner: Document) -> Document:
    return runner | {"host": "elsewhere", "id": "elsewhere:1"}


def reborn(runner: Document) -> Document:
    """The same number, given to another process."""
    return runner | {"pid": os.getppid(), "id": "here:1", "born": 1.0}


def ancient(runner: Document) -> Document:
    return elsewhere(runner) | {"seen_at": datetime.now(UTC) - timedelta(seconds=SILENT_SECONDS + 1)}


def clock_was_set(runner: Document) -> Document:
    """Start times are told by the clock; setting it moves them a little."""
    parent = os.getppid()
    return runner | {"pid": parent, "id": "here:2", "born": psutil.Process(parent).create_time() + 0.5}


@pytest.mark.parametrize(
    ("change", "alive"), [(elsewhere, True), (ancient, False), (reborn, False), (clock_was_set, True)]
)
async def test_a_process_counts_as_running_while_it_is_or_was_heard_of(
    runs: Runs, change: Callable[[Document], Document], alive: bool
) -> None:
    first = await runs.next()
    crawl = await runs.database["crawls"].find_one({"_id": first.crawl})
    assert crawl
    await runs.database["crawls"].update_one({"_id": first.crawl}, {"$set": {"runner": change(crawl["runner"])}})
    if alive:
        with pytest.raises(UsageError, match="is being run"):
            await runs.next()
    else:
        assert (await runs.next()).resumed


async def test_a_run_that_was_succeeded_does_not_disturb_its_successor(runs: Runs) -> None:
    first = await runs.next()
    await first.confirm([found("ann")])
    await runs.database["crawls"].update_one({"_id": first.crawl}, {"$set": {"runner.id": "elsewhere:1"}})
    await first.close()
    crawl = await runs.database["crawls"].find_one({"_id": first.crawl})
    assert crawl
    assert (crawl["state"], crawl["runner"]["id"]) == ("running", "elsewhere:1")
