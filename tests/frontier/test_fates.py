"""Every request has one fate: the table of all moves, and the fate equation under any mixture of operations."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from harvester.breaker.site_counts import SiteCounts
from harvester.breaker.states import Reports
from harvester.frontier.messages import (
    Dead,
    Done,
    Ending,
    FrontierStatus,
    Operation,
    Push,
    Release,
    RequestStatus,
    Requeue,
    Skip,
)
from harvester.frontier.store import Frontier
from harvester.outcomes import POLICIES, Outcome, Verdict
from harvester.sites.breaker import SiteBreaker
from tests.frontier.pushes import push

ONE, TWO = "worker-1", "worker-2"
LATER = time.time() + 3600

MOVES: dict[str, Callable[[Frontier], Awaitable[object]]] = {
    "pushed": lambda f: f.exchange(ONE, [push(1)]),
    "pushed for later": lambda f: f.exchange(ONE, [push(1, not_before=LATER)]),
    "leased": lambda f: f.exchange(ONE, [], wanted=1),
    "done": lambda f: f.exchange(ONE, [Done("1")]),
    "skipped": lambda f: f.exchange(ONE, [Skip("1", "policy_denied", "robots.txt says so")]),
    "given up": lambda f: f.exchange(ONE, [Dead("1", "dns", "no such host")]),
    "retried": lambda f: f.exchange(ONE, [Requeue("1", b"", "", "", 0, "timeout", "slow")]),
    "retried later": lambda f: f.exchange(ONE, [Requeue("1", b"", "", "", 0, "timeout", "slow", LATER)]),
    "redirected": lambda f: f.exchange(ONE, [Requeue("1", b"", "", "", 0, "ok", "to /", 0, attempt=False)]),
    "released": lambda f: f.exchange(ONE, [Release("1")]),
    "reconciled": lambda f: f.reconcile(ONE, []),
    "left": lambda f: f.leave(ONE),
    "its site held": lambda f: f.set_breaker("", SiteBreaker().rules(), "held", "a person"),
    "its site opened again": lambda f: f.set_breaker("", SiteBreaker().rules(), "closed", "a person"),
    "replayed": lambda f: f.replay(),
    "forgotten": lambda f: f.forget([1]),
}
SETUPS = {
    "unknown": (),
    "ready": ("pushed",),
    "parked": ("pushed", "its site held"),
    "waiting": ("pushed for later",),
    "leased": ("pushed", "leased"),
    "dead": ("pushed", "leased", "given up"),
    "skipped": ("pushed", "leased", "skipped"),
    "done": ("pushed", "leased", "done"),
}
LEADS_TO = {
    ("unknown", "pushed"): "ready",
    ("unknown", "pushed for later"): "waiting",
    ("ready", "leased"): "leased",
    ("ready", "its site held"): "parked",
    ("parked", "its site opened again"): "ready",
    ("leased", "done"): "done",
    ("leased", "skipped"): "skipped",
    ("leased", "given up"): "dead",
    ("leased", "retried"): "ready",
    ("leased", "retried later"): "waiting",
    ("leased", "redirected"): "ready",
    ("leased", "released"): "ready",
    ("leased", "reconciled"): "ready",
    ("leased", "left"): "ready",
    ("dead", "replayed"): "ready",
    ("done", "forgotten"): "unknown",
    ("skipped", "forgotten"): "unknown",
}
"""All moves that change a state; whatever is not here leaves it as it is."""


@pytest.mark.parametrize("state", SETUPS)
async def test_a_move_leads_where_the_table_says(frontier: Frontier, state: str) -> None:
    for move in MOVES:
        await frontier.drop()
        for step in SETUPS[state]:
            await MOVES[step](frontier)
        assert _state(await frontier.look_up(1)) == state
        await MOVES[move](frontier)
        assert _state(await frontier.look_up(1)) == LEADS_TO.get((state, move), state), move
        status = await frontier.status()
        _assert_equation(status)
        assert status.queued == (0 if (state, _state(await frontier.look_up(1))) == ("unknown", "unknown") else 1)


@pytest.mark.parametrize("state", ["ready", "parked", "waiting", "leased", "dead", "skipped", "done"])
async def test_a_forgotten_request_can_be_pushed_anew_and_is_never_in_two_places(
    frontier: Frontier, state: str
) -> None:
    for step in SETUPS[state]:
        await MOVES[step](frontier)
    assert await frontier.forget([1, 2, 3]) == 1
    told = await frontier.exchange(TWO, [push(1)])
    after = {"dead": "ready", "skipped": "ready", "done": "ready"}.get(state, state)
    assert _state(await frontier.look_up(1)) == after
    assert (told.accepted, told.duplicates) == ((0, 1) if after == state else (1, 0))
    status = await frontier.status()
    _assert_equation(status)
    assert status.queued == (2 if state in ("skipped", "done") else 1)


@pytest.mark.parametrize(
    "move", ["pushed", "retried", "redirected", "released", "reconciled", "left", "replayed", "pushed for now"]
)
async def test_what_becomes_ready_while_its_site_is_left_alone_is_parked(frontier: Frontier, move: str) -> None:
    """Unspent, and ready again with all that was parked before."""
    if move == "pushed for now":
        await frontier.exchange(ONE, [push(1, not_before=time.time() + 1)])
    elif move != "pushed":
        for step in SETUPS["dead" if move == "replayed" else "leased"]:
            await MOVES[step](frontier)
    await MOVES["its site held"](frontier)
    if move != "pushed for now":
        await MOVES[move](frontier)
    async with asyncio.timeout(240):
        while _state(fate := await frontier.look_up(1)) != "parked":
            assert move == "pushed for now"
            await frontier.exchange(TWO, [], wanted=1)
            await asyncio.sleep(0.05)
    assert fate is not None
    assert fate.reason.endswith("(held, because of person)")
    assert (fate.attempts, fate.deliveries) == (1 if move == "retried" else 0, 0)
    status = await frontier.status()
    _assert_equation(status)
    assert (status.parked, status.jobs[""]["parked"], status.sites[""]["parked"]) == (1, 1, 1)
    assert (await frontier.exchange(TWO, [], wanted=1)).leased == []
    await MOVES["its site opened again"](frontier)
    assert len((await frontier.exchange(TWO, [], wanted=1)).leased) == 1


async def test_a_fate_is_told_with_its_circumstances(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(1, url="https://site.example/one")], wanted=1)
    fate = await frontier.look_up(1)
    assert fate is not None
    assert (fate.state, fate.worker, fate.url) == ("leased", ONE, "https://site.example/one")
    assert fate.since == pytest.approx(time.time(), abs=30)
    await MOVES["retried later"](frontier)
    fate = await frontier.look_up(1)
    assert fate is not None
    assert (fate.state, fate.worker, fate.outcome, fate.reason) == ("waiting", None, "timeout", "slow")
    assert fate.until == pytest.approx(LATER, abs=30)
    unfiltered = push(7, filtered=False)
    await frontier.exchange(ONE, [unfiltered], wanted=1)
    await frontier.exchange(ONE, [Skip(f"7#{unfiltered.token}", "gone", "opted out")])
    fate = await frontier.look_up(7)
    assert fate is not None
    assert (fate.state, fate.outcome, fate.reason) == ("skipped", "gone", "opted out")
    assert await frontier.look_up(2) is None
    assert await frontier.look_up(1, "another job") is None


async def test_dead_letters_are_listed_and_replayed(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(n) for n in range(6)], wanted=6)
    deaths: list[Operation] = [Dead(str(n), "dns" if n % 2 else "timeout", f"reason {n}") for n in range(6)]
    await frontier.exchange(ONE, deaths)
    letters = await frontier.dead("dns")
    assert {letter.id for letter in letters} == {"1", "3", "5"}
    assert letters[0].reason == f"reason {letters[0].id}"
    assert [event.event for event in letters[0].history] == ["dead"]
    assert len(await frontier.dead(most=2)) == 2
    assert (await frontier.status()).dead_by_outcome == {"dns": 3, "timeout": 3}
    assert await frontier.replay(["1", "1", "none such"]) == 1
    assert await frontier.replay(outcome="timeout") == 3
    assert (await frontier.status()).dead_by_outcome == {"dns": 2}
    assert await frontier.replay() == 2
    told = await frontier.exchange(ONE, [], wanted=9)
    assert sorted(leased.id for leased in told.leased) == [str(n) for n in range(6)]
    fate = await frontier.look_up(0)
    assert fate is not None
    assert [event.event for event in fate.history] == ["dead", "replayed"]
    assert await frontier.dead() == []


async def test_status_counts_by_job_site_and_outcome(frontier: Frontier) -> None:
    pushes = [push(n, job=f"job-{n % 2}", site=f"site-{n % 3}") for n in range(12)]
    await frontier.exchange(ONE, [*pushes, push(99, job="job-0", site="site-0", not_before=LATER)])
    told = await frontier.exchange(ONE, [], wanted=6)
    first, second, third, *_ = told.leased
    await frontier.exchange(
        ONE, [Done(first.id), Done(second.id, "unchanged"), Skip(third.id, "policy_denied", "robots")]
    )
    status = await frontier.status()
    _assert_equation(status)
    assert (status.ready, status.waiting, status.leased, status.done, status.skipped) == (6, 1, 3, 2, 1)
    assert status.done_by_outcome == {"ok": 1, "unchanged": 1}
    assert status.skipped_by_outcome == {"policy_denied": 1}
    assert status.seen == 13
    assert {job: numbers["queued"] for job, numbers in status.jobs.items()} == {"job-0": 7, "job-1": 6}
    assert sum(site["leased"] for site in status.sites.values()) == 3
    assert sum(site["ready"] for site in status.sites.values()) == 6
    assert status.workers[ONE].leased == 3
    assert status.memory_bytes > 0


async def test_dropping_leaves_no_key_behind(frontier: Frontier, redis: Redis) -> None:
    start_list = f"{frontier.spider}:start_urls"
    neighbour = Frontier(redis, f"{frontier.spider}-2")
    for each in (frontier, neighbour):
        await each.exchange(ONE, [push(n, job=f"j{n % 3}", site=f"s{n % 5}") for n in range(2000)], wanted=100)
    await redis.lpush(start_list, "a seed")
    assert await frontier.drop() == 2000
    assert [key async for key in redis.scan_iter(match=f"*{frontier.spider}:*")] == [start_list.encode()]
    assert (await neighbour.status()).queued == 2000
    told = await frontier.exchange(ONE, [Done("0"), push(0)], wanted=5)
    assert (told.stale, len(told.leased)) == (1, 1)
    await neighbour.drop()
    await redis.delete(start_list)


async def test_the_fate_equation_holds_whatever_happens(redis: Redis) -> None:
    """Redis's clock has a say in what each of the random histories contains, so they count together."""
    told = [await _random_history(redis, seed) for seed in range(6)]
    assert max(most_parked for _, most_parked in told) > 20
    for name in ("queued", "done", "skipped", "redelivered"):
        assert sum(getattr(status, name) for status, _ in told) > 0, name


async def _random_history(redis: Redis, seed: int) -> tuple[FrontierStatus, int]:
    """The last status, and how many were parked at most."""
    chance = random.Random(seed)
    frontier = Frontier(redis, f"test-{uuid4().hex[:12]}", lease_timeout_s=1000, max_deliveries=3)
    model, most_parked = _Model(), 0
    for _ in range(150):
        worker = f"w{chance.randrange(4)}"
        match chance.randrange(13):
            case 12:
                state, rules = chance.choice(["open", "closed", "held"]), SiteBreaker(open_seconds=0.01).rules()
                await frontier.set_breaker(f"s{chance.randrange(3)}", rules, state, "a person")
            case 0:
                frontier = Frontier(redis, frontier.spider, lease_timeout_s=1000, max_deliveries=3)
                model.strangers = set(model.held)
            case 1:
                await frontier.leave(worker)
                model.held.pop(worker, None)
            case 2:
                known = {name for name in model.held.get(worker, ()) if chance.random() < 0.5}
                await frontier.reconcile(worker, known)
                model.held[worker] = known
            case 3:
                model.dead -= await frontier.replay(outcome=chance.choice([None, "dns", "worker_lost"]))
            case 4:
                await frontier.forget(chance.sample(range(400), 20), job=chance.choice(["", "j"]))
            case _:
                operations = model.operations(chance, worker)
                for _ in range(chance.choice([1, 1, 2])):
                    reports = model.reports(chance)
                    told = await frontier.exchange(worker, operations, chance.randrange(20), 8, reports)
                    model.told(worker, operations, {leased.id for leased in told.leased})
        status = await frontier.status()
        _assert_equation(status)
        most_parked = max(most_parked, status.parked)
    superseded = status.done_by_outcome.get("superseded", 0)  # a dead letter is done with its twin: no worker ended it
    assert (status.done - superseded, status.skipped) == (model.done, model.skipped)
    for worker, held in model.held.items():
        if worker not in model.strangers:
            assert status.workers.get(worker, (0,))[0] == len(held)
    await frontier.drop()
    return status, most_parked


class _Model:
    """What the workers of a random test know."""

    def __init__(self) -> None:
        self.held: dict[str, set[str]] = {}
        self.strangers: set[str] = set()
        """Workers whose leases died with an earlier process."""
        self.done = self.skipped = self.dead = self.reported = 0

    def operations(self, chance: random.Random, worker: str) -> list[Operation]:
        if worker in self.strangers:
            self.held.pop(worker, None)
        operations: list[Operation] = []
        for name in chance.sample(sorted(self.held.get(worker, ())), min(12, len(self.held.get(worker, ())))):
            later = chance.choice([0.0, LATER])
            again = Requeue(name, b"x", "", f"s{chance.randrange(3)}", 0, "timeout", "", later, chance.random() < 0.5)
            endings: list[Operation] = [
                Done(name),
                Skip(name, "policy_denied", ""),
                Dead(name, "dns", ""),
                again,
                Release(name),
            ]
            operations.append(chance.choice(endings))
        operations += [self._push(chance) for _ in range(chance.randrange(12))]
        chance.shuffle(operations)
        return operations

    def told(self, worker: str, operations: list[Operation], leased: set[str]) -> None:
        held = self.held.setdefault(worker, set())
        for operation in operations:
            if isinstance(operation, Ending) and operation.id in held:
                held.remove(operation.id)
                self.done += isinstance(operation, Done)
                self.skipped += isinstance(operation, Skip)
        assert not held & leased
        others = set().union(*(ids for name, ids in self.held.items() if name not in {worker, *self.strangers}))
        assert not others & leased, "leased to two workers"
        held |= leased
        self.strangers.discard(worker)

    def reports(self, chance: random.Random) -> Reports | None:
        """What a worker saw of a site: that it failed, or that its probes did well or did not."""
        if chance.random() < 0.5:
            return None
        observed = SiteCounts()
        verdict = Verdict(chance.choice([Outcome.OK, Outcome.DNS, Outcome.BLOCKED]))
        for _ in range(chance.choice([1, 3, 6])):
            observed.add_try(verdict, POLICIES[verdict.outcome], probe=True)
        rules = SiteBreaker(refusals_in_a_row=5, failures_in_a_row=5, open_seconds=0.01, probes=2).rules()
        self.reported += 1
        return Reports(self.reported, [observed.row(f"s{chance.randrange(3)}", rules)])

    @staticmethod
    def _push(chance: random.Random) -> Push:
        return push(
            chance.randrange(400),
            job=chance.choice(["", "j"]),
            site=f"s{chance.randrange(3)}",
            priority=chance.randrange(-2, 3),
            filtered=chance.random() < 0.8,
            not_before=chance.choice([0.0, 0.0, LATER]),
        )


def _state(fate: RequestStatus | None) -> str:
    return fate.state if fate else "unknown"


def _assert_equation(status: FrontierStatus) -> None:
    here = status.waiting + status.leased + status.parked + status.ready + status.dead
    assert status.queued == status.done + status.skipped + here
    assert status.balanced


async def test_a_dead_letter_tells_no_password_and_its_request_keeps_it(frontier: Frontier) -> None:
    url = "https://ann:hunter2@site.example/1"
    await frontier.exchange(ONE, [push(1, url=url, payload=url.encode())], wanted=1)
    fate = await frontier.look_up(1)
    assert fate is not None
    assert fate.url == "https://site.example/1"
    await frontier.exchange(ONE, [Dead("1", "dns", "no such host")])
    (letter,) = await frontier.dead()
    assert letter.url == "https://site.example/1"
    await frontier.replay()
    told = await frontier.exchange(ONE, [], wanted=1)
    assert [leased.payload for leased in told.leased] == [url.encode()]
