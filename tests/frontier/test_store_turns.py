"""Who comes first: priorities, and turns between jobs and between sites."""

from collections import Counter

import pytest

from harvester.frontier.messages import Done, Operation, Push
from harvester.frontier.store import Frontier
from tests.frontier.pushes import push

W = "worker-1"


async def _work(frontier: Frontier, wanted: int, worker: str = W) -> list[tuple[str, str]]:
    """Job and site of the next requests, in the order of their leases; they are done at once."""
    told = await frontier.exchange(worker, [], wanted, per_site=10_000)
    done: list[Operation] = [Done(leased.id) for leased in told.leased]
    await frontier.exchange(worker, done)
    return [(leased.job, leased.site) for leased in told.leased]


async def _push_all(frontier: Frontier, pushes: list[Push]) -> None:
    for first in range(0, len(pushes), 1000):
        await frontier.exchange(W, pushes[first : first + 1000])


async def test_higher_priorities_come_first_then_what_came_first(frontier: Frontier) -> None:
    priorities = [0, 5, -3, 5, 0, 10**9, -(10**9), 1]
    await frontier.exchange(W, [push(n, priority=priority) for n, priority in enumerate(priorities)])
    told = await frontier.exchange(W, [], wanted=99)
    assert [leased.id for leased in told.leased] == ["5", "1", "3", "7", "0", "4", "2", "6"]


@pytest.mark.parametrize("batch", [1, 7, 64])
async def test_a_small_job_is_not_starved_by_a_big_one(frontier: Frontier, batch: int) -> None:
    await _push_all(frontier, [push(n, job="big") for n in range(10_000)])
    for _ in range(3):
        await _work(frontier, batch)
    await frontier.exchange(W, [push(n, job="small") for n in range(10)])
    small = big = 0
    while small < 10:
        jobs = Counter(job for job, _ in await _work(frontier, batch))
        small, big = small + jobs["small"], big + jobs["big"]
    assert big <= 200, "2 % of the big job's work"


async def test_jobs_and_sites_take_turns_whatever_they_have(frontier: Frontier) -> None:
    sizes = {("a", "1"): 300, ("a", "2"): 60, ("a", "3"): 40, ("b", "1"): 400}
    pushes = [push(n, job=job, site=site) for (job, site), size in sizes.items() for n in range(size)]
    unique = [each._replace(fingerprint=n) for n, each in enumerate(pushes)]
    await _push_all(frontier, unique)
    served: Counter[tuple[str, str]] = Counter()
    for _ in range(12):
        served.update(await _work(frontier, 20))
    assert served == {("a", "1"): 40, ("a", "2"): 40, ("a", "3"): 40, ("b", "1"): 120}
    for _ in range(28):
        served.update(await _work(frontier, 20))
    assert served == sizes


async def test_a_site_that_was_held_back_does_not_save_up_turns(frontier: Frontier) -> None:
    pushes = [push(n, site=("slow", "quick")[n % 2]) for n in range(2000)]
    await _push_all(frontier, pushes)
    held = (await frontier.exchange(W, [], wanted=4, per_site=2)).leased
    slow = [leased.id for leased in held if leased.site == "slow"]
    for _ in range(20):
        told = await frontier.exchange(W, [], wanted=20, per_site=len(slow) + 2)
        await frontier.exchange(W, [Done(leased.id) for leased in told.leased if leased.site == "quick"])
    told = await frontier.exchange("worker-2", [], wanted=100, per_site=1000)
    sites = Counter(leased.site for leased in told.leased)
    assert 40 <= sites["slow"] <= 60
    assert 40 <= sites["quick"] <= 60


async def test_many_sites_are_worked_on_side_by_side(frontier: Frontier) -> None:
    await _push_all(frontier, [push(n, site=f"site-{n % 500}") for n in range(2000)])
    sites = Counter(site for _, site in await _work(frontier, 500))
    assert set(sites.values()) == {1}
    assert len(sites) == 500
    served = 500
    while work := await _work(frontier, 333):
        served += len(work)
    assert served == 2000


async def test_jobs_share_a_site_of_which_a_worker_may_hold_few(frontier: Frontier) -> None:
    """Its room there comes a request at a time, and goes to the jobs in turn."""
    await frontier.exchange(W, [push(n, site="s", job="a") for n in range(100)])
    held = [*(await frontier.exchange(W, [], wanted=10, per_site=4)).leased]
    await frontier.exchange(W, [push(n, site="s", job=job) for job in "bc" for n in range(20)])
    jobs = []
    for _ in range(30):
        told = await frontier.exchange(W, [Done(held.pop(0).id)], wanted=10, per_site=4)
        held += told.leased
        jobs += [leased.job for leased in told.leased]
    assert Counter(jobs) == {"a": 10, "b": 10, "c": 10}
