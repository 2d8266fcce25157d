"""Each change is an event with a reason, and each opening is one alert."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr
from pymongo.database import Database

from harvester.alerts.channels import Alert, send
from harvester.breaker import alerts
from harvester.breaker.alerts import BreakerAlerts
from harvester.breaker.messages import extrapolation, reason, title
from harvester.breaker.states import BreakerChange
from harvester.config import Config
from tests.crawling import until
from tests.monitors.conftest import HttpSink, sink
from tests.numbers import numbers_of

__all__ = ["sink"]

OPENED = BreakerChange(
    id="1790000000000 s open",
    site="s",
    tier="",
    before="closed",
    after="open",
    at=1_790_000_000.0,
    cause="ratio",
    by="",
    until=1_790_000_060.0,
    tried=512,
    failed=430,
    window_s=300.0,
    row=0,
    pages=(0, 0),
    lost=[],
    said="HTTP 403",
    left=99_488,
    alone_s=0.0,
    outcomes={"ok": 82, "blocked": 430},
)


def test_an_opening_says_why_and_what_would_have_become_of_the_rest() -> None:
    assert numbers_of(reason(OPENED)) == [430, 512, 403]
    assert numbers_of(extrapolation(OPENED)) == [512, 5, 430, 430, 99_488, 83_600]
    row = OPENED._replace(cause="refusals", row=20, failed=20, outcomes={"ok": 492, "blocked": 20})
    assert (numbers_of(reason(row)), "HTTP 403" in reason(row)) == ([20, 403], True)
    assert numbers_of(extrapolation(row)) == [512, 5, 20, 20, 20, 99_488]
    assert " all " in extrapolation(row)
    drift = OPENED._replace(cause="drift", pages=(50, 49))
    assert numbers_of(extrapolation(drift))[:3] == [50, 49, 99_488]
    layout = OPENED._replace(cause="layout", row=10, said="it lacks 'Total', and has 'Sum'")
    assert (numbers_of(reason(layout)), layout.said in reason(layout)) == ([10], True)
    assert (numbers_of(extrapolation(layout)), " most " in extrapolation(layout)) == ([99_488], True)
    fields = OPENED._replace(cause="fields", lost=[("parcel", "owner")])
    assert "parcel.owner" in reason(fields)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"before": "half_open", "after": "open"}, "HTTP 403"),
        ({"before": "open", "after": "half_open"}, "requests"),
        ({"after": "closed", "alone_s": 600.0}, "10 min"),
        ({"after": "held", "by": "jane", "said": ""}, "jane"),
        ({"after": "held", "by": "jane", "said": "they asked us to"}, "they asked us to"),
    ],
)
def test_every_other_change_has_a_reason_and_no_extrapolation(changed: dict[str, Any], said: str) -> None:
    change = OPENED._replace(**changed)
    assert said in reason(change)
    assert extrapolation(change) == ""


class House:
    """The workers of one crawl, as far as they tell people of changes."""

    def __init__(self, config: Config) -> None:
        self.told: list[str] = []
        self.workers = [BreakerAlerts(config, "inputs", self.told.append) for _ in range(3)]

    async def tell(self, change: BreakerChange, workers: int = 3) -> None:
        """So many of them are given the same change."""
        for worker in self.workers[:workers]:
            worker.tell([change])
        await until(lambda: len(self.told) == workers)
        self.told.clear()


@pytest.fixture
async def house(config: Config, sink: HttpSink, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(alerts, "AGAIN_S", 0.05)
    house = House(config.model_copy(update={"alert_webhook_url": SecretStr(sink.url)}))
    yield house
    for worker in house.workers:
        await worker.close()


async def test_a_change_that_many_workers_were_given_is_one_event_and_one_alert(
    house: House, sink: HttpSink, mongodb: Database[dict[str, Any]]
) -> None:
    await house.tell(OPENED)
    (event,) = mongodb["events"].find()
    assert event["_id"] == "inputs 1790000000000 s open"
    assert (event["site"], event["from"], event["to"], event["cause"]) == ("s", "closed", "open", "ratio")
    assert event["counts"] == {"ok": 82, "blocked": 430}
    assert event["evidence"] == "HTTP 403"
    assert event["alerted_at"] is not None
    (post,) = sink.posts
    assert post.body["event"] == "breaker"
    assert post.body["extrapolation"] == event["extrapolation"]
    assert post.body["until"] == "2026-09-21T14:14:20+00:00"


@pytest.mark.parametrize(
    "changed", [{"before": "half_open"}, {"after": "half_open"}, {"after": "closed"}, {"by": "jane"}]
)
async def test_only_an_opening_that_nobody_wanted_is_an_alert(
    house: House, sink: HttpSink, mongodb: Database[dict[str, Any]], changed: dict[str, Any]
) -> None:
    await house.tell(OPENED._replace(**changed))
    assert mongodb["events"].count_documents({}) == 1
    assert sink.posts == []


async def test_an_alert_that_a_lost_worker_did_not_send_is_sent_by_another(
    house: House, sink: HttpSink, mongodb: Database[dict[str, Any]]
) -> None:
    """Nor does any worker say that people know, before they do."""
    event = alerts.document("inputs", OPENED)
    began_at = datetime.now(UTC) - timedelta(seconds=alerts.SENDING_S - 0.5)
    mongodb["events"].insert_one(event | {"alerting_at": began_at})
    await house.tell(OPENED)
    assert len(sink.posts) == 1


async def test_an_alert_is_sent_once_when_mongodb_does_not_hear_that_it_was(
    house: House, sink: HttpSink, mongodb: Database[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "SENDING_S", 0)
    worker, loop = house.workers[0], asyncio.get_running_loop()

    def send_and_lose_mongodb(config: Config, alert: Alert) -> None:
        send(config, alert)
        database, worker._database = worker._database, None
        assert database is not None
        asyncio.run_coroutine_threadsafe(database.client.close(), loop).result()

    monkeypatch.setattr(alerts, "send", send_and_lose_mongodb)
    await house.tell(OPENED, workers=1)
    assert len(sink.posts) == 1
    assert mongodb["events"].count_documents({"alerted_at": {"$ne": None}}) == 1
    assert worker._sent == set()


def test_the_alert_of_a_tier_says_that_its_requests_go_by_others() -> None:
    change = OPENED._replace(tier="datacenter", left=0)
    text = alerts.alert_of(change, alerts.document("inputs", change)).text()
    assert "datacenter" in text
    assert "proxy" in title(change._replace(tier="none"))
    assert "other tiers" in text
    assert "parked" not in text
    assert "queued" not in text


async def test_an_event_waits_for_mongodb(
    config: Config, mongodb: Database[dict[str, Any]], mongodb_uri: str, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "AGAIN_S", 0.05)
    monkeypatch.setattr(alerts, "DATABASE_S", 0.3)
    away = SecretStr(f"mongodb://127.0.0.1:{free_port}")
    told: list[str] = []
    worker = BreakerAlerts(config.model_copy(update={"mongodb_uri": away}), "inputs", told.append)
    worker.tell([OPENED])
    await asyncio.sleep(1)
    assert told == []
    assert worker._database is not None
    await worker._database.client.close()
    worker._config, worker._database = config, None
    await until(lambda: bool(told))
    await worker.close()
    assert mongodb["events"].count_documents({}) == 1
