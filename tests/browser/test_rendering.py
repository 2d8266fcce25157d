"""What a browser shows of a page reaches the callback, with what the page itself fetched."""

import asyncio
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harvester.sites.recording import parse_flow
from harvester.spiders.flow import request_of
from tests.browser import crawl as browser
from tests.browser.crawl import Plan, Wish, crawl, end, start
from tests.browser.killing import until
from tests.browser.site import ITEMS, SHEETS, JavaScriptSite

GLOBS = ("*/data/1?filter[kind]=*", "*/data/1?filter[dnik]=*", "*/data?1*", "*/data/1[?]filter*")
NAMES = {"Authorization": "Bearer t1", "X-Key": "k2"}
PATHS = ("leads-away", "moved/5", "list/6#/in", "a/../list/7", "list/8?")


def wish(url: str, **rendering: Any) -> Wish:
    return Wish(url, {"render": True, "rendering": rendering} if rendering else {"render": True})


class Crawled(NamedTuple):
    """A crawl that several tests read, and what its sites saw."""

    done: browser.Crawled
    site: JavaScriptSite
    county: JavaScriptSite
    """It has an entry of its own."""
    named: JavaScriptSite
    """Is asked with headers that name who asks, and leads to the one below."""
    other: JavaScriptSite


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    """Pages that all come to their end, with one browser for all."""
    return asyncio.run(crawl_all(tmp_path_factory.mktemp("crawled")))


async def crawl_all(folder: Path) -> Crawled:
    (folder / "sites").mkdir()
    async with (
        JavaScriptSite() as site,
        JavaScriptSite() as county,
        JavaScriptSite() as named,
        JavaScriptSite() as other,
    ):
        (folder / "sites" / "here.toml").write_text(
            f"""[county]
hosts = ["{county.url.removeprefix("http://")}"]
[county.browser]
render = true
device = "mobile"
locale = "de-DE"
time_zone = "America/New_York"
steps = [{{wait_for = "body"}}]
"""
        )
        named.elsewhere = f"{other.url}/list/1"
        captured = {"steps": [{"wait_for": "#ready"}], "capture": ["*/data/*"]}
        ready = {"render": True, "rendering": {"steps": [{"wait_for": "#ready"}]}}
        plan = Plan(
            [
                wish(f"{site.url}/list/1", **captured),
                Wish(f"{site.url}/list/2"),
                wish(f"{site.url}/json"),
                wish(f"{site.url}/endless", steps=[{"scroll": "end", "timeout_s": 40}], capture=["*/sheet/*"]),
                wish(f"{site.url}/endless?until", steps=[{"until": "#last", "timeout_s": 40}]),
                wish(f"{site.url}/endless?few", steps=[{"scroll": "end"}], capture=["*/sheet/*"], most_captured=3),
                wish(f"{site.url}/forbidden"),
                wish(f"{site.url}/nothing", steps=[{"wait_for": "#ready"}]),
                wish(f"{site.url}/sends", **captured),
                *(
                    wish(f"{site.url}/sends/{number}", **captured | {"capture": [glob]})
                    for number, glob in enumerate(GLOBS)
                ),
                wish(f"{site.url}/long-length", steps=[{"wait_for": "#ready"}]),
                wish(f"{site.url}/pages", **captured | {"steps": [{"captured": "*/data/*"}]}),
                Wish(f"{county.url}/who"),
                Wish(f"{county.url}/list/3", {"render": False}),
                *(Wish(f"{named.url}/{path}", ready, NAMES) for path in PATHS),
            ]
        )
        done = await crawl(plan, folder, sites_dir=str(folder / "sites"))
    return Crawled(done, site, county, named, other)


def test_pages_are_rendered_on_demand_and_the_answers_they_fetch_are_captured(crawled: Crawled) -> None:
    done, site, *_ = crawled
    rendered, plain = done.of(f"{site.url}/list/1"), done.of(f"{site.url}/list/2")
    assert rendered.text.count("<li>") == ITEMS
    assert plain.text.count("<li>") == 0
    [(url, status, text)] = rendered.captured
    assert (url, status, json.loads(text)["items"][0]) == (f"{site.url}/data/1", 200, "item 1-0")
    assert plain.captured == []
    unwrapped = done.of(f"{site.url}/json")
    assert (unwrapped.kind, unwrapped.text) == ("JsonResponse", '{"plain": "<b>json</b>"}')
    captured = done.of(f"{site.url}/endless").captured
    assert [url for url, _, _ in captured] == [f"{site.url}/sheet/{number}" for number in range(SHEETS)]
    assert 'id="last"' in done.of(f"{site.url}/endless?until").text
    assert len(done.of(f"{site.url}/endless?few").captured) == 3
    assert done.of(f"{site.url}/forbidden").outcome == "policy_denied"
    assert site.asked["/forbidden"] == 0
    assert done.of(f"{site.url}/nothing").outcome == "not_found", "a step is not waited for where nothing is"
    assert not [path for path in site.asked if path.startswith("/picture")]
    assert len([agent for agent in site.agents if "harvester/" not in agent]) == 0
    for word in ("Traceback", "ERROR", "WARNING"):
        assert word not in done.log, done.log


def test_what_a_page_sends_for_a_captured_answer_is_kept_byte_by_byte(crawled: Crawled) -> None:
    assert crawled.done.of(f"{crawled.site.url}/sends").sent == [b"\x00\xff"]


def test_all_but_a_star_stands_for_itself_in_the_address_of_what_is_captured(crawled: Crawled) -> None:
    done, site, *_ = crawled
    captured = [[url for url, _, _ in done.of(f"{site.url}/sends/{number}").captured] for number in range(len(GLOBS))]
    asked = f"{site.url}/data/1?filter[kind]=a"
    assert captured == [[asked], [], [], [asked]]


def test_a_page_is_shown_whatever_length_it_says_and_does_no_other_page_harm(crawled: Crawled) -> None:
    shown = crawled.done.of(f"{crawled.site.url}/long-length")
    assert (shown.outcome, "ready" in shown.text) == ("ok", True), shown.said
    assert "event listener" not in crawled.done.log, "Playwright raises its error in any page"


def test_a_list_is_at_its_end_whatever_number_its_page_asks_for(crawled: Crawled) -> None:
    ended = crawled.done.of(f"{crawled.site.url}/pages")
    assert ended.outcome == "ok", ended.said


async def test_a_crawl_that_renders_nothing_starts_no_browser(tmp_path: Path) -> None:
    async with JavaScriptSite() as site:
        done = await crawl(Plan([Wish(f"{site.url}/list/2")]), tmp_path, chromium="/nowhere")
    assert done.of(f"{site.url}/list/2").outcome == "ok"
    assert "harvester/browser/started" not in done.stats


async def test_without_chromium_the_run_ends_and_says_what_to_install(tmp_path: Path) -> None:
    async with JavaScriptSite() as site:
        done = await crawl(Plan([wish(f"{site.url}/list/2")]), tmp_path, chromium="/nowhere")
    assert done.results == [] or done.results[0].kind == "RunEnding"
    assert done.stats["harvester/exit_code"] == 2
    assert "HARVESTER_CHROMIUM" in done.log
    assert "Traceback" not in done.log


def test_a_site_whose_entry_says_so_is_rendered_but_for_what_is_no_page(crawled: Crawled) -> None:
    done, site = crawled.done, crawled.county
    told = json.loads(done.of(f"{site.url}/who").text.partition('<p id="who">')[2].partition("</p>")[0])
    assert told["zone"] == "America/New_York"
    assert told["language"] == "de-DE"
    assert told["touch"]
    assert "Mobile" in told["agent"]
    assert "harvester/" in told["agent"]
    assert done.of(f"{site.url}/list/3").text.count("<li>") == 0
    assert site.asked["/robots.txt"] == 1
    assert "Chrome" not in site.headers["/robots.txt"]["User-Agent"]


class Wrong(NamedTuple):
    """The same of pages on which something goes wrong."""

    done: browser.Crawled
    site: JavaScriptSite


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Wrong:
    return asyncio.run(crawl_what_goes_wrong(tmp_path_factory.mktemp("wrong")))


async def crawl_what_goes_wrong(folder: Path) -> Wrong:
    async with JavaScriptSite() as site:
        site.elsewhere = "http://192.168.77.1/"
        never = {
            "steps": [
                {"click": "#banner", "optional": True, "timeout_s": 0.3},
                {"wait_for": "#ready", "timeout_s": 0.3},
            ]
        }
        steps = [
            {"type": "navigate", "url": f"{site.url}/hangs"},
            {"type": "click", "selectors": ["#go"], "offsetX": 1, "offsetY": 1},
            {"type": "waitForElement", "selectors": ["#never"], "timeout": 500},
        ]
        flow = parse_flow(json.dumps({"title": "hangs", "steps": steps}))
        plan = Plan(
            [
                wish(f"{site.url}/never", **never),
                wish(f"{site.url}/broken", steps=[{"wait_for": "#ready"}]),
                wish(f"{site.url}/busy", timeout_s=1.5),
                wish(f"{site.url}/huge"),
                wish(f"{site.url}/long-text"),
                wish(f"{site.url}/list/1", steps=[{"jump": "high"}]),
                wish("http://127.0.0.1:9/closed"),
                wish(f"{site.url}/list/2"),
                Wish(flow.start_url, request_of(flow, dont_retry=True).meta),
            ],
            settings={"DOWNLOAD_MAXSIZE": 1 << 20, "ROBOTSTXT_OBEY": False},
            patches={"harvester.browser.page_run.CLOSE_S": 0.3, "harvester.browser.flow_run.EVIDENCE_S": 0.3},
        )
        return Wrong(await crawl(plan, folder), site)


def test_what_goes_wrong_on_a_page_has_an_outcome_that_names_it(wrong: Wrong) -> None:
    done, site = wrong
    failed = done.of(f"{site.url}/never")
    assert failed.outcome == "navigation_failed"
    assert re.search(r"step 2 \(wait_for #ready\): .*0\.3 s", failed.said)
    assert done.of(f"{site.url}/broken").outcome == "server_error"
    assert done.of(f"{site.url}/busy").outcome == "timeout"
    assert done.of(f"{site.url}/huge").outcome in ("invalid", "too_many")
    assert "larger" in done.of(f"{site.url}/huge").said
    misspelt = done.of(f"{site.url}/list/1")
    assert misspelt.outcome == "invalid"
    assert "steps.0.jump" in misspelt.said
    assert site.asked["/list/1"] == 0
    assert done.of("http://127.0.0.1:9/closed").outcome in ("network", "navigation_failed")
    assert done.of(f"{site.url}/list/2").outcome == "ok", "one page's trouble is not another's"
    assert "Traceback" not in done.log


def test_a_flow_whose_page_hangs_says_in_which_step(wrong: Wrong) -> None:
    said = wrong.done.of(f"{wrong.site.url}/hangs").said
    assert re.match(r"step 3 \(.*'#never'\): ", said), said


def test_an_answer_that_is_no_html_is_bounded_in_size_too(wrong: Wrong) -> None:
    assert "larger" in wrong.done.of(f"{wrong.site.url}/long-text").said


async def test_nothing_leads_a_page_into_a_private_network(tmp_path: Path, free_port: int) -> None:
    """Neither an address nor a name: fetched by a script, by a redirect, by a WebSocket, or asked for as a page."""
    async with JavaScriptSite() as site, JavaScriptSite() as private:
        port = private.url.rpartition(":")[2]
        inward = f"http://inward.example:{port}/data/1"
        pages = [wish(f"{site.url}/asks-away?{to}", steps=[{"wait_for": "#ready"}]) for to in (inward, private.url)]
        leads = [f"{site.url}/leads-away?{to}" for to in (inward, f"{private.url}/data/1")]
        pages += [
            wish(url)
            for url in (*leads, inward, private.url, "http://nobody.invalid/", f"http://inward.example:{free_port}/")
        ]
        plan = Plan(pages, settings={"ROBOTSTXT_OBEY": False}, names={"inward.example": "127.0.0.1"})
        own = f"{site.url.removeprefix('http://')},inward.example:{free_port}"
        done = await crawl(plan, tmp_path, allow_private_hosts="false", private_hosts=own)
    outcomes = [done.of(page.url).outcome for page in pages]
    assert outcomes == [*["ok"] * 2, *["policy_denied"] * 4, "dns", "network"], done.results
    assert private.asked == {}, "no connection is made"
    assert done.stats["harvester/browser/private"] >= 4


def test_what_a_request_carries_stays_with_its_site_when_a_redirect_leaves_it(crawled: Crawled) -> None:
    done, _, _, site, other = crawled
    assert [done.of(f"{site.url}/{path}").outcome for path in PATHS] == ["ok"] * len(PATHS), done.log[-3000:]
    for path in ("/leads-away", "/moved/5", "/list/5", "/list/6", "/list/7", "/list/8"):
        told = {name.title(): value for name, value in site.headers[path].items()}
        assert (told["Authorization"], told["X-Key"]) == ("Bearer t1", "k2"), path
    for path in ("/data/5", "/script"):
        assert "x-key" not in str(site.headers[path]).lower(), "the page's own requests are its own"
    assert other.asked["/data/1"] == 1
    for word in ("authorization", "x-key"):
        assert word not in str(other.headers).lower()


async def test_a_login_is_kept_for_the_next_run_and_readable_by_nobody_else(tmp_path: Path) -> None:
    steps = [
        {"fill": "#user", "value": "alice"},
        {"fill": "#word", "secret": "smtp_password"},
        {"click": "#go"},
        {"wait_for": "#in"},
    ]
    async with JavaScriptSite() as site:
        first = await crawl(
            Plan([wish(f"{site.url}/door", session="county", steps=steps, human=True)]),
            tmp_path,
            smtp_password="open sesame",
        )
        again = await crawl(Plan([wish(f"{site.url}/door", session="county", steps=[{"wait_for": "#in"}])]), tmp_path)
    assert first.of(f"{site.url}/door").outcome == "ok", first.log
    assert "welcome back" in again.of(f"{site.url}/door").text
    assert "<title>alice</title>" in again.of(f"{site.url}/door").text, "local storage is kept too"
    assert site.asked["/login"] == 1
    [kept] = (tmp_path / ".harvester" / "sessions").glob("*.json")
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert "k1" in kept.read_text()
    assert b"open sesame" not in b"".join(path.read_bytes() for path in files_below(tmp_path))


async def test_what_another_process_has_kept_meanwhile_is_not_overwritten_and_used_from_then_on(tmp_path: Path) -> None:
    kept = tmp_path / ".harvester" / "sessions" / "browser-county.json"
    async with JavaScriptSite() as site:
        wishes = [wish(f"{site.url}/{path}", session="county") for path in ("list/1", "held/1", "door")]
        patches = {"harvester.browser.browser.SAVE_S": 0.0}
        process = await start(Plan(wishes, patches=patches, one_by_one=True), tmp_path)
        await until(lambda: site.asked["/held/1"] > 0)
        newest = json.dumps({"cookies": [{"name": "key", "value": "k9", "url": site.url}], "origins": []})
        own = kept.read_text()
        kept.with_suffix(".another").write_text(newest)
        kept.with_suffix(".another").replace(kept)
        site.release.set()
        done = await end(process, tmp_path)
    assert "k9" not in own
    assert [each.outcome for each in done.results] == ["ok", "ok", "ok"], done.log[-3000:]
    assert "welcome back" in done.of(f"{site.url}/door").text
    assert "k9" in kept.read_text()


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
