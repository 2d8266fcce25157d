"""What stats tell of jobs: figures of all items, and at the end why some of them are not done."""

import asyncio
from typing import Any

import pytest
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from harvester.jobs import job_stats
from harvester.jobs.documents import ItemState, Job, SavedResult
from harvester.jobs.job_stats import JobStats, reason_of
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import Ended, StageReached
from tests.jobs.conftest import Ledgers, nowhere, pages


def told(stats: StatsCollector) -> dict[str, Any]:
    """Without what they all begin with."""
    return {name.removeprefix("harvester/"): value for name, value in stats.get_stats().items()}


@pytest.fixture
def stats() -> StatsCollector:
    collector = get_crawler().stats
    assert collector
    return collector


async def look(shown: JobStats, ledger: Ledger, job: str) -> None:
    """Looks until what is told is of now."""
    await ledger.counting.count(job)
    known = await ledger.job(job)
    assert known
    await shown.look(known)


async def begin(ledger: Ledger, scope: str, *keys: str) -> tuple[str, dict[str, str]]:
    """A job all of whose items are active: its id, and key -> id of an item."""
    job = (await ledger.open_job("flat", scope)).job
    await ledger.add(job.id, pages(*keys), nowhere)
    return job.id, {item.key: item.id for item in await ledger.claim(job, 100, "here")}


async def test_items_of_all_jobs_of_a_run_are_told_by_kind_and_state(ledgers: Ledgers, stats: StatsCollector) -> None:
    ledger = ledgers.another()
    one, items = await begin(ledger, "one", "a", "b", "c")
    other, _ = await begin(ledger, "other", "d")
    await ledger.apply([(items["a"], StageReached(1, "half")), (items["b"], Ended(1, "ok", counts={"records": 7}))])
    shown = JobStats(ledger, stats)
    await look(shown, ledger, one)
    first = {"job": one, "items/page/active": 2, "items/page/done": 1, "stages/page/half": 1, "next_due": 0}
    assert told(stats) == first
    await look(shown, ledger, other)
    assert told(stats) == first | {"items/page/active": 3}
    await ledger.apply([(items["a"], StageReached(1, "whole"))])
    await shown.close()
    assert told(stats) == first | {
        "items/page/active": 3,
        "stages/page/half": 0,
        "stages/page/whole": 1,
        "job_records": 7,
        "job_finished": False,
    }


async def test_of_a_job_without_an_item_no_records_are_told_by_which_the_run_would_be_judged(
    ledgers: Ledgers, stats: StatsCollector
) -> None:
    ledger = ledgers.another()
    job, _ = await begin(ledger, "one")
    shown = JobStats(ledger, stats)
    await look(shown, ledger, job)
    await shown.close()
    assert told(stats) == {"job": job, "next_due": 0, "job_finished": True}


async def test_nobody_waits_while_items_are_counted_and_a_count_that_failed_is_not_hidden(
    ledgers: Ledgers, stats: StatsCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledgers.another()
    id_, _ = await begin(ledger, "one", "a")
    job = await ledger.job(id_)
    assert job
    waiting = asyncio.Event()

    async def count(job: Job) -> None:
        await waiting.wait()
        raise RuntimeError("it cannot be counted")

    monkeypatch.setattr(ledger.counting, "count_when_due", count)
    shown = JobStats(ledger, stats)
    for _ in range(2):
        await shown.look(job)
    assert told(stats) == {"job": id_, "next_due": 0}
    waiting.set()
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="cannot be counted"):
        await shown.look(job)
    await shown.close()
    assert told(stats)["items/page/active"] == 1


async def test_at_the_end_it_is_told_what_is_not_done_why_and_from_when_on_it_is_tried_again(
    ledgers: Ledgers, stats: StatsCollector
) -> None:
    ledger = ledgers.another()
    job, items = await begin(ledger, "one", *"abcdef")
    await ledger.apply(
        [
            (items["a"], Ended(1, "timeout", "no answer in 5 s")),
            (items["b"], Ended(1, "timeout", "no answer in 5 s")),
            (items["c"], Ended(1, "invalid", "")),
            (items["d"], SavedResult(1, ItemState.FAILED, "gone", "gone: AccountDeactivated")),
            (items["d"], Ended(1, "ok")),
            (items["e"], Ended(1, "policy_denied", "robots.txt")),
            (items["f"], Ended(1, "ok", "of no interest")),
        ]
    )
    shown = JobStats(ledger, stats)
    await look(shown, ledger, job)
    await shown.close()
    found = told(stats)
    due = found.pop("next_due")
    known = await ledger.job(job)
    assert known
    next_due = await ledger.next_due(known)
    assert next_due
    assert due == next_due.timestamp()
    assert found == {
        "job": job,
        "job_records": 0,
        "job_finished": False,
        "items/page/waiting": 2,
        "items/page/failed": 2,
        "items/page/skipped": 1,
        "items/page/done": 1,
        "reasons/page/waiting/timeout: no answer in 5 s": 2,
        "reasons/page/failed/invalid": 1,
        "reasons/page/failed/gone: AccountDeactivated": 1,
        "reasons/page/skipped/robots.txt": 1,
    }


async def test_items_of_a_standing_job_are_done_when_their_last_look_went_well(
    ledgers: Ledgers, stats: StatsCollector
) -> None:
    ledger, job = ledgers.another(), await ledgers.job(recheck="every 1h")
    await ledger.add(job.id, pages("a", "b", "c"), nowhere)
    items = {item.key: item.id for item in await ledger.claim(job, 100, "here")}
    ends = {"a": "ok", "b": "timeout", "c": "not_found"}
    await ledger.apply([(items[key], Ended(1, outcome)) for key, outcome in ends.items()])
    shown = JobStats(ledger, stats)
    await shown.look(job)
    await shown.close()
    found = told(stats)
    assert (found["items/page/done"], found["items/page/waiting"], found["job_finished"]) == (1, 2, False)
    assert found["next_look"] > found["next_due"] == 0
    assert {name for name in found if name.startswith("reasons/")} == {
        "reasons/page/waiting/timeout",
        "reasons/page/waiting/not_found",
    }


async def test_many_reasons_are_told_by_their_outcomes(
    ledgers: Ledgers, stats: StatsCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_stats, "MOST_REASONS", 2)
    ledger = ledgers.another()
    job, items = await begin(ledger, "one", *"abcdef")
    await ledger.apply(
        [(items[key], Ended(1, "invalid", reason)) for key, reason in zip("abcdef", "xxyyzw", strict=True)]
    )
    shown = JobStats(ledger, stats)
    await look(shown, ledger, job)
    await shown.close()
    found = {name: number for name, number in told(stats).items() if name.startswith("reasons/")}
    path = "reasons/page/failed/invalid: "
    assert found == {f"{path}x": 2, f"{path}y": 2, f"{path}other reasons": 2}
    assert told(stats)["job_finished"] is True


async def test_of_a_run_without_jobs_nothing_is_told(ledgers: Ledgers, stats: StatsCollector) -> None:
    await JobStats(ledgers.another(), stats).close()
    assert told(stats) == {}


@pytest.mark.parametrize(
    ("state", "outcome", "reason", "words"),
    [
        ("failed", "timeout", "", "timeout"),
        ("failed", "server_error", "HTTP 503", "server_error: HTTP 503"),
        ("failed", "gone", "posts: gone: AccountTakedown", "posts: gone: AccountTakedown"),
        ("waiting", "dns", "dns: no such name", "dns: no such name"),
        ("skipped", "policy_denied", "opt_out: !no-unauthenticated", "opt_out: !no-unauthenticated"),
        ("skipped", "max_items", "max_items", "max_items"),
    ],
)
def test_a_reason_says_the_outcome_of_a_failure_once(state: str, outcome: str, reason: str, words: str) -> None:
    assert reason_of(state, outcome, reason) == words
