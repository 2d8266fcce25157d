"""What a login to Bluesky promises, against the sandbox's PDS; `test_identity.py` has what every login promises."""

import asyncio
import json
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import SessionError, StorageError, UsageError
from harvester.identities.bluesky import account_of
from harvester.identities.limited_logins import NotNow
from harvester.identities.state import Session
from harvester.identities.token import at_path, safe_origin
from tests.forking import begin
from tests.identities.bluesky.signed_in import identity_of
from tests.identities.without_crawl import Clock
from tests.root import ROOT
from tests.sandbox.process import Sandbox

pytestmark = pytest.mark.skipif(os.name != "posix", reason="file modes and signals")


@pytest.fixture(scope="module")
def started() -> Iterator[Sandbox]:
    with Sandbox(accounts=60, posts=1) as site:
        yield site


@pytest.fixture
def site(started: Sandbox) -> Sandbox:
    """The sandbox without faults and with an empty log."""
    started.clear_faults()
    started.clear_log()
    return started


def configured(site: Sandbox, folder: Path, **fields: Any) -> Config:
    handle = site.handle(1)
    account: dict[str, Any] = {
        "bluesky_identifier": handle,
        "bluesky_app_password": SecretStr(f"pw-{handle}"),
        "bluesky_pds": site.url,
    }
    return Config(state_dir=folder, **account | fields)


def calls(site: Sandbox) -> dict[str, int]:
    """How often each login method was called: `createSession 200` -> count."""
    prefix = "com.atproto.server."
    return {k.removeprefix(prefix): n for k, n in site.log(0)["counts"].items() if k.startswith(prefix)}


def session_file(folder: Path) -> Path:
    (found,) = (folder / "sessions").glob("*.json")
    return found


def token(session: Session) -> str:
    return session.headers["Authorization"].removeprefix("Bearer ")


async def test_session_goes_to_the_accounts_own_pds(site: Sandbox, tmp_path: Path) -> None:
    session = await identity_of(configured(site, tmp_path)).ready()
    assert session.origin == site.url
    assert session.may_go_to(f"{site.url}/xrpc/app.bsky.actor.getProfile")
    assert not session.may_go_to("https://public.api.bsky.app/xrpc/app.bsky.actor.getProfile")
    assert session.at_origin("https://bsky.social/xrpc/a?b=c") == f"{site.url}/xrpc/a?b=c"


async def test_session_file_is_for_the_owner_only(site: Sandbox, tmp_path: Path) -> None:
    await identity_of(configured(site, tmp_path)).ready()
    path = session_file(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir() if p.suffix == ".new"] == []


async def test_session_is_reused_by_the_next_run(site: Sandbox, tmp_path: Path) -> None:
    first = await identity_of(configured(site, tmp_path)).ready()
    second = await identity_of(configured(site, tmp_path)).ready()
    assert (second.headers, second.generation, second.origin) == (first.headers, first.generation, first.origin)
    assert calls(site) == {"createSession 200": 1, "getSession 200": 1}


async def test_token_that_ended_between_runs_is_refreshed_not_logged_in_again(
    site: Sandbox, tmp_path: Path, clock: Clock
) -> None:
    first = await identity_of(configured(site, tmp_path)).ready()
    clock.ahead = 7_200
    second = await identity_of(configured(site, tmp_path)).ready()
    assert token(second) != token(first)
    assert calls(site) == {"createSession 200": 1, "refreshSession 200": 1}


async def test_token_is_refreshed_a_minute_before_it_ends(site: Sandbox, tmp_path: Path, clock: Clock) -> None:
    identity = identity_of(configured(site, tmp_path))
    first = await identity.ready()
    clock.ahead = 7_200 - 70
    assert token(await identity.ready()) == token(first)
    clock.ahead = 7_200 - 50
    assert token(await identity.ready()) != token(first)
    assert calls(site) == {"createSession 200": 1, "getSession 200": 1, "refreshSession 200": 1}


async def test_heartbeat_checks_a_used_session_every_five_minutes(site: Sandbox, tmp_path: Path, clock: Clock) -> None:
    identity = identity_of(configured(site, tmp_path))
    for minutes in range(0, 60, 2):
        clock.ahead = minutes * 60
        await identity.ready()
    assert calls(site) == {"createSession 200": 1, "getSession 200": 9}


async def test_heartbeat_replaces_a_session_that_was_ended_elsewhere(
    site: Sandbox, tmp_path: Path, clock: Clock
) -> None:
    identity = identity_of(configured(site, tmp_path))
    first = await identity.ready()
    site.fault("status", "getSession", status=400, error="ExpiredToken", times=1)
    clock.ahead = 301
    assert token(await identity.ready()) != token(first)


async def test_heartbeat_without_an_answer_does_not_end_the_session(
    site: Sandbox, tmp_path: Path, clock: Clock
) -> None:
    identity = identity_of(configured(site, tmp_path))
    first = await identity.ready()
    site.fault("server_error", "getSession")
    clock.ahead = 301
    assert await identity.ready() is first
    assert calls(site)["createSession 200"] == 1


async def test_expired_token_is_refreshed_once_by_many_callers(site: Sandbox, tmp_path: Path) -> None:
    identity = identity_of(configured(site, tmp_path))
    expired = await identity.ready()
    identity.expire(expired.generation)
    await asyncio.gather(*[identity.ready() for _ in range(1000)])
    assert token(await identity.ready()) != token(expired)
    assert calls(site) == {"createSession 200": 1, "refreshSession 200": 1}


async def test_refused_refresh_logs_in_again_once(site: Sandbox, tmp_path: Path) -> None:
    identity = identity_of(configured(site, tmp_path))
    expired = await identity.ready()
    site.fault("status", "refreshSession", status=400, error="ExpiredToken")
    identity.expire(expired.generation)
    await asyncio.gather(*[identity.ready() for _ in range(100)])
    assert token(await identity.ready()) != token(expired)
    assert calls(site) == {"createSession 200": 2, "refreshSession 400": 1}


async def test_wrong_password_stops_at_once_with_one_login(site: Sandbox, tmp_path: Path) -> None:
    identity = identity_of(configured(site, tmp_path, bluesky_app_password=SecretStr("abcd-efgh-ijkl-mnop")))
    errors = await asyncio.gather(*[identity.ready() for _ in range(100)], return_exceptions=True)
    assert all(isinstance(error, SessionError) for error in errors)
    message = str(errors[0])
    assert f" {site.handle(1)}@" in message
    assert "Invalid identifier or password" in message
    assert "app password" in message
    assert "abcd-efgh-ijkl-mnop" not in message
    assert SessionError.exit_code == 5
    assert calls(site) == {"createSession 401": 1}


@pytest.mark.parametrize("name", ["AuthFactorTokenRequired", pytest.param("AccountTakedown", marks=pytest.mark.slow)])
async def test_refused_login_says_why(site: Sandbox, tmp_path: Path, name: str) -> None:
    site.fault("status", "createSession", status=401, error=name)
    with pytest.raises(SessionError, match=rf"{name}.*app password"):
        await identity_of(configured(site, tmp_path)).ready()
    assert calls(site) == {"createSession 401": 1}


async def test_rate_limited_login_waits_as_long_as_it_is_asked(site: Sandbox, tmp_path: Path, clock: Clock) -> None:
    site.fault("status", "createSession", status=429, headers={"retry-after": "290"}, times=1)
    identity = identity_of(configured(site, tmp_path))
    with pytest.raises(NotNow) as later:
        await identity.ready()
    assert 285 < later.value.until - clock.time() <= 290
    clock.ahead = 290
    assert await identity.ready()


async def test_failing_server_is_tried_again(site: Sandbox, tmp_path: Path, clock: Clock) -> None:
    site.fault("server_error", "createSession", times=2)
    site.fault("reset", "createSession", times=1)
    identity = identity_of(configured(site, tmp_path))
    for _ in range(3):
        with pytest.raises(NotNow):
            await identity.ready()
        clock.ahead += 10
    assert await identity.ready()


@pytest.mark.parametrize(
    ("kind", "wishes", "said"),
    [
        ("html_instead_of_json", {}, "JSON"),
        ("status", {"status": 404, "error": "NotFound", "message": "no such page"}, "no such page"),
        ("truncated_json", {}, "token"),
    ],
)
async def test_server_that_is_no_pds_is_named(
    site: Sandbox, tmp_path: Path, kind: str, wishes: dict[str, Any], said: str
) -> None:
    site.fault(kind, "createSession", **wishes)
    with pytest.raises(NotNow, match=said):
        await identity_of(configured(site, tmp_path)).ready()


@pytest.mark.parametrize("content", [b"", b'{"did": "did:plc:a', b"\xff\x00\xfe", b"[]", b'{"did": "did:plc:abc"}'])
async def test_corrupt_session_file_is_as_good_as_none(
    site: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    await identity_of(configured(site, tmp_path)).ready()
    path = session_file(tmp_path)
    path.write_bytes(content)
    await identity_of(configured(site, tmp_path)).ready()
    assert str(path) in caplog.text
    assert json.loads(path.read_text())["origin"] == site.url
    assert calls(site) == {"createSession 200": 2}


async def test_readable_session_file_is_closed_with_a_warning(
    site: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await identity_of(configured(site, tmp_path)).ready()
    path = session_file(tmp_path)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    await identity_of(configured(site, tmp_path)).ready()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [str(place) in caplog.text for place in (path, path.parent)] == [True, True]


def test_folder_that_cannot_be_made_is_named(site: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    with pytest.raises(StorageError, match="sessions"):
        identity_of(configured(site, tmp_path))


async def test_two_accounts_have_two_sessions(site: Sandbox, tmp_path: Path) -> None:
    other = site.handle(2)
    config = configured(site, tmp_path, bluesky_identifier=f"@{other}", bluesky_app_password=SecretStr(f"pw-{other}"))
    first = await identity_of(configured(site, tmp_path)).ready()
    second = await identity_of(config).ready()
    assert token(first) != token(second)
    assert len(list((tmp_path / "sessions").glob("*.json"))) == 2
    assert calls(site) == {"createSession 200": 2}


async def test_no_secret_is_logged_or_shown(
    site: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, clock: Clock
) -> None:
    caplog.set_level(logging.DEBUG)
    identity = identity_of(configured(site, tmp_path))
    sessions = [await identity.ready()]
    site.fault("server_error", "refreshSession", times=1)
    identity.expire(sessions[0].generation)
    with pytest.raises(NotNow) as later:
        await identity.ready()
    clock.ahead = 10
    sessions.append(await identity.ready())
    site.fault("status", "refreshSession", status=401, error="InvalidToken")
    site.fault("status", "createSession", status=401, error="X", message=f"bad password pw-{site.handle(1)}!")
    identity.expire(sessions[1].generation)
    with pytest.raises(SessionError) as caught:
        await identity.ready()
    shown = caplog.text + str(caught.value) + repr(caught.value) + str(later.value) + repr(sessions)
    shown += repr(vars(identity)) + repr(account_of(configured(site, tmp_path)))
    assert f"bluesky as {site.handle(1)}" in shown
    assert "bad password ***!" in shown
    secrets = [f"pw-{site.handle(1)}"]
    for session in sessions:
        secrets += [part for jwt in (token(session), session.refresh_token) for part in jwt.split(".")[1:]]
    assert all(secrets)
    for secret in secrets:
        assert secret not in shown


def test_password_that_is_no_app_password_brings_a_warning(
    site: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    account_of(configured(site, tmp_path, bluesky_app_password=SecretStr("a1b2-c3d4-e5f6-g7h8")))
    assert caplog.text == ""
    account_of(configured(site, tmp_path, bluesky_app_password=SecretStr("correct horse")))
    assert "app password" in caplog.text
    assert "correct horse" not in caplog.text


def test_no_login_is_no_login(tmp_path: Path) -> None:
    assert account_of(Config(state_dir=tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"bluesky_identifier": None}, "IDENTIFIER"),
        ({"bluesky_app_password": None}, "APP_PASSWORD"),
        ({"bluesky_app_password": SecretStr(" ")}, "APP_PASSWORD"),
        ({"bluesky_pds": "bsky.social"}, "https://bsky.social"),
        ({"bluesky_pds": "https://user:word@bsky.social"}, "https://bsky.social"),
        ({"bluesky_pds": "http://pds.example", "allow_private_hosts": False}, "https"),
    ],
)
def test_unusable_login_settings_are_refused(site: Sandbox, tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        account_of(configured(site, tmp_path, **fields))


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("https://Oyster.us-east.host.bsky.network/", "https://oyster.us-east.host.bsky.network"),
        ("http://pds.example", "https://bsky.social"),
        ("file:///etc/passwd", "https://bsky.social"),
        ("https://", "https://bsky.social"),
        ("https://[x", "https://bsky.social"),
        (None, "https://bsky.social"),
    ],
)
def test_pds_less_protected_than_the_login_is_not_used(endpoint: str | None, expected: str) -> None:
    services = [{"id": "#other"}, "x", {"id": "did:plc:a#atproto_pds", "serviceEndpoint": endpoint}]
    named = at_path({"didDoc": {"service": services}}, "didDoc.service.#atproto_pds.serviceEndpoint")
    assert named == endpoint
    assert safe_origin(named, "https://bsky.social") == expected
    assert at_path({"didDoc": {}}, "didDoc.service.#atproto_pds.serviceEndpoint") is None


async def test_waiting_that_is_given_up_leaves_the_login_to_others(site: Sandbox, tmp_path: Path) -> None:
    site.fault("hang", "createSession", times=1)
    identity = identity_of(configured(site, tmp_path))
    waiting = asyncio.create_task(identity.ready())
    async with asyncio.timeout(240):
        while not site.faults()[0]["struck"]:  # noqa: ASYNC110  the sandbox is another process
            await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await identity.ready()
    kept = json.loads(session_file(tmp_path).read_text())
    assert len(kept["logins"]) == 1, "the one that was given up is not counted"


class Login:
    """`with Login(...) as login`: a process that uses the login of an account, as use_login.py says."""

    def __init__(self, site: Sandbox, folder: Path, word: str) -> None:
        handle = site.handle(1)
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "HARVESTER_STATE_DIR": str(folder),
            "HARVESTER_BLUESKY_IDENTIFIER": handle,
            "HARVESTER_BLUESKY_APP_PASSWORD": f"pw-{handle}",
            "HARVESTER_BLUESKY_PDS": site.url,
        }
        (stdin, lines), (digests, stdout) = os.pipe(), os.pipe()
        self.lines, self.digests = os.fdopen(lines, "w"), os.fdopen(digests)
        program = "tests.identities.bluesky.use_login"
        self.process = begin(program, word, cwd=folder, env=environment, files=[stdin, stdout, 2])
        os.close(stdin)
        os.close(stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.lines.close()
        self.digests.close()


def test_two_processes_share_one_session(site: Sandbox, tmp_path: Path) -> None:
    site.fault("slow", "createSession|refreshSession", seconds=0.5)  # so that the others do come meanwhile
    with Login(site, tmp_path, "renew") as one, Login(site, tmp_path, "renew") as other:
        first = {login.digests.readline() for login in (one, other)}
        for login in (one, other):
            print(file=login.lines, flush=True)
        second = {login.digests.readline() for login in (one, other)}
        assert [login.process.wait(240) for login in (one, other)] == [0, 0]
    assert (len(first), len(second)) == (1, 1)
    assert "" not in first | second
    assert first != second
    counted = calls(site)
    assert (counted["createSession 200"], counted["refreshSession 200"]) == (1, 1)


def test_process_killed_while_it_logs_in_does_not_keep_the_others_out(site: Sandbox, tmp_path: Path) -> None:
    site.fault("hang", "createSession", times=1)
    with Login(site, tmp_path, "use") as first:
        deadline = time.monotonic() + 240
        while not site.faults()[0]["struck"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        first.process.kill()
        with Login(site, tmp_path, "use") as second:
            assert second.process.wait(240) == 0
            assert len(second.digests.read().strip()) == 64
