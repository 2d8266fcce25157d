"""What somebody may try who wants more of a controller than a token gives, or wants it to fall."""

import asyncio
import contextlib
import gzip
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from pydantic import SecretStr
from pymongo import MongoClient
from pymongo.database import Database

from harvester.config import Config
from harvester.control import limits
from harvester.control.app import PREFIX
from harvester.control.auth import COOKIE, cookie_of
from harvester.control.idempotency import KEYS
from harvester.control.tokens import Scope
from tests.control.serving import Controller, controller, listening
from tests.control.test_app import job_of

Document = dict[str, Any]
JSON = {"Content-Type": "application/json"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def mongodb(mongodb_uri: str) -> Iterator[Database[Document]]:
    """One database for all of them."""
    with MongoClient[Document](mongodb_uri, tz_aware=True) as client:
        name = f"test-{uuid4().hex[:12]}"
        yield client[name]
        client.drop_database(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control(
    mongodb: Database[Document], mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Controller]:
    """One controller for all of them."""
    folder = tmp_path_factory.mktemp("attacked")
    config = Config(
        mongodb_uri=SecretStr(mongodb_uri), database=mongodb.name, state_dir=folder / "state", data_dir=folder / "data"
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.cli_settings")
        async with controller(config) as running:
            yield running


@pytest.fixture(autouse=True)
def _begun_anew(mongodb: Database[Document]) -> None:
    for name in ("jobs", "job_items", "audit", KEYS):
        mongodb[name].delete_many({})


def unchanged(mongodb: Database[Document]) -> bool:
    return mongodb["jobs"].count_documents({}) == mongodb["job_items"].count_documents({}) == 0


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/..%2F..%2F..%2Fetc%2Fpasswd",
        "/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/jobs/..%5C..%5Cwindows%5Cwin.ini",
        "/jobs/%00",
        "/jobs/a%00.json",
        "/jobs/%c0%ae%c0%ae%c0%af",
        "/jobs/%ff%fe",
        "/jobs/%0d%0aSet-Cookie:%20a=b",
        "/jobs/%F0%9F%92%A9",
        "/jobs/" + "a" * 5000,
        "/jobs/%24where",
        "/jobs/x/export/..%2Ftokens",
        "/jobs/x/export/tokens",
        "/jobs/x/item?name=%00",
        "/jobs/x/items?after=" + "A" * 1900,
        "/jobs/x/items?state[$ne]=done&state=%7B%22$ne%22:1%7D",
        "/batches/..%2F..%2Ftokens",
        "/spiders/..%2F..%2Fsetup",
        "/spiders/os.system",
        "/spiders/%7B%7B7*7%7D%7D",
        "/audit/../jobs/..%2f",
    ],
)
async def test_a_path_leads_nowhere_else(control: Controller, path: str) -> None:
    answer = await control.get(path, Scope.ADMIN)
    assert answer.status_code in (400, 404, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "set-cookie" not in answer.headers
    assert not any(word in answer.text for word in ("root:", "digest", "Traceback"))


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"items":' + b'{"a":' * 50_000,
        b'{"spider": {"$gt": ""}, "items": ["1"]}',
        b'{"spider": "parcels", "items": ["1"], "arguments": {"county": {"$ne": 1}}}',
        b'{"spider": "parcels", "items": ["1"], "state": "done"}',
        b'{"spider": "parcels", "items": ["1"], "arguments": {"__class__": "x"}}',
        b'{"spider": "parcels", "items": ["1"], "arguments": {"job": "other"}}',
        b'{"spider": "../../../etc/passwd", "items": ["1"]}',
        b'{"spider": "parcels", "items": ["1"], "priority": 1e999}',
        b'{"spider": "parcels", "items": ["1"], "priority": ' + b"9" * 5000 + b"}",
        b'{"spider": "parcels", "items": ["1"], "name": "\\ud800"}',
        b'{"spider": "\\u0000", "items": ["1"]}',
        b'{"spider": "parcels", "items": "1"}',
        b'{"spider": "parcels", "items": []}',
        b"\xff\xfe\x00",
        b"null",
        b"",
    ],
    ids=range(17),
)
async def test_a_body_makes_nothing_that_its_token_may_not_make(
    control: Controller, mongodb: Database[Document], body: bytes
) -> None:
    answer = await control.post("/jobs", "k", content=body, headers=JSON)
    assert answer.status_code in (400, 422), answer.text
    assert "Traceback" not in answer.text
    assert unchanged(mongodb)


@pytest.mark.parametrize(
    "item",
    [
        {"key": "1", "a": float("nan")},
        {"key": "1", "$where": "sleep(1000)"},
        {"key": "1", "a.b": {"$set": {"state": "done"}}},
        {"key": "1", "a\x00b": 1},
        {"key": "1", "a": 10**40},
        {"key": "1", "a": "\ud800"},
        {"key": "1", "_id": "another", "state": "done", "job": "another"},
        {"key": "\u202e1"},
        "\x1b[2J",
        "1\r\nSet-Cookie: a=b",
    ],
    ids=range(10),
)
async def test_an_item_is_kept_as_what_it_is_or_not_at_all(
    control: Controller, mongodb: Database[Document], item: Any
) -> None:
    body = {"spider": "parcels", "arguments": {"county": "elm"}, "items": [item]}
    answer = await control.post("/jobs", "k", content=json.dumps(body).encode(), headers=JSON)
    assert answer.status_code < 500, answer.text
    for row in mongodb["job_items"].find():
        assert (row["state"], row["job"]) == ("waiting", answer.json()["job"])
        assert row["_id"].startswith(row["job"])


async def test_a_token_is_taken_from_its_header_alone(control: Controller) -> None:
    token = control.tokens[Scope.ADMIN]
    two = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
    for given in ([], two, [("X-Api-Key", token)], [("Proxy-Authorization", f"Bearer {token}")]):
        answer = await control.http.get(f"{PREFIX}/jobs?token={token}&access_token={token}", headers=given)
        assert answer.status_code == 401, given


async def test_what_is_wrong_with_a_token_is_not_told(control: Controller) -> None:
    token = control.tokens[Scope.ADMIN]
    guesses = [
        token[:-1] + ("0" if token[-1] != "0" else "1"),
        token.replace("harvester_", "harvester_0")[: len(token)],
        token.upper(),
        token + "0",
        '{"$gt": ""}',
    ]
    answers = [
        await control.http.get(f"{PREFIX}/jobs", headers={"Authorization": f"Bearer {guess}"}) for guess in guesses
    ]
    assert {(answer.status_code, answer.content) for answer in answers} == {(401, answers[0].content)}


async def test_a_name_that_a_proxy_would_pass_on_changes_nothing(control: Controller) -> None:
    headers = control.headers() | {"X-Forwarded-Host": "evil.example", "X-Forwarded-For": "10.0.0.1"}
    answer = await control.post("/jobs/none/pause", None, headers=headers)
    assert answer.status_code == 404
    assert "evil.example" not in answer.text
    (line,) = await control.context.audit.latest(1)
    assert line.address == "127.0.0.1"


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PATCH", "PROPFIND", "DELETE"])
async def test_other_methods_do_nothing(control: Controller, method: str) -> None:
    job = await job_of(control, "1")
    override = control.headers() | {
        "X-HTTP-Method-Override": "POST",
        "X-Original-URL": f"{PREFIX}/jobs/{job.id}/cancel",
    }
    answer = await control.http.request(method, f"{PREFIX}/jobs/{job.id}", headers=override)
    assert answer.status_code == 405
    assert (await control.context.jobs.job(job.id)).state == "open"


async def test_a_form_of_another_page_is_no_json(control: Controller, mongodb: Database[Document]) -> None:
    (token,) = [each for each in await control.context.tokens.list() if each.scope is Scope.ADMIN]
    cookie = {"Cookie": f"{COOKIE}={cookie_of(control.context, token)}", "Idempotency-Key": "k"}
    body = json.dumps({"spider": "parcels", "arguments": {"county": "elm"}, "items": ["1"]}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        for origin in ({"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1"}):
            headers = cookie | origin | {"Content-Type": kind}
            answer = await control.http.post(f"{PREFIX}/jobs", content=body, headers=headers)
            assert answer.status_code in (403, 422), (kind, origin)
    assert unchanged(mongodb)


async def test_a_page_elsewhere_may_not_read_what_is_answered(control: Controller) -> None:
    headers = control.headers() | {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("GET", "OPTIONS"):
        answer = await control.http.request(method, f"{PREFIX}/jobs", headers=headers)
        assert not any(name.startswith("access-control-") for name in answer.headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"


async def test_a_search_is_for_text_and_no_pattern(control: Controller) -> None:
    job = await job_of(control, "1", "2")
    for text in ("(a+)+$" * 50, ".*", "^1", "[", "\x00"):
        answer = await control.get(f"/jobs/{job.id}/items", params={"text": text})
        assert (answer.status_code in (200, 422), answer.json().get("items", [])) == (True, [])


async def test_what_is_asked_for_makes_no_line_of_the_log(
    control: Controller, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(type(control.context.jobs), "report", fail)
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        await control.get("/jobs/a%0d%0aERROR%20root:%20all%20is%20lost")
    assert "\nERROR root: all is lost" not in caplog.text


async def test_a_key_cannot_be_guessed_to_read_what_another_route_answered(control: Controller) -> None:
    job = await job_of(control, "1")
    body = {"spider": "parcels", "arguments": {"county": "elm"}, "items": ["1"]}
    assert (await control.post("/jobs", "k", json=body)).status_code == 201
    other = await control.post(f"/jobs/{job.id}/retry", "k", json={})
    assert (other.status_code, other.json()["type"]) == (422, "urn:harvester:problem:other_request")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def port(control: Controller) -> AsyncIterator[int]:
    async with listening(control.app) as url:
        yield int(url.rpartition(":")[2])


async def said(port: int, data: bytes, *, more: bytes = b"") -> bytes:
    """What a connection is answered until it is closed."""
    read, write = await asyncio.open_connection("127.0.0.1", port)
    try:
        write.write(data + more)
        await write.drain()
        return await asyncio.wait_for(read.read(), 60)
    except ConnectionError:
        return b""
    finally:
        write.transport.abort()  # what was not sent would keep it open
        with contextlib.suppress(ConnectionError):
            await write.wait_closed()


def head(control: Controller, first: bytes, *lines: bytes) -> bytes:
    token = control.tokens[Scope.ADMIN].encode()
    return b"\r\n".join(
        [first, b"Host: 127.0.0.1", b"Authorization: Bearer " + token, b"Connection: close", *lines, b"", b""]
    )


async def test_a_body_that_comes_too_slowly_is_not_waited_for(
    control: Controller, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STALL_S", 0.2)
    for path in (b"/api/v1/jobs", b"/api/v1/jobs/upload?spider=parcels&argument=county%3Delm"):
        lines = (b"Content-Type: text/plain", b"Content-Length: 1000", b"Idempotency-Key: k")
        if b"upload" not in path:
            lines = (b"Content-Type: application/json", *lines[1:])
        answer = await said(port, head(control, b"POST " + path + b" HTTP/1.1", *lines), more=b"{")
        assert answer.startswith(b"HTTP/1.1 408 "), answer


async def test_a_request_hidden_in_another_is_not_seen(control: Controller, port: int) -> None:
    hidden = b"POST /api/v1/jobs/x/cancel HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    lines = (b"Content-Length: %d" % len(hidden), b"Transfer-Encoding: chunked", b"Content-Type: text/plain")
    answer = await said(port, head(control, b"GET /api/v1/jobs HTTP/1.1", *lines), more=b"0\r\n\r\n" + hidden)
    assert answer.count(b"HTTP/1.1 ") <= 1 or b"HTTP/1.1 401" in answer
    assert not await control.context.audit.latest(1)


async def test_an_address_in_place_of_a_path_names_no_other_host(control: Controller, port: int) -> None:
    answer = await said(port, head(control, b"GET http://evil.example/api/v1/jobs HTTP/1.1"))
    assert b"evil.example" not in answer
    assert answer.split(b" ")[1] in (b"200", b"400", b"404", b"421")


async def test_headers_are_bounded(control: Controller, port: int) -> None:
    answer = await said(port, head(control, b"GET /api/v1/jobs HTTP/1.1", b"X-Long: " + b"a" * 2_000_000))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 "), "h11 hangs up"
    long = control.headers() | {"X-Long": "a" * limits.MOST_HEADERS}
    assert (await control.http.get(f"{PREFIX}/jobs", headers=long)).status_code == 431
    ready = await said(port, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert ready.startswith(b"HTTP/1.1 200")


async def test_a_length_that_is_a_lie_takes_no_memory(control: Controller, port: int) -> None:
    lines = (b"Content-Type: application/json", b"Content-Length: 99999999999", b"Idempotency-Key: k")
    body = b'{"spider": "' + b"a" * 1_100_000
    answer = await said(port, head(control, b"POST /api/v1/jobs HTTP/1.1", *lines), more=body)
    assert answer.startswith(b"HTTP/1.1 413 "), answer[:200]


async def test_no_body_is_long_because_something_is_called_upload(control: Controller) -> None:
    body, headers = b" " * (limits.MOST_JSON + 1), control.headers() | JSON
    answer = await control.http.patch(f"{PREFIX}/schedules/upload", content=body, headers=headers)
    assert answer.status_code == 413
    job = await job_of(control, "1")
    lines = b"1" * 1000 + b"\n"
    taken = await control.post(
        f"/jobs/{job.id}/items/upload", None, content=lines * 1100, headers={"Content-Type": "text/csv"}
    )
    assert taken.status_code != 413


async def test_gzip_in_gzip_is_taken_apart_once(control: Controller, mongodb: Database[Document]) -> None:
    bomb = gzip.compress(gzip.compress(b"1\n" * 1_000_000))
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    query = {"spider": "parcels", "argument": "county=elm"}
    answer = await control.post("/jobs/upload", "k", content=bomb, headers=headers, params=query)
    assert answer.status_code == 422
    assert "gzip" in answer.text
    assert unchanged(mongodb)
