"""A webhook gets each event signed until it says that it has it; one that fails is left alone, and told of."""

import asyncio
import re
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.publish import admin, delivering
from harvester.publish.events import Event
from harvester.publish.sinks import WebhookSink, load_sinks
from harvester.publish.webhook import WebhookSender, signed
from harvester.stores import mongodb as stores
from tests.crawling import Answer, Site
from tests.pipelines.records import post
from tests.publish.arrived import faults
from tests.publish.conftest import House, wait
from tests.publish.receiver import OTHER, SECRET, Receiver

Document = dict[str, Any]
EVENT = Event("e1", "harvester.post.created", "bluesky.post.created", b'{"id":"e1"}')


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_PUBLISH_HOOK_SECRETS", SECRET)
    monkeypatch.setattr(delivering, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(delivering, "MOST_PAUSE_S", 0.1)


def hook(house: House, receiver: Receiver, more: str = "") -> None:
    house.publish(f'[hook]\nkind = "webhook"\nurl = "{receiver.url}"\nrecords = ["post"]\n{more}\n')


def posts(number: int) -> list[Any]:
    return [post(key=str(each)) for each in range(number)]


def test_a_signature_is_that_of_the_specification() -> None:
    """Its own example."""
    body = b'{"event_type":"ping","data":{"success":true}}'
    event = Event("msg_loFOjxBNrRLzqYUf", "", "", body)
    secret = bytes.fromhex("a652779e6c820c604a2276af74e2b5e63b25")
    assert signed(event, [secret], 1731705121) == {
        "webhook-id": "msg_loFOjxBNrRLzqYUf",
        "webhook-timestamp": "1731705121",
        "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    }


async def test_each_record_is_posted_once_and_signed_and_its_id_names_it(house: House) -> None:
    async with Receiver() as receiver:
        hook(house, receiver)
        await house.store(*posts(20))
        await house.send(lambda: len(receiver.events) == 20 and not house.waiting())
    assert faults(receiver.events, house.database) == []
    assert {head["webhook-id"] for head in receiver.heads} == {event["id"] for event in receiver.events}
    assert {head["content-type"] for head in receiver.heads} == {"application/cloudevents+json"}


async def test_a_secret_is_changed_without_losing_an_event(house: House, tmp_path: Path) -> None:
    """Both sign for a while; the file is read again each time."""
    secrets = tmp_path / "secrets"
    secrets.write_text(SECRET)
    async with Receiver() as receiver:
        hook(house, receiver, f'secrets_file = "{secrets}"')
        async with house.relay():
            await house.store(post(key="1"))
            await wait(lambda: len(receiver.events) == 1)
            secrets.write_text(f"{OTHER}\n{SECRET}\n")
            await house.store(post(key="2"))
            await wait(lambda: len(receiver.events) == 2)
            receiver.secret = OTHER
            await house.store(post(key="3"))
            await wait(lambda: len(receiver.events) == 3)
            secrets.write_text(OTHER)
            await house.store(post(key="4"))
            await wait(lambda: len(receiver.events) == 4)
    assert [head["webhook-signature"].count("v1,") for head in receiver.heads] == [1, 2, 2, 1]


async def test_a_receiver_that_is_away_is_tried_with_a_few_and_gets_all_when_it_is_back(house: House) -> None:
    receiver = Receiver()
    async with receiver:
        hook(house, receiver)
        receiver.answer = lambda event: web.Response(status=500)
        await house.store(*posts(60))
        async with house.relay():
            await wait(lambda: house.state("hook").get("failures", 0) > 6)
            asked = Counter(head["webhook-id"] for head in receiver.heads)
            assert len(asked) > 8, "others each time, so that one cannot hold up the rest"
            assert max(asked.values()) < 6
            receiver.answer = lambda event: web.Response()
            await wait(lambda: not house.waiting())
        assert "failing_since" not in house.state("hook")
    assert faults(receiver.events, house.database) == []
    assert len(receiver.events) == 60


async def test_a_receiver_that_asks_for_a_pause_is_left_alone_also_when_it_has_taken_some(house: House) -> None:
    async with Receiver() as receiver:
        hook(house, receiver, 'at_once = 3\n[stream]\nkind = "redis"\nrecords = ["post"]')
        receiver.answer = lambda event: (
            web.Response(status=429, headers={"Retry-After": "3600"}) if receiver.events else web.Response()
        )
        await house.store(*posts(12))
        async with house.relay():
            await wait(lambda: house.state("hook").get("delivered", 0) == 1)
            await house.store(*posts(14))
            await wait(lambda: house.redis.xlen("harvester:events") == 14 and house.waiting() == 13)
            assert len(receiver.heads) == 3
            database = stores.connect(house.config)
            sinks = load_sinks(house.config)
            assert sinks
            receiver.answer = lambda event: web.Response()
            await admin.resume(database, sinks.named("hook"))
            await stores.disconnect(database)
            await wait(lambda: len(receiver.events) == 12)


async def test_an_event_that_is_refused_holds_up_no_other_and_is_a_dead_letter_in_the_end(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "AGAIN_S", (0.01,) * 9)
    bad = post(key="3").key
    async with Receiver() as receiver:
        hook(house, receiver)
        receiver.answer = lambda event: web.Response(status=400 if event["subject"] == bad else 204)
        await house.store(*posts(6))
        async with house.relay():
            await wait(lambda: house.database["deliveries"].count_documents({"due_at": None}) == 1)
        assert len(receiver.events) == 5
        assert sum(head["webhook-id"] not in {e["id"] for e in receiver.events} for head in receiver.heads) == 10
        receiver.answer = lambda event: web.Response()
        database = stores.connect(house.config)
        sinks = load_sinks(house.config)
        assert sinks
        found = await admin.status(database, sinks)
        assert (found.sinks[0].dead, found.sinks[0].waiting, found.sinks[0].state) == (1, 0, "sending")
        assert await admin.replay_dead(database, sinks.named("hook")) == 1
        await stores.disconnect(database)
        await house.send(lambda: not house.waiting())
    assert faults(receiver.events, house.database) == []


async def test_one_that_fails_for_long_is_set_aside_with_its_backlog_and_told_of_and_holds_up_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts: list[Document] = []

    async def take(request: web.Request) -> web.Response:
        alerts.append(await request.json())
        return web.Response()

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("HARVESTER_ALERT_WEBHOOK_URL", f"http://127.0.0.1:{runner.addresses[0][1]}/")
    monkeypatch.setattr(delivering, "TELL_AFTER_S", 0.0)
    receiver = Receiver()
    async with receiver:
        hook(house, receiver, 'set_aside_hours = 0.0003\n[stream]\nkind = "redis"\nrecords = ["post"]')
        receiver.answer = lambda event: web.Response(status=500)
        await house.store(*posts(12))
        async with house.relay():
            await wait(lambda: bool(alerts) and house.redis.xlen("harvester:events") == 12)
            await wait(lambda: "set_aside_at" in house.state("hook") and len(alerts) == 2)
            asked = len(receiver.heads)
            await house.store(*posts(14))
            await wait(lambda: house.redis.xlen("harvester:events") == 14 and house.waiting() == 14)
            receiver.answer = lambda event: web.Response()
            assert len(receiver.heads) == asked
            database = stores.connect(house.config)
            sinks = load_sinks(house.config)
            assert sinks
            assert await admin.resume(database, sinks.named("hook")) == 14
            await stores.disconnect(database)
            await wait(lambda: not house.waiting())
    await runner.cleanup()
    first, second = alerts
    assert (first["event"], first["sink"], first["set_aside"], first["backlog"]) == ("publish", "hook", False, 12)
    assert (second["set_aside"], "HTTP 500" in second["said"]) == (True, True)
    assert faults(receiver.events, house.database) == []


async def send(answer: Callable[[Document], web.Response], **variables: Any) -> Any:
    async with Receiver() as receiver:
        receiver.answer = answer
        return await post_to(receiver.url, Config(allow_private_hosts=True), **variables)


async def post_to(url: str, config: Config, **fields: Any) -> Any:
    sender = WebhookSender(WebhookSink(name="hook", kind="webhook", url=url, **fields), config)
    try:
        [failure] = await sender.send([EVENT])
    finally:
        await sender.close()
    return failure


@pytest.mark.parametrize(
    ("status", "headers", "said", "is_of_event", "pause_s", "is_final"),
    [
        (302, {"Location": "/elsewhere"}, "HTTP 302", False, None, False),
        (410, {}, "HTTP 410", False, None, True),
        (429, {"Retry-After": "30"}, "30 s", False, 30.0, False),
        (503, {"Retry-After": "7200"}, "2 h 00 min", False, 7200.0, False),
        (500, {"Retry-After": "60"}, "HTTP 500", False, None, False),
        (404, {}, "HTTP 404", False, None, False),
        (422, {}, "HTTP 422", True, None, False),
    ],
)
async def test_what_a_receiver_answers_says_what_follows(
    status: int, headers: dict[str, str], said: str, is_of_event: bool, pause_s: float | None, is_final: bool
) -> None:
    failure = await send(lambda event: web.Response(status=status, headers=headers))
    assert (said in failure.said, f"HTTP {status}" in failure.said) == (True, True)
    assert failure[1:] == (is_of_event, pause_s, is_final)


async def test_a_receiver_may_answer_with_any_number_of_bytes() -> None:
    assert await send(lambda event: web.Response(body=bytes(1_000_000))) is None


async def test_a_receiver_has_an_event_when_its_status_says_so_though_its_answer_breaks_off() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert length
        await reader.readexactly(int(length[1]))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        assert await post_to(f"http://127.0.0.1:{port}/", Config(allow_private_hosts=True)) is None


async def test_a_receiver_that_does_not_answer_or_is_not_there_has_not_got_it() -> None:
    async with Site() as site:
        site.answers = {'/?{"id":"e1"}': [Answer(silent=True)]}
        assert await post_to(site.url, Config(allow_private_hosts=True))
    assert site.name in (await post_to(site.url, Config(allow_private_hosts=True))).said


async def test_a_name_that_leads_inward_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was public when it was written down, and says something else when it is connected to."""
    system = socket.getaddrinfo

    def rebound(host: Any, *arguments: Any, **more: Any) -> Any:
        return system("127.0.0.1" if host == "hooks.example.org" else host, *arguments, **more)

    async with Site() as inner:
        port = inner.name.rpartition(":")[2]
        monkeypatch.setattr(socket, "getaddrinfo", rebound)
        failure = await post_to(f"http://hooks.example.org:{port}/", Config(allow_private_hosts=False))
        assert ("hooks.example.org" in failure.said, "127.0.0.1" in failure.said) == (True, True)
        literal = await post_to(f"http://127.0.0.1:{port}/", Config(allow_private_hosts=False))
        assert "private network" in literal.said
        assert inner.arrivals == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "HARVESTER_PUBLISH_HOOK_URL"),
        ("url = 'ftp://x.example/'", "https, http"),
        ("url = 'https://127.0.0.1/'", "127.0.0.1"),
        ("url = 'https://[::ffff:10.0.0.1]/'", "address"),
        ("url = 'https://2130706433/'", "address"),
        ("url = 'https://printer.local/'", "address"),
        ("url = 'http://hooks.example.org/'", "HARVESTER_PRIVATE_HOSTS"),
        ("url = 'https://hooks.example.org:22/'", "8443"),
        ("url = 'https://ann@hooks.example.org/'", "user"),
        ("url = 'https://hooks.example.org/'\ntimeout_s = 0", "hook.timeout_s: "),
        ("url = 'https://hooks.example.org/'\nat_once = 100", "hook.at_once: "),
        ("url = 'https://hooks.example.org/'\nstream = 'x'", "hook.stream: "),
        (
            "url = 'https://hooks.example.org/'\nsecrets_file = 'nowhere'",
            "secrets_file nowhere",
        ),
    ],
)
def test_a_webhook_that_cannot_be_used_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "publish.toml"
    file.write_text(f'[hook]\nkind = "webhook"\n{text}\n')
    with pytest.raises(UsageError) as refused:
        load_sinks(Config(publish_file=file, mongodb_uri=SecretStr("mongodb://127.0.0.1"), allow_private_hosts=False))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ("", "HARVESTER_PUBLISH_HOOK_SECRETS"),
        (
            "whsec_c2hvcnQ=",
            "base64",
        ),
        ("hidden-word-of-32-characters-xyz", "HARVESTER_PUBLISH_HOOK_SECRETS"),
    ],
)
def test_a_webhook_without_a_secret_is_refused(
    secrets: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARVESTER_PUBLISH_HOOK_SECRETS", secrets)
    file = tmp_path / "publish.toml"
    file.write_text('[hook]\nkind = "webhook"\nurl = "https://hooks.example.org/"\n')
    with pytest.raises(UsageError) as refused:
        load_sinks(Config(publish_file=file, mongodb_uri=SecretStr("mongodb://127.0.0.1")))
    assert said in str(refused.value)
    assert "hidden-word" not in str(refused.value)


async def test_sending_waits_for_nobody_for_longer_than_it_may() -> None:
    released = asyncio.Event()

    class Silent(Site):
        async def answer(self, path: str, number: int) -> Answer:
            await released.wait()
            return Answer()

    async with Silent() as site:
        failure = await post_to(site.url, Config(allow_private_hosts=True), timeout_s=0.2)
        released.set()
    assert failure.said.endswith(" 0.2 s")
