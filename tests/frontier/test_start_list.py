"""A start list, whatever it is in Redis, loses no entry to a worker that is silent."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from harvester.config import DATABASE
from harvester.exceptions import UsageError
from harvester.frontier.keys import prefix_of
from harvester.frontier.start_list import Kind, StartList
from harvester.frontier.store import Frontier

KINDS: tuple[Kind, ...] = ("list", "set", "zset")


class Lists:
    """Two workers that share one start list of a kind."""

    def __init__(self, redis: Any, kind: Kind) -> None:
        self.redis, self.kind = redis, kind
        self.spider = f"test-{uuid4().hex[:12]}"
        self.name = f"{self.spider}:all"
        self.one, self.two = (
            StartList(redis, self.spider, name=self.name, kind=kind, lease_seconds=0.3) for _ in range(2)
        )

    async def push(self, *entries: bytes) -> None:
        if self.kind == "zset":
            await self.redis.zadd(self.name, {entry: rank for rank, entry in enumerate(reversed(entries))})
        else:
            await getattr(self.redis, {"list": "rpush", "set": "sadd"}[self.kind])(self.name, *entries)


@pytest.fixture(params=KINDS)
async def lists(request: pytest.FixtureRequest, redis: Any) -> Any:
    yield (made := Lists(redis, request.param))
    await redis.delete(made.name, *await redis.keys(f"harvester:{{{made.spider}*"))


async def test_entries_that_a_worker_gives_back_are_taken_by_another(lists: Lists) -> None:
    await lists.push(b"a", b"b", b"c")
    taken = (await lists.one.take(2)).entries
    assert (len(taken), await lists.one.length()) == (2, 1)
    assert lists.kind == "set" or taken == [b"a", b"b"]
    assert await lists.two.take(0) == ([], 2)
    await lists.one.leave()
    assert await lists.two.length() == 3
    assert set((await lists.two.take(5)).entries) == {b"a", b"b", b"c"}


async def test_entries_of_a_silent_worker_are_taken_by_another(lists: Lists) -> None:
    await lists.push(b"a", b"b")
    assert len((await lists.one.take(5)).entries) == 2
    async with asyncio.timeout(60):
        while not (entries := (await lists.two.take(5)).entries):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert set(entries) == {b"a", b"b"}


async def silence(lists: Lists) -> None:
    """None of the workers was heard for a lease."""
    workers = f"{prefix_of(lists.spider, DATABASE)}start:workers"
    for worker in await lists.redis.zrange(workers, 0, -1):
        await lists.redis.zadd(workers, {worker: 1})


async def test_what_a_silent_worker_had_comes_to_one_other_whole_and_with_the_places_where_it_was_filed(
    lists: Lists,
) -> None:
    await lists.push(b"a", b"b", b"c")
    assert len((await lists.one.take(2)).entries) == 2
    assert await lists.one.filed_in("part") is None
    assert await lists.one.file_in("part", "job")
    before = set((await lists.one.take(2)).entries)
    assert await lists.one.filed_in("part") == "job"
    await silence(lists)
    assert set((await lists.two.take(1)).entries) == before
    assert await lists.two.filed_in("part") == "job"
    assert await lists.one.filed_in("part") is None
    assert not await lists.one.file_in("part", "another job")
    await lists.two.confirm()
    assert len((await lists.two.take(5)).entries) == 1
    assert await lists.two.filed_in("part") is None


async def test_what_was_filed_and_not_confirmed_goes_from_a_worker_that_leaves_to_the_next_with_its_place(
    lists: Lists,
) -> None:
    await lists.push(b"a")
    await lists.one.take(5)
    await lists.one.file_in("part", "job")
    await lists.one.leave()
    assert (await lists.two.take(5)).entries == [b"a"]
    assert await lists.two.filed_in("part") == "job"


async def test_after_an_outage_a_worker_that_lives_keeps_what_it_has_taken(lists: Lists) -> None:
    """All were silent as long: it says nothing until the others were heard for a lease."""
    frontier = Frontier(lists.redis, lists.spider)
    await lists.push(b"a")
    await lists.one.take(5)
    await silence(lists)
    await frontier.exchange("a worker", [])  # the first word after the outage
    assert await lists.two.take(5) == ([], 1)
    assert (await lists.one.take(5)).entries == [b"a"]
    await silence(lists)
    await lists.redis.hset(f"{frontier.prefix}counts", "since", 1)
    await frontier.exchange("a worker", [])
    assert (await lists.two.take(5)).entries == [b"a"]


async def test_what_is_confirmed_comes_no_more(lists: Lists) -> None:
    await lists.push(b"a")
    await lists.one.take(5)
    await lists.one.confirm()
    await lists.one.leave()
    assert (await lists.two.take(5), await lists.two.length()) == (([], 0), 0)


async def test_a_key_of_another_kind_is_named(lists: Lists) -> None:
    await lists.redis.set(lists.name, "a text")
    with pytest.raises(UsageError, match=rf"{lists.name} .*\b{lists.kind}\b"):
        await lists.one.take(5)
