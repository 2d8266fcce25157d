"""Deliveries: how each receiver stands, and what it did not take is sent again, never more than somebody has seen."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.control.problems import problem_of
from harvester.control.services.deliveries import Deliveries
from harvester.exceptions import JobConflict, UnknownSink, UsageError
from harvester.jobs.service import JobService
from tests.numbers import numbers_of

Document = dict[str, Any]
NOW = datetime.now(UTC)


def delivery(number: int, due_at: datetime | None) -> Document:
    return {"_id": f"d{number}", "sink": "posts", "due_at": due_at, "tries": 3, "key": str(number)}


@pytest.fixture
def deliveries(service: JobService, tmp_path: Path, mongodb: Database[Document]) -> Deliveries:
    """Of a receiver that is set aside, with two events that wait and three that are dead."""
    file = tmp_path / "publish.toml"
    file.write_text('[posts]\nkind = "redis"\nrecords = ["post"]\n')
    service.config = service.config.model_copy(update={"publish_file": file})
    mongodb["publishing"].insert_one(
        {"_id": "sink posts", "what": "sink", "set_aside_at": NOW, "failing_since": NOW, "said": "it hangs up"}
    )
    mongodb["deliveries"].insert_many(
        [delivery(number, NOW + timedelta(hours=1) if number < 2 else None) for number in range(5)]
    )
    return Deliveries(service)


async def test_a_receiver_says_how_it_stands(deliveries: Deliveries) -> None:
    found = await deliveries.status()
    assert found.configured
    [sink] = found.status.sinks
    assert (sink.name, sink.kind, sink.state, sink.waiting, sink.dead) == ("posts", "redis", "set aside", 2, 3)
    assert sink.said == "it hangs up"


async def test_a_receiver_is_tried_again(deliveries: Deliveries) -> None:
    for _ in range(2):
        done = await deliveries.resume("posts")
        assert ("posts" in done.said, numbers_of(done.said)) == (True, [2])
    assert (await deliveries.status()).status.sinks[0].state == "sending"


async def test_dead_events_are_sent_again_when_they_are_no_more_than_was_said(deliveries: Deliveries) -> None:
    with pytest.raises(JobConflict, match=r"\b2\b.*\bposts\b"):
        await deliveries.replay_dead("posts", 2)
    assert [(await deliveries.replay_dead("posts", 3)).number for _ in range(2)] == [3, 0]
    assert (await deliveries.status()).status.sinks[0].waiting == 5


async def test_dead_events_are_sent_again_however_many_they_are(
    deliveries: Deliveries, mongodb: Database[Document]
) -> None:
    key = "k" * 900  # as many bytes as 180,000 of usual ones, which are more than a command may have
    mongodb["deliveries"].insert_many([delivery(n, None) | {"_id": f"posts post {key}{n}"} for n in range(20_000)])
    assert (await deliveries.replay_dead("posts", 20_003)).number == 20_003


async def test_where_nothing_is_published_that_is_said(service: JobService) -> None:
    found = await Deliveries(service).status()
    assert (found.configured, found.status.sinks, found.status.marked) == (False, [], 0)
    with pytest.raises(UsageError, match="HARVESTER_PUBLISH_FILE"):
        await Deliveries(service).resume("posts")


async def test_a_receiver_that_there_is_not_is_named(deliveries: Deliveries) -> None:
    for act in (deliveries.resume("odd"), deliveries.replay_dead("odd", 1)):
        with pytest.raises(UnknownSink, match="'odd'") as unknown:
            await act
        problem = problem_of(unknown.value)
        assert problem
        assert problem.status == 404
