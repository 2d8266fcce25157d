"""Standing jobs in the ledger, with a clock that the tests turn."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import bson
import pytest
from pymongo.database import Database
from redis.asyncio import Redis

from harvester.config import Config
from harvester.items import Found
from harvester.items.bson_limits import MAX_BYTES
from harvester.jobs import ledger as ledger_module
from harvester.jobs.budgets import MINUTES
from harvester.jobs.documents import Item, ItemState, Job, item_id, looked_at, read_item, to_document
from harvester.jobs.ledger import Ledger, ListedItems
from harvester.jobs.recurring import restart
from harvester.jobs.service import JobService
from harvester.jobs.transitions import Changed, Ended, Removed
from harvester.sites import load_sites
from tests.forking import Forked, fork
from tests.jobs.conftest import Killed, Ledgers, after_operations, nowhere, pages
from tests.root import ROOT

Document = dict[str, Any]
MORNING = datetime(2026, 3, 1, 6, tzinfo=UTC)
SITES = """
[small]
hosts = ["small.example"]
[small.politeness]
looks_a_day = 1440
"""


class Clock:
    """Shows the time that a test has set."""

    def __init__(self) -> None:
        self.at = MORNING

    def __call__(self) -> datetime:
        return self.at

    def turn(self, **by: float) -> None:
        self.at += timedelta(**by)


@pytest.fixture
def clock(ledgers: Ledgers) -> Clock:
    ledgers.clock = clock = Clock()
    return clock


@pytest.fixture
def _small_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "small.toml").write_text(SITES)
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path / "sites"))
    load_sites.cache_clear()


async def look(ledger: Ledger, job: Job, most: int = 100, outcome: str = "ok") -> list[str]:
    """Looks at what is due; the keys, in the order in which it was claimed."""
    claimed = await ledger.claim(job, most, "feeder")
    await ledger.apply([(item.id, Ended(item.attempts, outcome, "", {"new": 1, "requests": 2})) for item in claimed])
    return [item.key for item in claimed]


async def test_items_of_a_standing_job_wait_for_their_next_look_and_come_in_the_order_in_which_they_are_due(
    ledgers: Ledgers, clock: Clock
) -> None:
    job, ledger = await ledgers.job(recheck="every 1h"), ledgers.another()
    await ledger.add(job.id, pages(*range(30)), nowhere)
    assert len(await look(ledger, job)) == 30
    assert await look(ledger, job) == []
    items = await ledgers.items()
    assert {item.state for item in items.values()} == {ItemState.WAITING}
    assert {looked_at(item.looks) for item in items.values()} == {MORNING}
    assert {(item.why, item.looks[0].found, item.looks[0].cost) for item in items.values()} == {("every 1h", 1, 2.0)}
    assert not await ledger.finish(job.id)
    times = {item.key: item.due_at for item in items.values() if item.due_at}
    assert await ledger.next_due(job) == min(times.values())
    assert not await ledger.is_due(job)
    clock.turn(minutes=90)
    assert await ledger.promote(job) == 0
    assert await ledger.is_due(job)
    assert await look(ledger, job, 10) + await look(ledger, job) == sorted(times, key=lambda key: times[key])


async def test_a_look_that_fails_is_tried_again_and_then_waits_for_the_next_one(ledgers: Ledgers, clock: Clock) -> None:
    job, ledger = await ledgers.job(recheck="every 1h", backoff_s=60, attempts=2), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    assert await look(ledger, job, outcome="timeout") == ["a"]
    assert await ledger.next_due(job) == MORNING + timedelta(minutes=1)
    clock.turn(minutes=1)
    assert await look(ledger, job, outcome="timeout") == ["a"]
    item = (await ledgers.items())["a"]
    assert item.due_at
    assert timedelta(minutes=30) <= item.due_at - clock.at <= timedelta(minutes=90)
    assert [each.found for each in item.looks] == [None]
    assert looked_at(item.looks) is None


async def test_items_that_failed_are_all_looked_at_again_however_long_their_names_are_together(
    ledgers: Ledgers, clock: Clock
) -> None:
    job, number = await ledgers.job(recheck="every 1h"), 20_000
    keys = [f"{each:0450}" for each in range(number)]
    failed = [
        Item(
            id=item_id(job.id, "feed", key),
            job=job.id,
            kind="feed",
            key=key,
            state=ItemState.FAILED,
            created_at=MORNING,
            updated_at=MORNING,
        )
        for key in keys
    ]
    assert len(bson.encode({"names": [item.id for item in failed]})) * 2 > MAX_BYTES
    await ledgers.database["job_items"].insert_many(map(to_document, failed))
    service = JobService(Config(), ledgers.database, ledgers.another())
    assert await restart(service, [job], ()) == number
    assert await service.ledger.items.count_documents({"state": ItemState.WAITING}) == number


async def test_a_budget_is_kept_by_any_number_of_feeders_at_once(ledgers: Ledgers, clock: Clock) -> None:
    job = await ledgers.job(recheck="every 1h", looks_a_day=7 * MINUTES)
    await ledgers.another().add(job.id, pages(*range(60)), nowhere)
    for minute in range(1, 4):
        claims = await asyncio.gather(*(ledgers.another().claim(job, 5, "feeder") for _ in range(4)))
        claims.append(await ledgers.another().claim(job, 100, "feeder"))
        claimed = [item.id for claim in claims for item in claim]
        assert len(claimed) == len({*claimed}) == 7, minute
        assert not await ledgers.another().is_due(job)
        assert await ledgers.another().next_due(job) == MORNING + timedelta(minutes=minute)
        clock.turn(minutes=1)


@pytest.mark.parametrize("operations", range(1, 9))
async def test_a_feeder_that_is_killed_spends_no_more_than_it_claims(
    ledgers: Ledgers, clock: Clock, operations: int
) -> None:
    job = await ledgers.job(recheck="every 1h", looks_a_day=5 * MINUTES)
    await ledgers.another().add(job.id, pages(*range(20)), nowhere)
    killed = ledgers.another(operations)
    with contextlib.suppress(Killed):
        await killed.claim(job, 3, "feeder")
    await ledgers.another().claim(job, 100, "another")
    items = await ledgers.items()
    assert Counter(item.state for item in items.values())[ItemState.ACTIVE] == 5
    assert sum(len(item.slots) for item in items.values()) == sum(item.attempts for item in items.values()) == 5


@pytest.mark.usefixtures("_small_site")
async def test_the_budget_of_a_site_holds_back_its_items_and_no_others(ledgers: Ledgers, clock: Clock) -> None:
    job, ledger = await ledgers.job(recheck="every 1h"), ledgers.another()
    other, _ = await ledger.open_job("flat", "another", recheck="every 1h")
    of_small = [Found("page", f"small/{number}") for number in range(5)]
    await ledger.add(job.id, [*of_small, *pages("a", "b")], lambda found: found.key.rpartition("/")[0])
    await ledger.add(other.id, pages("small"), lambda found: found.key)
    assert sorted(await look(ledger, job, most=3)) == ["a", "b", "small/0"]
    assert await look(ledger, other) == []  # one a minute, whatever the job
    assert not await ledger.is_due(job)
    assert await ledger.next_due(job) == MORNING + timedelta(minutes=1)
    clock.turn(minutes=1)
    assert await look(ledger, other) == ["small"]
    assert await look(ledger, job) == []
    clock.turn(minutes=1)
    assert await look(ledger, job) == ["small/1"]


async def test_what_the_arguments_name_no_more_is_removed_and_what_they_name_again_is_back(
    ledgers: Ledgers, clock: Clock
) -> None:
    job, ledger = await ledgers.job(recheck="every 1h"), ledgers.another()

    def named(**inputs: str) -> Sequence[Found]:
        return [Found("page", key, {"url": url}) for key, url in inputs.items()]

    assert await ledger.list_items(job, named(a="1", b="1", c="1"), nowhere) == ListedItems(3, 0, 0)
    await ledger.add(job.id, pages("by hand"), nowhere)
    await look(ledger, job)
    due = {key: item.due_at for key, item in (await ledgers.items()).items()}
    assert await ledger.list_items(job, named(a="1", b="2", d="1"), nowhere) == ListedItems(1, 1, 1)
    items = await ledgers.items()
    assert (items["c"].state, items["c"].reason) == (ItemState.SKIPPED, "removed")
    assert items["b"].due_at is None  # what it is now was not looked at yet
    assert {key: items[key].due_at for key in ("a", "by hand")} == {key: due[key] for key in ("a", "by hand")}
    assert sorted(await look(ledger, job)) == ["b", "d"]
    assert await ledger.list_items(job, named(a="1", b="2", c="1", d="1"), nowhere) == ListedItems(0, 1, 0)
    assert await look(ledger, job) == ["c"]
    assert await ledger.list_items(job, named(a="1", b="2", c="1", d="1"), nowhere) == ListedItems(0, 0, 0)


async def test_processes_that_read_the_same_arguments_at_once_remove_nothing_that_they_name(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever is the slower, and wherever the other comes between."""
    monkeypatch.setattr(ledger_module, "CHUNK", 2)
    keys = ["a", "b", "c", "d", "e"]
    job, ledger = await ledgers.job(recheck="every 1h"), ledgers.another()
    await ledger.list_items(job, pages(*keys, "gone"), nowhere)
    for operations in range(40):
        slow = ledgers.another()
        after_operations(slow, operations, lambda: ledgers.another().list_items(job, pages(*keys), nowhere))
        await slow.list_items(job, pages(*keys), nowhere)
        removed = [key for key, item in (await ledgers.items()).items() if item.state is ItemState.SKIPPED]
        assert removed == ["gone"], operations
        await ledger.list_items(job, pages(*keys, "gone"), nowhere)
    await asyncio.gather(*(ledgers.another().list_items(job, pages(*keys), nowhere) for _ in range(3)))
    assert [key for key, item in (await ledgers.items()).items() if item.state is ItemState.SKIPPED] == ["gone"]


async def test_an_item_that_is_removed_while_it_is_looked_at_ends_with_the_look(ledgers: Ledgers, clock: Clock) -> None:
    job, ledger = await ledgers.job(recheck="every 1h"), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    (claimed,) = await ledger.claim(job, 1, "feeder")
    assert await ledger.apply([(claimed.id, Removed())]) == 1
    await ledger.apply([(claimed.id, Ended(1, "ok"))])
    item = (await ledgers.items())["a"]
    assert (item.state, item.reason, len(item.looks)) == (ItemState.SKIPPED, "removed", 1)
    assert await ledger.apply([(claimed.id, Changed())]) == 1
    assert await look(ledger, job) == ["a"]


async def test_another_policy_of_a_job_moves_the_next_looks_of_its_items(ledgers: Ledgers, clock: Clock) -> None:
    job, ledger = await ledgers.job(recheck="every 1d"), ledgers.another()
    await ledger.list_items(job, pages("a"), nowhere)
    await look(ledger, job)
    await ledger.set_job(job.id, recheck="every 1h")
    hourly = await ledger.job(job.id)
    assert hourly
    await ledger.list_items(hourly, pages("a"), nowhere)
    due_at = (await ledgers.items())["a"].due_at
    assert due_at
    assert due_at <= MORNING + timedelta(minutes=90)


async def test_items_take_the_budget_of_their_policy_as_a_whole_and_those_with_more_to_find_more_of_it(
    ledgers: Ledgers, clock: Clock
) -> None:
    job, ledger, a_day = await ledgers.job(recheck="budget 100 a day"), ledgers.another(), 100
    await ledger.add(job.id, pages(*range(40)), nowhere)

    def looks(every_h: int, found: int) -> list[dict[str, object]]:
        hours = range(20 * every_h, 0, -every_h)
        return [{"at": (MORNING - timedelta(hours=each)).timestamp(), "found": found, "cost": 1.0} for each in hours]

    busy = {"$in": [str(number) for number in range(10)]}
    await ledger.items.update_many({"key": busy}, {"$set": {"looks": looks(1, 2)}})
    await ledger.items.update_many({"key": {"$not": busy}}, {"$set": {"looks": looks(24, 0)}})
    await ledger.counting.count_when_due(job)
    known = await ledger.job(job.id)
    assert known
    policy = known.policy.recheck
    assert policy
    rates = {}
    for item in (await ledgers.items()).values():
        due = policy.due(item.key, item.looks, MORNING.timestamp())
        rates[item.key] = 86_400 / (due.at - item.looks[-1].at)
    assert sum(rates.values()) == pytest.approx(a_day, rel=0.02)
    assert rates["0"] > 5 * rates["39"]


class Day(NamedTuple):
    """A turned day, or a part of it."""

    hours: int
    """That are looked at, from midnight on."""
    kills: int
    items: int


@pytest.mark.usefixtures("_small_site")
@pytest.mark.parametrize(
    "day", [Day(2, 1, 20), pytest.param(Day(24, 25, 300), marks=pytest.mark.soak)], ids=["short", "whole"]
)
async def test_looks_of_a_day_keep_their_distance_and_their_budgets_though_feeders_are_killed(
    day: Day, ledgers: Ledgers, mongodb_uri: str, mongodb: Database[Document], own_redis: str, tmp_path: Path
) -> None:
    """No minute has more than its share, and two looks at an item are never nearer than half their distance."""
    budget, interval = day.items * 20, timedelta(hours=1)  # 24 looks a day are wanted of each item
    job = await ledgers.job(recheck="every 1h", looks_a_day=budget)
    small = [Found("page", f"small{number}") for number in range(day.items // 10)]
    others = list(pages(*range(day.items - len(small))))
    await ledgers.another().add(job.id, [*small, *others], lambda found: "small" if "small" in found.key else "")
    environment, name = {**os.environ, "PYTHONPATH": str(ROOT)}, f"test-{mongodb.name}"

    async def feeder() -> Forked:
        words = (mongodb_uri, mongodb.name, own_redis, name, str(day.hours))
        return await fork("tests.jobs.looking", *words, cwd=tmp_path, env=environment)

    feeders = [await feeder(), await feeder()]
    try:
        async with Redis.from_url(own_redis) as redis:
            for kill in range(1, day.kills + 1):
                while int(await redis.get(f"{name}-clock") or 0) < day.hours * 3600 * kill / (day.kills + 1):
                    assert all(each.returncode is None for each in feeders)
                    await asyncio.sleep(0.01)
                feeders[0].kill()
                await feeders.pop(0).communicate()  # to the end of its pipes, else they are left open
                feeders.append(await feeder())
        for each in feeders:
            assert await each.wait() == 0
    finally:
        for each in feeders:
            each.kill()
            await each.communicate()
    slots, looks = Counter[str](), 0
    async for row in ledgers.database["job_items"].find():
        item = read_item(row)
        slots.update(item.slots)
        of_job = [slot for slot in item.slots if slot.startswith("job ")]
        assert len(of_job) == item.attempts, "each attempt has its place in the budget"
        times = [look.at for look in item.looks]
        looks += len(times)
        assert all(later - earlier >= interval.total_seconds() / 2 for earlier, later in pairwise(times)), item.key
    assert looks > budget * day.hours / 24 / 2, "or the budget was kept by those who did nothing"
    assert set(slots.values()) == {1}
    minutes = Counter((name, int(number) * MINUTES // int(size)) for name, size, number in map(_parts, slots))
    assert max(number for (name, _), number in minutes.items() if name == f"job {job.id}") <= ceil(budget / MINUTES)
    assert max(number for (name, _), number in minutes.items() if name == "site small") == 1


def _parts(slot: str) -> tuple[str, str, str]:
    """Whose budget it is of, how large that is, and the number."""
    name, size, number = slot.rsplit(" ", 2)
    return name, size, number
