"""A start list, whatever it is in Redis, loses no entry to a worker that is silent."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from harvester.exceptions import UsageError
from harvester.frontier.start_list import Kind, StartList

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


async def test_what_is_confirmed_comes_no_more(lists: Lists) -> None:
    await lists.push(b"a")
    await lists.one.take(5)
    await lists.one.confirm()
    await lists.one.leave()
    assert (await lists.two.take(5), await lists.two.length()) == (([], 0), 0)


async def test_a_key_of_another_kind_is_named(lists: Lists) -> None:
    await lists.redis.set(lists.name, "a text")
    with pytest.raises(UsageError, match=f"{lists.name} in Redis is not a {lists.kind}: remove it"):
        await lists.one.take(5)
