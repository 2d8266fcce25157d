"""The live page in a real browser: what it shows, what it does, and what it does not let through.

One controller and one Chromium serve all these tests.
"""

import asyncio
import gzip
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, StorageState, WebSocketRoute, expect
from pymongo import MongoClient
from redis.asyncio import Redis

from harvester.control.services.schedules import ScheduleService
from harvester.control.services.sites import SiteChange, Sites
from harvester.control.services.watching import Watching
from harvester.control.tokens import Scope, Tokens
from harvester.frontier.store import Frontier
from harvester.jobs.documents import ItemState, Job, JobState
from harvester.jobs.job_opener import give_items, open_job_of
from harvester.jobs.ledger import now
from harvester.jobs.listing import MOST_SEARCHED
from harvester.jobs.recurring import Standing
from harvester.jobs.schedules import Schedule
from harvester.jobs.scheduling import NewSchedule, Schedules
from harvester.jobs.service import JobService, by_state
from harvester.project import load_spider
from tests.control import labels
from tests.control.browsing import ControlRoom, Seen, chromium, logged_in, person, seed, service_of
from tests.control.services.test_dead_letters import bury

pytestmark = pytest.mark.asyncio(loop_scope="module")

expect.set_options(timeout=60_000)
VIEWS = (
    *("/", "/jobs", "/submit", "/sites", "/watched", "/schedules"),
    *("/runs", "/workers", "/records", "/dead-letters", "/settings"),
)
REASON = "the site asked us to"
MARKUP = "<img src=x onerror=window.hurt=1>"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, mongodb_uri: str, redis_url: str) -> Iterator[ControlRoom]:
    folder = tmp_path_factory.mktemp("up")
    database = f"test-{uuid4().hex[:12]}"
    variables = {
        "HARVESTER_MONGODB_URI": mongodb_uri,
        "HARVESTER_REDIS_URL": f"{redis_url.removesuffix('0')}{1 + uuid4().int % 15}",
        "HARVESTER_DATABASE": database,
        "SCRAPY_SETTINGS_MODULE": "tests.jobs.cli_settings",
    }
    with ControlRoom(folder, variables) as running:
        yield running
    with MongoClient[dict[str, Any]](mongodb_uri) as client:
        client.drop_database(database)
    shutil.rmtree(folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(room: ControlRoom) -> AsyncIterator[JobService]:
    async with service_of(room) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _logged_in(room: ControlRoom, browser: Browser) -> AsyncIterator[Seen]:
    """Somebody who opens one page after the other: what is loaded for one is there for all."""
    async with logged_in(browser, room.url, room.token) as somebody:
        yield somebody


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def login(_logged_in: Seen) -> StorageState:
    """What a browser keeps of a login."""
    return await _logged_in.page.context.storage_state()


@pytest_asyncio.fixture(loop_scope="module")
async def seen(_logged_in: Seen) -> AsyncIterator[Seen]:
    _logged_in.asked.clear()
    _logged_in.faults.clear()
    yield _logged_in
    await _logged_in.page.goto("about:blank")


@pytest.fixture(autouse=True)
def _spiders(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has the same."""
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.cli_settings")


def number(value: float) -> re.Pattern[str]:
    """Finds a number that stands alone in a text."""
    return re.compile(rf"(?<![\w.,]){re.escape(str(value))}(?![\w]|[.,]\d)")


def uploaded(name: str) -> re.Pattern[str]:
    """Finds the name of a file with its size, which is shown once all of it is there."""
    return re.compile(rf"{re.escape(name)}\b.*\d")


# Who may see anything -------------------------------------------------------------------------------------


async def test_a_browser_that_did_not_log_in_sees_no_page_and_opens_no_socket(
    room: ControlRoom, browser: Browser
) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{room.url}/jobs?state=open")
    assert page.url == f"{room.url}/login?next=%2Fjobs%3Fstate%3Dopen"
    answer = await context.request.get(f"{room.url}/_nicegui_ws/socket.io/?EIO=4&transport=polling")
    assert answer.status == 401
    await page.get_by_label("Token").fill("harvester_guessed")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    assert urlsplit(page.url).path == "/login"
    await page.get_by_label("Token").fill(room.token)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(f"{room.url}/jobs?state=open")
    await context.close()


async def test_the_link_that_is_printed_logs_one_browser_in_and_no_other(room: ControlRoom, browser: Browser) -> None:
    first, second = await browser.new_context(), await browser.new_context()
    page = await first.new_page()
    await page.goto(room.link)
    await page.wait_for_url(f"{room.url}/")
    [cookie] = await first.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    late = await second.new_page()
    await late.goto(room.link)
    await expect(late.get_by_role("alert")).to_be_visible()
    assert not await second.cookies()
    await first.close()
    await second.close()


async def test_a_login_leads_to_no_other_host(room: ControlRoom, seen: Seen) -> None:
    for away in ("https://evil.example/", "//evil.example", "/\\evil.example", "//["):
        await seen.page.goto(f"{room.url}/login?next={away}")
        await seen.page.get_by_label("Token").fill(room.token)
        await seen.page.get_by_role("button", name="Log in").click()
        await expect(seen.page, away).to_have_url(f"{room.url}/")


async def test_a_token_that_may_only_read_changes_nothing(
    room: ControlRoom, browser: Browser, service: JobService
) -> None:
    job = await seed(service, room.folder, ["1", "2"])
    _, token = await Tokens(service.database).add("a reader", Scope.READ)
    async with logged_in(browser, room.url, token) as reader:
        page = await reader.go(f"/jobs/{job.id}")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        await expect(page.get_by_role("alert").filter(has_text="scope operate")).to_be_visible()
    assert (await service.job(job.id)).state is JobState.OPEN


async def test_what_there_is_not_is_said_with_the_status_404(room: ControlRoom, seen: Seen) -> None:
    for path in ("/nothing", "/jobs/nothing", "/runs/nothing", "/records/nothing"):
        answer = await seen.page.goto(f"{room.url}{path}")
        assert answer
        assert answer.status == 404, path
        await expect(seen.page.get_by_role("main").get_by_role("alert")).to_be_visible()
    answer = await seen.page.goto(f"{room.url}/api/v1/nothing")
    assert answer
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")


# What comes from where ------------------------------------------------------------------------------------


async def test_every_page_names_its_fields_asks_no_other_host_and_keeps_its_policy(
    room: ControlRoom, seen: Seen, service: JobService
) -> None:
    job = await seed(service, room.folder, ["11"], {"blocked": ["11"]})
    for path in (*VIEWS, f"/jobs/{job.id}"):
        answer = await seen.page.goto(f"{room.url}{path}")
        assert answer
        assert answer.status == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self' 'nonce-" in policy
        await seen.page.wait_for_function("window.did_handshake")
        assert await seen.page.get_by_role("heading", level=1).count() == 1
        assert await seen.page.evaluate(NAMELESS) == [], path
        assert await seen.page.get_by_role("navigation", name="Views").count() == 1, path
        assert await seen.page.get_by_role("main").count() == 1
    assert {urlsplit(url).netloc for url in seen.asked if not url.startswith("data:")} == {urlsplit(room.url).netloc}
    assert seen.faults == []


NAMELESS = """() => [...document.querySelectorAll("input, textarea, button, a[href], select, img")]
    .filter((each) => each.checkVisibility() && each.type !== "file" && !each.closest("[aria-hidden=true]"))
    .filter((each) => {
        const labels = each.labels ? [...each.labels].map((label) => label.textContent.trim()).join("") : "";
        return !(each.ariaLabel || each.alt || each.title || labels || each.textContent.trim());
    })
    .map((each) => each.outerHTML.slice(0, 200))"""


async def test_text_that_was_harvested_is_never_html(room: ControlRoom, seen: Seen, service: JobService) -> None:
    job = await seed(service, room.folder, ["7"], {"blocked": ["7"]}, name=MARKUP)
    hurting = {"key": MARKUP, "reason": f"</script><script>window.hurt=1</script>{MARKUP}", "stage": "${window.hurt=1}"}
    hurting["site"] = "{{ window.hurt = 1 }}"
    await service.ledger.items.update_one({"job": job.id}, {"$set": hurting})
    item = await service.ledger.items.find_one({"job": job.id})
    assert item
    for path in ("/", "/jobs", f"/jobs/{job.id}", f"/jobs/{job.id}/items?item={item['_id']}", f"/jobs/{MARKUP}"):
        page = await seen.go(path)
        await expect(page.get_by_text(MARKUP).first).to_be_visible()
        assert await page.evaluate("window.hurt") is None, path


# Journeys -------------------------------------------------------------------------------------------------


async def test_somebody_finds_a_failed_item_and_reads_its_history(
    room: ControlRoom, seen: Seen, service: JobService
) -> None:
    job = await seed(service, room.folder, [str(n) for n in range(100, 160)], {"blocked": ["123"], "timeout": ["124"]})
    page = await seen.go("/jobs")
    await page.get_by_role("link", name=job.id, exact=True).click()
    await page.wait_for_function("window.did_handshake")
    await page.get_by_role("link", name="blocked").first.click()
    await page.wait_for_url(f"{room.url}/jobs/{job.id}?outcome=blocked")
    items = page.get_by_role("region", name="Items").get_by_role("table")
    await expect(items.get_by_role("row")).to_have_count(2)
    await items.get_by_role("link", name="123").click()
    attempts = page.get_by_role("region", name="Attempts").get_by_role("table")
    await expect(attempts.get_by_role("row").nth(1)).to_contain_text("blocked")


async def test_a_filter_stands_in_the_address_and_a_link_to_it_shows_the_same(
    room: ControlRoom, seen: Seen, service: JobService, browser: Browser, login: StorageState
) -> None:
    keys = [str(n) for n in range(1000, 1120)]
    job = await seed(service, room.folder, keys, {"blocked": ["1003"]})
    page = await seen.go(f"/jobs/{job.id}")
    await page.get_by_label(labels.IN_ITEM).fill("100")
    await page.get_by_label(labels.IN_ITEM).press("Enter")
    items = page.get_by_role("region", name="Items").get_by_role("table")
    await expect(items.get_by_role("row")).to_have_count(12)
    await expect(page).to_have_url(f"{room.url}/jobs/{job.id}?text=100")
    async with person(browser, room.url, storage_state=login) as other:
        there = await other.go(urlsplit(page.url).path + "?" + urlsplit(page.url).query)
        rows = there.get_by_role("region", name="Items").get_by_role("table").get_by_role("row")
        await expect(rows).to_have_count(12)


async def test_what_few_items_of_a_large_job_hold_is_found_wherever_it_is(
    room: ControlRoom, seen: Seen, service: JobService
) -> None:
    job = await seed(service, room.folder, [str(n) for n in range(MOST_SEARCHED + 500)])
    items = service.ledger.items
    for order in (1, -1):
        item = await items.find_one({"job": job.id}, sort=[("_id", order)])
        assert item
        await items.update_one({"_id": item["_id"]}, {"$set": {"reason": "a rare reason"}})
    page = await seen.go(f"/jobs/{job.id}?text=rare+reason")
    rows = page.get_by_role("region", name="Items").get_by_role("row")
    await expect(rows).to_have_count(3)
    await page.get_by_label(labels.IN_ITEM).fill("no such reason")
    await page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_count(0)
    await page.get_by_label(labels.IN_ITEM).fill("A RARE")
    await page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_count(3)
    await expect(page.get_by_role("region", name="Items")).not_to_contain_text("so far")


async def test_a_group_is_retried_and_never_more_than_the_number_that_was_shown(
    room: ControlRoom, seen: Seen, service: JobService
) -> None:
    keys = [str(n) for n in range(200, 230)]
    job = await seed(service, room.folder, keys, {"blocked": keys[:5], "timeout": keys[5:9]})
    page = await seen.go(f"/jobs/{job.id}")
    await page.get_by_role("button", name="Retry 5 items with blocked").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(number(5))
    await expect(dialog).to_contain_text("blocked")
    more = {"$set": {"state": ItemState.FAILED, "outcome": "blocked", "updated_at": service.ledger.now()}}
    await service.ledger.items.update_many({"job": job.id, "key": {"$in": keys[9:20]}}, more)
    await dialog.get_by_role("button", name="Retry 5").click()
    begun = page.get_by_role("region", name="Outcomes").get_by_role("table").nth(1)
    await expect(begun.get_by_role("row").nth(1)).to_contain_text("done")
    await service.ledger.counting.count(job.id)
    assert by_state(await service.job(job.id)) == {ItemState.FAILED: 4 + 11, ItemState.WAITING: 10 + 5}


async def test_a_job_is_paused_and_two_browsers_see_it_and_the_undo(
    room: ControlRoom, seen: Seen, service: JobService, browser: Browser, login: StorageState
) -> None:
    job = await seed(service, room.folder, ["31", "32"])
    async with person(browser, room.url, storage_state=login) as other:
        page, there = await seen.go(f"/jobs/{job.id}"), await other.go(f"/jobs/{job.id}")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await page.get_by_label(labels.WHY).fill(REASON)
        await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        for each in (page, there):
            await expect(each.get_by_text(REASON)).to_be_visible()
            await expect(each.get_by_role("button", name="Resume")).to_be_visible()
        assert (await service.job(job.id)).state is JobState.PAUSED
        await page.get_by_role("button", name="Undo").click()
        for each in (page, there):
            await expect(each.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        assert (await service.job(job.id)).state is JobState.OPEN
        await page.get_by_role("button", name="Undo").click()
        for each in (page, there):
            await expect(each.get_by_text(REASON)).to_be_visible()
        assert (await service.job(job.id)).pause_reason == REASON
    lines = [line.action async for line in _audit(service)]
    assert lines[-2:] == ["resume_job", "pause_job"]


async def test_a_job_is_cancelled_after_a_question_that_says_how_many_items_it_skips(
    room: ControlRoom, seen: Seen, service: JobService
) -> None:
    job = await seed(service, room.folder, ["81", "82", "83"], {"blocked": ["81"]})
    page = await seen.go(f"/jobs/{job.id}")
    await page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(number(2))
    await dialog.get_by_role("button", name="Leave it").click()
    await expect(dialog).to_have_count(0)
    assert (await service.job(job.id)).state is JobState.OPEN
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await dialog.get_by_role("button", name="Cancel the job").click()
    bar = page.get_by_role("region", name="States").get_by_role("img")
    await expect(bar).to_have_attribute("aria-label", "waiting 0, active 0, done 0, failed 1, skipped 2")
    assert (await service.job(job.id)).state is JobState.CANCELLED


async def _audit(service: JobService) -> AsyncIterator[Any]:
    from harvester.control.audit import Audit

    for line in reversed(await Audit(service.database).latest(2)):
        yield line


async def test_what_a_job_is_and_its_counts_move_on_a_page_that_nobody_touches(
    room: ControlRoom, seen: Seen, service: JobService
) -> None:
    job = await seed(service, room.folder, [str(n) for n in range(40, 50)])
    page = await seen.go(f"/jobs/{job.id}")
    states = page.get_by_role("region", name="States")
    await expect(states.get_by_role("img")).to_have_attribute(
        "aria-label", "waiting 10, active 0, done 0, failed 0, skipped 0"
    )
    done = {"$set": {"state": ItemState.DONE, "outcome": "ok"}}
    await service.ledger.items.update_many({"job": job.id, "key": {"$in": ["40", "41", "42"]}}, done)
    await expect(states.get_by_role("img")).to_have_attribute(
        "aria-label", "waiting 7, active 0, done 3, failed 0, skipped 0"
    )
    await service.ledger.set_job(job.id, incomplete=True)
    await expect(states).to_contain_text("not all")


async def test_a_page_whose_socket_comes_late_shows_what_changed_meanwhile(
    room: ControlRoom, seen: Seen, service: JobService, browser: Browser, login: StorageState
) -> None:
    may_connect = asyncio.Event()

    async def later(socket: WebSocketRoute) -> None:
        await may_connect.wait()
        socket.connect_to_server()

    async with person(browser, room.url, storage_state=login) as other:
        await other.page.route_web_socket("**/_nicegui_ws/**", later)
        await other.page.goto(f"{room.url}/jobs")
        page = await seen.go("/jobs")
        job = await seed(service, room.folder, ["61", "62"])
        for each in (page, other.page):
            await expect(each.get_by_role("link", name=job.id)).to_be_visible()
            may_connect.set()


async def test_a_page_whose_token_is_revoked_asks_for_another(
    room: ControlRoom, browser: Browser, service: JobService
) -> None:
    tokens = Tokens(service.database)
    token, text = await tokens.add("somebody for an hour", Scope.READ)
    async with logged_in(browser, room.url, text) as reader:
        page = await reader.go("/jobs")
        await tokens.revoke(token.id)
        await page.wait_for_url(f"{room.url}/login?next=%2Fjobs")


async def test_trouble_is_told_on_the_pages_it_is_about_and_says_since_when(
    room: ControlRoom, seen: Seen, service: JobService, browser: Browser, login: StorageState
) -> None:
    job = await seed(service, room.folder, ["63"])
    async with person(browser, room.url, storage_state=login) as other:
        page, jobs = await seen.go(f"/jobs/{job.id}"), await other.go("/jobs")
        await service.ledger.jobs.delete_one({"_id": job.id})
        old = page.get_by_role("alert").filter(has_text=job.id)
        await expect(old).to_contain_text(re.compile(r"\d\d:\d\d:\d\d"))
        said = await old.text_content()
        later = await seed(service, room.folder, ["64"])
        await expect(jobs.get_by_role("link", name=later.id)).to_be_visible()
        assert await jobs.get_by_role("alert").count() == 0
        assert await old.text_content() == said


async def test_the_keyboard_is_enough(room: ControlRoom, seen: Seen, service: JobService) -> None:
    job = await seed(service, room.folder, ["51"], {"blocked": ["51"]})
    page = await seen.go("/jobs")
    first = page.get_by_role("row").nth(1)
    await expect(first).to_contain_text(job.id)  # a list that was read before it came is shown for a moment
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    await expect(first).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.get_by_label("Spider")).to_be_focused()
    await page.keyboard.press("Escape")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/jobs/{job.id}")
    await page.wait_for_function("window.did_handshake")
    await page.keyboard.press("r")
    await expect(page.get_by_role("dialog")).to_contain_text(number(1))


async def test_items_are_pasted_and_lines_that_cannot_be_used_are_named(seen: Seen, service: JobService) -> None:
    page = await seen.go("/submit?spider=parcels")
    await page.get_by_role("button", name="Submit", exact=True).click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_label(labels.ITEMS_FIELD).fill("61\n62\nnone\n")
    await page.get_by_label(labels.JOB_NAME).fill("from the page")
    await page.get_by_role("button", name="Submit", exact=True).click()
    answer = page.get_by_role("status", name="Answer")
    await expect(answer).to_contain_text(number(2))
    await expect(answer).to_contain_text("'none'")
    [job] = [each for each in await service.jobs() if each.name == "from the page"]
    assert by_state(job) == {ItemState.WAITING: 2}


async def test_what_is_pasted_may_be_a_table(seen: Seen, service: JobService) -> None:
    page = await seen.go("/submit?spider=parcels")
    await choose(page, labels.FORMAT, "CSV with a header")
    await page.get_by_label(labels.ITEMS_FIELD).fill("key,note\n68,a\n69,b\n")
    await page.get_by_role("button", name="Submit", exact=True).click()
    await page.wait_for_url("**/jobs/parcels-*")
    [job] = await service.jobs(most=1)
    items = await service.ledger.items.find({"job": job.id}).sort("key").to_list()
    assert [(item["key"], item["input"]) for item in items] == [
        ("68", {"key": "68", "note": "a"}),
        ("69", {"key": "69", "note": "b"}),
    ]


async def test_a_number_that_none_can_be_makes_no_job(seen: Seen, service: JobService) -> None:
    before = await service.jobs(most=1)
    for field, texts in (("Priority", ("1.5", "1e12")), (labels.MOST_ITEMS, ("0", "-3", "0.5"))):
        for text in texts:
            page = await seen.go("/submit?spider=parcels")
            await page.get_by_label(labels.ITEMS_FIELD).fill("75")
            await page.get_by_label(field).fill(text)
            await page.get_by_label(field).press("Tab")
            await page.get_by_role("button", name="Submit", exact=True).click()
            await expect(page.get_by_text("whole number"), f"{field}: {text}").to_be_visible()
    assert [each.id for each in await service.jobs(most=1)] == [each.id for each in before]


@pytest.mark.parametrize("name", ["parcels.csv", "parcels.2024-01.csv.gz"])
async def test_a_file_is_uploaded(seen: Seen, service: JobService, tmp_path: Path, name: str) -> None:
    path, lines = tmp_path / name, b"key,note\n71,a\n72,b\n73,c\n"
    path.write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    page = await seen.go("/submit?spider=parcels")
    for _ in range(2):
        async with page.expect_file_chooser() as chosen:
            await page.get_by_role("button", name=labels.UPLOAD).click()
        async with page.expect_response("**/upload/**"):
            await (await chosen.value).set_files(path)
        await expect(page.get_by_text(uploaded(name))).to_be_visible()
    await page.get_by_role("button", name="Submit", exact=True).click()
    await page.wait_for_url("**/jobs/parcels-*")
    assert by_state((await service.jobs(most=1))[0]) == {ItemState.WAITING: 3}


async def test_a_file_that_cannot_be_read_is_named_as_whoever_uploads_it_knows_it(seen: Seen, tmp_path: Path) -> None:
    path = tmp_path / "parcels.csv"
    path.write_bytes("ключ,n\nkey-76,2\n".encode("utf-16-le"))
    page = await seen.go("/submit?spider=parcels")
    async with page.expect_file_chooser() as chosen:
        await page.get_by_role("button", name=labels.UPLOAD).click()
    await (await chosen.value).set_files(path)
    await expect(page.get_by_text(uploaded(path.name))).to_be_visible()
    await page.get_by_role("button", name="Submit", exact=True).click()
    said = page.get_by_role("alert").filter(has_text=path.name).filter(has_text="UTF-16LE")
    await expect(said).to_be_visible()


async def test_a_file_that_is_not_taken_is_told_why_and_may_be_uploaded_again(
    room: ControlRoom, browser: Browser, service: JobService, tmp_path: Path
) -> None:
    _, token = await Tokens(service.database).add("a reader with a file", Scope.READ)
    path = tmp_path / "parcels.txt"
    path.write_text("74\n")
    async with logged_in(browser, room.url, token) as seen:
        page = await seen.go("/submit?spider=parcels")
        for _ in range(2):
            async with page.expect_file_chooser() as chosen:
                await page.get_by_role("button", name=labels.UPLOAD).click()
            await (await chosen.value).set_files(path)
            told = page.get_by_role("alert").filter(has_text="scope operate")
            await told.click()
            await page.get_by_role("button", name="Close").click()
            await expect(told).to_have_count(0)


async def test_what_a_narrow_screen_shows_needs_no_scrolling_sideways(
    room: ControlRoom, browser: Browser, login: StorageState, service: JobService
) -> None:
    await ScheduleService(service).add(NewSchedule("with-buttons-beside-it", "parcels", cron="@daily", paused=True))
    async with person(browser, room.url, storage_state=login, viewport={"width": 380, "height": 700}) as narrow:
        for dark in (False, True):
            await narrow.page.emulate_media(color_scheme="dark" if dark else "light")
            for path in ("/", "/jobs", "/schedules", "/submit"):
                page = await narrow.go(path)
                assert await page.evaluate("document.documentElement.scrollWidth") <= 380, path
            ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == ("rgb(18, 23, 30)" if dark else "rgb(246, 247, 249)")


async def test_a_page_says_that_it_is_old_when_the_controller_is_gone(
    room: ControlRoom, browser: Browser, service: JobService, tmp_path: Path
) -> None:
    tmp_path.joinpath("other").mkdir()
    with ControlRoom(tmp_path / "other", {**room.variables}) as other:
        async with logged_in(browser, other.url, other.token) as there:
            page: Page = await there.go("/jobs")
            await expect(page.locator("#lost")).to_be_hidden()
            os.kill(other.pid, 9)
            await expect(page.locator("#lost")).to_be_visible()
    await asyncio.sleep(0)


# Sites, schedules, dead letters ---------------------------------------------------------------------------


async def test_a_site_is_asked_again_and_that_is_undone(room: ControlRoom, seen: Seen, service: JobService) -> None:
    sites = Sites(service)
    await sites.change("parcels", "oak.example", SiteChange("held", reason=REASON), "somebody")
    page = await seen.go("/sites")
    row = page.get_by_role("row").filter(has_text="oak.example")
    await expect(row).to_contain_text(REASON)
    await row.get_by_role("button", name="Close").click()
    await page.get_by_role("dialog").get_by_role("button", name="Close").click()
    await expect(page.get_by_role("status").filter(has_text="oak.example")).to_contain_text("closed")
    assert await breakers(sites) in ({}, {"oak.example": "closed"})
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("status").filter(has_text="oak.example")).to_contain_text("held")
    assert await breakers(sites) == {"oak.example": "held"}


async def test_a_site_is_left_alone_until_a_time_and_that_is_undone(seen: Seen, service: JobService) -> None:
    sites = Sites(service)
    await sites.change("parcels", "elm.example", SiteChange("held", reason="as yesterday"), "somebody")
    page = await seen.go("/sites")
    row = page.get_by_role("row").filter(has_text="elm.example")
    await row.get_by_role("button", name="Open").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label(labels.UNTIL)).to_be_focused()
    for wrong, said in (("soon", "'soon'"), ("2020-01-31 07:00", "year")):
        await dialog.get_by_label(labels.UNTIL).fill(wrong)
        await dialog.get_by_label(labels.WHY).fill("their night")
        await dialog.get_by_role("button", name="Open").click()
        await expect(dialog.get_by_role("alert")).to_contain_text(said)
        await expect(dialog.get_by_label(labels.UNTIL)).to_have_value(wrong)
        await expect(dialog.get_by_label(labels.WHY)).to_have_value("their night")
    assert (await breakers(sites))["elm.example"] == "held"
    then = now().replace(microsecond=0) + timedelta(hours=30)
    await dialog.get_by_label(labels.UNTIL).fill(f"{then:%Y-%m-%d %H:%M:%S}")
    await dialog.get_by_label(labels.UNTIL).press("Enter")
    await expect(page.get_by_role("status").filter(has_text="elm.example")).to_contain_text("open")
    await expect(row).to_contain_text("their night")
    [site] = [each for each in (await sites.list("parcels")).sites if each.site == "elm.example"]
    assert site.state == "open"
    assert site.until
    assert abs(site.until - then) < timedelta(seconds=5)
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_contain_text("as yesterday")
    assert (await breakers(sites))["elm.example"] == "held"
    assert [line.action async for line in _audit(service)] == ["breaker_open", "breaker_held"]
    await sites.change("parcels", "elm.example", SiteChange("closed"), "somebody")


async def breakers(sites: Sites) -> dict[str, str]:
    return {site.site: site.state for site in (await sites.list("parcels")).sites}


async def test_a_schedule_is_paused_and_that_is_undone(seen: Seen, service: JobService) -> None:
    schedules, begun = ScheduleService(service), now()
    later = begun + timedelta(hours=1)
    hourly = Schedule(id="hourly", spider="parcels", every_s=3600, created_at=begun, next_at=later)
    await Schedules(service.ledger).add(hourly)
    page = await seen.go("/schedules")
    await expect(page.get_by_role("region", name=labels.COMING_DAY)).to_contain_text("hourly")
    await page.get_by_role("button", name="Pause hourly").click()
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("button", name="Resume hourly")).to_be_visible()
    assert (await schedules.show("hourly")).schedule.paused
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("button", name="Pause hourly")).to_be_visible()
    assert not (await schedules.show("hourly")).schedule.paused
    await schedules.remove("hourly")


async def test_a_schedule_is_added_and_what_was_typed_stays_until_it_can_be(seen: Seen, service: JobService) -> None:
    schedules = ScheduleService(service)
    page = await seen.go("/schedules")
    await page.get_by_text(labels.ADD_SCHEDULE).click()
    await choose(page, "Spider", "parcels")
    await choose(page, "county", "elm")
    await page.get_by_label(labels.SCHEDULE_NAME).fill("weekly")
    add = page.get_by_role("button", name="Add", exact=True)
    await add.click()
    said = page.get_by_role("alert").filter(visible=True)
    await expect(said).to_be_visible()
    await page.get_by_label("Cron", exact=True).fill("every monday")
    await page.get_by_label("Time zone").fill("Europe/Berlin")
    await add.click()
    await expect(page.get_by_role("alert").filter(has_text="'every monday'")).to_be_visible()
    await expect(page.get_by_label(labels.SCHEDULE_NAME)).to_have_value("weekly")
    await expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    await page.get_by_label("Cron", exact=True).fill("0 3 * * 1")
    await page.get_by_label("Cron", exact=True).press("Enter")
    row = page.get_by_role("region", name="Schedules").get_by_role("row").filter(has_text="weekly")
    await expect(row).to_contain_text("cron 0 3 * * 1 (Europe/Berlin)")
    added = (await schedules.show("weekly")).schedule
    assert (added.spider, added.arguments, added.zone) == ("parcels", {"county": "elm"}, "Europe/Berlin")
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_have_count(0)
    assert "weekly" not in [each.schedule.id for each in await schedules.list()]
    assert [line.action async for line in _audit(service)] == ["add_schedule", "remove_schedule"]


async def choose(page: Page, label: str, option: str) -> None:
    """Until the list is gone, which takes the focus back when it goes: what was being typed then would be lost."""
    await page.get_by_label(label).click()
    await page.get_by_role("option", name=option, exact=True).click()
    await expect(page.locator("[id^='q-portal--menu']")).to_have_count(0)


async def test_the_times_of_a_schedule_are_changed_and_that_is_undone(seen: Seen, service: JobService) -> None:
    schedules = ScheduleService(service)
    await schedules.add(NewSchedule("daily", "parcels", cron="@daily", zone="Asia/Tokyo"))
    page = await seen.go("/schedules")
    row = page.get_by_role("region", name="Schedules").get_by_role("row").filter(has_text="daily")
    await page.get_by_role("button", name="Change daily").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Cron", exact=True)).to_have_value("0 0 * * *")
    await dialog.get_by_label("Cron", exact=True).fill("")
    await dialog.get_by_label("Every").fill("6x")
    await dialog.get_by_role("button", name="Change").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("every: '6x'")
    await dialog.get_by_label("Every").fill("6h")
    await dialog.get_by_role("button", name="Change").click()
    await expect(row).to_contain_text("every 6h")
    assert (await schedules.show("daily")).when == "every 6h"
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_contain_text("cron 0 0 * * * (Asia/Tokyo)")
    await schedules.remove("daily")


async def test_a_schedule_is_removed_after_a_question_and_its_undo_adds_it_again(
    room: ControlRoom, seen: Seen, service: JobService, browser: Browser
) -> None:
    schedules = ScheduleService(service)
    wanted = NewSchedule("monthly", "parcels", {"county": "elm"}, cron="@monthly", paused=True)
    await schedules.add(wanted)
    _, token = await Tokens(service.database).add("a reader", Scope.READ)
    async with logged_in(browser, room.url, token) as reader:
        await remove(await reader.go("/schedules"))
        await expect(reader.page.get_by_role("alert").filter(has_text="scope operate")).to_be_visible()
    page = await seen.go("/schedules")
    row = page.get_by_role("row").filter(has_text="monthly")
    await remove(page)
    await expect(row).to_have_count(0)
    assert "monthly" not in [each.schedule.id for each in await schedules.list()]
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_be_visible()
    again = (await schedules.show("monthly")).schedule
    assert (again.arguments, again.cron, again.paused) == ({"county": "elm"}, "0 0 1 * *", True)
    await schedules.remove("monthly")


async def remove(page: Page) -> None:
    await page.get_by_role("button", name="Remove monthly").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()


async def standing_job(service: JobService, *keys: str) -> Job:
    """Of `notices`, with these pages, in a job of its own."""
    spider: Any = load_spider("notices")
    arguments = spider.parse_arguments({"pages": ",".join(keys)})
    job, _ = await open_job_of(service.ledger, spider, arguments, uuid4().hex)
    await give_items(service.ledger, spider, job, spider.first_items(arguments))
    return job


async def fail(service: JobService, job: Job, *keys: str, **fields: Any) -> None:
    failed = {"state": ItemState.FAILED, "failures": 10, "reason": "HTTP 500", **fields}
    await service.ledger.items.update_many({"job": job.id, "key": {"$in": list(keys)}}, {"$set": failed})


async def standings(service: JobService, job: Job) -> dict[str, Standing]:
    return {each.name: each.standing for each in (await Watching(service).list(job=job.id)).items}


async def test_feeds_are_found_by_how_they_stand(
    room: ControlRoom, seen: Seen, service: JobService, browser: Browser, login: StorageState
) -> None:
    job = await standing_job(service, "https://a.found/", "https://b.found/", "https://c.other/")
    await fail(service, job, "https://b.found/", "https://c.other/")
    page = await seen.go("/watched")
    await choose(page, labels.HOW_IT_STANDS, "permanently failed")
    await page.get_by_label(labels.IN_WATCHED).fill(".found")
    await page.get_by_label(labels.IN_WATCHED).press("Enter")
    await page.wait_for_url(f"{room.url}/watched?standing=PERMANENTLY_FAILED&text=.found")
    async with person(browser, room.url, storage_state=login) as other:
        for there in (page, await other.go("/watched?standing=PERMANENTLY_FAILED&text=.found")):
            rows = there.get_by_role("region", name=labels.WATCHED).get_by_role("row")
            await expect(rows).to_have_count(2)
            await expect(rows.nth(1)).to_contain_text("https://b.found/")
            await expect(rows.nth(1)).to_contain_text("HTTP 500")
    await service.cancel(job.id)


async def test_a_feed_is_added_looked_at_more_often_and_removed_and_each_is_undone(
    seen: Seen, service: JobService
) -> None:
    job = await standing_job(service, "https://a.change/")
    page = await seen.go("/watched?text=.change")
    await page.get_by_text(labels.ADD_WATCHED).click()
    await choose(page, "Standing job", job.id)
    await page.get_by_label(labels.FEED_ADDRESS).fill("b")
    await page.get_by_label("Input").fill("url = https")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.get_by_role("alert").filter(visible=True)).to_be_visible()
    await expect(page.get_by_label(labels.FEED_ADDRESS)).to_have_value("b")
    await page.get_by_label("Input").fill('url = "https://b.change/"\ndepth = 2')
    await page.get_by_role("button", name="Add", exact=True).click()
    row = page.get_by_role("row").filter(has_text="https://b.change/")
    await expect(row).to_contain_text("waiting")
    item = await service.ledger.items.find_one({"job": job.id, "key": "https://b.change/"})
    assert item
    assert item["input"] == {"url": "https://b.change/", "depth": 2}
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_contain_text("removed")
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_contain_text("waiting")

    await row.get_by_role("button", name="How often").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(labels.HOW_MANY_TIMES).fill("often")
    await dialog.get_by_role("button", name="Change").click()
    await expect(dialog.get_by_role("alert")).to_contain_text(re.compile(r"'often'.*\b0\.01\b.*\b100\b"))
    await dialog.get_by_label(labels.HOW_MANY_TIMES).fill("0.5")
    await dialog.get_by_role("button", name="Change").click()
    await expect(row).to_contain_text(number(0.5))
    await page.get_by_role("button", name="Undo").click()
    await expect(row.get_by_text("every 1h", exact=True)).to_be_visible()

    await row.get_by_role("button", name="Remove").click()
    await dialog.get_by_role("button", name="Remove").click()
    await expect(row).to_contain_text("removed")
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_contain_text("waiting")
    assert await standings(service, job) == dict.fromkeys(("https://a.change/", "https://b.change/"), Standing.WAITING)
    assert [line.action async for line in _audit(service)] == ["remove_watched", "add_watched"]
    await service.cancel(job.id)


async def test_all_feeds_that_failed_are_restarted_and_never_more_than_the_number_that_was_shown(
    seen: Seen, service: JobService
) -> None:
    keys = [f"https://{name}.restart/" for name in "abcd"]
    job = await standing_job(service, *keys)
    await fail(service, job, *keys[:2])
    page = await seen.go("/watched?spider=notices&text=.restart")
    await page.get_by_role("button", name=labels.RESTART_ALL).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(number(2))
    await fail(service, job, keys[2])
    await dialog.get_by_role("button", name="Restart 2").click()
    await expect(page.get_by_role("alert").filter(has_text=number(2))).to_be_visible()
    assert [*(await standings(service, job)).values()].count(Standing.PERMANENTLY_FAILED) == 3
    await page.get_by_role("button", name=f"Restart {keys[2]}").click()
    await dialog.get_by_role("button", name="Restart").click()
    await expect(page.get_by_role("row").filter(has_text=keys[2])).to_contain_text("waiting")
    assert [*(await standings(service, job)).values()].count(Standing.PERMANENTLY_FAILED) == 2
    await page.get_by_role("button", name=labels.RESTART_ALL).click()
    await dialog.get_by_role("button", name="Restart 2").click()
    await expect(page.get_by_role("status").filter(has_text=number(2))).to_be_visible()
    assert await standings(service, job) == dict.fromkeys(keys, Standing.WAITING)
    await service.cancel(job.id)


async def test_dead_letters_are_requeued_by_reason_if_they_are_no_more_than_was_shown(
    room: ControlRoom, seen: Seen, service: JobService
) -> None:
    async with Redis.from_url(room.variables["HARVESTER_REDIS_URL"]) as redis:
        frontier = Frontier(redis, "parcels", service.config.database)
        await bury(frontier, "timeout", "no answer in 30 s", "no answer in 31 s")
        page = await seen.go("/dead-letters?spider=parcels")
        await expect(page.get_by_role("region", name="Letters").get_by_role("row")).to_have_count(3)
        await page.get_by_role("button", name="Requeue 2 dead letters with timeout").click()
        await page.get_by_role("dialog").get_by_role("button", name="Requeue 2").click()
        await expect(page.get_by_role("status").filter(has_text="parcels")).to_contain_text(number(2))
        assert (await frontier.status()).dead == 0


# Tokens ---------------------------------------------------------------------------------------------------


async def test_an_administrator_makes_a_token_that_is_shown_once_and_revokes_it(
    room: ControlRoom, seen: Seen, service: JobService, browser: Browser
) -> None:
    tokens = Tokens(service.database)
    page = await seen.go("/settings")
    await page.get_by_text(labels.MAKE_TOKEN).click()
    await page.get_by_label(labels.TOKEN_NAME).fill("Ann")
    await choose(page, labels.TOKEN_SCOPE, "operate")
    await page.get_by_label(labels.TOKEN_DAYS).fill("soon")
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("alert").filter(has_text="3,650")).to_be_visible()
    await expect(page.get_by_label(labels.TOKEN_NAME)).to_have_value("Ann")
    await page.get_by_label(labels.TOKEN_DAYS).fill("90")
    await page.get_by_role("button", name="Make it").click()
    dialog = page.get_by_role("dialog")
    text = await dialog.locator("pre").text_content() or ""
    token = await tokens.holder(text)
    assert token
    assert (token.name, token.scope) == ("Ann", Scope.OPERATE)
    assert token.expires_at == token.created_at + timedelta(days=90)
    await page.keyboard.press("Escape")
    await dialog.get_by_role("button", name=labels.COPIED).click()
    await expect(dialog).to_have_count(0)
    row = page.get_by_role("region", name="Tokens").get_by_role("row").filter(has_text="Ann")
    await expect(row).to_contain_text("operate")
    secret = text.rpartition("_")[2]
    assert secret not in await page.content()
    page = await seen.go("/settings")
    assert secret not in await page.content()

    async with logged_in(browser, room.url, text) as ann:
        there = await ann.go("/settings")
        await expect(there.get_by_text("scope admin")).to_be_visible()
        await expect(there.get_by_text(labels.MAKE_TOKEN)).to_have_count(0)
        await expect(there.get_by_role("table")).to_have_count(0)
        await page.get_by_role("button", name="Revoke Ann").click()
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await expect(row).to_have_count(0)
        await there.wait_for_url(f"{room.url}/login?next=%2Fsettings")
    assert await tokens.holder(text) is None
    assert [line.action async for line in _audit(service)] == ["add_token", "revoke_token"]
