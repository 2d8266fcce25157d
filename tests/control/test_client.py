"""The client sends its token to the controller alone, asks again what it may, and says what is wrong in a sentence."""

import asyncio
import json
import logging
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from harvester.client import connection, sending
from harvester.client.access import ControllerAccess, access_of
from harvester.client.connection import ControllerConnection
from harvester.client.jobs import remote_jobs
from harvester.config import Config
from harvester.exceptions import HarvesterError, JobConflict, ServiceError, StorageError, UnknownJob, UsageError
from harvester.jobs.inputs import BadLine
from harvester.jobs.listing import ItemFilter

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
TOKEN = "harvester_000000000000_" + "5a" * 32


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(connection, "MOST_PAUSE_S", 0.02)


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[ControllerAccess]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield ControllerAccess(f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}", TOKEN)
    finally:
        await runner.cleanup()


async def asked(handler: Handler, times: int = 1) -> Any:
    """What the last of so many requests comes to."""
    async with serving(handler) as access:
        asking = ControllerConnection(access, Config())
        try:
            for _ in range(times):
                answer = await asking.ask("GET", "jobs/x", dict[str, int])
        finally:
            await asking.close()
    return answer


def problem(status: int, word: str, detail: str, **headers: str) -> web.Response:
    body = json.dumps({"type": f"urn:harvester:problem:{word}", "status": status, "detail": detail})
    return web.Response(status=status, text=body, content_type="application/problem+json", headers=headers)


@pytest.mark.parametrize(
    ("status", "word", "kind", "said"),
    [
        (404, "unknown", UnknownJob, "^"),
        (409, "conflict", JobConflict, "^"),
        (422, "invalid", UsageError, "^"),
        (507, "no_room", StorageError, "^"),
        (503, "server_away", ServiceError, "^"),
        (401, "unauthorized", UsageError, "token.*"),
        (403, "forbidden", UsageError, "token.*"),
        (500, "fault", ServiceError, "HTTP 500.*"),
    ],
)
async def test_what_the_controller_raised_is_raised_here(
    status: int, word: str, kind: type[HarvesterError], said: str
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return problem(status, word, "There is no job 'x'.")

    with pytest.raises(kind, match=f"{said}There is no job 'x'") as raised:
        await asked(handler)
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, "<html>", "404"),
        (200, "<html>", ""),
        (200, '{"a": "b"}', ""),
        (200, b'{"\xff": 1}', ""),
        (500, "", "500"),
    ],
)
async def test_what_is_no_controller_is_named(status: int, body: str | bytes, said: str) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    with pytest.raises(ServiceError, match=f"version.*{said}"):
        await asked(handler)


async def test_a_server_before_the_controller_that_takes_no_long_body_is_told_apart() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=413, body="<html>")

    with pytest.raises(ServiceError, match="before the controller"):
        await asked(handler)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_with_the_token(status: int) -> None:
    seen: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response()

    async with serving(elsewhere) as other:

        async def handler(_: web.Request) -> web.Response:
            return web.Response(status=status, headers={"Location": f"{other.url}/stolen"})

        with pytest.raises(ServiceError, match="redirects"):
            await asked(handler)
    assert seen == []


async def test_a_token_that_is_sent_in_the_open_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=502)

    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"a": 1})

    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with serving(proxy) as other:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other.url)
        assert await asked(handler) == {"a": 1}
    assert seen == []


async def test_a_controller_that_has_answered_is_waited_for_and_one_that_never_did_is_not() -> None:
    answers = [200, 503, 502, 200]
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        status = answers.pop(0)
        return web.json_response({"a": 1}) if status == 200 else web.Response(status=status)

    assert await asked(handler, times=2) == {"a": 1}
    assert seen == [f"Bearer {TOKEN}"] * 4
    answers[:] = [503]
    with pytest.raises(ServiceError):
        await asked(handler)
    assert answers == []


async def test_what_passes_by_itself_is_waited_for() -> None:
    """Another request with the key that is being worked at, and too many at once."""
    answers = [problem(409, "under_way", "Wait."), problem(429, "too_many", "Wait."), web.json_response({"a": 1})]

    async def handler(_: web.Request) -> web.Response:
        return answers.pop(0)

    assert await asked(handler) == {"a": 1}


async def test_a_controller_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 0.1)

    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"a": 1})

    async with serving(handler) as access:
        asking = ControllerConnection(access, Config())
        assert await asking.ask("GET", "jobs/x", dict[str, int]) == {"a": 1}
    with pytest.raises(ServiceError, match=access.url):
        await asking.ask("GET", "jobs/x", dict[str, int])
    await asking.close()


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is not sent. With SSL_CERT_FILE it is trusted."""
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ]
    process = await asyncio.create_subprocess_exec(
        *command, *names, "-keyout", key, "-out", certificate, stderr=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({"a": 1})

    async with serving(handler, tls) as access:
        asking = ControllerConnection(access, Config())
        with pytest.raises(ServiceError, match="SSL_CERT_FILE"):
            await asking.ask("GET", "jobs/x", dict[str, int])
        await asking.close()
        assert seen == []
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        asking = ControllerConnection(access, Config())
        assert await asking.ask("GET", "jobs/x", dict[str, int]) == {"a": 1}
        await asking.close()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("SSL_CERT_FILE", "/nowhere", "SSL_CERT_FILE.*SSL_CERT_DIR.*No such file"),
        ("SSL_CERT_FILE", __file__, "SSL_CERT_FILE.*SSL_CERT_DIR"),
        ("HTTPS_PROXY", "socks5://ann:w0rd@127.0.0.1:1", "HTTPS_PROXY.*ALL_PROXY"),
        ("HTTPS_PROXY", "gopher://ann:w0rd@127.0.0.1:1", "HTTPS_PROXY.*ALL_PROXY"),
    ],
)
def test_certificates_and_proxies_of_the_environment_that_are_none_are_named(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=said) as raised:
        ControllerConnection(ControllerAccess("https://harvester.example.org", TOKEN), Config())
    assert "w0rd" not in str(raised.value)


async def test_no_log_and_no_repr_shows_the_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    access = access_of(Config(token=SecretStr(TOKEN)), "http://127.0.0.1:1")
    assert access is not None
    assert TOKEN not in repr(access)

    async def handler(_: web.Request) -> web.Response:
        return problem(500, "fault", "It is broken.")

    with pytest.raises(ServiceError):
        await asked(handler)
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("job", ["..", ".", ""])
async def test_an_id_that_would_lead_elsewhere_is_no_job(job: str) -> None:
    async with remote_jobs(ControllerAccess("http://127.0.0.1:1", TOKEN), Config()) as jobs:
        with pytest.raises(UnknownJob):
            await jobs.report(job)
        with pytest.raises(UnknownJob):
            await jobs.pause(job)


async def test_what_is_too_long_for_an_address_is_refused_with_a_sentence() -> None:
    async with remote_jobs(ControllerAccess("http://127.0.0.1:9", TOKEN), Config()) as jobs:
        for asking in (jobs.report("x" * 70_000), jobs.items("x", ItemFilter(text="x" * 70_000))):
            with pytest.raises(UsageError, match="too long"):
                await asking


async def test_an_id_is_one_part_of_a_path() -> None:
    paths: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        paths.append(request.raw_path)
        return problem(404, "unknown", "There is no such job.")

    async with serving(handler) as access, remote_jobs(access, Config()) as jobs:
        for job in ("../../healthz", "a/b?c#d", "a%2fb"):
            with pytest.raises(UnknownJob):
                await jobs.report(job)
    assert paths == ["/api/v1/jobs/..%2F..%2Fhealthz", "/api/v1/jobs/a%2Fb%3Fc%23d", "/api/v1/jobs/a%252fb"]


async def test_items_that_are_named_are_tried_again_and_no_others_whatever_else_is_given() -> None:
    bodies: list[Any] = []

    async def handler(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({"id": "b", "state": "done", "done": 1, "said": ""})

    async with serving(handler) as access, remote_jobs(access, Config()) as jobs:
        assert await jobs.retry("x", ["1"], "blocked") == 1
        assert await jobs.retry("x", outcome="blocked") == 1
        assert await jobs.retry("x") == 1
    assert bodies == [{"items": ["1"]}, {"filter": {"outcome": ["blocked"]}}, {}]


def test_a_part_is_full_when_its_bad_lines_are_long() -> None:
    long = [BadLine(number, "x" * 1_000_000, "it has no 'key'") for number in range(1, 13)]
    rest = iter(long)
    parts = [part.bad for part in iter(lambda: sending._read(rest, sending.FILE_CHUNK), None)]
    assert [line for part in parts for line in part] == long
    assert max(map(len, parts)) == 5


# Where it is, and by which token ---------------------------------------------------------------------------


def closed(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_what_is_given_goes_before_the_settings(tmp_path: Path) -> None:
    config = Config(url="https://a.example/harvester/", token=SecretStr(TOKEN), state_dir=tmp_path)
    assert access_of(config) == ("https://a.example/harvester", TOKEN)
    file = closed(tmp_path / "file", f"{TOKEN[:-1]}0\n")
    assert access_of(config, "https://b.example", file) == ("https://b.example", f"{TOKEN[:-1]}0")
    assert access_of(Config(token=SecretStr(TOKEN))) is None


def test_the_token_of_this_machine_is_for_its_own_controller_alone(tmp_path: Path) -> None:
    closed(tmp_path / "token", TOKEN)
    config = Config(state_dir=tmp_path)
    assert access_of(config, "http://127.0.0.1:8000") == ("http://127.0.0.1:8000", TOKEN)
    with pytest.raises(UsageError, match=r"HARVESTER_TOKEN.*--token-file"):
        access_of(config, "https://harvester.example.org")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://a.example", "http and https"),
        ("https://", "no host"),
        ("https://a b.example", "white space"),
        ("https://ann:hidden-word@a.example", "place"),
        ("https://ann:hidden-word@a.example:99999", "'https://a.example:99999'"),
        ("https://a.example/?token=x", "place"),
        ("http://a.example", "http://a.example .*https://"),
        ("http://93.184.216.34:8000", "http://93.184.216.34:8000 .*https://"),
    ],
)
def test_an_address_that_cannot_be_used_or_would_show_the_token_is_refused(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        access_of(Config(token=SecretStr(TOKEN)), url)
    assert "hidden-word" not in str(refused.value)


def test_the_address_of_the_api_is_that_of_its_controller() -> None:
    for url in ("https://a.example", "https://a.example/api/v1", "https://a.example//api/v1/"):
        assert access_of(Config(token=SecretStr(TOKEN)), url) == ("https://a.example", TOKEN)


def test_a_host_of_ones_own_may_be_asked_in_the_open() -> None:
    config = Config(token=SecretStr(TOKEN), private_hosts="controller.example")
    assert access_of(config, "http://controller.example:8000") == ("http://controller.example:8000", TOKEN)
    assert access_of(config, "http://controller:8000") == ("http://controller:8000", TOKEN), "a name within a network"


def test_a_file_of_a_token_is_its_owner_s_alone_and_holds_one(tmp_path: Path) -> None:
    config, url = Config(), "https://a.example"
    file = closed(tmp_path / "token", TOKEN)
    os.chmod(file, 0o644)
    with pytest.raises(UsageError, match=f"{file}.*chmod 600"):
        access_of(config, url, file)
    with pytest.raises(UsageError, match=f"{tmp_path / 'none'}.*No such file"):
        access_of(config, url, tmp_path / "none")
    for text in ("", "two words", "a\nb", "ä" * 40):
        with pytest.raises(UsageError):
            access_of(config, url, closed(tmp_path / "other", text))
