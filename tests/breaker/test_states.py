"""The breaker's states: every event in every state leads where the table says, and requests are parked accordingly."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest
from redis.exceptions import ConnectionError

from harvester.breaker.judgement import Breaker, BreakerRules, Decision
from harvester.breaker.messages import extrapolation, reason
from harvester.frontier.messages import Dead, Done, Release
from harvester.frontier.store import Frontier
from harvester.outcomes import Outcome
from harvester.sites.breaker import SiteBreaker
from harvester.sites.proxy_spec import Tier
from tests.breaker.worker import QUICK, Worker
from tests.frontier.pushes import push
from tests.frontier.test_faults import Fragile
from tests.numbers import numbers_of

RULES = QUICK.rules()
LONG = QUICK.model_copy(update={"open_seconds": 60.0, "most_open_seconds": 60.0})


async def _nothing(worker: Worker) -> None:
    await worker.exchange()


async def _some_refusals(worker: Worker) -> None:
    worker.see(Outcome.BLOCKED, 4)
    await worker.exchange()


async def _many_refusals(worker: Worker) -> None:
    worker.see(Outcome.BLOCKED, 5)
    await worker.exchange()


async def _good(worker: Worker) -> None:
    worker.see(Outcome.OK, 30)
    await worker.exchange()


async def _probes(worker: Worker, *outcomes: Outcome) -> None:
    for lease in await worker.lease(10):
        assert lease.probe
    for outcome in outcomes:
        worker.see(outcome, probe=True)
    await worker.exchange()


async def _by_hand(worker: Worker, state: str) -> None:
    await worker.frontier.set_breaker("s", worker.site.breaker.rules(), state, "a person")
    await worker.exchange()


async def _time(worker: Worker) -> None:
    await asyncio.sleep(0.15)
    await worker.exchange()


EVENTS: dict[str, Callable[[Worker], Awaitable[None]]] = {
    "nothing": _nothing,
    "some refusals": _some_refusals,
    "many refusals": _many_refusals,
    "good answers": _good,
    "a probe did well": lambda worker: _probes(worker, Outcome.OK),
    "the probes did well": lambda worker: _probes(worker, Outcome.OK, Outcome.NOT_FOUND),
    "a probe failed": lambda worker: _probes(worker, Outcome.OK, Outcome.CHALLENGE),
    "a probe was asked to wait": lambda worker: _probes(worker, Outcome.RATE_LIMITED, Outcome.OK),
    "opened": lambda worker: _by_hand(worker, "open"),
    "closed": lambda worker: _by_hand(worker, "closed"),
    "held": lambda worker: _by_hand(worker, "held"),
}
LEADS_TO = {
    ("closed", "many refusals"): "open",
    ("closed", "opened"): "open",
    ("closed", "held"): "held",
    ("open", "closed"): "closed",
    ("open", "held"): "held",
    ("half_open", "the probes did well"): "closed",
    ("half_open", "a probe failed"): "open",
    ("half_open", "opened"): "open",
    ("half_open", "closed"): "closed",
    ("half_open", "held"): "held",
    ("held", "opened"): "open",
    ("held", "closed"): "closed",
}
"""All events that change a state; whatever is not here leaves it as it is."""


WHY = "they asked us to"


async def _bring(frontier: Frontier, state: str) -> Worker:
    """A worker at a site whose breaker is in that state, with some requests."""
    worker = Worker(frontier, "worker-1", LONG)
    await worker.exchange([push(number, site="s") for number in range(10)])
    if state in ("open", "half_open"):
        if state == "half_open":
            worker.site = worker.site.model_copy(update={"breaker": QUICK})
        await _many_refusals(worker)
        worker.site = worker.site.model_copy(update={"breaker": LONG})
    if state == "half_open":
        await _time(worker)
    if state == "held":
        await _by_hand(worker, "held")
    assert await worker.state() == state
    return worker


@pytest.mark.parametrize("state", ["closed", "open", "half_open", "held"])
@pytest.mark.parametrize("event", EVENTS)
async def test_an_event_leads_where_the_table_says(frontier: Frontier, state: str, event: str) -> None:
    worker = await _bring(frontier, state)
    if state == "closed" and event.startswith(("a probe", "the probes")):
        pytest.skip("there are no probes")
    await EVENTS[event](worker)
    after = LEADS_TO.get((state, event), state)
    assert await worker.state() == after
    assert worker.breakers.holds_back("s") == (after != "closed")
    status = await frontier.status()
    assert status.parked + status.ready + status.leased == 10
    assert (status.ready if after != "closed" else status.parked) == 0


async def test_time_lets_probes_out_and_nothing_else_does(frontier: Frontier) -> None:
    patient = QUICK.model_copy(update={"open_seconds": 2.0, "most_open_seconds": 2.0})
    worker, other = Worker(frontier, "worker-1", patient), Worker(frontier, "worker-2", patient)
    await worker.exchange([push(number, site="s") for number in range(10)])
    await _many_refusals(worker)
    assert await other.lease(10) == []
    await asyncio.sleep(2.1)
    await worker.exchange()
    assert await worker.state() == "half_open"
    probes = await other.lease(10)
    assert [lease.probe for lease in probes] == [1, 1]
    assert await worker.lease(10) == []
    other.see(Outcome.OK, 2, probe=True)
    await other.exchange([Done(lease.id) for lease in probes])
    rest = await worker.lease(10)
    assert [lease.probe for lease in rest] == 8 * [0]
    assert {lease.attempts for lease in rest} == {0}
    assert {lease.deliveries for lease in rest} == {0}


async def test_probes_that_are_heard_of_no_more_are_followed_by_others(frontier: Frontier) -> None:
    frontier = Frontier(frontier._redis, frontier.spider, lease_timeout_s=0.3)
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(number, site="s") for number in range(10)])
    await _many_refusals(worker)
    await _time(worker)
    probes = await worker.lease(10)
    async with asyncio.timeout(240):
        while len(probes) < 6:
            probes += await worker.lease(10)
            assert len(probes) % 2 == 0
            await asyncio.sleep(0.05)
    assert len({lease.id for lease in probes}) == 6


GIVEN_BACK: dict[str, Callable[[Frontier, list[str]], Awaitable[Any]]] = {
    "by a worker that goes on": lambda frontier, ids: frontier.exchange("worker-1", list(map(Release, ids))),
    "by one that ends": lambda frontier, _: frontier.leave("worker-1"),
    "with what it does not know of": lambda frontier, _: frontier.reconcile("worker-1", []),
}


@pytest.mark.parametrize("how", GIVEN_BACK)
async def test_probes_that_come_back_unspent_are_followed_by_others_at_once(frontier: Frontier, how: str) -> None:
    worker, other = Worker(frontier, "worker-1"), Worker(frontier, "worker-2")
    await worker.exchange([push(number, site="s") for number in range(10)])
    await _many_refusals(worker)
    await _time(worker)
    probes = await worker.lease(10)
    assert [lease.probe for lease in probes] == [1, 1]
    assert await other.lease(10) == []
    await GIVEN_BACK[how](frontier, [lease.id for lease in probes])
    assert [lease.probe for lease in await other.lease(10)] == [1, 1]
    assert await other.lease(10) == []


async def test_one_request_is_probe_enough_when_there_are_no_others(frontier: Frontier) -> None:
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(1, site="s")])
    await _many_refusals(worker)
    await _time(worker)
    await _probes(worker, Outcome.OK)
    assert await worker.state() == "closed"


async def test_a_hold_for_a_time_ends_with_probes_and_one_without_does_not_end(frontier: Frontier) -> None:
    worker = await _bring(frontier, "closed")
    await frontier.set_breaker("s", LONG.rules(), "held", "jane", WHY, 0.1)
    assert (await frontier.breakers())["s"].until is not None
    assert (await frontier.breakers())["s"].said == WHY
    await _time(worker)
    assert await worker.state() == "half_open"
    await _probes(worker, Outcome.OK, Outcome.OK)
    assert await worker.state() == "closed"
    await frontier.set_breaker("s", LONG.rules(), "held", "jane", for_s=0.1)
    await frontier.set_breaker("s", LONG.rules(), "held", "jane")
    assert (await frontier.breakers())["s"].until is None
    await _time(worker)
    assert await worker.state() == "held"


async def test_the_same_wish_twice_is_one_change(frontier: Frontier) -> None:
    worker = await _bring(frontier, "closed")
    assert (await frontier.set_breaker("s", LONG.rules(), "closed", "jane", "all is well"))[1] is None
    assert (await frontier.set_breaker("s", LONG.rules(), "held", "jane", "a reason"))[1]
    assert (await frontier.set_breaker("s", LONG.rules(), "held", "jane", "a reason"))[1] is None
    assert (await frontier.set_breaker("s", LONG.rules(), "held", "jane", "another"))[1]
    assert await worker.state() == "held"


# Late answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 10])
@pytest.mark.parametrize("late", [Outcome.BLOCKED, Outcome.OK])
async def test_answers_to_requests_that_were_sent_before_decide_nothing(
    frontier: Frontier, late: Outcome, left: int
) -> None:
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(number, site="s") for number in range(10 + left)])
    await worker.lease(10)
    await _many_refusals(worker)
    await _time(worker)
    assert await worker.state() == "half_open"
    worker.see(late, 10)
    await worker.exchange()
    assert await worker.state() == "half_open"
    assert [change.after for change in worker.changes] == ["open", "half_open"]


@pytest.mark.parametrize("late", [Outcome.BLOCKED, Outcome.OK])
async def test_a_probe_of_an_earlier_trial_decides_nothing(frontier: Frontier, late: Outcome) -> None:
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(number, site="s") for number in range(10)])
    await _many_refusals(worker)
    await _time(worker)
    await worker.lease(10)
    worker.see(Outcome.BLOCKED, probe=True)  # the other probe is slow
    await worker.exchange()
    assert await worker.state() == "open"
    await asyncio.sleep(0.25)
    await worker.exchange()
    assert await worker.state() == "half_open"
    worker.see(late, 2, probe=True)
    await worker.exchange()
    assert await worker.state() == "half_open"
    await _probes(worker, Outcome.OK, Outcome.OK)
    assert await worker.state() == "closed"


async def test_a_lost_probe_that_was_all_there_is_neither_opens_it_nor_keeps_it_half_open(frontier: Frontier) -> None:
    """Its worker was killed; nothing is parked, and answers of other requests come in."""
    frontier = Frontier(frontier._redis, frontier.spider, lease_timeout_s=0.3)
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(1, site="s")])
    await _many_refusals(worker)
    await _time(worker)
    assert len(await worker.lease(10)) == 1
    for _ in range(3):
        await asyncio.sleep(0.15)
        worker.see(Outcome.OK)
        await worker.exchange()
        assert await worker.state() == "half_open"
    await frontier.leave("worker-1")  # as a reaper does for it
    (again,) = await worker.lease(10)
    assert again.probe
    worker.see(Outcome.OK, probe=True)
    await worker.exchange([Done(again.id)])
    assert await worker.state() == "closed"


async def test_a_probe_is_held_back_when_its_trial_is_over(frontier: Frontier) -> None:
    """Another probe failed, or a person holds the site, while it waited for its turn."""
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(number, site="s") for number in range(10)])
    await _many_refusals(worker)
    await _time(worker)
    probe, _ = await worker.lease(10)
    assert not worker.breakers.holds_back("s", probe.probe)
    await _by_hand(worker, "held")
    assert worker.breakers.holds_back("s", probe.probe)
    await _by_hand(worker, "closed")
    assert not worker.breakers.holds_back("s", probe.probe)


async def test_what_a_person_holds_stays_held_whatever_is_seen(frontier: Frontier) -> None:
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(number, site="s") for number in range(10)])
    await _many_refusals(worker)
    await _time(worker)
    await worker.lease(10)
    await _by_hand(worker, "held")
    for outcome in (Outcome.OK, Outcome.BLOCKED):
        worker.see(outcome, 20)
        worker.see(outcome, 2, probe=True)
        await _time(worker)
        assert await worker.state() == "held"


async def test_a_change_says_what_was_tried_in_the_window(frontier: Frontier) -> None:
    worker = Worker(frontier, "worker-1")
    for _ in range(7):
        assert await worker.state() == "closed"
        worker.see(Outcome.SERVER_ERROR, 2)
        worker.see(Outcome.OK)
        await worker.exchange()
    assert await worker.state() == "open"
    (change,) = worker.changes
    assert (change.cause, change.tried, change.failed) == ("ratio", 21, 14)
    assert change.outcomes == {"server_error": 14, "ok": 7}


async def test_what_was_tried_before_the_window_does_not_count(frontier: Frontier) -> None:
    breaking = SiteBreaker(window_seconds=1, least_tries=20, refusals_in_a_row=50, failures_in_a_row=50)
    worker = Worker(frontier, "worker-1", breaking)
    worker.see(Outcome.BLOCKED, 15)
    await worker.exchange()
    await asyncio.sleep(1.2)
    worker.see(Outcome.OK)
    worker.see(Outcome.BLOCKED, 15)
    await worker.exchange()
    assert await worker.state() == "closed"
    worker.see(Outcome.BLOCKED, 5)
    await worker.exchange()
    assert await worker.state() == "open"


async def test_a_row_is_that_of_all_workers_and_ends_with_a_good_answer(frontier: Frontier) -> None:
    one, two = Worker(frontier, "worker-1"), Worker(frontier, "worker-2")
    for worker in (one, two):
        worker.see(Outcome.BLOCKED, 2)
        await worker.exchange()
    one.see(Outcome.OK)
    one.see(Outcome.BLOCKED, 2)
    await one.exchange()
    assert await one.state() == "closed"
    two.see(Outcome.BLOCKED, 3)
    await two.exchange()
    assert await one.state() == "open"
    assert [change.cause for change in two.changes] == ["refusals"]
    assert one.changes == [], "a change is given to one worker"


async def test_where_more_fails_than_goes_well_nothing_goes_out_before_redis_knows(frontier: Frontier) -> None:
    worker = Worker(frontier, "a")
    worker.see(Outcome.OK, 30)
    for _ in range(5):
        await worker.breakers.settled("s")
        worker.see(Outcome.LAYOUT_CHANGED, 2)
        worker.see(Outcome.OK)
    worker.see(Outcome.LAYOUT_CHANGED)
    waiting = asyncio.create_task(worker.breakers.settled("s"))
    await worker.breakers.settled("another")
    await asyncio.sleep(0)
    assert not waiting.done()
    await worker.exchange()
    await waiting
    worker.see(Outcome.OK, 3)
    worker.see(Outcome.LAYOUT_CHANGED, 2)
    await worker.breakers.settled("s")


async def test_a_few_requests_that_are_tried_again_and_again_are_no_row_of_failures(frontier: Frontier) -> None:
    """Else twenty dead endpoints would have a thousand live ones left alone, which are not due meanwhile."""
    worker = Worker(frontier, "worker-1")
    worker.see(Outcome.OK, 60)
    worker.see(Outcome.SERVER_ERROR, 9)
    worker.see(Outcome.SERVER_ERROR, 40, is_new=False)
    await worker.exchange()
    assert await worker.state() == "closed"
    worker.see(Outcome.SERVER_ERROR)
    await worker.exchange()
    assert await worker.state() == "open"
    assert [change.cause for change in worker.changes] == ["failures"]


async def test_reports_that_are_sent_twice_count_once(frontier: Frontier) -> None:
    worker = Worker(frontier, "worker-1")
    worker.see(Outcome.BLOCKED, 3)
    reports = worker.breakers.take()
    for _ in range(3):
        await frontier.exchange("worker-1", [], reports=reports)
    assert await worker.state() == "closed"


async def test_a_change_that_nobody_told_people_of_is_given_to_another_worker(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Worker(frontier, "worker-1", LONG), Worker(frontier, "worker-2", LONG)
    await _many_refusals(one)
    (change,) = one.changes
    await two.exchange()
    assert two.changes == []
    await frontier._redis.zadd(frontier.prefix + "untold", {change.id: 0})  # a minute later
    await two.exchange()
    assert two.changes == [change]
    await frontier.told(change)
    await frontier._redis.zadd(frontier.prefix + "untold", {"other": 0})
    await frontier._redis.zrem(frontier.prefix + "untold", "other")
    await one.exchange()
    assert one.changes == [change]


# Between what is counted and what is decided ---------------------------------------------------------------


async def test_only_a_decision_takes_another_round_trip(frontier: Frontier, redis_url: str) -> None:
    async with Fragile.from_url(redis_url) as client:
        connection = cast(Fragile, client)
        worker = Worker(Frontier(connection, frontier.spider), "worker-1", LONG)
        await worker.exchange([push(number, site="s") for number in range(10)])
        before = connection.sent
        for _ in range(5):
            worker.see(Outcome.BLOCKED, 4)
            worker.see(Outcome.OK, 40)
            for _ in range(LONG.sample):
                worker.breakers.add_page(worker.site, Outcome.OK, 0)
            await worker.exchange()
        assert connection.sent == before + 5
        await _many_refusals(worker)
        assert await worker.state() == "open"


async def test_of_workers_that_decide_the_same_at_once_one_is_heard(frontier: Frontier) -> None:
    workers = [Worker(frontier, f"worker-{number}", LONG) for number in range(8)]
    await workers[0].exchange([push(number, site="s") for number in range(10)])
    for worker in workers:
        worker.see(Outcome.BLOCKED, 5)
    await asyncio.gather(*(worker.exchange() for worker in workers))
    assert [change.after for worker in workers for change in worker.changes] == ["open"]
    assert all(worker.breakers.holds_back("s") for worker in workers)
    breaker = (await frontier.status()).breakers["s"]
    assert (breaker.times, breaker.tried) == (1, 40)


async def test_a_decision_about_a_state_that_is_over_is_not_applied(frontier: Frontier) -> None:
    """A person closes the breaker after its probes have failed, and before that is said."""
    worker = await _bring(frontier, "half_open")
    rules = msgspec.convert(RULES, BreakerRules)
    look = Breaker("s", rules, version=-1), Decision("closed")  # none is of that version
    _, _, (found,), _ = await frontier._apply([look])
    assert found.state == "half_open"
    await _by_hand(worker, "closed")
    _, _, (found,), changes = await frontier._apply([(found, Decision("open", wait=60_000, opens=2))])
    assert (found.state, changes) == ("closed", [])
    assert await worker.state() == "closed"


@pytest.mark.parametrize("who", ["the same worker, which asks again", "another worker, which sees one more"])
async def test_what_was_counted_and_not_judged_is_judged_by_the_next(
    frontier: Frontier, redis_url: str, who: str
) -> None:
    """Its connection broke, or it was killed, when it knew the counts."""
    async with Fragile.from_url(redis_url) as client:
        connection = cast(Fragile, client)
        fragile = Worker(Frontier(connection, frontier.spider), "worker-1", LONG)
        await fragile.exchange([push(number, site="s") for number in range(10)])
        fragile.see(Outcome.BLOCKED, 6)
        reports = fragile.breakers.take()
        connection.at = connection.sent + 1
        with pytest.raises(ConnectionError):
            await fragile.frontier.exchange("worker-1", [], reports=reports)
        assert await Worker(frontier, "worker-2").state() == "closed"
        if who.startswith("the same"):
            told = await fragile.frontier.exchange("worker-1", [], reports=reports)
        else:
            other = Worker(frontier, "worker-2", LONG)
            other.see(Outcome.BLOCKED)
            told = await other.exchange()
        assert [change.cause for change in told.changes] == ["refusals"]
        assert (told.parked, told.ready) == (10, 0)


async def test_probes_that_did_well_close_it_when_who_knew_was_lost(frontier: Frontier, redis_url: str) -> None:
    async with Fragile.from_url(redis_url) as client:
        connection = cast(Fragile, client)
        worker = await _bring(Frontier(connection, frontier.spider), "half_open")
        await worker.lease(10)
        worker.see(Outcome.OK, 2, probe=True)
        connection.at = connection.sent + 1
        with pytest.raises(ConnectionError):
            await worker.exchange()
    assert await Worker(frontier, "worker-2").state() == "half_open"
    await frontier._redis.zadd(frontier.prefix + "shut", {"s": 1})  # the probes' time is over
    told = await frontier.exchange("worker-2", [], wanted=9)
    assert [change.after for change in told.changes][-1] == "closed"
    assert (told.parked, told.ready) == (0, 8)


# What becomes of requests that failed of it ---------------------------------------------------------------


async def test_what_died_shortly_before_for_the_same_reason_is_parked_behind_the_others(frontier: Frontier) -> None:
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(number, site="s") for number in range(20)])
    held = await worker.lease(7)
    worker.see(Outcome.BLOCKED, 3)
    await worker.exchange([Dead(lease.id, "blocked", "HTTP 403") for lease in held[:3]] + [Dead("3", "invalid", "?")])
    assert (await frontier.status()).dead == 4
    worker.see(Outcome.BLOCKED, 2)
    await worker.exchange([Dead(lease.id, "blocked", "HTTP 403") for lease in held[4:6]] + [Release(held[6].id)])
    status = await frontier.status()
    assert status.balanced
    assert (status.parked, status.dead, status.dead_by_outcome) == (19, 1, {"invalid": 1})
    await frontier.set_breaker("s", RULES, "closed", "a person")
    rest = await worker.lease(30)
    assert [lease.id for lease in rest] == [str(number) for number in (*range(6, 20), 0, 1, 2, 4, 5)]
    assert {lease.attempts for lease in rest} == {0}


async def test_a_request_that_fails_again_and_again_is_given_up_at_last(frontier: Frontier) -> None:
    worker = Worker(frontier, "worker-1")
    await worker.exchange([push(1, site="s")])
    await _many_refusals(worker)
    times = 0
    async with asyncio.timeout(240):
        while not (await frontier.status()).dead:
            leased = await worker.lease(1)
            for lease in leased:
                times += 1
                worker.see(Outcome.BLOCKED, probe=True)
                await worker.exchange([Dead(lease.id, "blocked", "HTTP 403")])
            await asyncio.sleep(0.05)
    assert times == 6
    fate = await frontier.look_up(1)
    assert fate is not None
    assert [event.event for event in fate.history] == 5 * ["parked"] + ["dead"]


# Tiers ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def workers(frontier: Frontier) -> list[Worker]:
    """Two at a site that may be asked by two tiers of proxies; `datacenter` is refused."""
    both = [Worker(frontier, name) for name in ("worker-1", "worker-2")]
    proxying = both[0].site.proxy.model_copy(update={"tiers": (Tier.DATACENTER, Tier.RESIDENTIAL)})
    for worker in both:
        worker.site = worker.site.model_copy(update={"proxy": proxying})
    await both[0].exchange([push(1, site="s")])
    both[0].see(Outcome.BLOCKED, 5, tier="datacenter")
    for worker in both:
        await worker.exchange()
    return both


async def _passed_over(worker: Worker) -> list[bool]:
    await worker.exchange()
    return [worker.breakers.passes_over("s", tier) for tier in ("datacenter", "residential")]


async def test_a_tier_that_is_refused_is_passed_over_by_all_workers_and_parks_nothing(
    frontier: Frontier, workers: list[Worker]
) -> None:
    await frontier.set_breaker("s\0datacenter", LONG.rules(), "open", "a person")
    assert [await _passed_over(worker) for worker in workers] == [[True, False]] * 2
    assert await workers[1].breakers.may_pass("s", "datacenter") is None
    assert await workers[1].breakers.may_pass("s", "residential") == 0
    assert not workers[0].breakers.holds_back("s")
    assert (await frontier.status()).ready == 1


async def test_few_requests_of_all_workers_find_out_whether_a_tier_is_of_use_again(workers: list[Worker]) -> None:
    await asyncio.sleep(0.15)
    assert [await _passed_over(worker) for worker in workers] == [[False, False]] * 2
    passes = [await worker.breakers.may_pass("s", "datacenter") for worker in (*workers, *workers)]
    assert passes == [1, 1, None, None]
    assert [await _passed_over(worker) for worker in workers] == [[True, False]] * 2
    for worker in workers:
        worker.see(Outcome.OK, tier="datacenter", tier_probe=1)
        await worker.exchange()
    assert await workers[0].state("datacenter") == "closed"
    assert [await _passed_over(worker) for worker in workers] == [[False, False]] * 2


async def test_only_its_probes_decide_of_a_tier(workers: list[Worker]) -> None:
    one, two = workers
    await asyncio.sleep(0.15)
    await one.exchange()
    one.see(Outcome.BLOCKED, 9, tier="datacenter")  # sent before it was passed over
    one.see(Outcome.OK, 9, tier="datacenter")
    await one.exchange()
    assert await one.state("datacenter") == "half_open"
    await two.exchange()
    assert await two.breakers.may_pass("s", "datacenter") == 1
    two.see(Outcome.BLOCKED, tier="datacenter", tier_probe=1)
    await two.exchange()
    assert await one.state("datacenter") == "open"
    assert [change.after for change in one.changes + two.changes] == ["open", "half_open", "open"]


async def test_lost_probes_of_a_tier_are_followed_by_others(frontier: Frontier, workers: list[Worker]) -> None:
    frontier = Frontier(frontier._redis, frontier.spider, lease_timeout_s=0.2)
    worker = Worker(frontier, "worker-3")
    await asyncio.sleep(0.15)
    await worker.exchange()
    assert [await frontier.take_probe("s\0datacenter") for _ in range(3)] == [1, 1, 0]
    async with asyncio.timeout(240):
        while not await frontier.take_probe("s\0datacenter"):
            await asyncio.sleep(0.05)
            await worker.exchange()
    assert await worker.state("datacenter") == "half_open"


async def test_probes_of_a_tier_that_answer_late_count_on(frontier: Frontier, workers: list[Worker]) -> None:
    frontier = Frontier(frontier._redis, frontier.spider, lease_timeout_s=0.2)
    worker = Worker(frontier, "worker-3")
    worker.site = workers[0].site
    await asyncio.sleep(0.15)
    await worker.exchange()
    assert [await frontier.take_probe("s\0datacenter") for _ in range(3)] == [1, 1, 0]
    worker.see(Outcome.OK, tier="datacenter", tier_probe=1)
    async with asyncio.timeout(240):
        while not await frontier.take_probe("s\0datacenter"):
            await asyncio.sleep(0.05)
            await worker.exchange()
    assert await frontier.take_probe("s\0datacenter") == 0, "one has answered"
    worker.see(Outcome.OK, tier="datacenter", tier_probe=1)
    await worker.exchange()
    assert await worker.state("datacenter") == "closed"


async def test_what_is_a_probe_already_goes_by_the_tier_while_its_trial_lasts(workers: list[Worker]) -> None:
    await asyncio.sleep(0.15)
    breakers = workers[0].breakers
    await workers[0].exchange()
    assert [await breakers.may_pass("s", "datacenter") for _ in range(3)] == [1, 1, None]
    assert [breakers.passes_over("s", "datacenter", trial) for trial in (0, 1, 2)] == [True, False, True]
    assert [await breakers.may_pass("s", "datacenter", trial) for trial in (0, 1, 2)] == [None, 1, None]


async def test_what_no_dearer_tier_mends_closes_no_tier(workers: list[Worker]) -> None:
    """A request that is challenged goes by no other tier."""
    worker = workers[0]
    worker.see(Outcome.CHALLENGE, 5, tier="residential")
    await worker.exchange()
    assert await worker.state() == "open"
    assert await worker.state("residential") == "closed"


async def test_refusals_by_the_dearest_tier_are_the_sites(workers: list[Worker]) -> None:
    worker = workers[0]
    assert await worker.state() == "closed"
    worker.see(Outcome.BLOCKED, 5, tier="residential")
    await worker.exchange()
    assert (await worker.state(), await worker.state("residential")) == ("open", "open")


async def test_a_request_waits_for_the_first_of_the_tiers_that_are_left(workers: list[Worker]) -> None:
    worker = workers[0]
    patient = QUICK.model_copy(update={"open_seconds": 50.0, "most_open_seconds": 50.0})
    worker.site = worker.site.model_copy(update={"breaker": patient})
    worker.see(Outcome.BLOCKED, 5, tier="residential")
    await worker.exchange()
    assert worker.breakers.wait_s("s", ["residential"]) == pytest.approx(50, abs=5)
    assert worker.breakers.wait_s("s", ["datacenter", "residential"]) <= 5
    await worker.frontier.set_breaker("s\0residential", RULES, "held", "a person")
    await worker.exchange()
    assert worker.breakers.wait_s("s", ["residential"]) == 3600


async def test_a_site_with_one_tier_has_no_breaker_beside_its_own(frontier: Frontier) -> None:
    worker = Worker(frontier, "worker-1")
    worker.see(Outcome.BLOCKED, 5, tier="datacenter")
    await worker.exchange()
    assert (await frontier.status()).breakers.keys() == {"s"}


async def test_an_opening_is_told_of_without_a_guess_when_its_window_has_passed_before_it_was_applied(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a worker that was stopped, or slept with its machine, when it had judged."""
    apply = frontier._apply

    async def apply_late(decisions: Any) -> Any:
        await asyncio.sleep(1.2)
        return await apply(decisions)

    monkeypatch.setattr(frontier, "_apply", apply_late)
    worker = Worker(frontier, "w", QUICK.model_copy(update={"window_seconds": 1.0, "failures_in_a_row": 100}))
    worker.see(Outcome.SERVER_ERROR, 30)
    await worker.exchange()
    (change,) = worker.changes
    assert (change.cause, change.after, change.tried) == ("ratio", "open", 0)
    assert ("server_error" in reason(change), numbers_of(reason(change)), extrapolation(change)) == (True, [], "")
