"""Fingerprints: exact, small, and cheap to add."""

import random
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from time import process_time

import msgspec
import pytest
from redis.asyncio import Redis
from scrapy import Request
from scrapy.utils.request import fingerprint as digest_of

from harvester.config import DATABASE
from harvester.frontier import scripts
from harvester.frontier.fingerprints import fingerprint
from harvester.frontier.keys import prefix_of
from harvester.frontier.messages import Done, Operation
from harvester.frontier.store import Frontier
from tests.frontier.pushes import push
from tests.stores.valkeys import valkey

W = "worker-1"


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Redis]:
    """A Valkey that nobody else uses, so that its memory can be read."""
    with valkey(tmp_path) as port:
        async with Redis(port=port) as client:
            yield client


async def _work(frontier: Frontier, numbers: Iterable[int], job: str = "") -> int:
    """Pushes requests with these fingerprints and is done with them; returns how many were new."""
    new = 0
    numbers = list(numbers)
    for first in range(0, len(numbers), 1000):
        pushes = [push(number, job=job, payload=b"", url="") for number in numbers[first : first + 1000]]
        told = await frontier.exchange(W, pushes, wanted=1000, per_site=1000)
        done: list[Operation] = [Done(leased.id) for leased in told.leased]
        await frontier.exchange(W, done)
        new += told.accepted
    return new


def _numbers(count: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.getrandbits(64) - 2**63 for _ in range(count)]


def test_a_fingerprint_is_a_signed_64_bit_integer_that_tells_requests_apart() -> None:
    request = Request("https://site.example/?b=2&a=1")
    assert fingerprint(request) == fingerprint(Request("https://site.example/?a=1&b=2#part"))
    assert fingerprint(request).to_bytes(8, "big", signed=True) == digest_of(request)[:8]
    others = {fingerprint(Request(f"https://site.example/{n}")) for n in range(1000)}
    assert len(others) == 1000
    assert all(-(2**63) <= number < 2**63 for number in others)
    assert any(number < 0 for number in others)


EDGES = [-(2**63), 2**63 - 1, -1, 0, 1, 2**53, 2**53 + 1, -(2**53) - 1, 10**15, 10**16, -(10**9), 2**32, -(2**32)]


async def test_nothing_is_forgotten_or_invented_while_shards_split(frontier: Frontier) -> None:
    known = [*EDGES, *_numbers(8_000, 1), *range(-3_000, 3_000)]
    known = list(dict.fromkeys(known))
    others = sorted(set(_numbers(8_000, 2)) - set(known))
    assert await _work(frontier, known) == len(known)
    assert await _work(frontier, known) == 0
    assert (await frontier.status()).seen == len(known)
    assert await _work(frontier, others) == len(others)


async def test_jobs_have_scopes_of_their_own(frontier: Frontier) -> None:
    assert await _work(frontier, range(1000)) == 1000
    assert await _work(frontier, range(1000), job="j") == 1000
    assert await frontier.forget_all("j") == 1000
    assert await _work(frontier, range(1000)) == 0
    assert await _work(frontier, range(1000), job="j") == 1000


async def test_what_is_forgotten_is_new_again(frontier: Frontier) -> None:
    numbers = _numbers(5_000, 3)
    await _work(frontier, numbers)
    assert await frontier.forget([*numbers[:2500], 5]) == 2500
    assert (await frontier.status()).seen == 2500
    assert await _work(frontier, numbers) == 2500
    assert await frontier.forget_all() == 5_000
    assert (await frontier.status()).seen == 0
    assert await _work(frontier, numbers) == 5_000


async def test_a_small_scope_is_small(frontier: Frontier, redis: Redis) -> None:
    await _work(frontier, range(20))
    keys = [key async for key in redis.scan_iter(match=f"*{frontier.spider}:*:seen:*")]
    assert len(keys) == 1
    assert await redis.object("encoding", keys[0]) == b"intset"


async def test_a_fingerprint_costs_at_most_12_bytes(alone: Redis) -> None:
    frontier = Frontier(alone, "memory")
    await _work(frontier, range(10))  # scripts, counts and a worker
    before = (await alone.info("memory"))["used_memory"]
    numbers = _numbers(100_000, 4)
    await add(alone, frontier.spider, numbers)
    grown = (await alone.info("memory"))["used_memory"] - before
    status = await frontier.status()
    assert status.seen == 100_010
    assert 0.7 * grown < status.memory_bytes < 1.3 * grown
    assert grown / len(numbers) <= 12
    assert await frontier.forget(numbers[:1000]) == 1000


async def test_adding_in_batches_costs_no_more_than_one_by_one_as_in_scrapy_redis(alone: Redis) -> None:
    numbers = _numbers(8_000, 5)
    stock, ours = [number.to_bytes(8, "big", signed=True).hex() for number in numbers], Frontier(alone, "speed")
    await add(alone, ours.spider, numbers[:4_000])
    started = await _processor_s(alone)
    await add(alone, ours.spider, numbers[4_000:])
    batched = await _processor_s(alone)
    for digest in stock[:4_000]:
        await alone.sadd("dupefilter", digest)
    single = await _processor_s(alone)
    assert batched - started < single - batched


async def _processor_s(redis: Redis) -> float:
    """Processor time that Redis and this process have used."""
    used = await redis.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"]) + process_time()


async def add(redis: Redis, spider: str, numbers: list[int]) -> None:
    """Adds fingerprints alone, as a push does."""
    for first in range(0, len(numbers), 500):
        rows = [(str(number), number & 0xFFFFFFFF) for number in numbers[first : first + 500]]
        await redis.eval(_ADD, 1, prefix_of(spider, DATABASE), msgspec.msgpack.encode(rows))


_ADD = (
    scripts.load("look_up").text.partition("-- Where a request is.")[0]
    + """
local scope = scope_of('')
for _, each in ipairs(cmsgpack.unpack(ARGV[1])) do
    see(scope, each[1], each[2])
end
finish()
"""
)
