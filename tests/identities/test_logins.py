"""What identities that sign in promise, in real crawls against a county that counts its logins."""

import asyncio
import json
import os
import re
import signal
import stat
from pathlib import Path

import pytest

from tests import crawling
from tests.crawling import Crawled, Plan, crawl
from tests.identities.county import County
from tests.identities.entries import ANN, BOB, FORM, NOWHERE, TOKEN, enter
from tests.root import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="file modes and signals")


def pages(county: County, number: int, path: str = "page") -> list[str]:
    return [f"{county.url}/{path}/{each}" for each in range(number)]


def plan_of_many(urls: list[str]) -> Plan:
    """All of them under way at the same time."""
    settings = {"CONCURRENT_REQUESTS": len(urls), "CONCURRENT_REQUESTS_PER_DOMAIN": len(urls)}
    return Plan(urls, settings=settings, patches={"harvester.sites.politeness.OWN_SERVERS_AT_ONCE": len(urls)})


def statuses(crawled: Crawled) -> set[int]:
    return {result.status for result in crawled.results}


def identity_stats(crawled: Crawled) -> dict[str, int]:
    prefix = "harvester/identities/"
    return {name.removeprefix(prefix): n for name, n in crawled.stats.items() if name.startswith(prefix)}


def files_with(secrets: set[str], folder: Path) -> set[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path for path in files for secret in secrets if secret in path.read_text(errors="replace")}


def assert_no_secret(county: County, *texts: str) -> None:
    for secret in county.secrets:
        for text in texts:
            assert secret not in text


@pytest.mark.parametrize(
    ("entry", "path", "number"),
    [
        pytest.param(FORM, "page", 200, id="redirect"),
        pytest.param(FORM, "page", 1000, id="redirect-thousand", marks=pytest.mark.soak),
        pytest.param(TOKEN, "api", 1000, id="401", marks=pytest.mark.soak),
    ],
)
async def test_any_number_of_requests_that_meet_an_expired_login_cause_one_login(
    county: County, folder: Path, entry: str, path: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawling, "LONGEST_S", 300)
    county.storm = number
    variables = enter(county, folder, entry.replace("at_once = 64", f"at_once = {number}")) | ANN
    crawled = await crawl(plan_of_many(pages(county, number, path)), folder, **variables)
    assert len(crawled.results) == number
    assert statuses(crawled) == {200}
    # One at the beginning, one after the end of all sessions, by the refresh token where there is one.
    assert (len(county.logins), county.refreshes) == ((1, 1) if entry is TOKEN else (2, 0))
    assert identity_stats(crawled) == {"logins/county": 2, "expired/county": 1}
    assert not [name for name in crawled.stats if name.startswith("harvester/errors/")]


async def test_two_processes_that_meet_an_expired_login_cause_one_login(county: County, folder: Path) -> None:
    county.storm, county.login_s = 60, 0.5
    variables = enter(county, folder, FORM) | ANN
    processes = [await crawling.start(Plan(pages(county, 40)), folder, **variables) for _ in range(2)]
    crawls = await asyncio.gather(*[crawling.end(process) for process in processes])
    assert [statuses(crawled) for crawled in crawls] == [{200}, {200}]
    assert len(county.logins) == 2  # one at the beginning, one after the end of all sessions
    assert sum(identity_stats(crawled).get("logins/county", 0) for crawled in crawls) == 2


async def test_session_outlives_a_killed_process_and_is_used_by_the_next_run_without_a_login(
    county: County, folder: Path
) -> None:
    county.slow_s = 0.05
    variables = enter(county, folder, FORM) | ANN
    process = await crawling.start(Plan(pages(county, 2000)), folder, **variables)
    await crawling.until(lambda: county.pages > 20)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    crawled = await crawl(Plan(pages(county, 5)), folder, **variables)
    assert statuses(crawled) == {200}
    assert county.logins == [("ann", True)]
    assert identity_stats(crawled) == {"resumed/county": 1}


async def test_wrong_password_stops_the_identity_at_once_and_says_what_to_do(county: County, folder: Path) -> None:
    variables = enter(county, folder, FORM) | ANN | {"session_county_password": "wrong-horse"}
    crawled = await crawl(Plan(pages(county, 50)), folder, **variables)
    assert county.logins == [("ann", False)]
    assert crawled.stats["finish_reason"] == "session_error"
    assert crawled.stats["harvester/exit_code"] == 5
    assert crawled.log.count("HARVESTER_SESSION_COUNTY_PASSWORD") == 1
    assert county.count("/page/0") == 0
    assert "wrong-horse" not in crawled.log
    assert "Traceback" not in crawled.log
    again = await crawl(Plan(pages(county, 50)), folder, **variables)
    assert again.stats["harvester/exit_code"] == 5
    assert county.logins == [("ann", False)]
    mended = await crawl(Plan(pages(county, 5)), folder, **variables | ANN)
    assert statuses(mended) == {200}


@pytest.mark.parametrize("entry", [FORM.replace('page = "{url}/Login.aspx"', 'page = "{url}/away"'), NOWHERE])
async def test_login_that_leads_nowhere_is_tried_again_later_and_ends_no_run(
    county: County, folder: Path, entry: str
) -> None:
    county.elsewhere = "/away"
    process = await crawling.start(Plan(pages(county, 3)), folder, **enter(county, folder, entry) | ANN)
    assert process.stderr
    while b"COUNTY at county" not in (line := await process.stderr.readline()):
        assert line, "it has ended"
    process.send_signal(signal.SIGTERM)
    crawled = await crawling.end(process)
    assert crawled.stats["finish_reason"] == "shutdown"


async def test_identity_with_a_wrong_password_leaves_the_work_to_the_others(county: County, folder: Path) -> None:
    variables = enter(county, folder, FORM, names='["BOB", "COUNTY"]') | ANN | BOB
    variables["session_bob_password"] = "wrong-horse"
    crawled = await crawl(Plan(pages(county, 30)), folder, **variables)
    assert statuses(crawled) == {200}
    assert sorted(county.logins) == [("ann", True), ("bob", False)]


async def test_page_that_stays_refused_does_not_cost_login_after_login(county: County, folder: Path) -> None:
    variables = enter(county, folder, FORM) | ANN
    refused = f"{county.url}/detail?index=1"  # wants another cookie, and redirects to another page
    entry = FORM.replace("/Login\\\\.aspx", "/(Login|Disclaimer)\\\\.aspx")
    variables = enter(county, folder, entry) | ANN
    crawled = await crawl(Plan([*pages(county, 200), refused]), folder, **variables)
    assert {result.outcome for result in crawled.of(refused)} == {"session_expired"}
    assert len([result for result in crawled.results if result.status == 200]) == 200
    assert county.count("/detail") <= 3
    assert len(county.logins) <= 3


async def test_requests_that_wait_for_their_turn_while_sessions_end_are_all_answered(
    county: County, folder: Path
) -> None:
    county.expire_after = 6
    variables = enter(county, folder, FORM) | ANN | {"requests_per_second": "20"}
    crawled = await crawl(Plan(pages(county, 48), settings={"CONCURRENT_REQUESTS": 48}), folder, **variables)
    assert statuses(crawled) == {200}
    assert len(crawled.results) == 48


async def test_blocked_identity_rests_and_the_others_go_on(county: County, folder: Path) -> None:
    county.blocks = {"bob"}
    variables = enter(county, folder, FORM, names='["BOB", "COUNTY"]') | ANN | BOB
    plan = Plan(pages(county, 60), settings={"CONCURRENT_REQUESTS": 4})
    crawled = await crawl(plan, folder, **variables)
    blocked = [result for result in crawled.results if result.outcome == "blocked"]
    assert 1 <= len(blocked) <= 8
    assert len([result for result in crawled.results if result.status == 200]) == 60 - len(blocked)
    assert identity_stats(crawled)["rests/county"] == 1


async def test_secrets_are_in_files_of_the_owner_only_and_nowhere_else(county: County, folder: Path) -> None:
    county.storm = 20
    urls = [*pages(county, 30), f"{county.url}/who"]
    crawled = await crawl(Plan(urls), folder, **enter(county, folder, FORM) | ANN)
    assert "DEBUG" in crawled.log
    assert_no_secret(county, crawled.log, json.dumps(crawled.stats), str(crawled.results))
    kept = folder / "state" / "sessions"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert files_with(county.secrets, folder) == {kept / "county.COUNTY.json"}
    assert stat.S_IMODE(kept.joinpath("county.COUNTY.json").stat().st_mode) == 0o600
    for password in ("correct-horse-1", "correct-horse-2"):
        assert password not in kept.joinpath("county.COUNTY.json").read_text()


async def test_cookies_and_headers_go_to_the_sites_own_hosts_only(county: County, folder: Path) -> None:
    async with County() as other:
        county.elsewhere = f"{other.url}/cookie"
        crawled = await crawl(
            Plan([*pages(county, 3), *pages(other, 1), f"{county.url}/away"]),
            folder,
            **enter(county, folder, FORM, more='headers = { X-Key = "k1" }') | ANN,
        )
        assert {seen.jar for seen in other.seen} == {""}
        [carried] = other.carried
        assert "x-key" not in carried
        assert "cookie" not in carried
    assert {result.outcome for result in crawled.of(f"{other.url}/page/0")} == {"session_expired"}
    assert len([result for result in crawled.results if result.status == 200]) == 3 + 1


async def test_crawl_without_identities_has_no_middleware_and_no_cookies(county: County, folder: Path) -> None:
    crawled = await crawl(Plan([f"{county.url}/cookie"]), folder, requests_per_second="0")
    assert statuses(crawled) == {200}
    assert {seen.jar for seen in county.seen} == {""}
    assert not (folder / ".harvester").exists()


async def test_entry_in_the_documents_does_what_they_say(county: County, folder: Path) -> None:
    text = (ROOT / "docs" / "sessions.md").read_text("utf-8")
    [oak, api] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    for name, entry, port in (("oak", oak, "127.0.0.1:8000"), ("api", api, "127.0.0.1:8001")):
        other = county.name if name == "oak" else county.name.replace("127.0.0.1", "localhost")
        (folder / "sites" / f"{name}.toml").write_text(entry.replace(port, other))
    variables = {"sites_dir": str(folder / "sites"), "state_dir": str(folder / "state"), "requests_per_second": "0"}
    (folder / ".env").write_text("HARVESTER_SESSION_OAK_USER=ann\nHARVESTER_SESSION_OAK_PASSWORD=correct-horse-1\n")
    (folder / "state").mkdir()
    private = folder / "state" / "credentials.env"
    private.touch(0o600)
    private.write_text("HARVESTER_SESSION_OAK_2_USER=bob\nHARVESTER_SESSION_OAK_2_PASSWORD=correct-horse-2\n")
    variables |= {"session_api_user": "cyd", "session_api_password": "correct-horse-3"}
    urls = pages(county, 20) + [url.replace("127.0.0.1", "localhost") for url in pages(county, 5, "api")]
    crawled = await crawl(Plan(urls), folder, **variables)
    assert statuses(crawled) == {200}
    assert sorted(county.logins) == [("ann", True), ("bob", True), ("cyd", True)]
    private.chmod(0o644)
    refused = await crawl(Plan(pages(county, 2)), folder, **variables)
    assert refused.stats["harvester/exit_code"] == 2
    assert "chmod 600" in refused.log
