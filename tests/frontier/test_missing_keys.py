"""Whichever key of a frontier is gone, no exchange fails for ever, and nobody who looks at it is turned away."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from uuid import uuid4

from redis.asyncio import Redis

from harvester.exceptions import HarvesterError
from harvester.frontier.messages import Dead, Done, EndedAck, Operation, Push, Skip
from harvester.frontier.store import Frontier
from harvester.outcomes import Outcome
from tests.breaker.worker import QUICK, Worker
from tests.frontier.items import feed, item, of
from tests.frontier.pushes import push
from tests.frontier.test_faults import redirect

ONE, TWO, THREE = "worker-1", "worker-2", "worker-3"
KINDS = {
    *(
        "alerts",
        "alone",
        "breakers",
        "changes",
        "counts",
        "dead",
        "entries",
        "follows",
        "held",
        "job",
        "jobs",
        "leases",
    ),
    *("parked", "payloads", "probing", "ready", "reported", "scopes", "seen", "shut", "sites", "skipped", "targets"),
    *("untold", "waiting", "workers", "items", "belongs", "ended", "over"),
}
"""Of keys."""
LATER = 4_000_000_000.0
LONG = QUICK.model_copy(update={"open_seconds": 600.0, "most_open_seconds": 600.0})
JOBS = ("", "a job")
PUSHES = [
    push(10 * number + place, site=site, job=job)
    for number, job in enumerate(JOBS, 1)
    for place, site in enumerate(("fine", "fine", "fine", "fine", "fine", "open", "open", "half", "half", "held"))
]


async def _lay_down(frontier: Frontier) -> None:
    """Requests in every place, breakers in every state, changes that nobody told people of."""
    for worker in (ONE, TWO):
        await frontier.exchange(worker, [])
    await frontier.exchange(ONE, [*PUSHES, push(99, site="fine", not_before=LATER)])
    for site, worker in (("open", ONE), ("half", TWO)):
        at_site = Worker(frontier, worker, LONG, site)
        at_site.see(Outcome.BLOCKED, 5)
        await at_site.exchange()
    await frontier.set_breaker("held", QUICK.rules(), "held", "a person")
    await frontier._redis.zadd(frontier.prefix + "shut", {"half": 1})
    leased = (await frontier.exchange(ONE, [], wanted=8)).leased
    done, dead, skipped, redirected, follows, *_ = (each.id for each in leased if each.site == "fine")
    await frontier.exchange(
        ONE, [Done(done), Dead(dead, "dns", ""), Skip(skipped, "policy_denied", ""), redirect(redirected, 777)]
    )
    await frontier.exchange(ONE, [redirect(follows, 777)])
    await frontier.exchange(TWO, [], wanted=1)
    refs = [item(number) for number in range(3)]
    await frontier.exchange(ONE, [feed(refs, of(5, *refs[:1], site="fine"))], most_ended=0)
    await frontier.exchange(ONE, [EndedAck((refs[1],))], most_ended=0)


async def _goes_on(frontier: Frontier, worker: str, pushes: Sequence[Push]) -> None:
    """A worker does what there is to do, and people look on; what is due becomes due."""
    redis, prefix = frontier._redis, frontier.prefix
    done: list[Operation] = []
    for number in range(4):
        for key in ("waiting", "untold", "shut"):
            if await redis.exists(prefix + key):
                names = await redis.zrange(prefix + key, 0, -1)
                await redis.zadd(prefix + key, dict.fromkeys(names, 1))
        at_site = Worker(frontier, worker, QUICK, "half")
        at_site.see(Outcome.OK, 3, probe=True)
        more = [*done, *pushes, feed([item(number, 2)], of(40 + number, item(number, 2), site="fine"))]
        told = await frontier.exchange(worker, more, 20, reports=at_site.breakers.take())
        done = [Done(lease.id) for lease in told.leased]
        if number == 1 and done:
            done[0] = redirect(told.leased[0].id, 778)
        done.append(EndedAck(tuple(each.ref for each in told.ended)))
    await frontier.exchange(worker, done)
    await frontier.unknown_items([item(number) for number in range(3)])
    await frontier.reap(worker)


async def _says_at_most(*steps: Callable[[], Awaitable[object]]) -> None:
    """Each may say a few times that something is lost; it may not fail in any other way."""
    for step in steps:
        for _ in range(3):
            with suppress(HarvesterError):
                await step()
                break


async def _look_on(frontier: Frontier) -> None:
    await frontier.status()
    await frontier.dead()
    for number in (10, 15, 17, 777):
        await frontier.look_up(number)
    await frontier.replay()
    for site in ("open", "held", "half"):
        for state in ("held", "closed"):
            await frontier.set_breaker(site, QUICK.rules(), state, "a person")


async def _check(old: Frontier, key: str) -> None:
    await old._redis.delete(key)
    new = Frontier(old._redis, old.spider)
    more = [push(1000 + number, site=site) for number, site in enumerate(("fine", "open", "held", "half"))]
    await _says_at_most(partial(_goes_on, old, ONE, more), partial(old.leave, ONE))
    await _says_at_most(partial(_goes_on, new, THREE, more), partial(new.leave, THREE), partial(_look_on, new))
    await Frontier(old._redis, old.spider).exchange(TWO, [], wanted=50)


async def test_no_key_that_is_gone_stops_the_exchanges(redis: Redis) -> None:
    kinds: set[str] = set()
    while True:
        frontier = Frontier(redis, f"missing-{uuid4().hex[:8]}")
        try:
            await _lay_down(frontier)
            keys = {key.removeprefix(frontier.prefix.encode()).decode() for key in await _keys(frontier)}
            left = sorted(key for key in keys if key.partition(":")[0] not in kinds)
            if not left:
                break
            kinds.add(left[0].partition(":")[0])
            await _check(frontier, frontier.prefix + left[0])
        except Exception as error:
            error.add_note(f"without {left[0]!r}")
            raise
        finally:
            await frontier.drop()
    assert kinds >= KINDS


async def _keys(frontier: Frontier) -> list[bytes]:
    keys: list[bytes] = await frontier._redis.keys(frontier.prefix + "*")
    return keys
