"""Pages of another port are strangers, only proxies that are named count, and no connection waits without end."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
import uvicorn
from pydantic import ValidationError

from harvester.config import Config
from harvester.control import connections, limits
from harvester.control.app import PREFIX
from harvester.control.auth import COOKIE, cookie_of
from harvester.control.connections import TimedConnection
from harvester.control.limits import origin_asked, origin_of
from harvester.control.pages.login import Links, add_login
from harvester.control.pages.page_context import PageContext
from harvester.control.tokens import Scope
from tests.control.serving import Controller, controller

HERE = "http://127.0.0.1:8000"
STRANGERS = ("http://127.0.0.1:8001", "http://127.0.0.1", "https://127.0.0.1:8000", "http://localhost:8000", "null")
LIMIT_S = 60
"""After which a test gives up."""


@pytest.fixture
async def cookie(control: Controller) -> dict[str, str]:
    (token,) = [each for each in await control.context.tokens.list() if each.scope is Scope.ADMIN]
    return {"Cookie": f"{COOKIE}={cookie_of(control.context, token)}", "Host": "127.0.0.1:8000"}


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "is_same"),
    [
        ("http", "127.0.0.1:8000", "http://127.0.0.1:8000", True),
        ("http", "LOCALHOST", "http://localhost", True),
        ("http", "localhost:80", "http://localhost", True),
        ("ws", "[::1]:8000", "http://[::1]:8000", True),
        ("wss", "harvester.example", "https://harvester.example", True),
        ("https", "harvester.example:443", "https://harvester.example", True),
        ("http", "127.0.0.1:8000", "http://127.0.0.1:8001", False),
        ("http", "127.0.0.1:8000", "http://127.0.0.1", False),
        ("http", "127.0.0.1:8000", "https://127.0.0.1:8000", False),
        ("https", "harvester.example", "http://harvester.example", False),
        ("http", "localhost:8000", "http://127.0.0.1:8000", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(scheme: str, host: str, origin: str, is_same: bool) -> None:
    asked, page = origin_asked(scheme, host), origin_of(origin)
    assert asked
    assert page
    assert (asked == page) is is_same


@pytest.mark.parametrize(
    "odd", ["null", "", "127.0.0.1", "file://", "http://", "http://a@127.0.0.1", "http://127.0.0.1:x", "http://a/b"]
)
def test_what_is_no_origin_is_none(odd: str) -> None:
    assert origin_of(odd) is None


@pytest.mark.parametrize("origin", STRANGERS)
async def test_a_page_of_another_port_steers_nothing(control: Controller, cookie: dict[str, str], origin: str) -> None:
    for path in (f"{PREFIX}/jobs/any/pause", "/login", "/logout"):
        answer = await control.http.post(path, headers=cookie | {"Origin": origin})
        assert answer.status_code == 403, path
    own = await control.http.post(f"{PREFIX}/jobs/any/pause", headers=cookie | {"Origin": HERE})
    assert own.status_code == 404, "that page's own port is heard"


@pytest.mark.parametrize("origin", STRANGERS)
async def test_a_page_of_another_port_reads_nothing_of_the_socket_by_polling(
    control: Controller, cookie: dict[str, str], origin: str
) -> None:
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    assert (await control.http.get(path, headers=cookie | {"Origin": origin})).status_code == 403
    assert (await control.http.get(path, headers=cookie | {"Origin": HERE})).status_code != 403


@pytest.mark.parametrize(("origin", "code"), [*((each, 1008) for each in STRANGERS), (HERE, None)])
async def test_a_page_of_another_port_opens_no_socket(
    control: Controller, cookie: dict[str, str], origin: str, code: int | None
) -> None:
    passed: list[int | None] = []

    async def send(message: Any) -> None:
        passed.append(message.get("code"))

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    headers = [(name.lower().encode(), value.encode()) for name, value in (cookie | {"Origin": origin}).items()]
    scope = {"type": "websocket", "scheme": "ws", "path": "/any", "query_string": b"", "headers": headers}
    scope |= {"client": ("127.0.0.1", 5), "raw_path": b"/any", "root_path": "", "subprotocols": []}
    await control.app(scope, receive, send)
    assert (passed == [1008]) is (code == 1008), "otherwise it goes on to the app, which has nothing there"


async def test_a_picture_in_a_page_logs_nobody_out(control: Controller, cookie: dict[str, str]) -> None:
    add_login(control.app, PageContext(control.app), Links())
    assert "set-cookie" not in (await control.http.get("/logout", headers=cookie)).headers
    answer = await control.http.post("/logout", headers=cookie | {"Origin": HERE})
    assert COOKIE in answer.headers["set-cookie"]


async def test_answers_are_not_loaded_into_pages_of_other_ports(control: Controller) -> None:
    for path in ("/healthz", "/api/v1/jobs"):
        answer = await control.http.get(path, headers=control.headers())
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


FORWARDED = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}


@pytest.mark.parametrize(
    ("proxies", "address"),
    [
        ("", "127.0.0.1"),
        ("10.0.0.0/8, ::1", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.7"),
        ("127.0.0.0/8", "198.51.100.7"),
    ],
)
async def test_who_asks_is_believed_only_to_a_proxy_that_is_named(
    config: Config, monkeypatch: pytest.MonkeyPatch, proxies: str, address: str
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.cli_settings")
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    async with controller(config.model_copy(update={"control_proxies": proxies})) as control:
        await control.post("/jobs/none/pause", None, headers=FORWARDED)
        (line,) = await control.context.audit.latest(1)
        assert line.address == address
        (token,) = [each for each in await control.context.tokens.list() if each.scope is Scope.ADMIN]
        headers = {"Cookie": f"{COOKIE}={cookie_of(control.context, token)}", "Origin": "https://127.0.0.1"}
        answer = await control.http.post(f"{PREFIX}/jobs/none/pause", headers=headers | FORWARDED)
        assert answer.status_code == (403 if address == "127.0.0.1" else 404)
        assert ("HARVESTER_CONTROL_PROXIES" in answer.text) is (address == "127.0.0.1"), "it says what is to be set"


@pytest.mark.parametrize(
    "setting",
    [
        {"control_proxies": "*"},
        {"control_proxies": "0.0.0.0/0"},
        {"control_proxies": "proxy.example"},
        {"control_proxies": "127.0.0.1, 10.0.0.1/8"},
        {"control_hosts": "https://harvester.example.org"},
        {"control_hosts": "harvester.example.org:8443"},
    ],
)
def test_a_name_that_would_never_count_is_refused(setting: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Config(**setting)  # type: ignore[arg-type]


@pytest.mark.parametrize("hosts", ["", "a.example, b.example", "[::1],fe80::1", "10.1.2.3"])
def test_names_alone_are_taken(hosts: str) -> None:
    assert Config(control_hosts=hosts).control_hosts == hosts


@contextlib.asynccontextmanager
async def serving(app: Callable[..., Any]) -> AsyncIterator[int]:
    """The port of a server with the controller's connections."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        options = uvicorn.Config(
            app, http=TimedConnection, interface="asgi3", lifespan="off", log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(options)
        running = asyncio.create_task(server.serve([bound]))
        while not server.started:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0.01)
        yield bound.getsockname()[1]
        server.should_exit = True
        await running


async def answers(scope: Any, receive: Any, send: Any) -> None:
    """Answers without reading the body: as many bytes as the path says."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(int(scope["path"][1:] or 1)):
        await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


DRIPS = {
    "nothing at all": (b"", b""),
    "a head": (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X-A: b\r\n"),
    "a second head": (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /", b"a"),
    "a body that nobody reads any more": (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("kind", DRIPS)
async def test_a_connection_that_drips_is_ended(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    begin, drip = DRIPS[kind]
    async with serving(answers) as port, asyncio.timeout(LIMIT_S):
        read, write = await asyncio.open_connection("127.0.0.1", port)
        write.write(begin)

        async def dripping() -> None:
            while True:
                write.write(drip)
                await asyncio.sleep(0.02)

        task = asyncio.create_task(dripping())
        try:
            with contextlib.suppress(ConnectionError):
                while await read.read(65_536):
                    pass
        finally:
            task.cancel()
            write.transport.abort()


async def test_a_client_that_does_not_read_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STALL_S", 0.1)
    monkeypatch.setattr(limits, "LEAST_RATE", 1_000_000)
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await answers(scope, receive, send)
        finally:
            ended.set()

    async with serving(app) as port, asyncio.timeout(LIMIT_S):
        _, write = await asyncio.open_connection("127.0.0.1", port, limit=1)
        write.write(b"GET /1000 HTTP/1.1\r\nHost: a\r\n\r\n")
        await ended.wait()
        write.transport.abort()


async def test_a_request_that_takes_long_is_no_head_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.05)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.5)
        await answers(scope, receive, send)

    async with serving(app) as port, httpx2.AsyncClient() as http:
        answer = await http.get(f"http://127.0.0.1:{port}/")
        assert len(answer.content) == 65_536
