"""What an account of Bluesky promises, in real crawls."""

import json
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.forking import Forked, fork
from tests.identities.bluesky.pds import HANDLE, PASSWORD, Pds
from tests.root import ROOT

PROFILE = "/xrpc/app.bsky.actor.getProfile"


class Crawled(NamedTuple):
    """What a crawl came to."""

    results: list[dict[str, Any]]
    stats: dict[str, Any]
    log: str

    @property
    def statuses(self) -> list[int | None]:
        return [result.get("status") for result in self.results]

    @property
    def leaks(self) -> list[dict[str, Any]]:
        return [result for result in self.results if "leak" in result]


@pytest.fixture
async def pds() -> AsyncIterator[Pds]:
    async with Pds() as server:
        yield server


async def start(pds: Pds, folder: Path, *targets: str, **variables: str) -> Forked:
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "HARVESTER_STATE_DIR": str(folder / "state"),
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_BLUESKY_IDENTIFIER": HANDLE,
        "HARVESTER_BLUESKY_APP_PASSWORD": PASSWORD,
        "HARVESTER_BLUESKY_PDS": pds.url,
    }
    environment |= {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}
    return await fork("tests.identities.bluesky.crawl", *targets, cwd=folder, env=environment)


async def end(process: Forked) -> Crawled:
    out, log = await process.end(240)
    assert process.returncode == 0, log
    return Crawled(**json.loads(out), log=log)


async def crawl(pds: Pds, folder: Path, *targets: str, **variables: str) -> Crawled:
    return await end(await start(pds, folder, *targets, **variables))


@pytest.mark.parametrize("expired", [(400, "ExpiredToken"), (401, "InvalidToken")])
async def test_token_that_ends_under_many_requests_is_refreshed_once(
    pds: Pds, tmp_path: Path, expired: tuple[int, str]
) -> None:
    pds.expired, pds.storm = expired, 12
    crawled = await crawl(pds, tmp_path, *[f"{PROFILE}?actor={n}" for n in range(200)])
    assert crawled.statuses == [200] * 200
    assert crawled.stats["finish_reason"] == "finished"
    assert crawled.stats["harvester/identities/expired/bluesky"] == 1
    assert (pds.count("createSession"), pds.count("refreshSession")) == (1, 1)
    assert crawled.leaks == []


async def test_session_is_reused_by_the_next_run_without_a_login(pds: Pds, tmp_path: Path) -> None:
    for _ in range(2):
        crawled = await crawl(pds, tmp_path, PROFILE)
        assert crawled.statuses == [200]
    assert (pds.count("createSession"), pds.count("refreshSession"), pds.count("getSession")) == (1, 0, 1)


async def test_token_never_reaches_another_host_a_queue_or_the_log(pds: Pds, tmp_path: Path) -> None:
    async with Pds() as other:
        crawled = await crawl(
            pds,
            tmp_path,
            PROFILE,
            f"{other.url}{PROFILE}",
            f"/redirect?to={other.url}{PROFILE}?redirected",
            f"/redirect?to={PROFILE}?redirected",
            pds.url.replace("127.0.0.1", "localhost") + PROFILE,
            allow_private_hosts="true",
        )
        assert [seen.authorization for seen in other.seen] == [None, None]
    assert {(path, authorization is not None) for path, authorization in pds.seen if path.startswith(PROFILE)} == {
        (PROFILE, True),
        (PROFILE, False),  # by its other name, under which it is another host
        (f"{PROFILE}?redirected", True),
    }
    assert sorted(crawled.statuses, key=str) == [200, 200, None, None, None]
    assert crawled.leaks == []
    assert "DEBUG" in crawled.log
    for secret in pds.secrets:
        for part in {secret, *secret.split(".")[1:]}:
            assert part not in crawled.log
            assert part not in json.dumps(crawled.stats)
            assert part not in json.dumps(crawled.results)


async def test_wrong_password_stops_at_once_and_says_what_to_do(pds: Pds, tmp_path: Path) -> None:
    crawled = await crawl(pds, tmp_path, *[PROFILE] * 50, bluesky_app_password="zzzz-zzzz-zzzz-zzzz")
    assert crawled.stats["finish_reason"] == "session_error"
    assert crawled.stats["harvester/exit_code"] == 5
    (said,) = [line for line in crawled.log.splitlines() if "ERROR" in line and "app password" in line]
    assert said
    assert "Traceback" not in crawled.log
    assert pds.count("createSession") == 1
    assert pds.count("getProfile") == 0


async def test_password_does_not_follow_a_redirect_to_another_server(pds: Pds, tmp_path: Path) -> None:
    async with Pds() as other:
        pds.moved = f"{other.url}/xrpc/com.atproto.server.createSession"
        crawled = await crawl(pds, tmp_path, PROFILE)
        assert other.seen == []
    assert crawled.stats["harvester/exit_code"] == 5
    assert other.url.removeprefix("http://") in crawled.log


async def test_login_limited_for_the_day_ends_the_run(pds: Pds, tmp_path: Path) -> None:
    pds.busy, pds.busy_s = "createSession", 36_000
    crawled = await crawl(pds, tmp_path, PROFILE)
    assert (crawled.stats["finish_reason"], crawled.stats["harvester/exit_code"]) == ("session_error", 5)
    assert re.search(r" 360\d\d s", crawled.log)
    assert pds.count("createSession") == 1


async def test_login_lost_on_the_way_ends_the_run_and_leaves_its_requests_for_a_later_one(
    pds: Pds, tmp_path: Path
) -> None:
    pds.storm, pds.logins, pds.refreshes = 5, 1, False
    crawled = await crawl(pds, tmp_path, *[PROFILE] * 200)
    assert crawled.stats["finish_reason"] == "session_error"
    assert crawled.stats["harvester/exit_code"] == 5
    assert {result["outcome"] for result in crawled.results} == {None}  # nothing is told of their site
    assert not [name for name in crawled.stats if name.startswith("harvester/outcomes/auth_required")]
    assert (pds.count("createSession"), pds.count("refreshSession")) == (2, 1)


async def test_refused_refresh_logs_in_again_and_goes_on(pds: Pds, tmp_path: Path) -> None:
    await crawl(pds, tmp_path, PROFILE)
    pds.expire()
    pds.refreshes = False
    crawled = await crawl(pds, tmp_path, *[PROFILE] * 30)
    assert crawled.statuses == [200] * 30
    assert (pds.count("createSession"), pds.count("refreshSession")) == (2, 1)


async def test_request_refused_with_new_tokens_too_is_repeated_twice_at_most(pds: Pds, tmp_path: Path) -> None:
    crawled = await crawl(pds, tmp_path, f"{PROFILE}?refused", *[PROFILE] * 20)
    assert crawled.stats["finish_reason"] == "finished"
    assert crawled.statuses.count(200) == 20
    assert [result["outcome"] for result in crawled.results if "outcome" in result] == ["session_expired"]
    assert [seen.path for seen in pds.seen].count(f"{PROFILE}?refused") in (2, 3)
    assert pds.count("createSession") == 1
    assert pds.count("refreshSession") <= 3


async def test_tokens_that_are_always_refused_end_the_run(pds: Pds, tmp_path: Path) -> None:
    pds.accepts = False
    crawled = await crawl(pds, tmp_path, *[PROFILE] * 50)
    assert crawled.stats["finish_reason"] == "session_error"
    assert crawled.stats["harvester/exit_code"] == 5
    assert re.search("ERROR.*bluesky.*session", crawled.log)
    outcomes = [result["outcome"] for result in crawled.results]
    assert outcomes.count("session_expired") <= 3, "the others stay queued"
    assert {*outcomes} <= {"session_expired", None}
    assert pds.count("createSession") == 1
    assert pds.count("refreshSession") < 12


async def test_without_a_login_there_is_no_middleware_and_no_message(pds: Pds, tmp_path: Path) -> None:
    crawled = await crawl(pds, tmp_path, f"{pds.url}{PROFILE}", bluesky_identifier="", bluesky_app_password="")
    assert [result.get("outcome") for result in crawled.results] == ["auth_required"]
    assert [seen.authorization for seen in pds.seen] == [None]
    assert "IdentitiesMiddleware" not in crawled.log
    assert not (tmp_path / "state").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals")
async def test_interrupt_ends_a_run_that_waits_to_log_in(pds: Pds, tmp_path: Path) -> None:
    pds.busy = "createSession"
    process = await start(pds, tmp_path, PROFILE)
    await pds.called("createSession")
    process.send_signal(signal.SIGINT)
    crawled = await end(process)
    assert crawled.stats["finish_reason"] == "shutdown"
    assert pds.count("createSession") == 1


@pytest.mark.skipif(os.name != "posix", reason="signals")
async def test_interrupt_ends_requests_that_wait_for_a_refresh(pds: Pds, tmp_path: Path) -> None:
    pds.storm, pds.busy = 5, "refreshSession"
    process = await start(pds, tmp_path, *[PROFILE] * 40)
    await pds.called("refreshSession")
    process.send_signal(signal.SIGINT)
    crawled = await end(process)
    assert crawled.stats["finish_reason"] == "shutdown"
    assert {result["outcome"] for result in crawled.results} == {None}  # nothing follows: their work stays queued
    assert pds.count("refreshSession") == 1
    assert crawled.stats[f"harvester/waiting/{pds.url.removeprefix('http://')}"] > 1_700_000_000
