"""Dead letters: grouped by why, and requeued, never more than somebody has seen."""

import pytest

from harvester.control.services import dead_letters as module
from harvester.control.services.dead_letters import DeadLetters, RequeueSelection
from harvester.exceptions import JobConflict, UnknownJob, UsageError
from harvester.frontier.messages import Dead
from harvester.frontier.store import Frontier
from harvester.jobs.service import JobService
from tests.frontier.pushes import push
from tests.numbers import numbers_of


async def bury(frontier: Frontier, outcome: str, *reasons: str, first: int = 0) -> None:
    """A dead letter for each reason."""
    pushes = [push(first + number) for number in range(len(reasons))]
    leased = (await frontier.exchange("w", pushes, len(reasons), 10_000)).leased
    deaths = [Dead(lease.id, outcome, reason) for lease, reason in zip(leased, reasons, strict=True)]
    await frontier.exchange("w", deaths, 0, 10_000)


async def test_dead_letters_are_grouped_by_outcome_and_by_what_their_reasons_have_in_common(
    service: JobService, frontier: Frontier
) -> None:
    await bury(frontier, "blocked", *(f"HTTP 403 after {number} s" for number in range(5)))
    await bury(frontier, "timeout", "no answer", first=10)
    found = await DeadLetters(service).groups()
    assert [(each.spider, each.outcome, each.pattern, each.letters) for each in found.groups] == [
        ("feeds", "blocked", "http after s", 5),
        ("feeds", "timeout", "no answer", 1),
    ]
    assert (found.by_outcome, found.looked_at, found.more) == ({"blocked": 5, "timeout": 1}, 6, False)
    group = found.groups[0]
    assert len(group.samples) == 3
    assert group.first_at <= group.samples[-1].at <= group.last_at
    [sample] = await DeadLetters(service).letters("feeds", "timeout", "no answer")
    assert (sample.url, sample.reason) == ("https://site.example/10", "no answer")
    assert [(each.event, each.outcome) for each in sample.history] == [("dead", "timeout")]


async def test_one_is_requeued_once(service: JobService, frontier: Frontier) -> None:
    await bury(frontier, "blocked", "HTTP 403", "HTTP 403")
    letters = DeadLetters(service)
    [first, _] = await letters.letters("feeds")
    done = await letters.requeue("feeds", RequeueSelection([first.id]))
    assert (done.number, numbers_of(done.said), "feeds" in done.said) == (1, [1], True)
    assert (await letters.requeue("feeds", RequeueSelection([first.id, "odd"]))).number == 0
    status = await frontier.status()
    assert (status.ready, status.dead) == (1, 1)


async def test_a_group_is_requeued_when_it_has_not_grown(service: JobService, frontier: Frontier) -> None:
    letters = DeadLetters(service)
    await bury(frontier, "blocked", "HTTP 403", "HTTP 404", "a challenge")
    wanted = RequeueSelection(outcome="blocked", pattern="http", expect=2)
    await bury(frontier, "blocked", "HTTP 405", first=10)
    with pytest.raises(JobConflict, match=r"\b2\b"):
        await letters.requeue("feeds", wanted)
    assert (await frontier.status()).dead == 4
    assert [(await letters.requeue("feeds", RequeueSelection([], "blocked", "http", 3))).number for _ in range(2)] == [
        3,
        0,
    ]
    assert (await letters.requeue("feeds", RequeueSelection(outcome="blocked", expect=1))).number == 1


async def test_a_group_whose_reasons_have_no_words_is_a_group_and_not_all_with_the_outcome(
    service: JobService, frontier: Frontier
) -> None:
    await bury(frontier, "blocked", "", "'name'", "HTTP 403")
    letters = DeadLetters(service)
    [group, other] = (await letters.groups()).groups
    assert (group.letters, other.pattern) == (2, "http")
    assert len(await letters.letters("feeds", "blocked", group.pattern)) == 2
    assert (await letters.requeue("feeds", RequeueSelection([], "blocked", group.pattern, 2))).number == 2
    assert (await frontier.status()).dead == 1


async def test_only_the_latest_are_looked_at(
    service: JobService, frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bury(frontier, "blocked", *["HTTP 403"] * 5)
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 3)
    found = await DeadLetters(service).groups("feeds")
    assert ([each.letters for each in found.groups], found.by_outcome, found.looked_at) == ([3], {"blocked": 5}, 3)
    assert len(await DeadLetters(service).letters("feeds", most=2)) == 2


async def test_what_cannot_be_meant_is_refused(service: JobService) -> None:
    letters = DeadLetters(service)
    for bad in (
        RequeueSelection(),
        RequeueSelection(outcome="blocked"),
        RequeueSelection(expect=1),
        RequeueSelection(["x"] * 1001),
    ):
        with pytest.raises(UsageError):
            await letters.requeue("feeds", bad)
    with pytest.raises(UnknownJob):
        await letters.requeue("nothing", RequeueSelection(["1"]))
