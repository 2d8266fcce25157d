"""A receiver that asks for a pause gets it, it is said since when and until when, and an absurd pause is bounded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from harvester.config import Config, _hide_secrets
from harvester.masking import Mask, mask
from harvester.publish import admin, delivering
from harvester.publish.admin import SinkStatus
from harvester.publish.amqp import AmqpSender
from harvester.publish.events import Event
from harvester.publish.faults import describe_fault
from harvester.publish.redis_stream import RedisSender
from harvester.publish.sending import asked_pause
from harvester.publish.sinks import AmqpSink, RedisSink, load_sinks, secrets_in
from harvester.stores import mongodb as stores
from tests.pipelines.records import post
from tests.publish.conftest import House, wait
from tests.publish.receiver import SECRET, Receiver

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NEAR = timedelta(minutes=10)
EVENT = Event("e1", "harvester.post.created", "bluesky.post.created", b"{}")
ABSURD = ("86401", "100000000000000000000", "9" * 400, "1e300", "Fri, 31 Dec 9999 23:59:59 GMT")


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_PUBLISH_HOOK_SECRETS", SECRET)
    monkeypatch.setattr(delivering, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(delivering, "MOST_PAUSE_S", 0.1)


async def status_of(house: House) -> SinkStatus:
    sinks = load_sinks(house.config)
    assert sinks
    database = stores.connect(house.config)
    try:
        return (await admin.status(database, sinks)).sinks[0]
    finally:
        await stores.disconnect(database)


async def asked(house: House, retry_after: str, takes: int, until: str) -> SinkStatus:
    """How a sink stands whose receiver takes so many events, and answers 429 to all others."""
    async with Receiver() as receiver:
        house.publish(f'[hook]\nkind = "webhook"\nurl = "{receiver.url}"\nrecords = ["post"]\nat_once = 3')
        receiver.answer = lambda event: (
            web.Response()
            if len(receiver.events) < takes
            else web.Response(status=429, headers={"Retry-After": retry_after})
        )
        await house.store(*(post(key=str(each)) for each in range(6)))
        await house.send(lambda: until in house.state("hook"))
        return await status_of(house)


async def test_one_that_takes_some_and_asks_for_a_day_is_left_alone_and_that_is_said(house: House) -> None:
    began = datetime.now(UTC)
    sink = await asked(house, "86400", 1, "waiting_since")
    assert (sink.state, sink.failing_since, sink.delivered) == ("left alone", None, 1)
    assert sink.left_alone_since
    assert sink.left_alone_since >= began - timedelta(seconds=1)
    assert sink.next_at
    assert abs(sink.next_at - began - DAY) < NEAR
    assert "429" in sink.said


async def test_one_that_takes_nothing_and_asks_for_a_day_is_told_of_at_once(house: House) -> None:
    sink = await asked(house, "86400", 0, "failing_since")
    assert sink.state == "failing"
    assert sink.next_at
    assert abs(sink.next_at - datetime.now(UTC) - DAY) < NEAR
    assert "told_at" in house.state("hook")


@pytest.mark.parametrize("retry_after", ABSURD)
async def test_an_absurd_pause_is_an_hour_at_most(house: House, retry_after: str) -> None:
    sink = await asked(house, retry_after, 1, "next_at")
    assert sink.next_at is None or sink.next_at - datetime.now(UTC) <= HOUR


def test_a_pause_is_what_was_asked_for_up_to_a_day() -> None:
    assert asked_pause(None) == (None, "")
    assert asked_pause(0) == (None, "")
    assert [asked_pause(each)[0] for each in (1, 86_400, 86_401, 1e20, float("inf"))] == [1, 86_400, 3600, 3600, 3600]


async def test_one_that_is_resumed_is_left_alone_no_more(house: House) -> None:
    await asked(house, "86400", 1, "waiting_since")
    sinks = load_sinks(house.config)
    assert sinks
    database = stores.connect(house.config)
    await admin.resume(database, sinks.named("hook"))
    await stores.disconnect(database)
    sink = await status_of(house)
    assert (sink.state, sink.next_at, sink.said) == ("sending", None, "")


# Why it fails ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def answering(data: bytes) -> AsyncIterator[int]:
    """The port of a server that answers each connection so, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        writer.write(data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


ANSWERS = {
    "nothing": b"",
    "a head that is cut": b"HTTP/1.1 200 OK\r\nX",
    "another protocol": b"\x16\x03\x01" + b"x" * 300 + b"\r\n\r\n",
    "a bad header": b"HTTP/1.1 200 OK\r\nX\x00y: z\r\n\r\n",
    "a bad length": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    "a long header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
}


def is_plain(said: str) -> bool:
    """Whether a person can read it: no object of a library, no bytes, one line that is not long."""
    odd = ("<", " object at ", "b'", 'b"', "\n", "\\x", "xxxx", "aaaa", "ssl:default", "message=")
    return bool(said) and len(said) < 150 and not any(each in said for each in odd)


@pytest.mark.parametrize("kind", ANSWERS)
async def test_why_is_said_in_words_of_a_webhook(kind: str) -> None:
    async with answering(ANSWERS[kind]) as port, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError) as failed:
            await session.post(f"http://127.0.0.1:{port}/hook")
    assert is_plain(describe_fault(failed.value)), describe_fault(failed.value)


async def test_why_is_said_in_words_of_a_place_where_nothing_listens(free_port: int) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError) as failed:
            await session.post(f"http://127.0.0.1:{free_port}/hook")
        said = describe_fault(failed.value)
        assert is_plain(said)
        assert f"127.0.0.1:{free_port}" in said
        assert "Connection refused" in said
        async with answering(b"plain") as port:
            with pytest.raises(aiohttp.ClientError) as failed:
                await session.post(f"https://127.0.0.1:{port}/hook")
        assert is_plain(describe_fault(failed.value))


@pytest.mark.parametrize("kind", ANSWERS)
async def test_why_is_said_in_words_of_a_stream_and_of_a_broker(kind: str) -> None:
    async with answering(ANSWERS[kind]) as port:
        stream = RedisSender(RedisSink(name="s", kind="redis", url=f"redis://127.0.0.1:{port}/0"), Config())
        broker = AmqpSender(AmqpSink(name="b", kind="amqp", url=f"amqp://127.0.0.1:{port}/", timeout_s=30))
        for sender in (stream, broker):
            [failure] = await sender.send([EVENT])
            assert failure
            assert is_plain(failure.said), failure.said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("failed: <ssl.SSLContext object at 0x7f00>", "failed"),
        ("it had <RawResponseMessage(version=HttpVersion(major=1))>", "it had"),
        ("bad: b'\\x00\\x01'", "bad"),
        ("a <b> c", "a <b> c"),
        ("two\n  lines.", "two lines"),
        ("", "ValueError"),
    ],
)
def test_what_a_library_quotes_is_left_out(text: str, said: str) -> None:
    assert describe_fault(ValueError(text)) == said


# Names that stand in addresses -----------------------------------------------------------------------------


@pytest.fixture
def unmasked() -> Any:
    mask.forget()
    yield mask
    mask.forget()


@pytest.mark.parametrize("name", ["http09", "orders_v2"])
def test_the_name_of_a_sink_is_readable_though_its_address_holds_it(
    house: House, unmasked: Mask, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    secret = "s3cr3t-0f-th3-p4th"
    monkeypatch.setenv(f"HARVESTER_PUBLISH_{name.upper()}_SECRETS", SECRET)
    house.publish(f'[{name}]\nkind = "webhook"\nurl = "http://127.0.0.1:9/{name}/{secret}"\n')
    assert load_sinks(house.config)
    assert unmasked(f"{name} takes no events at /{secret}") == f"{name} takes no events at /***"


def test_names_are_no_secrets_in_the_addresses_of_webhooks_and_alerts(
    unmasked: Mask, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://receiver.example/harvester_eu1/job-20260102-abcdef/k3y-0f-m1ne"
    assert secrets_in(url, ["job-20260102-abcdef", "harvester_eu1"]) == ["k3y-0f-m1ne"]
    _hide_secrets(Config(alert_webhook_url=url, database="harvester_eu1"))
    assert unmasked("harvester_eu1 k3y-0f-m1ne") == "harvester_eu1 ***"


async def test_a_pause_ends_by_itself(house: House) -> None:
    async with Receiver() as receiver:
        house.publish(f'[hook]\nkind = "webhook"\nurl = "{receiver.url}"\nrecords = ["post"]\nat_once = 1')
        answers = [web.Response(), web.Response(status=503, headers={"Retry-After": "1"})]
        receiver.answer = lambda event: answers.pop(0) if answers else web.Response()
        await house.store(*(post(key=str(each)) for each in range(3)))
        async with house.relay():
            await wait(lambda: len(receiver.events) == 3 and "next_at" not in house.state("hook"))
        assert (await status_of(house)).state == "sending"
