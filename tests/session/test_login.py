"""What a login promises, against the sandbox's PDS."""

import asyncio
import json
import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

import harvester.identities.bluesky
from harvester.config import Config
from harvester.exceptions import SessionError, StorageError, UsageError
from harvester.identities.bluesky import HEARTBEAT_S, MOST_RENEWALS, Login
from harvester.identities.bluesky_file import Session
from harvester.identities.secret_file import Pause
from tests.root import ROOT
from tests.sandbox.process import Sandbox

pytestmark = pytest.mark.skipif(os.name != "posix", reason="file modes and signals")


class Clock:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead


class Waits:
    """Takes the place of waiting for a host; waits for other processes as usual."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float, host: str) -> None:
        if host:
            self.seconds.append(seconds)
        else:
            await asyncio.sleep(seconds)


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


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(harvester.identities.bluesky, "time", SimpleNamespace(time=clock.time))
    return clock


def configured(site: Sandbox, folder: Path, **fields: Any) -> Config:
    handle = site.handle(1)
    account: dict[str, Any] = {
        "bluesky_identifier": handle,
        "bluesky_app_password": SecretStr(f"pw-{handle}"),
        "bluesky_pds": site.url,
    }
    return Config(state_dir=folder, **account | fields)


def login_of(config: Config, pause: Pause | None = None) -> Login:
    login = Login.from_config(config, pause)
    assert login is not None
    return login


def calls(site: Sandbox) -> dict[str, int]:
    """How often each login method was called: `createSession 200` -> count."""
    prefix = "com.atproto.server."
    return {k.removeprefix(prefix): n for k, n in site.log(0)["counts"].items() if k.startswith(prefix)}


def session_file(folder: Path) -> Path:
    (found,) = (folder / "sessions").glob("*.json")
    return found


def token(session: Session) -> str:
    return session.access.get_secret_value()


async def test_session_names_the_accounts_own_pds(site: Sandbox, tmp_path: Path) -> None:
    session = await login_of(configured(site, tmp_path)).session()
    assert (session.did, session.handle, session.pds) == (site.did(1), site.handle(1), site.url)


async def test_session_file_is_for_the_owner_only(site: Sandbox, tmp_path: Path) -> None:
    await login_of(configured(site, tmp_path)).session()
    path = session_file(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir() if p.suffix == ".new"] == []


async def test_session_is_reused_by_the_next_run(site: Sandbox, tmp_path: Path) -> None:
    first = await login_of(configured(site, tmp_path)).session()
    second = await login_of(configured(site, tmp_path)).session()
    assert second == first
    assert calls(site) == {"createSession 200": 1, "getSession 200": 1}


async def test_token_that_ended_between_runs_is_refreshed_not_logged_in_again(
    site: Sandbox, tmp_path: Path, clock: Clock
) -> None:
    first = await login_of(configured(site, tmp_path)).session()
    clock.ahead = 7_200
    second = await login_of(configured(site, tmp_path)).session()
    assert token(second) != token(first)
    assert calls(site) == {"createSession 200": 1, "refreshSession 200": 1}


async def test_token_is_refreshed_a_minute_before_it_ends(site: Sandbox, tmp_path: Path, clock: Clock) -> None:
    login = login_of(configured(site, tmp_path))
    first = await login.session()
    clock.ahead = 7_200 - 70
    assert token(await login.session()) == token(first)
    clock.ahead = 7_200 - 50
    assert token(await login.session()) != token(first)
    assert calls(site) == {"createSession 200": 1, "getSession 200": 1, "refreshSession 200": 1}


async def test_heartbeat_checks_a_used_session_every_five_minutes(site: Sandbox, tmp_path: Path, clock: Clock) -> None:
    login = login_of(configured(site, tmp_path))
    for minutes in range(0, 60, 2):
        clock.ahead = minutes * 60
        await login.session()
    assert calls(site) == {"createSession 200": 1, "getSession 200": 9}


async def test_heartbeat_replaces_a_session_that_was_ended_elsewhere(
    site: Sandbox, tmp_path: Path, clock: Clock
) -> None:
    login = login_of(configured(site, tmp_path))
    first = await login.session()
    site.fault("status", "getSession", status=400, error="ExpiredToken", times=1)
    clock.ahead = HEARTBEAT_S + 1
    assert token(await login.session()) != token(first)


async def test_heartbeat_without_an_answer_does_not_end_the_session(
    site: Sandbox, tmp_path: Path, clock: Clock, waits: Waits
) -> None:
    login = login_of(configured(site, tmp_path), waits)
    first = await login.session()
    site.fault("server_error", "getSession")
    clock.ahead = HEARTBEAT_S + 1
    assert await login.session() == first
    assert waits.seconds == []


async def test_expired_token_is_refreshed_once_by_many_callers(site: Sandbox, tmp_path: Path) -> None:
    login = login_of(configured(site, tmp_path))
    expired = token(await login.session())
    await asyncio.gather(*[login.renew(expired) for _ in range(1000)])
    assert token(await login.session()) != expired
    assert calls(site) == {"createSession 200": 1, "refreshSession 200": 1}


async def test_refused_refresh_logs_in_again_once(site: Sandbox, tmp_path: Path) -> None:
    login = login_of(configured(site, tmp_path))
    expired = token(await login.session())
    site.fault("status", "refreshSession", status=400, error="ExpiredToken")
    await asyncio.gather(*[login.renew(expired) for _ in range(100)])
    assert token(await login.session()) != expired
    assert calls(site) == {"createSession 200": 2, "refreshSession 400": 1}


async def test_tokens_that_are_refused_at_once_are_not_replaced_for_ever(site: Sandbox, tmp_path: Path) -> None:
    login = login_of(configured(site, tmp_path))
    for _ in range(MOST_RENEWALS):
        await login.renew(token(await login.session()))
    with pytest.raises(SessionError, match="refused at once"):
        await login.renew(token(await login.session()))
    with pytest.raises(SessionError):
        await login.session()
    assert calls(site) == {"createSession 200": 1, "refreshSession 200": MOST_RENEWALS}


async def test_renewals_are_not_limited_while_tokens_are_accepted(site: Sandbox, tmp_path: Path) -> None:
    login = login_of(configured(site, tmp_path))
    for _ in range(2 * MOST_RENEWALS):
        await login.renew(token(await login.session()))
        login.accepted()
    assert calls(site)["refreshSession 200"] == 2 * MOST_RENEWALS


async def test_wrong_password_stops_at_once_with_one_login(site: Sandbox, tmp_path: Path) -> None:
    login = login_of(configured(site, tmp_path, bluesky_app_password=SecretStr("abcd-efgh-ijkl-mnop")))
    errors = await asyncio.gather(*[login.session() for _ in range(100)], return_exceptions=True)
    assert {type(error) for error in errors} == {SessionError}
    message = str(errors[0])
    assert "Invalid identifier or password" in message
    assert "Create an app password" in message
    assert "abcd-efgh-ijkl-mnop" not in message
    assert SessionError.exit_code == 5
    assert calls(site) == {"createSession 401": 1}
    assert list((tmp_path / "sessions").glob("*.json")) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [("AuthFactorTokenRequired", "sign in with an app password instead"), ("AccountTakedown", "taken down")],
)
async def test_refused_login_says_why(site: Sandbox, tmp_path: Path, name: str, said: str) -> None:
    site.fault("status", "createSession", status=401, error=name)
    with pytest.raises(SessionError, match=said):
        await login_of(configured(site, tmp_path)).session()
    assert calls(site) == {"createSession 401": 1}


async def test_rate_limited_login_waits_as_long_as_it_is_asked(site: Sandbox, tmp_path: Path, waits: Waits) -> None:
    site.fault("status", "createSession", status=429, headers={"retry-after": "290"}, times=2)
    session = await login_of(configured(site, tmp_path), waits).session()
    assert session.handle == site.handle(1)
    assert waits.seconds == [290, 290]


async def test_login_limited_for_the_day_ends_the_run(site: Sandbox, tmp_path: Path, waits: Waits) -> None:
    site.fault("status", "createSession", status=429, headers={"retry-after": "36000"})
    with pytest.raises(SessionError, match=r"Try again in 10\.0 hours"):
        await login_of(configured(site, tmp_path), waits).session()
    assert waits.seconds == []


async def test_failing_server_is_tried_again(site: Sandbox, tmp_path: Path, waits: Waits) -> None:
    site.fault("server_error", "createSession", times=2)
    site.fault("reset", "createSession", times=1)
    await login_of(configured(site, tmp_path), waits).session()
    assert waits.seconds == [1, 2, 4]


async def test_unreachable_server_is_named(tmp_path: Path, site: Sandbox, waits: Waits, free_port: int) -> None:
    config = configured(site, tmp_path, bluesky_pds=f"http://127.0.0.1:{free_port}")
    with pytest.raises(SessionError, match=rf"127\.0\.0\.1:{free_port} failed 3 times"):
        await login_of(config, waits).session()


@pytest.mark.parametrize(
    ("kind", "wishes", "said"),
    [
        ("html_instead_of_json", {}, "its answer holds no session"),
        ("status", {"status": 404, "error": "NotFound", "message": "no such page"}, "no such page"),
        ("truncated_json", {}, "its answer holds no session"),
    ],
)
async def test_server_that_is_no_pds_is_named(
    site: Sandbox, tmp_path: Path, kind: str, wishes: dict[str, Any], said: str
) -> None:
    site.fault(kind, "createSession", **wishes)
    with pytest.raises(SessionError, match=said):
        await login_of(configured(site, tmp_path)).session()


async def test_password_does_not_follow_a_redirect(site: Sandbox, tmp_path: Path) -> None:
    location = {"location": f"{site.url}/xrpc/com.atproto.server.createSession?elsewhere"}
    site.fault("status", "createSession$", status=307, headers=location)
    with pytest.raises(SessionError, match="HTTP 307"):
        await login_of(configured(site, tmp_path)).session()
    assert calls(site) == {"createSession 307": 1}


@pytest.mark.parametrize("content", [b"", b'{"did": "did:plc:a', b"\xff\x00\xfe", b"[]", b'{"did": "did:plc:abc"}'])
async def test_corrupt_session_file_is_as_good_as_none(
    site: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    await login_of(configured(site, tmp_path)).session()
    path = session_file(tmp_path)
    path.write_bytes(content)
    await login_of(configured(site, tmp_path)).session()
    assert "holds no login session" in caplog.text
    assert json.loads(path.read_text())["did"] == site.did(1)
    assert calls(site) == {"createSession 200": 2}


async def test_readable_session_file_is_closed_with_a_warning(
    site: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await login_of(configured(site, tmp_path)).session()
    path = session_file(tmp_path)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    await login_of(configured(site, tmp_path)).session()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert caplog.text.count("could be read by others") == 2


def test_folder_that_cannot_be_made_is_named(site: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    with pytest.raises(StorageError, match="sessions"):
        login_of(configured(site, tmp_path))


async def test_two_accounts_have_two_sessions(site: Sandbox, tmp_path: Path) -> None:
    other = site.handle(2)
    config = configured(site, tmp_path, bluesky_identifier=f"@{other}", bluesky_app_password=SecretStr(f"pw-{other}"))
    assert (await login_of(configured(site, tmp_path)).session()).did == site.did(1)
    assert (await login_of(config).session()).did == site.did(2)
    assert len(list((tmp_path / "sessions").glob("*.json"))) == 2


async def test_no_secret_is_logged_or_shown(
    site: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, waits: Waits
) -> None:
    caplog.set_level(logging.DEBUG)
    login = login_of(configured(site, tmp_path), waits)
    sessions = [await login.session()]
    site.fault("server_error", "refreshSession", times=1)
    await login.renew(token(sessions[0]))
    sessions.append(await login.session())
    site.fault("status", "refreshSession", status=401, error="InvalidToken")
    site.fault("status", "createSession", status=401, error="X", message=f"bad password pw-{site.handle(1)}!")
    with pytest.raises(SessionError) as caught:
        await login.renew(token(sessions[1]))
    shown = caplog.text + str(caught.value) + repr(caught.value) + repr(sessions) + repr(vars(login))
    assert "Refreshed the login" in shown
    secrets = [f"pw-{site.handle(1)}"]
    for session in sessions:
        secrets += [part for jwt in (token(session), session.refresh.get_secret_value()) for part in jwt.split(".")[1:]]
    for secret in secrets:
        assert secret not in shown


def test_password_that_is_no_app_password_brings_a_warning(
    site: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    login_of(configured(site, tmp_path, bluesky_app_password=SecretStr("a1b2-c3d4-e5f6-g7h8")))
    assert caplog.text == ""
    login_of(configured(site, tmp_path, bluesky_app_password=SecretStr("correct horse")))
    assert "does not look like an app password" in caplog.text
    assert "correct horse" not in caplog.text


def test_no_login_is_no_login(tmp_path: Path) -> None:
    assert Login.from_config(Config(state_dir=tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"bluesky_identifier": None}, "one is missing"),
        ({"bluesky_app_password": None}, "one is missing"),
        ({"bluesky_app_password": SecretStr(" ")}, "one is missing"),
        ({"bluesky_pds": "bsky.social"}, "an address like https://bsky.social"),
        ({"bluesky_pds": "https://user:word@bsky.social"}, "an address like https://bsky.social"),
        ({"bluesky_pds": "http://pds.example", "allow_private_hosts": False}, "over https only"),
    ],
)
def test_unusable_login_settings_are_refused(site: Sandbox, tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        login_of(configured(site, tmp_path, **fields))


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("https://Oyster.us-east.host.bsky.network:443/", "https://oyster.us-east.host.bsky.network"),
        ("http://pds.example", None),
        ("file:///etc/passwd", None),
        (None, None),
    ],
)
def test_pds_less_protected_than_the_login_is_not_used(endpoint: str | None, expected: str | None) -> None:
    document = {"service": [{"id": "#other"}, "x", {"id": "#atproto_pds", "serviceEndpoint": endpoint}]}
    assert harvester.identities.bluesky._own_pds(document, "https://bsky.social") == expected


async def test_waiting_that_is_given_up_leaves_the_login_to_others(site: Sandbox, tmp_path: Path) -> None:
    async def give_up(seconds: float, host: str) -> None:
        if host:
            raise asyncio.CancelledError

    site.fault("status", "createSession", status=429, headers={"retry-after": "290"}, times=1)
    login = login_of(configured(site, tmp_path), give_up)
    with pytest.raises(asyncio.CancelledError):
        await login.session()
    assert (await login.session()).did == site.did(1)


def _start(site: Sandbox, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    handle = site.handle(1)
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "HARVESTER_STATE_DIR": str(folder),
        "HARVESTER_BLUESKY_IDENTIFIER": handle,
        "HARVESTER_BLUESKY_APP_PASSWORD": f"pw-{handle}",
        "HARVESTER_BLUESKY_PDS": site.url,
    }
    command = [sys.executable, "-m", "tests.session.use_login", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_two_processes_share_one_session(site: Sandbox, tmp_path: Path) -> None:
    site.fault("slow", "createSession|refreshSession", seconds=0.5)  # so that the others do come meanwhile
    processes = [_start(site, tmp_path, "renew") for _ in range(2)]
    try:
        first = {process.stdout.readline() for process in processes if process.stdout}
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        second = {process.stdout.readline() for process in processes if process.stdout}
        assert [process.wait(240) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert (len(first), len(second)) == (1, 1)
    assert "" not in first | second
    assert first != second
    counted = calls(site)
    assert (counted["createSession 200"], counted["refreshSession 200"]) == (1, 1)


def test_process_killed_while_it_logs_in_does_not_keep_the_others_out(site: Sandbox, tmp_path: Path) -> None:
    site.fault("hang", "createSession", times=1)
    first = _start(site, tmp_path, "use")
    try:
        deadline = time.monotonic() + 240
        while not site.faults()[0]["struck"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        first.kill()
        second = _start(site, tmp_path, "use")
        out, _ = second.communicate(timeout=240)
    finally:
        first.kill()
        first.communicate()
    assert second.returncode == 0
    assert len(out.strip()) == 64
