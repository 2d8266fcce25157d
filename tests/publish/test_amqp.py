"""A broker that is away, or says nothing, has confirmed nothing. What needs a broker is in test_rabbitmq.py."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiormq import spec
from pamqp.frame import frame_parts, marshal
from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.publish import sinks
from harvester.publish.amqp import AmqpSender
from harvester.publish.events import Event
from harvester.publish.sinks import AmqpSink, load_sinks
from tests.listening import close

EVENTS = [Event(name, "harvester.post.created", "bluesky.post.created", b"{}") for name in ("1", "2")]


async def test_a_broker_that_is_not_there_has_nothing_and_the_same_sender_tries_again(free_port: int) -> None:
    sender = AmqpSender(AmqpSink(name="bus", kind="amqp", url=f"amqp://127.0.0.1:{free_port}/"))
    for _ in range(2):
        failures = await sender.send(EVENTS)
        assert ["refused" in failure.said.lower() for failure in failures if failure] == [True, True]
        assert not any(failure.is_of_event for failure in failures if failure)
    await sender.close()


async def test_an_option_in_the_address_that_cannot_be_read_is_a_failure_of_this_sink_alone(free_port: int) -> None:
    sender = AmqpSender(AmqpSink(name="bus", kind="amqp", url=f"amqp://127.0.0.1:{free_port}/?cadata=abc"))
    assert [failure.said for failure in await sender.send(EVENTS) if failure] == ["Incorrect padding"] * 2
    await sender.close()


async def test_a_broker_that_says_nothing_is_not_waited_for() -> None:
    heard = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        heard.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sender = AmqpSender(AmqpSink(name="bus", kind="amqp", url=f"amqp://127.0.0.1:{port}/", timeout_s=0.3))
    failures = await sender.send(EVENTS)
    assert heard.is_set()
    assert ["in time" in failure.said for failure in failures if failure] == [True] * 2
    await sender.close()
    await close(server)


@pytest.mark.parametrize(
    ("told", "leaves", "said"),
    [
        ({}, False, "'capabilities'"),
        ({"capabilities": {"publisher_confirms": True}}, True, ""),
    ],
)
async def test_a_broker_that_leaves_at_once_or_does_not_say_what_it_can_is_a_failure_of_this_sink_alone(
    told: dict[str, Any], leaves: bool, said: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        for says, asked in (
            (spec.Connection.Start(mechanisms="PLAIN", server_properties=told), 1),
            (spec.Connection.Tune(channel_max=10, frame_max=131072, heartbeat=60), 2),
            (spec.Connection.OpenOk(), 0),
        ):
            writer.write(marshal(says, 0))
            for _ in range(asked):
                _, _, length = frame_parts(await reader.readexactly(7))
                assert length is not None
                await reader.readexactly(length + 1)
        await reader.read(0 if leaves else -1)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sender = AmqpSender(AmqpSink(name="bus", kind="amqp", url=f"amqp://127.0.0.1:{port}/"))
    assert [said in failure.said for failure in await sender.send(EVENTS) if failure] == [True, True]
    await sender.close()
    await close(server)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "HARVESTER_PUBLISH_BUS_URL"),
        ("url = 'https://broker.example'", "amqp, amqps"),
        ("url = 'amqp://broker.example:x/'", "amqps://"),
        (
            "url = 'amqp://u:hidden-word@broker.example/'",
            "HARVESTER_PUBLISH_BUS_URL",
        ),
        ("url = 'amqp://broker.example/'\nexchange = ''", "bus.exchange: "),
        ("url = 'amqp://broker.example/'\nqueue = 'x'", "bus.queue: "),
    ],
)
def test_a_broker_that_cannot_be_used_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        load_sinks(config(tmp_path, text))
    assert said in str(refused.value)
    assert "hidden-word" not in str(refused.value)


def test_without_its_package_it_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'harvester\[amqp\]'"):
        load_sinks(config(tmp_path, "url = 'amqp://broker.example/'"))


def config(folder: Path, text: str) -> Config:
    file = folder / "publish.toml"
    file.write_text(f'[bus]\nkind = "amqp"\n{text}\n')
    return Config(publish_file=file, mongodb_uri=SecretStr("mongodb://127.0.0.1"))
