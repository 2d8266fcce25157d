"""Flows in a real browser: what is collected of each row, and what becomes of rows whose pages are not as recorded."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.flows.conftest import Flows
from tests.flows.site import (
    BROKEN,
    ELSEWHERE,
    FORBIDDEN,
    HALF,
    NOBODY,
    NOTHING,
    PDF,
    RENAMED,
    FlowSite,
    Told,
    recording,
)
from tests.jobs.running import FINISHED, LEFT

COLLECTED = """
trusted = true
no_results = ["text/did not find any records", "text/Try another number"]
screenshot = true
pdf = true
downloads = 1
capture = ["*/data/*"]
[fields]
due = "#TaxDue"
labels = {selector = "td.DataletSideHeading", all = true}
bill = {selector = ["#no-bill", "#bill"], attribute = "href"}
note = {selector = "#note", optional = true}
"""
ENTRY = """[county]
hosts = ["{host}"]
[county.outcomes.policies]
layout_changed = {{retries = 0}}
navigation_failed = {{retries = 0}}
maintenance = {{retries = 0}}
timeout = {{retries = 0}}
"""
OK, DELAY_S = ("done", "ok"), 6.0


def county(site: FlowSite) -> str:
    """The recording of the county, for any row, with the download of a bill."""
    flow = json.loads(recording("county_disclaimer_search", site, parcel="{key}"))
    for step in flow["steps"]:
        step.pop("timeout", None)
    flow["steps"].insert(-1, {"type": "click", "selectors": [["aria/Tax bill"]], "offsetX": 5, "offsetY": 5})
    return json.dumps(flow | {"timeout": 15_000})


@pytest.mark.long
async def test_each_row_has_a_fate_and_of_those_that_went_well_all_is_kept(
    flows: Flows, mongodb: Database[dict[str, Any]]
) -> None:
    async with FlowSite() as site, FlowSite() as elsewhere:
        site.elsewhere = elsewhere.url
        flows.enter(ENTRY.format(host=site.url.removeprefix("http://")))
        flows.write(COLLECTED, county(site))
        flows.rows(["010-1", "010-2", NOBODY, NOTHING, RENAMED, BROKEN, ELSEWHERE, HALF, FORBIDDEN])
        assert await flows.run("flow", recording="flow.json", inputs="@rows.csv") == LEFT, flows.said
        assert flows.fates() == {
            "010-1": OK,
            "010-2": OK,
            NOBODY: ("done", "no_results"),
            NOTHING: ("done", "no_results"),
            RENAMED: ("waiting", "layout_changed"),
            BROKEN: ("waiting", "maintenance"),
            ELSEWHERE: ("skipped", "policy_denied"),
            HALF: ("waiting", "navigation_failed"),
            FORBIDDEN: ("skipped", "policy_denied"),
        }, flows.said
        assert elsewhere.asked == {}
        assert site.asked["/forbidden/1"] == 0
        assert site.asked["/county/Search/Disclaimer.aspx"] == 9, "each row begins as the recording did"

    stored = {row["row"]["key"]: row for row in mongodb["flow"].find()}
    assert set(stored) == {"010-1", "010-2"}
    row = stored["010-1"]
    assert row["fields"] == {
        "parcel_id": "010-1",
        "rows": "Due",
        "due": "$1,234.50",
        "labels": ["Due", "Paid"],
        "bill": "/county/bill.pdf?010-1",
    }
    assert row["url"] == f"{site.url}/county/taxes.aspx?010-1"
    files = flows.files("010-1")
    assert set(files) == set(row["files"])
    assert set(row["files"]) == {"page.html", "page.png", "page.pdf", "download-1-bill.pdf", "captured-1.json"}
    assert files["download-1-bill.pdf"] == PDF
    assert files["page.png"].startswith(b"\x89PNG")
    assert files["page.pdf"].startswith(b"%PDF-")
    assert b"Annual Taxes" in files["page.html"]
    assert json.loads(files["captured-1.json"])["items"][0] == "item 1-0"
    assert Path(row["files"]["page.html"]["path"]).name == "page.html"
    assert row["files"]["page.html"]["bytes"] == len(files["page.html"])

    said = flows.reason(RENAMED)
    assert re.search("field due: .*'#TaxDue'", said)
    assert set(flows.files(RENAMED)) == {"failed.png", "failed.html", "captured-1.json"}
    assert b"AmountDue" in flows.files(RENAMED)["failed.html"]
    assert b"maintenance" in flows.files(BROKEN)["failed.html"], "how a page looked that was no answer is kept, too"
    assert "bill.pdf" in flows.reason(HALF)
    assert re.search(r"127\.0\.0\.1.*\bcounty\b", flows.reason(ELSEWHERE))
    assert "/forbidden/1" in flows.reason(FORBIDDEN)
    assert "Traceback" not in flows.said, flows.said


async def test_frames_shadow_roots_and_windows_are_acted_on_and_each_page_waits_for_its_turn(flows: Flows) -> None:
    async with FlowSite() as site:
        host = site.url.removeprefix("http://")
        delay = f"politeness = {{delay_s = {DELAY_S}, concurrency = 1}}"
        flows.enter(f'[slow]\nhosts = ["{host}"]\n{delay}')
        flow = json.loads(recording("shadow_iframe_popup", site)) | {"timeout": (DELAY_S - 0.5) * 1000}
        flows.write('[fields]\nyear = {selector = "select", frame = [0, 1]}', json.dumps(flow))
        flows.rows(["1", "2"])
        assert await flows.run("flow", recording="flow.json", inputs="@rows.csv") == FINISHED, flows.said
        assert flows.fates() == {"1": OK, "2": OK}
        assert Counter(site.done()) == {
            Told("/widgets/", "click", "submit"): 2,
            Told("/widgets/year.html", "input", "select", "2025"): 2,
            Told("/widgets/year.html", "auxclick", "bill"): 2,
            Told("/widgets/year.html", "keydown", "Escape"): 2,
            Told("/widgets/year.html", "keyup", "Escape"): 2,
        }
        pages = ("/widgets/", "/widgets/bill.html")
        asked = [at for page, at in zip(site.asked_for, site.asked_at, strict=True) if page in pages]
        assert len(asked) == 4
        assert asked[3] - asked[1] > 1.5 * DELAY_S, "windows waited for their turns, longer than their steps may take"


async def test_one_row_is_done_at_once_and_shown(flows: Flows, tmp_path: Path) -> None:
    async with FlowSite() as site:
        flow = json.loads(recording("infinite_scroll_feed", site))
        flow["steps"] = [step for step in flow["steps"] if step["type"] != "emulateNetworkConditions"]
        typed = {"type": "change", "selectors": ["#word"], "value": "${SESSION_COUNTY_PASSWORD}"}
        flow["steps"].insert(3, typed)
        flows.write('[fields]\nfirst = "div.card h3"', json.dumps(flow))
        words = ["flow", "run", "flow.json", "--row", "key=7"]
        ran = await flows.command(*words, "--out", "kept", session_county_password="open sesame")
        assert ran.returncode == 0, ran.stderr
        assert Told("/hashtags", "input", "word", "open sesame") in site.done()
        assert "open sesame" not in ran.stdout + ran.stderr
        assert f"goes to {site.url}/hashtags" in ran.stdout
        assert '"first": "0"' in ran.stdout
        assert (tmp_path / "kept" / "page.html").is_file(), "though the last step closes the page"
        kinds = [each.kind for each in site.done() if each.kind != "scroll"]
        assert kinds == ["input", "hover", "click", "click", "click", "dblclick"]
        assert {Told("/hashtags", "scroll", "window"), Told("/hashtags", "scroll", "list")} <= {*site.done()}

        flow["steps"].remove(typed)
        flow["steps"][4] |= {"selectors": ["#educations"], "timeout": 1000}
        flows.write("", json.dumps(flow))
        ran = await flows.command(*words, "--out", "failed")
        assert ran.returncode == LEFT
        assert re.search(r"layout_changed: step 5 \(.*'#educations'\)", ran.stderr)
        assert (tmp_path / "failed" / "failed.png").is_file()
        checked = await flows.command("flow", "check", "flow.json", allow_private_hosts="false")
        assert checked.returncode == 2
        assert "step 2 (navigate): 127.0.0.1 " in checked.stderr
        assert "'#educations'" in checked.stdout


async def test_a_row_is_kept_though_its_page_holds_half_a_character_and_its_download_has_a_long_name(
    flows: Flows, mongodb: Database[dict[str, Any]]
) -> None:
    async with FlowSite() as site:
        click = {"type": "click", "selectors": ["#paper"], "offsetX": 5, "offsetY": 5}
        steps = [{"type": "navigate", "url": f"{site.url}/papers"}, click]
        flows.write('downloads = 1\n[fields]\nhalf = "#half"', json.dumps({"title": "papers", "steps": steps}))
        flows.rows(["1"])
        assert await flows.run("flow", recording="flow.json", inputs="@rows.csv") == FINISHED, flows.said
    [record] = mongodb["flow"].find()
    assert record["fields"] == {"half": "half \ufffd of a sign"}
    [download] = [content for name, content in flows.files("1").items() if name.startswith("download-1-")]
    assert download == PDF
