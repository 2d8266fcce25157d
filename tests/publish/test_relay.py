"""What is marked arrives: the new, the changed, once each unless something died; in order of a record's versions."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harvester.items.base import OUTBOX
from harvester.publish import delivering, lease
from harvester.publish.extension import Publishing
from harvester.publish.lease import Lease
from harvester.publish.sinks import load_sinks
from harvester.stores import mongodb as stores
from tests.pipelines.records import ALICE, BOB, PAGE, crawler, follow, post
from tests.publish.conftest import House, wait
from tests.publish.test_outbox import seen


async def test_a_new_record_and_its_changes_arrive_with_one_id_for_each_version(house: House) -> None:
    async with house.relay():
        await house.store(post(), follow())
        await wait(lambda: len(house.entries()) == 1)
        await house.store(seen(post(like_count=3), 60))
        await wait(lambda: len(house.entries()) == 2)
        await wait(lambda: not house.waiting())
    created, updated = house.entries()
    assert created | {"id": "", "data": {}} == {
        "specversion": "1.0",
        "id": "",
        "source": f"/harvester/{house.database.name}",
        "type": "harvester.post.created",
        "subject": post().key,
        "time": created["time"],
        "sequence": "0000000001",
        "datacontenttype": "application/json",
        "data": {},
    }
    assert abs(datetime.fromisoformat(created["time"]) - datetime.now(UTC)) < timedelta(minutes=10)
    assert (created["data"]["like_count"], created["data"]["provenance"]["url"]) == (0, PAGE.url)
    assert OUTBOX not in created["data"]
    assert (updated["type"], updated["sequence"]) == ("harvester.post.updated", "0000000002")
    assert updated["data"]["like_count"] == 3
    assert created["id"] != updated["id"]
    await house.send(lambda: not house.waiting())
    assert len(house.entries()) == 2


async def test_a_record_that_changes_before_it_was_sent_is_sent_once_as_new_as_it_is_then(house: House) -> None:
    await house.store(post())
    await house.store(seen(post(like_count=1), 1))
    await house.send(lambda: len(house.entries()) == 1)
    [event] = house.entries()
    assert (event["type"], event["sequence"]) == ("harvester.post.created", "0000000002")


async def test_a_double_has_the_same_id_and_says_the_same(house: House) -> None:
    await house.store(post())
    async with house.relay():
        await wait(lambda: len(house.entries()) == 1)
        await wait(lambda: not house.waiting())
        house.database["posts"].update_one(
            {}, {"$set": {f"{OUTBOX}.due": PAGE.fetched_at}, "$unset": {f"{OUTBOX}.told": 1}}
        )
        await wait(lambda: len(house.entries()) == 2)
    assert house.entries()[0] == house.entries()[1]


async def test_a_crawl_that_cannot_publish_any_more_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(of: delivering.SinkDeliveries) -> bool:
        raise KeyError("unforeseen")

    monkeypatch.setattr(delivering.SinkDeliveries, "send_some", fail)
    sinks = load_sinks(house.config)
    assert sinks
    publishing = Publishing(crawler(), house.config, sinks)
    publishing.spider_opened()
    await wait(lambda: "KeyError: 'unforeseen'" in caplog.text)
    await publishing.spider_closed()


async def test_each_sink_gets_what_it_asks_for(house: House) -> None:
    house.publish(
        """
        [english]
        kind = "redis"
        stream = "english"
        where = "contains(langs || `[]`, 'en') && like_count > `0`"
        [new]
        kind = "redis"
        stream = "new"
        changes = ["created"]
        [edges]
        kind = "redis"
        stream = "edges"
        records = ["follow"]
        """
    )
    async with house.relay():
        await house.store(post(key="1", langs=("en",), like_count=1), post(key="2", langs=("de",)), follow(ALICE, BOB))
        await wait(lambda: house.redis.xlen("new") == 3 and house.redis.xlen("edges") == 1)
        await house.store(seen(post(key="2", langs=("en",), like_count=2), 1))
        await wait(lambda: house.redis.xlen("english") == 2)
        await wait(lambda: not house.waiting())
    assert [event["sequence"][-1] for event in house.entries("english")] == ["1", "2"]
    assert house.redis.xlen("new") == 3


async def test_what_was_removed_before_it_was_sent_is_sent_to_nobody(house: House) -> None:
    await house.store(post(key="1"), post(key="2"))
    house.redis.set("harvester:events", "no stream")
    async with house.relay():
        await wait(lambda: house.waiting() == 2)
        await wait(lambda: house.state("posts").get("failures", 0) > 0)
    house.database["posts"].delete_one({"_id": post(key="1").key})
    house.redis.delete("harvester:events")
    house.database["publishing"].update_one({"_id": "sink posts"}, {"$unset": {"next_at": 1}})
    await house.send(lambda: not house.waiting())
    assert [event["subject"] for event in house.entries()] == [post(key="2").key]


async def test_a_full_stream_is_waited_for_and_its_readers_lose_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(delivering, "MOST_PAUSE_S", 0.05)
    house.publish('[posts]\nkind = "redis"\nrecords = ["post"]\nmost_entries = 3\n')
    await house.store(*(post(key=str(number)) for number in range(7)))
    read: list[Any] = []
    async with house.relay():
        while len(read) < 7:
            await wait(lambda: bool(house.entries()))
            assert len(house.entries()) <= 3
            rows: Any = house.redis.xrange("harvester:events")
            for name, _fields in rows:
                read.append(name)
                house.redis.xdel("harvester:events", name)
    assert "set_aside_at" not in house.state("posts")
    assert len(read) == 7


async def test_one_at_a_time_sends_and_another_takes_over_when_it_is_silent(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = stores.connect(house.config)
    first, second = Lease(database), Lease(database)
    assert await first.take()
    assert not await second.take()
    assert await first.take()
    await first.release()
    assert await second.take()
    monkeypatch.setattr(lease, "LEASE_S", 0.0)
    assert await second.take()
    await asyncio.sleep(0.01)
    assert await first.take()
    assert not first.is_held  # it was over as soon as it had begun
    await stores.disconnect(database)
