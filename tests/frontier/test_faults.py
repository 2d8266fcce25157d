"""A connection that breaks between any two commands, and a key that is gone, leave nothing that nothing mends."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from harvester.frontier.messages import Dead, Done, EndedAck, EventAck, Operation, Release, Requeue, Skip
from harvester.frontier.start_list import StartList
from harvester.frontier.store import Frontier
from harvester.outcomes import Outcome
from harvester.sites.breaker import SiteBreaker
from tests.breaker.worker import QUICK, Worker
from tests.frontier.items import check_items, feed, item, name_of, of
from tests.frontier.pushes import push

ONE, TWO, THREE = "worker-1", "worker-2", "worker-3"
RULES = SiteBreaker().rules()


class Fragile(Redis):
    """A connection that breaks at one command: before Redis has got it, or before the answer is there."""

    at = -1
    is_applied = False
    sent = 0

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        self.sent += 1
        if self.sent - 1 != self.at:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        if self.is_applied:
            await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        raise ConnectionError("the connection broke")


def redirect(name: str, target: int) -> Requeue:
    return Requeue(name, b"redirected", "https://site.example/", "", 0, "redirected", "", attempt=False, target=target)


async def _a_day(frontier: Frontier, start: StartList) -> list[Callable[[], Awaitable[Any]]]:
    """All that workers and people do, step by step."""
    again = Requeue("2", b"again", "https://site.example/2", "b", 0, "timeout", "slow")
    worker = Worker(frontier, ONE, QUICK, "a")
    pushes = [push(number, site="ab"[number % 2]) for number in range(12)]
    ends: list[Operation] = [
        Done("0"),
        Dead("1", "blocked", "HTTP 403"),
        again,
        Skip("3", "policy_denied", "robots"),
        redirect("4", 77),
        redirect("5", 78),
        redirect("6", 78),
        Release("7"),
    ]

    refs = [item(number) for number in range(3)]
    request = of(30, refs[0], site="b")

    async def refused() -> None:
        worker.see(Outcome.BLOCKED, 5)
        await worker.exchange()

    async def by_hand(state: str) -> None:
        _, change = await frontier.set_breaker("a", RULES, state, "a person")
        if change:
            await frontier.told(change)

    async def tell() -> None:
        told = await frontier.exchange(TWO, [], wanted=3)
        await frontier.exchange(TWO, [EventAck(change.id) for change in told.changes])

    return [
        lambda: frontier.exchange(ONE, pushes),
        lambda: frontier.exchange(ONE, [], wanted=10),
        lambda: frontier.exchange(ONE, ends, wanted=2),
        lambda: frontier.exchange(ONE, [feed(refs[:2], request)], wanted=9),
        lambda: frontier.exchange(ONE, [EndedAck((refs[1],)), Done(name_of(request)), feed(refs[2:])]),
        lambda: frontier.unknown_items(refs),
        refused,
        tell,
        lambda: by_hand("held"),
        lambda: frontier.exchange(ONE, [push(20, site="a"), Done("8")], wanted=2),
        lambda: by_hand("closed"),
        lambda: frontier.reconcile(ONE, ["9"]),
        lambda: frontier.replay(),
        lambda: frontier.forget([0, 3]),
        lambda: frontier.exchange(TWO, [push(0, site="a"), push(3, site="a")], wanted=4),
        lambda: frontier.reap(TWO),
        lambda: frontier.leave(ONE),
        lambda: frontier.dead(),
        lambda: frontier.look_up(78),
        lambda: frontier.status(),
        lambda: start.push([b"one", b"two"]),
        lambda: start.take(1),
        lambda: start.confirm([(b"one", "no use")]),
        lambda: start.take(1),
        lambda: start.leave(),
    ]


@pytest.fixture
async def fragile(redis_url: str) -> AsyncIterator[Fragile]:
    async with Fragile.from_url(redis_url) as client:
        yield cast(Fragile, client)


async def _finish(frontier: Frontier, worker: str) -> None:
    """Another worker does all that is left to do; raises when an exchange does."""
    await frontier.set_breaker("a", RULES, "closed", "a person")
    for name in (ONE, TWO):
        await frontier.leave(name)
    done: list[Operation] = []
    while True:
        for key in ("waiting", "untold"):
            if names := await frontier._redis.zrange(frontier.prefix + key, 0, -1):
                await frontier._redis.zadd(frontier.prefix + key, dict.fromkeys(names, 1))
        told = await frontier.exchange(worker, done, wanted=50)
        done = [Done(lease.id) for lease in told.leased]
        if not done and not told.waiting:
            return


@pytest.mark.parametrize("is_applied", [False, True], ids=["before", "after"])
async def test_a_connection_that_breaks_anywhere_leaves_a_frontier_that_works(
    redis: Redis, fragile: Fragile, is_applied: bool
) -> None:
    fragile.is_applied = is_applied
    at, commands = 0, 1
    while at < commands:
        name = f"test-{uuid4().hex[:12]}"
        frontier, start = Frontier(fragile, name), StartList(fragile, name)
        fragile.at, fragile.sent = at, 0
        broke = 0
        for step in await _a_day(frontier, start):
            try:
                await step()
            except ConnectionError:
                broke += 1
        commands = fragile.sent
        fragile.at = -1
        assert broke == 1
        other = Frontier(redis, name)
        status = await other.status()
        assert status.balanced, (at, status)
        await check_items(other)
        await _finish(other, THREE)
        status = await other.status()
        assert (status.ready, status.parked, status.leased, status.waiting, status.items) == (0, 0, 0, 0, 0), at
        assert status.balanced, (at, status)
        assert status.queued == status.done + status.skipped + status.dead
        entries = (await StartList(redis, name).take(9)).entries
        assert len(entries) <= 2
        await other.drop()
        await redis.delete(start.name)
        at += 1
    assert commands > 25


async def test_a_drop_that_broke_off_is_completed_by_the_next(redis: Redis, fragile: Fragile) -> None:
    at, commands = 0, 1
    while at < commands:
        frontier = Frontier(fragile, f"test-{uuid4().hex[:12]}")
        fragile.at = -1
        for step in (await _a_day(frontier, StartList(fragile, frontier.spider)))[:9]:
            await step()
        fragile.at, fragile.sent = at, 0
        with pytest.raises(ConnectionError):
            await frontier.drop()
        fragile.at = -1
        await Frontier(redis, frontier.spider).exchange(THREE, [push(1)], wanted=9)
        await frontier.drop()
        assert not await redis.keys(frontier.prefix + "*")
        fragile.sent = 0
        for step in (await _a_day(frontier, StartList(fragile, frontier.spider)))[:9]:
            await step()
        fragile.sent = 0
        await frontier.drop()
        commands = fragile.sent
        at += 1


async def test_an_event_of_which_only_the_name_is_left_is_dropped(frontier: Frontier) -> None:
    await frontier.set_breaker("a", RULES, "held", "a person")
    await frontier._redis.delete(frontier.prefix + "alerts")
    await frontier._redis.zadd(frontier.prefix + "untold", {"unheard of": 1})
    for _ in range(2):
        assert (await frontier.exchange(ONE, [])).changes == []
    assert await frontier._redis.zcard(frontier.prefix + "untold") == 1, "that of the person, who tells of it"
