"""The frontier's promises to the ledger: an attempt at an item begins once, and its end is told, whatever happens."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from redis.asyncio import Redis

from harvester.exceptions import FrontierLost
from harvester.frontier.messages import (
    Dead,
    Done,
    EndedAck,
    Exchange,
    ItemEnded,
    ItemRef,
    Operation,
    Push,
    Release,
    Requeue,
    Skip,
)
from harvester.frontier.store import MOST_ENDED, Frontier
from harvester.outcomes import Outcome
from harvester.sites.breaker import SiteBreaker
from tests.breaker.worker import QUICK, Worker
from tests.frontier.items import JOB, check_items, feed, item, name_of, of
from tests.frontier.pushes import push
from tests.frontier.test_redirects import redirect

ONE, TWO = "worker-1", "worker-2"
A, B = item("a"), item("b")


async def fed(frontier: Frontier, *items: ItemRef, number: int = 1) -> str:
    """Feeds one request of these items and leases it; its id."""
    request = of(number, *items)
    (leased,) = (await frontier.exchange(ONE, [feed(list(items), request)], wanted=1)).leased
    assert leased.id == name_of(request)
    return leased.id


async def ends(frontier: Frontier, *operations: Operation) -> list[ItemEnded]:
    """Which items end with these operations."""
    told = await frontier.exchange(ONE, operations)
    await check_items(frontier)
    return told.ended


async def tell_again(frontier: Frontier) -> None:
    """As if nobody had been told of an ended item lately."""
    for name in await frontier._redis.zrange(frontier.prefix + "ended", 0, -1):
        await frontier._redis.zadd(frontier.prefix + "ended", {name: 1})


# How an attempt ends --------------------------------------------------------------------------------------


async def test_an_item_ends_with_its_last_request_and_all_is_counted(frontier: Frontier) -> None:
    requests = [of(number, A) for number in range(5)]
    told = await frontier.exchange(ONE, [feed([A], *requests)], wanted=9)
    assert (told.accepted, told.ended) == (5, [])
    names = [name_of(each) for each in requests]
    assert (
        await ends(frontier, Done(names[0], records=40, new=7), Done(names[1], "not_found", 2, 3, "HTTP 404", 2)) == []
    )
    assert await ends(frontier, Skip(names[2], "policy_denied", "robots"), Dead(names[3], "dns", "no such host")) == []
    (ended,) = await ends(frontier, Dead(names[4], "dns", "another reason"))
    assert ended == (
        *(A.id, 1, JOB, 5, 43, 2),
        {"ok": 1, "not_found": 1, "policy_denied": 1, "dns": 2},
        {"not_found": "HTTP 404", "policy_denied": "robots", "dns": "no such host"},
        ended.at,
        9,
    )
    assert ended.at == pytest.approx(time.time(), abs=60)
    status = await frontier.status()
    assert (status.items, status.ended, status.queued, status.done, status.skipped) == (0, 1, 5, 4, 1)
    assert (status.dead, status.done_by_outcome, status.rejected) == (0, {"ok": 1, "not_found": 1, "dns": 2}, 2)
    assert status.balanced


async def test_what_follows_from_a_request_keeps_its_item_open(frontier: Frontier) -> None:
    """Whether it is told before the request's end or after it, in the same breath."""
    name = await fed(frontier, A)
    assert await ends(frontier, Done(name), of(2, A)) == []
    await frontier.exchange(ONE, [], wanted=1)
    assert await ends(frontier, of(3, A), Done(f"{JOB}:2")) == []
    await frontier.exchange(ONE, [], wanted=1)
    (ended,) = await ends(frontier, of(3, A), Done(f"{JOB}:3"))
    assert (ended.requests, ended.outcomes) == (3, {"ok": 3})


HELD, CLOSED = ("held", "closed")
KEEP_OPEN: dict[str, Callable[[Frontier, str], Awaitable[object]]] = {
    "a retry": lambda f, name: f.exchange(ONE, [Requeue(name, b"", "", "", 0, "timeout", "slow")]),
    "a wait": lambda f, name: f.exchange(ONE, [Requeue(name, b"", "", "", 0, "timeout", "slow", time.time() + 9)]),
    "a redirect": lambda f, name: f.exchange(ONE, [redirect(name, 77)]),
    "its release": lambda f, name: f.exchange(ONE, [Release(name)]),
    "its worker's farewell": lambda f, _: f.leave(ONE),
    "a lost answer": lambda f, _: f.reconcile(ONE, []),
    "its worker's death": lambda f, _: Frontier(f._redis, f.spider).exchange(ONE, []),
    "a site that is left alone": lambda f, name: asyncio.gather(_breaker(f, HELD), f.exchange(ONE, [Release(name)])),
}


async def _breaker(frontier: Frontier, state: str) -> None:
    await frontier.set_breaker("", SiteBreaker().rules(), state, "a person")


@pytest.mark.parametrize("what", KEEP_OPEN)
async def test_an_item_stays_open_while_its_request_is_anywhere(frontier: Frontier, what: str) -> None:
    name = await fed(frontier, A)
    await KEEP_OPEN[what](frontier, name)
    told = await frontier.exchange(TWO, [])
    assert (told.ended, told.leased_total) == ([], 0)
    assert (await check_items(frontier))[A.id]["state"] == "open"
    assert await frontier.unknown_items([A]) == []
    await _breaker(frontier, CLOSED)
    for key in ("waiting",):
        for waiting in await frontier._redis.zrange(frontier.prefix + key, 0, -1):
            await frontier._redis.zadd(frontier.prefix + key, {waiting: 1})
    (leased,) = (await frontier.exchange(TWO, [], wanted=9)).leased
    (ended,) = (await frontier.exchange(TWO, [Done(leased.id)])).ended
    assert (ended.requests, ended.outcomes) == (1, {"ok": 1})


async def test_an_item_stays_open_when_its_worker_is_silent_and_a_late_word_of_that_one_does_no_harm(
    frontier: Frontier, redis: Redis
) -> None:
    quick = Frontier(redis, frontier.spider, lease_timeout_s=1.0)
    name = await fed(quick, A)
    async with asyncio.timeout(240):
        while not await quick.reap(TWO):
            await quick.exchange(TWO, [])
            await asyncio.sleep(0.05)
    told = await quick.exchange(TWO, [], wanted=1)
    assert ([leased.id for leased in told.leased], told.ended) == ([name], [])
    late: list[Operation] = [of(2, A), Done(name, records=7)]
    told = await quick.exchange(ONE, late)
    assert (told.stale, told.accepted, told.ended) == (1, 1, [])
    await quick.exchange(TWO, [of(2, A), Done(name, records=7)], wanted=1)
    (ended,) = (await quick.exchange(TWO, [Done(f"{JOB}:2", records=1)])).ended
    assert (ended.requests, ended.records) == (2, 8)
    told = await quick.exchange(ONE, [*late, of(3, A)])
    assert (told.stale, told.accepted, told.ended, told.ready) == (3, 0, [], 0)
    assert (await check_items(quick))[A.id]["state"] == "ended"


async def test_of_what_a_worker_was_told_that_has_ended_others_are_told_at_once(frontier: Frontier) -> None:
    name = await fed(frontier, A)
    (ended,) = (await frontier.exchange(ONE, [Done(name)])).ended
    assert (await frontier.exchange(TWO, [])).ended == []
    await frontier.reap(TWO, [ONE])
    assert (await frontier.exchange(TWO, [])).ended == [ended]


@pytest.mark.parametrize("by", ["a worker", "the loss of workers"])
async def test_what_is_given_up_of_an_item_leaves_no_dead_letter(frontier: Frontier, redis: Redis, by: str) -> None:
    name = await fed(frontier, A)
    if by == "a worker":
        told = await frontier.exchange(ONE, [Dead(name, "blocked", "HTTP 403")])
        outcome, reason = "blocked", "HTTP 403"
    else:
        told = await Frontier(redis, frontier.spider, max_deliveries=0).exchange(ONE, [])
        outcome, reason = "worker_lost", f"1 workers ended while they held it, the last was {ONE}"
    (ended,) = told.ended
    assert (ended.outcomes, ended.reasons) == ({outcome: 1}, {outcome: reason})
    status = await frontier.status()
    assert (status.dead, status.done_by_outcome, status.balanced) == (0, {outcome: 1}, True)
    assert await frontier.replay() == 0


async def test_what_fails_while_its_site_is_left_alone_is_parked_and_not_given_up(frontier: Frontier) -> None:
    request = of(1, A, site="s")
    await frontier.exchange(ONE, [feed([A], request)], wanted=1)
    worker = Worker(frontier, ONE, QUICK, "s")
    worker.see(Outcome.BLOCKED, 5)
    await worker.exchange()
    told = await frontier.exchange(ONE, [Dead(name_of(request), "blocked", "HTTP 403")])
    assert (told.ended, told.parked) == ([], 1)
    await check_items(frontier)


async def test_a_redirect_to_what_was_fetched_for_another_item_ends_well(frontier: Frontier) -> None:
    first, second = await fed(frontier, A, number=1), await fed(frontier, B, number=2)
    await frontier.exchange(ONE, [redirect(first, 77)], wanted=1)
    assert [each.id for each in await ends(frontier, Done(first))] == [A.id]
    (ended,) = await ends(frontier, redirect(second, 77))
    assert (ended.id, ended.requests, ended.outcomes, ended.reasons) == (B.id, 1, {"ok": 1}, {})


async def test_a_request_of_several_items_counts_for_each(frontier: Frontier) -> None:
    name = await fed(frontier, A, B)
    assert [each.id for each in await ends(frontier, of(2, B), Done(name, rejected=1, records=25))] == [A.id]
    await frontier.exchange(ONE, [], wanted=1)
    (ended,) = await ends(frontier, Done(f"{JOB}:2", records=3))
    assert ended[:6] == (B.id, 1, JOB, 2, 28, 1)


async def test_items_without_a_request_end_at_once(frontier: Frontier) -> None:
    """None was given, or all were asked for before."""
    await fed(frontier, A)
    await frontier.exchange(ONE, [of(5, A)])
    only_seen = feed([B], of(5, B))._replace(requests=(of(5, B),))
    told = await frontier.exchange(ONE, [only_seen, feed([item("c")])])
    assert (told.duplicates, sorted(each.id for each in told.ended)) == (1, [B.id, item("c").id])
    assert {(each.requests, *each.outcomes) for each in told.ended} == {(0,)}
    await check_items(frontier)


# How it begins --------------------------------------------------------------------------------------------


async def test_a_feed_is_applied_once(frontier: Frontier) -> None:
    """Sent again while the item is open, when it has ended, and when the ledger has written that down."""
    request = of(1, A)
    told = await frontier.exchange(ONE, [feed([A], request), feed([A], request)])
    assert (told.accepted, told.stale, told.ready) == (1, 1, 1)
    told = await frontier.exchange(TWO, [feed([A], request, of(2, A))], wanted=9)
    assert (told.stale, len(told.leased)) == (2, 1)
    told = await frontier.exchange(TWO, [Done(name_of(request)), feed([A], request)])
    assert (told.stale, told.ready, len(told.ended)) == (1, 0, 1)
    told = await frontier.exchange(ONE, [feed([A], request)])
    assert (told.stale, told.ready) == (1, 0)
    told = await frontier.exchange(ONE, [EndedAck((A,)), feed([A], request)])
    assert (told.stale, told.ready) == (1, 0)
    told = await frontier.exchange(ONE, [feed([A], request)])
    assert (told.stale, told.ready) == (1, 0)
    assert (await frontier.status()).queued == 1
    await check_items(frontier)


async def test_after_its_deadline_nothing_of_a_feed_is_applied(frontier: Frontier) -> None:
    told = await frontier.exchange(ONE, [])
    told = await frontier.exchange(ONE, [feed([A, B], of(1, A), of(2, B), deadline=told.now - 0.01)])
    assert (told.stale, told.accepted, told.ready, told.ended) == (2, 0, 0, [])
    assert await frontier.unknown_items([A, B]) == [A, B]
    assert await check_items(frontier) == {}


async def test_an_attempt_that_is_over_is_remembered_until_its_feed_can_come_no_more(frontier: Frontier) -> None:
    now = (await frontier.exchange(ONE, [])).now
    await frontier.exchange(ONE, [feed([A], deadline=now + 3600), feed([B], deadline=now + 0.2)])
    await frontier.exchange(ONE, [EndedAck((A,))])
    async with asyncio.timeout(240):
        while (await frontier.exchange(ONE, [])).now <= now + 0.2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await frontier.exchange(ONE, [EndedAck((B,))])
    assert list(await check_items(frontier)) == [A.id]
    await frontier._redis.zadd(frontier.prefix + "over", {A.id: 1, "unheard of": 1})
    await frontier._redis.hset(frontier.prefix + "counts", "since", 0)  # as if workers had been heard for long
    await frontier.reap(ONE)
    assert await check_items(frontier) == {}


async def test_a_later_attempt_takes_the_place_of_one_that_nobody_speaks_of_any_more(frontier: Frontier) -> None:
    """One that is open, and one of which the ledger knows although it was not acknowledged."""
    name = await fed(frontier, A)
    later = item("a", 2)
    request = of(1, later)
    told = await frontier.exchange(ONE, [feed([later], request), feed([A], of(9, A))])
    assert (told.accepted, told.stale) == (1, 1)
    assert await frontier.unknown_items([A, later]) == [A]
    told = await frontier.exchange(ONE, [of(3, A), Done(name, records=9)], wanted=9)
    assert (told.stale, told.ended) == (1, [])
    (ended,) = await ends(frontier, Done(name_of(request), records=1))
    assert (ended.ref, ended.requests, ended.records) == (later, 1, 1)
    latest = item("a", 3)
    (ended,) = await ends(frontier, feed([latest]))
    assert ended.ref == latest
    assert await ends(frontier, EndedAck((later,)), EndedAck((A,))) == []
    assert (await frontier.status()).ended == 1


async def test_a_request_of_an_attempt_that_is_over_is_dropped(frontier: Frontier) -> None:
    name = await fed(frontier, A, B)
    await frontier.exchange(ONE, [of(2, B), Done(name)])
    told = await frontier.exchange(ONE, [of(3, A), of(4, item("unheard of")), of(5, item("b", 2))])
    assert (told.stale, told.accepted, told.duplicates) == (3, 0, 0)
    told = await frontier.exchange(ONE, [of(3, A, B)], wanted=9)
    assert (told.stale, told.accepted) == (0, 1), "it belongs to one that is open, too"
    (ended,) = await ends(frontier, *(Done(leased.id) for leased in told.leased))
    assert (ended.id, ended.requests) == (B.id, 3)
    assert [each.id for each in (await frontier.exchange(ONE, [])).ended] == []


# What is told of it ---------------------------------------------------------------------------------------


async def test_an_ended_item_is_told_until_it_is_acknowledged(frontier: Frontier) -> None:
    """To one worker at a time; to another when the first does not say in time that it is written down."""
    refs = [item(number) for number in range(MOST_ENDED + 20)]
    told = await frontier.exchange(ONE, [feed(refs)], most_ended=0)
    assert told.ended == []
    first = (await frontier.exchange(ONE, [])).ended
    second = (await frontier.exchange(TWO, [])).ended
    assert (len(first), len(second)) == (MOST_ENDED, 20)
    assert {each.ref for each in first + second} == set(refs)
    assert (await frontier.exchange(TWO, [EndedAck(tuple(each.ref for each in second))])).ended == []
    await tell_again(frontier)
    again = (await frontier.exchange(TWO, [])).ended
    assert again == first, "the first worker died"
    acks = [EndedAck(tuple(each.ref for each in first))] * 2
    assert (await frontier.exchange(TWO, acks)).stale == 0
    await tell_again(frontier)
    assert (await frontier.exchange(TWO, [])).ended == []
    assert await frontier.unknown_items(refs) == refs
    assert (await frontier.status()).ended == 0
    await check_items(frontier)


async def test_the_frontier_says_which_attempts_it_does_not_know(frontier: Frontier) -> None:
    """It knows those that are open, and those that have ended until they are acknowledged."""
    await fed(frontier, A)
    await frontier.exchange(ONE, [feed([B])])
    others = [item("a", 2), item("b", 2), item("c"), item("a", job="another-job")]
    assert await frontier.unknown_items([A, *others[:2], B, *others[2:]]) == others
    assert await frontier.unknown_items([]) == []
    many = [item(number) for number in range(2500)]
    assert await frontier.unknown_items([*many, A]) == many


async def test_open_items_are_counted_by_job(frontier: Frontier) -> None:
    refs = [item(number, job=f"job-{number % 3}") for number in range(7)]
    await frontier.exchange(ONE, [feed([ref], of(number, ref)) for number, ref in enumerate(refs)], wanted=3)
    counts = {"job-0": 3, "job-1": 2, "job-2": 2}
    assert await frontier.open_items(["job-0", "job-1", "job-2", "none"]) == {**counts, "none": 0}
    assert await frontier.open_items([]) == {}
    await check_items(frontier)


async def test_a_job_that_is_forgotten_takes_its_items_with_it(frontier: Frontier, redis: Redis) -> None:
    other = item("o", job="other")
    await frontier.exchange(ONE, [feed([A]), feed([other])], most_ended=0)
    await frontier.exchange(ONE, [EndedAck((other,))], most_ended=0)
    await frontier._redis.zadd(frontier.prefix + "touched", {JOB: 1})
    await redis.hset(frontier.prefix + "counts", "since", 0)  # as if workers had been heard for long
    await frontier.reap(ONE)
    assert JOB not in await frontier.jobs()
    assert list(await check_items(frontier)) == [other.id]
    assert (await frontier.exchange(ONE, [])).ended == []


# What Redis loses -----------------------------------------------------------------------------------------


async def _exchange(frontier: Frontier, *operations: Operation, wanted: int = 0) -> Exchange:
    """As workers do it: when something is missing, what is left is made one whole first."""
    while True:
        with suppress(FrontierLost):
            told = await frontier.exchange(TWO, operations, wanted)
            if not (told.lost or told.damaged):
                return told
        await frontier.put_back()
        await frontier.begin_anew()
        for worker in (ONE, TWO):
            await frontier.leave(worker)


async def _work_off(frontier: Frontier, *refs: ItemRef) -> None:
    """As feeders do it: what the frontier does not know is fed again, until each item has ended."""
    latest = {ref.id: ref for ref in refs}
    async with asyncio.timeout(240):
        while latest:
            unknown = await frontier.unknown_items([*latest.values()])
            again = [ref._replace(attempt=ref.attempt + 1) for ref in unknown]
            latest.update((ref.id, ref) for ref in again)
            told = await _exchange(frontier, feed(again, *(of(30, ref) for ref in again)), wanted=99)
            await _exchange(frontier, *(Done(leased.id) for leased in told.leased))
            await tell_again(frontier)
            ended = (await _exchange(frontier)).ended
            assert {each.ref for each in ended} <= set(latest.values())
            for each in ended:
                del latest[each.id]
            await _exchange(frontier, EndedAck(tuple(each.ref for each in ended)))


@pytest.mark.parametrize(
    "parts",
    [
        ["items"],
        ["belongs"],
        ["ended"],
        ["over"],
        ["entries"],
        ["payloads"],
        ["counts"],
        ["counts", "entries"],
        ["items", "ended"],
        ["leases:" + ONE],
        ["*"],
    ],
    ids="+".join,
)
async def test_whatever_redis_has_lost_every_item_ends(frontier: Frontier, redis: Redis, parts: list[str]) -> None:
    """What is left of it is one whole again, and what it does not know any more it says."""
    refs = [item(number) for number in range(8)]
    told = await frontier.exchange(ONE, [feed([ref], of(n, ref)) for n, ref in enumerate(refs[:6])], wanted=4)
    names = [leased.id for leased in told.leased]
    await frontier.exchange(ONE, [feed(refs[6:])], most_ended=0)
    await frontier.exchange(
        ONE, [EndedAck((refs[7],)), Done(names[0]), of(20, refs[1]), of(21, refs[1], refs[2])], most_ended=0
    )
    for part in parts:
        for key in await redis.keys(frontier.prefix + part):
            await redis.delete(key)
    await _exchange(frontier, wanted=9)
    await frontier.leave(ONE)
    await frontier.leave(TWO)
    await _work_off(frontier, *refs[:7])
    await _exchange(frontier, wanted=9)  # a worker that finds nothing to do looks for what is missing
    status = await frontier.status()
    assert (status.ready, status.leased, status.items, status.ended, status.balanced) == (0, 0, 0, 0, True)
    await check_items(frontier)


async def test_a_request_of_items_that_redis_lost_stops_nobody_and_its_items_are_unknown(
    frontier: Frontier, redis: Redis
) -> None:
    """The ledger has them fed again, so that nothing is missing in the end."""
    requests = [of(1, A, B), of(2, B), of(3, item("c"))]
    await frontier.exchange(ONE, [feed([A, B, item("c")], *requests)])
    for key in ("entries", "payloads"):
        await redis.hdel(frontier.prefix + key, name_of(requests[0]))
    told = await frontier.exchange(ONE, [], wanted=9)
    assert (told.lost, len(told.leased)) == (0, 2)
    assert await frontier.unknown_items([A, B, item("c")]) == [A, B]
    await check_items(frontier)
    told = await frontier.exchange(ONE, [of(4, B), *(Done(leased.id) for leased in told.leased)], wanted=1)
    assert (told.stale, [each.id for each in told.ended], told.damaged) == (1, [item("c").id], False)
    status = await frontier.status()
    assert (status.queued, status.done, status.lost, status.balanced) == (2, 2, 0, True)


async def test_a_redis_that_went_back_tells_again_what_it_told(frontier: Frontier, redis: Redis) -> None:
    name = await fed(frontier, A)
    before = {key: await redis.dump(key) async for key in redis.scan_iter(match=f"{frontier.prefix}*")}
    await frontier.exchange(ONE, [Done(name), feed([B], of(2, B))], wanted=1)
    await frontier.exchange(ONE, [EndedAck((A,))])
    for key in await redis.keys(f"{frontier.prefix}*"):
        await redis.delete(key)
    for key, value in before.items():
        await redis.restore(key, 0, value or b"")
    told = await frontier.exchange(ONE, [])
    assert await frontier.unknown_items([A, B]) == [B], "the ledger has it fed again"
    told = await frontier.exchange(ONE, [], wanted=1)
    (ended,) = (await frontier.exchange(ONE, [Done(leased.id) for leased in told.leased])).ended
    assert ended.ref == A
    await check_items(frontier)


# What it costs --------------------------------------------------------------------------------------------


async def test_a_spider_without_items_does_not_pay_for_them(frontier: Frontier, redis: Redis) -> None:
    """Nothing is asked of Redis about items, but once in a new frontier."""
    await frontier.exchange(ONE, [])
    async with redis.monitor() as monitor:
        pushes: list[Push] = [push(number, site="s") for number in range(9)]
        told: Exchange = await frontier.exchange(ONE, pushes, wanted=4)
        done, dead, skipped, again = (leased.id for leased in told.leased)
        ending: list[Operation] = [
            Done(done, records=5),
            Dead(dead, "dns", ""),
            Skip(skipped, "gone", ""),
            redirect(again, 77),
        ]
        await frontier.exchange(ONE, ending, wanted=9)
        await frontier.exchange(ONE, [], wanted=9)
        await redis.echo(f"end of {frontier.prefix}")
        commands: list[str] = []
        async for each in monitor.listen():
            commands.append(each["command"])
            if "end of" in commands[-1] and frontier.prefix in commands[-1]:
                break
    ours = [command for command in commands if frontier.prefix in command]
    assert len(ours) > 30
    keys = tuple(frontier.prefix + key for key in ("items", "belongs", "ended", "over"))
    assert [command for command in ours if any(f"{key} " in f"{command} " for key in keys)] == []
