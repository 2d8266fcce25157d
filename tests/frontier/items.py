"""Job items as the tests of the frontier feed them, and what must be true of them at any moment."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from harvester.frontier.messages import FeedItems, FrontierStatus, ItemRef, Push
from harvester.frontier.store import Frontier
from tests.frontier.pushes import push

JOB = "spider-12345678-1"
FAR = 4_000_000_000.0
"""A deadline."""


def histories(least: int, wanted: tuple[str, ...], contained: Counter[str]) -> Iterator[int]:
    """Seeds of random histories: so many, and further ones until they contain what is wanted.

    The clock of Redis has a say in what a history contains.
    """
    for seed in range(10 * least):
        if seed >= least and all(contained[event] for event in wanted):
            return
        yield seed
    assert {event for event in wanted if not contained[event]} == set(), "in no history"


def item(key: object, attempt: int = 1, job: str = JOB) -> ItemRef:
    return ItemRef(f"{job}:parcel:{key}", attempt)


def of(number: int, *items: ItemRef, **fields: Any) -> Push:
    """A request that belongs to these items."""
    return push(number, items=items, job=items[0].job, rooted=False, **fields)


def feed(items: list[ItemRef], *requests: Push, deadline: float = FAR) -> FeedItems:
    """Each request is asked for whatever was seen, as feeders do it."""
    return FeedItems(tuple(items), tuple(each._replace(filtered=False) for each in requests), deadline)


def name_of(request: Push) -> str:
    """The id of a request of a feed."""
    return f"{request.job}:{request.fingerprint}#{request.token}"


async def check_items(frontier: Frontier, status: FrontierStatus | None = None) -> dict[str, Any]:
    """Every open item has as many requests in the frontier as are counted. Returns all that is known of items.

    The status, if it is given, is that of this moment.
    """
    prefix, redis = frontier.prefix, frontier._redis

    async def counts() -> dict[bytes, bytes]:
        return {name: value for name, value in (await redis.hgetall(prefix + "counts")).items() if name != b"beat"}

    async def table(key: str) -> dict[str, Any]:
        return {k.decode(): msgspec.msgpack.decode(v) for k, v in (await redis.hgetall(prefix + key)).items()}

    async def members(key: str) -> set[str]:
        return {each.decode() for each in await redis.zrange(prefix + key, 0, -1)}

    before = None
    while before != (now := await counts()):  # what a killed process had sent may come while it is read
        before = now
        items, belongs, entries = await table("items"), await table("belongs"), await redis.hkeys(prefix + "entries")
        in_state = {state: await members(state) for state in ("ended", "over")}
        there = status or await frontier.status()
        jobs = Counter(name.partition(":")[0] for name, each in items.items() if each["state"] == "open")
        open_items = await frontier.open_items([*jobs])
    assert belongs.keys() <= {each.decode() for each in entries}
    here = Counter(tuple(ref) for refs in belongs.values() for ref in refs)
    opened = {name: each for name, each in items.items() if each["state"] == "open"}
    counted = {name: (each["here"], here[name, each["number"]]) for name, each in opened.items()}
    assert all(said == found for said, found in counted.values()), counted
    assert all(each["here"] > 0 for each in opened.values())
    for state, names in in_state.items():
        assert names == {name for name, each in items.items() if each["state"] == state}
    assert there.items == len(opened)
    assert {job: each["items"] for job, each in there.jobs.items() if each["items"]} == jobs
    assert open_items == jobs
    assert int(now.get(b"belonging", 0)) == len(belongs)
    return items
