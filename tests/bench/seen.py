"""`make bench`: the set of seen fingerprints beside stock scrapy-redis's, in one Redis.

    python -m tests.bench.seen [fingerprints]

Memory is what Redis says it uses. Stock adds a fingerprint with one SADD and waits for it; it is also measured with
1,000 SADD in a pipeline, which scrapy-redis never does, so that only the work is compared. Exit code 1 when harvester
misses one of the targets below, takes one fingerprint for another, or forgets one.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha1
from importlib.resources import files

import msgspec
import redis

from tests.bench.servers import own_redis, redis_cpu, redis_memory

COUNT = 10_000_000
STOCK_COUNT = 1_000_000
"""Stock's bytes each do not depend on how many there are, but for the steps in which its table grows."""
WAITED_COUNT = 50_000
"""Added by stock as it does, waiting for each."""
BATCH = 1000
MOST_BYTES = 12.0

ADD = """
local scope, added = scope_of(ARGV[1]), 0
for _, pair in ipairs(cmsgpack.unpack(ARGV[2])) do
    if see(scope, pair[1], pair[2]) then added = added + 1 end
end
finish()
return added
"""
HOLDS = """
local scope, held = scope_of(ARGV[1]), 0
for _, pair in ipairs(cmsgpack.unpack(ARGV[2])) do
    held = held + redis.call('SISMEMBER', shard_of(scope, pair[2]), pair[1])
end
return held
"""


class Ours:
    """The frontier's own Lua, without the requests."""

    name = "harvester"

    def __init__(self, client: redis.Redis) -> None:
        folder = files("harvester.frontier").joinpath("lua")
        shared = "\n".join(folder.joinpath(f"{name}.lua").read_text("utf-8") for name in ("common", "items"))
        self._add = client.register_script(shared + ADD)
        self._holds = client.register_script(shared + HOLDS)

    def add(self, numbers: list[int]) -> int:
        """How many were new."""
        return int(self._add(keys=["harvester:{bench:start_urls}:"], args=["", self._packed(numbers)]))

    def holds(self, numbers: list[int]) -> int:
        """How many are there."""
        return int(self._holds(keys=["harvester:{bench:start_urls}:"], args=["", self._packed(numbers)]))

    def _packed(self, numbers: list[int]) -> bytes:
        return msgspec.msgpack.encode([(str(number), number & 0xFFFFFFFF) for number in numbers])


class Stock:
    """What RFPDupeFilter keeps: SHA-1 in hexadecimal digits, members of one set."""

    key = "bench:dupefilter"

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def add_waiting(self, numbers: list[int]) -> int:
        """As scrapy-redis does it."""
        return sum(int(self._client.sadd(self.key, hexadecimal(number))) for number in numbers)

    def add(self, numbers: list[int]) -> int:
        """The same in a pipeline."""
        with self._client.pipeline(transaction=False) as pipeline:
            for number in numbers:
                pipeline.sadd(self.key, hexadecimal(number))
            return sum(pipeline.execute())


def hexadecimal(number: int) -> str:
    """A fingerprint as stock has it."""
    return sha1(number.to_bytes(8, "big", signed=True)).hexdigest()


def batches(count: int, seed: int) -> Iterator[list[int]]:
    """Random signed 64-bit integers, the same for the same seed."""
    source = random.Random(seed)
    for first in range(0, count, BATCH):
        yield [source.getrandbits(64) - 2**63 for _ in range(min(BATCH, count - first))]


class Measured:
    """What adding cost."""

    def __init__(self, client: redis.Redis, add: Callable[[list[int]], int], count: int) -> None:
        client.config_set("lazyfree-lazy-user-flush", "no")  # or memory is freed later
        client.flushall()
        memory, cpu = redis_memory(client), redis_cpu(client)
        self.added, seconds = 0, 0.0
        for numbers in batches(count, seed=1):
            began = time.perf_counter()
            self.added += add(numbers)
            seconds += time.perf_counter() - began
        self.bytes = (redis_memory(client) - memory) / count
        self.per_second = count / seconds
        self.cpu_us = (redis_cpu(client) - cpu) / count * 1e6

    def row(self, label: str, count: int) -> None:
        print(f"  {label:44}{count:>12,}{self.bytes:>12.1f}{self.per_second:>12,.0f}{self.cpu_us:>14.2f}", flush=True)


def main(count: int = COUNT) -> int:
    with own_redis() as url, redis.Redis.from_url(url) as client:
        print(f"\nSeen fingerprints\n  {'':44}{'added':>12}{'bytes each':>12}{'a second':>12}{'Redis us each':>14}")
        stock = Stock(client)
        waiting = Measured(client, stock.add_waiting, min(count, WAITED_COUNT))
        waiting.row("stock scrapy-redis, a SADD at a time", min(count, WAITED_COUNT))
        together = Measured(client, stock.add, min(count, STOCK_COUNT))
        together.row(f"stock's set, {BATCH:,} SADD in a pipeline", min(count, STOCK_COUNT))
        ours = Ours(client)
        measured = Measured(client, ours.add, count)
        measured.row(f"harvester, {BATCH:,} in a script", count)
        found = sum(ours.holds(numbers) for numbers in batches(count, seed=1))
        false = sum(ours.holds(numbers) for numbers in batches(count, seed=2))
    print(f"  {measured.bytes:.1f} bytes each (at most {MOST_BYTES:.0f} are wanted)")
    print(f"  of these {count:,} it knows {found:,}; of {count:,} others {false:,}")
    right = measured.added == found == count and false == 0
    return int(not right or measured.bytes > MOST_BYTES or measured.per_second < waiting.per_second)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
