"""What identities that sign in promise, in real crawls against a county that counts its logins."""

import asyncio
import json
import os
import signal
import stat
from pathlib import Path

import pytest

from tests import crawling
from tests.crawling import Crawled, Plan, crawl
from tests.identities.county import County
from tests.identities.entries import ANN, BOB, FORM, TOKEN, enter

pytestmark = pytest.mark.skipif(os.name != "posix", reason="file modes and signals")

MANY = {
    "settings": {"CONCURRENT_REQUESTS": 1000, "CONCURRENT_REQUESTS_PER_DOMAIN": 1000},
    "patches": {"harvester.sites.politeness.OWN_SERVERS_AT_ONCE": 1000},
}
"""A crawl that has a thousand requests under way."""


def pages(county: County, number: int, path: str = "page") -> list[str]:
    return [f"{county.url}/{path}/{each}" for each in range(number)]


def statuses(crawled: Crawled) -> set[int]:
    return {result.status for result in crawled.results}


def identity_stats(crawled: Crawled) -> dict[str, int]:
    prefix = "harvester/identities/"
    return {name.removeprefix(prefix): n for name, n in crawled.stats.items() if name.startswith(prefix)}


def assert_no_secret(county: County, *texts: str) -> None:
    for secret in county.secrets:
        for text in texts:
            assert secret not in text


async def test_form_is_sent_with_its_hidden_fields_and_lets_the_crawl_in(county: County, folder: Path) -> None:
    crawled = await crawl(Plan(pages(county, 20)), folder, **enter(county, folder, FORM) | ANN)
    assert statuses(crawled) == {200}
    assert county.logins == [("ann", True)]
    assert identity_stats(crawled) == {"logins/county": 1}


@pytest.mark.parametrize(("entry", "path"), [(FORM, "page"), (TOKEN, "api")], ids=["redirect", "401"])
async def test_thousand_requests_that_meet_an_expired_login_cause_one_login(
    county: County, folder: Path, entry: str, path: str
) -> None:
    variables = enter(county, folder, entry.replace("at_once = 64", "at_once = 1000")) | ANN
    await crawl(Plan(pages(county, 1, path)), folder, **variables)
    assert len(county.logins) == 1
    county.storm = 1000
    crawled = await crawl(Plan(pages(county, 1000, path), **MANY), folder, **variables)
    assert len(crawled.results) == 1000
    assert statuses(crawled) == {200}
    renewed = county.refreshes if entry is TOKEN else len(county.logins) - 1
    assert renewed == 1
    assert len(county.logins) == (1 if entry is TOKEN else 2)
    assert identity_stats(crawled)["expired/county"] == 1
    assert "harvester/errors/session_expired" not in " ".join(
        name for name, _ in crawled.stats.items() if name.startswith("harvester/dead")
    )


async def test_two_processes_that_meet_an_expired_login_cause_one_login(county: County, folder: Path) -> None:
    county.storm, county.login_s = 60, 0.5
    variables = enter(county, folder, FORM) | ANN
    processes = [await crawling.start(Plan(pages(county, 40)), folder, **variables) for _ in range(2)]
    crawls = await asyncio.gather(*[crawling.end(process) for process in processes])
    assert [statuses(crawled) for crawled in crawls] == [{200}, {200}]
    assert len(county.logins) == 2  # one at the beginning, one after the end of all sessions
    assert sum(identity_stats(crawled).get("logins/county", 0) for crawled in crawls) == 2


async def test_session_is_used_again_by_the_next_run_without_a_login(county: County, folder: Path) -> None:
    variables = enter(county, folder, FORM) | ANN
    for _ in range(2):
        crawled = await crawl(Plan(pages(county, 5)), folder, **variables)
        assert statuses(crawled) == {200}
    assert county.logins == [("ann", True)]
    assert identity_stats(crawled) == {"resumed/county": 1}


async def test_session_outlives_a_killed_process(county: County, folder: Path) -> None:
    county.slow_s = 0.05
    variables = enter(county, folder, FORM) | ANN
    process = await crawling.start(Plan(pages(county, 2000)), folder, **variables)
    await crawling.until(lambda: county.pages > 20)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    crawled = await crawl(Plan(pages(county, 5)), folder, **variables)
    assert statuses(crawled) == {200}
    assert county.logins == [("ann", True)]


async def test_process_killed_while_it_logs_in_keeps_nobody_out(county: County, folder: Path) -> None:
    county.login_s = 30.0
    variables = enter(county, folder, FORM) | ANN
    process = await crawling.start(Plan(pages(county, 5)), folder, **variables)
    async with asyncio.timeout(30):
        await county.logins_began.wait()
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    county.login_s = 0.0
    assert statuses(await crawl(Plan(pages(county, 5)), folder, **variables)) == {200}


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


async def test_identity_with_a_wrong_password_leaves_the_work_to_the_others(county: County, folder: Path) -> None:
    variables = enter(county, folder, FORM, names='["BOB", "COUNTY"]') | ANN | BOB
    variables["session_bob_password"] = "wrong-horse"
    crawled = await crawl(Plan(pages(county, 30)), folder, **variables)
    assert statuses(crawled) == {200}
    assert sorted(county.logins) == [("ann", True), ("bob", False)]


async def test_login_that_fails_by_the_network_is_tried_again(county: County, folder: Path) -> None:
    county.down = 2
    crawled = await crawl(Plan(pages(county, 10)), folder, **enter(county, folder, FORM) | ANN)
    assert statuses(crawled) == {200}
    assert county.logins == [("ann", True)]
    assert identity_stats(crawled) == {"failed/county": 2, "logins/county": 1}


async def test_logins_are_limited_to_so_many_in_an_hour(county: County, folder: Path) -> None:
    county.expire_after = 1
    entry = FORM.replace("logins_per_hour = 20", "logins_per_hour = 3")
    process = await crawling.start(Plan(pages(county, 20)), folder, **enter(county, folder, entry) | ANN)
    assert process.stderr
    async with asyncio.timeout(crawling.LONGEST_S):
        while b"often enough for this hour" not in await process.stderr.readline():
            pass
    process.send_signal(signal.SIGINT)
    assert (await crawling.end(process)).stats["finish_reason"] == "shutdown"
    assert len(county.logins) == 3


async def test_token_is_taken_from_its_path_and_refreshed_before_it_ends(county: County, folder: Path) -> None:
    county.expires_in = 4.0  # refreshed a quarter of its life before
    variables = enter(county, folder, TOKEN) | ANN
    await crawl(Plan(pages(county, 3, "api")), folder, **variables)
    await asyncio.sleep(3.5)
    crawled = await crawl(Plan(pages(county, 3, "api")), folder, **variables)
    assert statuses(crawled) == {200}
    assert (len(county.logins), county.refreshes) == (1, 1)


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


async def test_kept_session_is_checked_before_its_first_use(county: County, folder: Path) -> None:
    check = f"""[county.identities.check]
    url = "{county.url}/who"
    success = {{ text = '"in": true' }}
    """.replace("{{", "{").replace("}}", "}")
    variables = enter(county, folder, FORM + check.replace("{", "{{").replace("}", "}}")) | ANN
    await crawl(Plan(pages(county, 3)), folder, **variables)
    assert county.checks == 0
    await crawl(Plan(pages(county, 3)), folder, **variables)
    assert (county.checks, len(county.logins)) == (1, 1)
    county.expire()
    crawled = await crawl(Plan(pages(county, 3)), folder, **variables)
    assert statuses(crawled) == {200}
    assert (county.checks, len(county.logins)) == (2, 2)
    assert "expired/county" not in identity_stats(crawled)  # no page met the ended session


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
    files = [path for path in folder.rglob("*") if path.is_file()]
    holders = {path for path in files for secret in county.secrets if secret in path.read_text(errors="replace")}
    assert holders == {kept / "county.COUNTY.json"}
    assert stat.S_IMODE(kept.joinpath("county.COUNTY.json").stat().st_mode) == 0o600
    for password in ("correct-horse-1", "correct-horse-2"):
        assert password not in kept.joinpath("county.COUNTY.json").read_text()


async def test_cookies_go_to_the_sites_own_hosts_only(county: County, folder: Path) -> None:
    async with County() as other:
        crawled = await crawl(
            Plan([*pages(county, 3), *pages(other, 1), f"{other.url}/cookie"]),
            folder,
            **enter(county, folder, FORM) | ANN,
        )
        assert {seen.jar for seen in other.seen} == {""}
    assert len([result for result in crawled.results if result.status == 200]) == 3 + 2


async def test_missing_credentials_end_the_run_with_a_sentence(county: County, folder: Path) -> None:
    crawled = await crawl(Plan(pages(county, 3)), folder, **enter(county, folder, FORM))
    assert crawled.stats["harvester/exit_code"] == 2
    assert "HARVESTER_SESSION_COUNTY_USER" in crawled.log
    assert county.count("/page/0") == 0


async def test_crawl_without_identities_has_no_middleware_and_no_cookies(county: County, folder: Path) -> None:
    crawled = await crawl(Plan([f"{county.url}/cookie"]), folder, requests_per_second="0")
    assert statuses(crawled) == {200}
    assert {seen.jar for seen in county.seen} == {""}
    assert not (folder / ".harvester").exists()
