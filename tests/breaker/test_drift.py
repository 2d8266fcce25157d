"""A site that answers 200 and has nothing to say any more is noticed, and one that always was so is not."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from harvester.breaker.judgement import Breaker
from harvester.frontier.messages import Dead, Leased
from harvester.frontier.store import Frontier
from harvester.items import Provenance
from harvester.outcomes import Outcome
from tests.breaker.spiders import Parcel
from tests.breaker.worker import QUICK, Worker
from tests.frontier.pushes import push

LARGE = QUICK.model_copy(update={"sample": 50})
PROVENANCE = Provenance("https://s/1", datetime(2026, 1, 1, tzinfo=UTC), "inputs", "")


async def _pages(worker: Worker, well: int, empty: int = 0, misread: int = 0, probe: bool = False) -> str:
    """The breaker's state after so many pages, well mixed."""
    outcomes = well * [Outcome.OK] + empty * [Outcome.EMPTY] + misread * [Outcome.LAYOUT_CHANGED]
    for outcome in sorted(outcomes, key=lambda _: hash(object())):
        worker.see(outcome, probe=probe)
        worker.breakers.add_page(worker.site, outcome, worker.trial if probe else 0)
    await worker.exchange()
    return await worker.state()


async def _records(worker: Worker, number: int, owner: str | None, probe: bool = False) -> str:
    for _ in range(number):
        parcel = Parcel(provenance=PROVENANCE, number="1", owner=owner)
        worker.breakers.add_records(worker.site, [parcel], worker.trial if probe else 0)
    await worker.exchange()
    return await worker.state()


async def _probe(worker: Worker) -> None:
    """Leases what is let out, as soon as it is."""
    async with asyncio.timeout(240):
        leased: list[Leased] = []
        while not leased:
            await asyncio.sleep(0.02)
            leased = await worker.lease(9)


@pytest.fixture
async def worker(frontier: Frontier) -> Worker:
    worker = Worker(frontier, "worker-1", LARGE)
    await worker.exchange([push(number, site="s") for number in range(10)])
    return worker


async def test_pages_that_are_all_empty_at_once_open_it(worker: Worker) -> None:
    """However many pages a report is of."""
    for number in (10, 70, 30, 20):
        assert await _pages(worker, number, number // 4) == "closed"
    for _ in range(5):
        assert await _pages(worker, 0, 9) == "closed"
    assert await _pages(worker, 0, 2, 3) == "open"
    (change,) = worker.changes
    assert (change.cause, change.pages) == ("drift", (50, 50))


async def test_pages_of_another_layout_open_it_unless_many_more_are_read_until_probes_are(
    worker: Worker,
) -> None:
    """However many were read before, and whatever is tried again."""
    worker.see(Outcome.OK, 100)
    for _ in range(20):
        worker.see(Outcome.LAYOUT_CHANGED, 3)
        worker.see(Outcome.OK, 12)
        await worker.exchange()
    worker.see(Outcome.LAYOUT_CHANGED, 9)
    await worker.exchange()
    assert await worker.state() == "closed"
    worker.see(Outcome.LAYOUT_CHANGED, is_new=False)
    worker.see(Outcome.OK, is_step=True)
    await worker.exchange()
    assert await worker.state() == "closed", "a retry and a step say nothing new"
    worker.see(Outcome.LAYOUT_CHANGED)
    await worker.exchange()
    assert await worker.state() == "open"
    (change,) = worker.changes
    assert (change.cause, change.row, "layout_changed" in change.said) == ("layout", 10, True)
    await _probe(worker)
    worker.see(Outcome.LAYOUT_CHANGED, probe=True)
    await worker.exchange()
    assert await worker.state() == "open"
    await _probe(worker)
    worker.see(Outcome.OK, 2, probe=True)
    await worker.exchange()
    assert await worker.state() == "closed"
    worker.see(Outcome.LAYOUT_CHANGED, 9)
    await worker.exchange()
    assert await worker.state() == "closed", "it begins anew"


async def test_what_is_given_up_for_its_layout_is_parked_while_the_site_is_left_alone(worker: Worker) -> None:
    """Also what died of it just before."""
    early, late = await worker.lease(2)
    worker.see(Outcome.LAYOUT_CHANGED)
    await worker.exchange()
    await worker.exchange([Dead(early.id, Outcome.LAYOUT_CHANGED, "before")])
    worker.see(Outcome.LAYOUT_CHANGED, 9)
    await worker.exchange()
    assert await worker.state() == "open"
    await worker.exchange([Dead(late.id, Outcome.LAYOUT_CHANGED, "after")])
    status = await worker.frontier.status()
    assert (status.parked, status.dead) == (10, 0)


async def test_only_the_latest_samples_are_kept(frontier: Frontier) -> None:
    worker = Worker(frontier, "worker-1", QUICK.model_copy(update={"sample": 1}))
    for _ in range(30):
        await _pages(worker, 1)
        await _records(worker, 1, "Jane Doe")
    packed = await frontier._redis.hget(frontier.prefix + "breakers", "s")
    breaker = Breaker.read(msgspec.msgpack.decode(packed))
    assert (len(breaker.pages), len(breaker.records["parcel"])) == (21, 6)


async def test_probes_with_something_in_them_close_it(worker: Worker) -> None:
    await _pages(worker, 50)
    assert await _pages(worker, 0, 50) == "open"
    await _probe(worker)
    assert await _pages(worker, 0, 2, probe=True) == "open"
    await _probe(worker)
    assert await _pages(worker, 1, 1, probe=True) == "closed"


async def test_a_field_that_vanishes_opens_it_until_probes_have_it_again(worker: Worker) -> None:
    for _ in range(2):
        assert await _records(worker, 50, "Jane Doe") == "closed"
    assert await _records(worker, 50, None) == "open"
    (change,) = worker.changes
    assert (change.cause, change.lost) == ("fields", [("parcel", "owner")])
    await _probe(worker)
    worker.see(Outcome.OK, 2, probe=True)
    await worker.exchange()
    assert await worker.state() == "half_open", "that they were answered says nothing of the field"
    assert await _records(worker, 1, None, probe=True) == "open"
    await _probe(worker)
    assert await _records(worker, 1, "Jane Doe", probe=True) == "closed"
