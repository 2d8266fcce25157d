"""A real RabbitMQ has every record, though it, a webhook and the workers are killed again and again."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from harvester.publish import delivering
from tests.forking import Begun, begin
from tests.pipelines.records import post
from tests.ports import free_port
from tests.publish.arrived import faults
from tests.publish.conftest import House, wait
from tests.publish.rabbitmq import RabbitMQ
from tests.publish.receiver import SECRET
from tests.publish.telling import written
from tests.root import ROOT

pytestmark = [pytest.mark.publish, pytest.mark.timeout(1800)]

KILLS = 10
"""Of the broker, and of the webhook's receiver."""
AWAY_S = 300.0
"""How long both are away once: as long as a receiver that fails is left alone between two trials."""
WORKERS = 2
MEASURED = 20_000
LEAST_A_SECOND = 1500


class Killed:
    """A program that is killed and started again."""

    def __init__(self, folder: Path, program: str, *arguments: str) -> None:
        self._folder = folder
        self._command = program, *arguments
        self._process: Begun | None = None

    def start(self) -> None:
        self._process = begin(*self._command, cwd=self._folder, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            assert self._process.wait() == -signal.SIGKILL, "it has ended by itself"
            self._process = None


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RabbitMQ]:
    with RabbitMQ(tmp_path / "rabbitmq") as made:
        yield made


async def test_a_message_is_persistent_and_says_what_it_is(
    broker: RabbitMQ, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.publish('[bus]\nkind = "amqp"\nrecords = ["post"]\n')
    monkeypatch.setenv("HARVESTER_PUBLISH_BUS_URL", broker.url)
    await broker.bind("all")
    await house.store(post())
    await house.send(lambda: house.state("bus").get("delivered") == 1)
    [message] = await broker.read("all")
    event = json.loads(message.body)
    assert message.delivery_mode == 2
    assert (message.message_id, message.type) == (event["id"], "harvester.post.created")
    assert (message.routing_key, message.content_type) == ("bluesky.post.created", "application/cloudevents+json")


async def test_an_event_that_no_queue_takes_waits_until_one_is_bound(
    broker: RabbitMQ, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker would confirm it, and drop it."""
    monkeypatch.setattr(delivering, "MOST_PAUSE_S", 0.1)
    monkeypatch.setenv("HARVESTER_PUBLISH_BUS_URL", broker.url)
    house.publish('[bus]\nkind = "amqp"\nrecords = ["post"]\n')
    connection = await broker.connect()
    await connection.close()
    await house.store(post())
    async with house.relay():
        await wait(lambda: "exchange harvester" in house.state("bus").get("said", ""))
        await broker.bind("late", topic="bluesky.post.*")
        await wait(lambda: not house.waiting())
    assert len(await broker.read("late")) == 1


async def test_nothing_is_lost_when_broker_webhook_and_workers_are_killed(
    broker: RabbitMQ, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, file = free_port(), tmp_path / "received"
    monkeypatch.setenv("HARVESTER_PUBLISH_BUS_URL", broker.url)
    monkeypatch.setenv("HARVESTER_PUBLISH_HOOK_SECRETS", SECRET)
    house.publish(
        f"""
        [bus]
        kind = "amqp"
        timeout_s = 10
        [hook]
        kind = "webhook"
        url = "http://127.0.0.1:{port}/hook"
        timeout_s = 5
        at_once = 16
        """
    )
    await broker.bind("all")
    dice = Random(7)
    receiver = Killed(tmp_path, "tests.publish.receiver", str(port), str(file))
    workers = [Killed(tmp_path, "tests.publish.telling", f"w{number}") for number in range(WORKERS)]
    for process in (receiver, *workers):
        process.start()
    killed = 0
    try:
        for number in range(KILLS):
            await asyncio.sleep(dice.uniform(1, 6))
            receiver.kill()
            broker.kill()
            if number == KILLS // 2:
                await asyncio.sleep(AWAY_S)
            receiver.start()
            broker.start()
            connection = await broker.connect()
            await connection.close()
            for worker in workers:
                if dice.random() < 0.6:
                    worker.kill()
                    worker.start()
                    killed += 1
        (tmp_path / "enough").touch()
        await wait(lambda: house.database["enough"].count_documents({}) == WORKERS, 300)
        await wait(lambda: not house.marked() and not house.waiting(), 600)
    finally:
        for process in (receiver, *workers):
            process.kill()
    by_broker = [json.loads(message.body) for message in await broker.read("all")]
    by_webhook = [json.loads(line) for line in file.read_bytes().splitlines()]
    for name, events in (("RabbitMQ", by_broker), ("webhook", by_webhook)):
        ids, records = ({event[name] for event in events} for name in ("id", "subject"))
        changes = len(ids) - len(records)
        print(
            f"{name}: {len(records):,} records, {changes:,} changes, {len(events) - len(ids):,} doubles,"
            f" after {KILLS} kills of it and {killed} of workers"
        )
        assert faults(events, house.database) == []


async def test_events_a_second(broker: RabbitMQ, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_PUBLISH_BUS_URL", broker.url)
    house.publish('[bus]\nkind = "amqp"\n')
    await broker.bind("all")
    for first in range(0, MEASURED, 2000):
        await house.store(*(written("m", number) for number in range(first, first + 2000)))
    began = time.monotonic()
    await house.send(lambda: house.state("bus").get("delivered", 0) >= MEASURED)
    took = time.monotonic() - began
    rate = MEASURED / took
    print(f"AMQP: {MEASURED:,} marked records distributed, published and confirmed in {took:.1f} s: {rate:,.0f}/s")
    assert len({message.message_id for message in await broker.read("all")}) == MEASURED
    assert rate >= LEAST_A_SECOND
