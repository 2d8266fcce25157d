"""A dead letter is none any more when the same is asked for later and comes to its end, filtered or not."""

import pytest

from harvester.frontier.messages import Dead, Done
from harvester.frontier.store import Frontier
from tests.frontier.pushes import push

ONE = "worker-1"


async def _ended(frontier: Frontier, *, filtered: bool, dead: bool = False) -> str:
    """One request for the same page, to its end."""
    (leased,) = (await frontier.exchange(ONE, [push(1, filtered=filtered)], wanted=1)).leased
    await frontier.exchange(ONE, [Dead(leased.id, "dns", "no such host") if dead else Done(leased.id)])
    return leased.id


@pytest.mark.parametrize("filtered", [True, False], ids=["filtered", "unfiltered"])
async def test_a_page_that_is_read_later_leaves_no_dead_letter(filtered: bool, frontier: Frontier) -> None:
    await _ended(frontier, filtered=filtered, dead=True)
    assert (await frontier.status()).dead_by_outcome == {"dns": 1}
    await _ended(frontier, filtered=False)
    status = await frontier.status()
    assert (status.dead, status.dead_by_outcome, status.balanced) == (0, {}, True)
    assert status.done_by_outcome == {"ok": 1, "superseded": 1}
    assert await frontier.dead() == []


async def test_a_page_that_fails_in_each_run_leaves_one_dead_letter(frontier: Frontier) -> None:
    ids = [await _ended(frontier, filtered=False, dead=True) for _ in range(3)]
    status = await frontier.status()
    assert (status.dead, status.dead_by_outcome, status.balanced) == (1, {"dns": 1}, True)
    assert [letter.id for letter in await frontier.dead()] == ids[-1:]


async def test_a_request_that_was_under_way_beside_another_says_nothing_of_it(frontier: Frontier) -> None:
    both = [push(1, filtered=False), push(1, filtered=False)]
    first, second = (await frontier.exchange(ONE, both, wanted=2)).leased
    pushed_at = await _milliseconds(frontier)
    while await _milliseconds(frontier) == pushed_at:
        pass
    await frontier.exchange(ONE, [Dead(first.id, "dns", "no such host")])
    await frontier.exchange(ONE, [Done(second.id)])
    assert (await frontier.status()).dead == 1


async def _milliseconds(frontier: Frontier) -> int:
    """Redis's clock."""
    seconds, micros = await frontier._redis.time()
    return int(seconds * 1000 + micros // 1000)
