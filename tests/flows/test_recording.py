"""Recordings: what is understood, what is refused with its reason, and how a row is filled in."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harvester.browser.selectors import name_and_role
from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.sites.recording import MOST_BYTES, TYPES, Flow, parse_flow, read_files, words_of
from harvester.spiders.flow import FlowSpider, faults_of, read_checked, record_id
from tests.flows import RECORDINGS, VALID

INVALID: dict[str, str] = {
    "title missing": "title is missing",
    "steps not a list": "steps: ",
    "timeout below 1": "timeout is 0",
    "timeout above 30000": "timeout is 30001",
    "unknown step type": "step 1: ",
    "click without offsets": "step 1 (click): offsetX is missing",
    "empty selectors": "step 1 (hover): selectors",
    "frame not integers": "step 1 (hover): frame.0: ",
    "setViewport lacks booleans": "step 1 (setViewport): isMobile is missing",
    "unknown asserted event": "step 1 (navigate): assertedEvents.0.type is 'download'",
    "bad operator": "step 1 (waitForElement): operator is '>'",
    "bad button": "step 1 (click): button is 'left'",
}
OPEN = {"type": "navigate", "url": "https://records.example.gov/search"}
HERE = Config(allow_private_hosts=True)
THERE = Config(allow_private_hosts=False)
UNWANTED: dict[str, tuple[Any, str]] = {
    "no page": ({"type": "keyDown", "key": "a"}, "no page"),
    "another host": (
        [OPEN, {"type": "navigate", "url": "https://elsewhere.example/"}],
        'hosts = ["elsewhere.example"]',
    ),
    "a window of another host": (
        [OPEN, {"type": "close", "target": "https://elsewhere.example/"}],
        "step 2 (close): ",
    ),
    "a private address": (
        {"type": "navigate", "url": "http://192.168.1.1/"},
        "step 1 (navigate): 192.168.1.1 ",
    ),
    "brackets": (
        [{"type": "navigate", "url": "https://[x"}, OPEN],
        "step 1 (navigate): 'https://[x' ",
    ),
    "a file": (
        {"type": "navigate", "url": "file:///etc/passwd"},
        "'file:///etc/passwd' ",
    ),
    "a host of the row": (
        [OPEN, {"type": "navigate", "url": "https://{host}/"}],
        "host",
    ),
    "a script": (
        [OPEN, {"type": "waitForExpression", "expression": "1"}],
        "step 2 (waitForExpression): ",
    ),
    "an unknown custom step": (
        [OPEN, {"type": "customStep", "name": "solve"}],
        "step 2 (customStep): ",
    ),
    "fields of a custom step that are none": (
        [OPEN, {"type": "customStep", "name": "extract", "parameters": {"fields": {"a": 1}}}],
        "step 2 (customStep): parameters.fields.a: ",
    ),
    "a password": (
        [OPEN, {"type": "change", "selectors": ["#password"], "value": "open sesame"}],
        "${SESSION_COUNTY_PASSWORD}",
    ),
    "a step before the first page": (
        [{"type": "hover", "selectors": ["a"]}, OPEN],
        "step 1 (hover): ",
    ),
    "a step after the last page": (
        [OPEN, {"type": "close"}, {"type": "hover", "selectors": ["a"]}],
        "step 3 (hover): ",
    ),
}
BESIDE: dict[str, tuple[str, str]] = {
    "too many levels": ("a = " + "[" * 100_000, "TOML"),
    "no TOML": ("a", "TOML"),
    "a misspelt key": ("downlods = 1", "downlods: "),
    "a field without selector": ("fields.a = {all = true}", "fields.a.selector: "),
    "too long": ("timeout_s = 3600", "timeout_s: "),
    "a host that is an address": ('hosts = ["https://a.example"]', "'https://a.example'"),
}


def flow_of(steps: Any, beside: str = "") -> Flow:
    steps = steps if isinstance(steps, list) else [steps]
    return parse_flow(json.dumps({"title": "x", "steps": steps}), beside)


def test_each_recording_that_is_none_is_refused_with_the_reason_and_the_place() -> None:
    cases = json.loads((RECORDINGS / "invalid_cases.json").read_text("utf-8"))
    assert [case["why"] for case in cases] == list(INVALID)
    for case in cases:
        with pytest.raises(UsageError) as refused:
            parse_flow(json.dumps(case["flow"]))
        assert f"\n  {INVALID[case['why']]}" in str(refused.value), case["why"]
    for text, said in {
        "{": "JSON",
        "[]": "object",
        '{"title":"","steps":[]}': "title",
        '{"title":"x","steps":[{"type":"scroll","x":1e999}]}': r"step 1 \(scroll\): x: ",
        '{"title":"x","steps":[{"type":"scroll","y":NaN}]}': r"step 1 \(scroll\): y: ",
    }.items():
        with pytest.raises(UsageError, match=said):
            parse_flow(text)


@pytest.mark.parametrize("name", VALID)
def test_valid_recordings_are_read_whole_and_every_step_is_told_in_words(name: str) -> None:
    text = (RECORDINGS / f"{name}.json").read_text("utf-8")
    flow = parse_flow(text, "trusted = true")
    assert list(faults_of(flow, HERE)) == []
    given = json.loads(text)["steps"]
    assert [step.type for step in flow.recording.steps] == [step["type"] for step in given]
    assert all(map(words_of, flow.recording.steps))
    assert [flow.recording.seconds(step) * 1000 for step in flow.recording.steps] == [
        step.get("timeout", 30_000 if step["type"] == "navigate" else json.loads(text).get("timeout", 5000))
        for step in given
    ]
    assert Flow.model_validate(json.loads(json.dumps(flow.as_data()))) == flow
    chains = [getattr(step, "selectors", None) for step in flow.recording.steps]
    wanted = [[[s] if isinstance(s, str) else s for s in step["selectors"]] for step in given if "selectors" in step]
    assert [[list(chain) for chain in each] for each in chains if each] == wanted


def test_every_step_is_told_in_words_also_of_a_recording_that_may_not_be_done() -> None:
    for steps, _ in UNWANTED.values():
        assert all(map(words_of, flow_of(steps).recording.steps))


def test_there_are_recordings_of_all_types_of_steps() -> None:
    used = {step["type"] for name in VALID for step in json.loads((RECORDINGS / f"{name}.json").read_text())["steps"]}
    assert used == set(TYPES)


@pytest.mark.parametrize("case", UNWANTED)
def test_what_a_recording_may_not_do_is_told_with_the_step(case: str) -> None:
    steps, said = UNWANTED[case]
    assert any(said in fault for fault in faults_of(flow_of(steps), THERE)), list(faults_of(flow_of(steps), THERE))
    with pytest.raises(UsageError, match=re.escape(said)):
        read_checked(json.dumps({"title": "x", "steps": steps if isinstance(steps, list) else [steps]}), "", THERE)


@pytest.mark.parametrize("case", BESIDE)
def test_what_stands_beside_a_recording_and_cannot_be_used_is_told(case: str) -> None:
    beside, said = BESIDE[case]
    with pytest.raises(UsageError) as refused:
        flow_of(OPEN, beside)
    assert said in str(refused.value)


def test_only_whoever_runs_a_recording_may_trust_it_and_name_further_hosts() -> None:
    steps = [
        OPEN,
        *(each for case in ("another host", "a script", "an unknown custom step") for each in UNWANTED[case][0][1:]),
    ]
    marked = {"title": "x", "steps": steps, "trusted": True, "hosts": ["elsewhere.example"]}
    assert len(list(parse_flow(json.dumps(marked)).faults())) == 3
    assert list(flow_of(steps, 'trusted = true\nhosts = ["elsewhere.example"]').faults()) == []


def test_values_of_a_row_go_into_texts_and_addresses_and_into_no_script_and_no_secret() -> None:
    steps = [
        {"type": "navigate", "url": "https://records.example.gov/p?id={parcel id}&x=1"},
        {"type": "change", "selectors": [["#q"], ["aria/{parcel id}"]], "value": "{parcel id} of {key}"},
        {"type": "change", "selectors": ["#w"], "value": "${WORD}"},
        {"type": "waitForElement", "selectors": ["p"], "attributes": {"title": "{key}"}},
        {"type": "waitForExpression", "expression": "(() => {key})()"},
    ]
    flow = flow_of(steps, "trusted = true")
    assert flow.columns == ["parcel id", "key"]
    filled = flow.filled({"parcel id": "a/b &c", "key": 7})
    opened, written, secret, waited, script = (step.model_dump() for step in filled.recording.steps)
    assert opened["url"] == filled.start_url == "https://records.example.gov/p?id=a%2Fb%20%26c&x=1"
    assert (written["value"], written["selectors"][1]) == ("a/b &c of 7", ("aria/a/b &c",))
    assert secret["value"] == "${WORD}"
    assert waited["attributes"] == {"title": "7"}
    assert script["expression"] == "(() => {key})()"
    with pytest.raises(UsageError, match="'parcel id'"):
        flow.filled({"key": "7", "parcel id": ""})


def test_a_job_keeps_the_texts_of_both_files_and_is_another_with_other_rows(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.json").write_text(json.dumps({"title": "x", "steps": [OPEN]}))
    (tmp_path / "flow.toml").write_text("html = false")
    (tmp_path / "rows.csv").write_text("parcel_id,name\n1,a\n2,b\n")
    arguments = FlowSpider.parse_arguments({"recording": "flow.json", "inputs": "@rows.csv"})
    again = FlowSpider.parse_arguments(arguments.kept())
    assert (
        again.kept()
        == arguments.kept()
        == {
            "recording": (tmp_path / "flow.json").read_text(),
            "collected": "html = false",
        }
    )
    scope = FlowSpider.scope_of(arguments)
    (tmp_path / "rows.csv").write_text("parcel_id,name\n1,a\n3,b\n")
    assert FlowSpider.scope_of(FlowSpider.parse_arguments({"recording": "flow.json", "inputs": "@rows.csv"})) != scope


def test_the_entry_of_a_site_may_name_its_recording(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path / "oh"))
    (tmp_path / "ross.json").write_text(json.dumps({"title": "Ross", "steps": [OPEN]}))
    (tmp_path / "ross.toml").write_text("html = false")
    (tmp_path / "oh").mkdir()
    (tmp_path / "oh" / "sites.toml").write_text('[us-oh-ross]\nhosts = "a.example"\nrecording = "../ross.json"')
    kept = FlowSpider.parse_arguments({"recording": "us-oh-ross"}).kept()
    assert (json.loads(kept["recording"])["title"], kept["collected"]) == ("Ross", "html = false")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"recording": "none.json"}, "none.json"),
        (
            {"recording": "~unknown/x.json"},
            "~unknown/x.json",
        ),
        ({"recording": "flow.json", "inputs": "rows.csv"}, "-a inputs=@rows.csv"),
        ({"recording": "flow.json", "column": "a"}, "column: "),
        ({"recording": "flow.json", "row": "a"}, "row: "),
        ({"recording": '{"title":"x","steps":[{"type":"click"}]}'}, "step 1 (click): selectors is missing"),
        ({}, "recording: "),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_before_anything_is_fetched(
    given: dict[str, str], said: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.json").write_text(json.dumps({"title": "x", "steps": [OPEN]}))
    with pytest.raises(UsageError) as refused:
        FlowSpider.parse_arguments(given)
    assert said in str(refused.value)


async def test_rows_that_lack_a_column_of_the_recording_are_refused_with_their_lines(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = [OPEN, {"type": "change", "selectors": ["#q"], "value": "{house}"}]
    (tmp_path / "flow.json").write_text(json.dumps({"title": "x", "steps": steps}))
    for rows, said in {
        "key,street\n1,ELM\n": "Line 2, '1': ",
        "key,house\n1,7\n2,\n": "Line 3, '2': ",
        "house,street\n1,ELM\n": "-a column=COLUMN",
    }.items():
        (tmp_path / "rows.csv").write_text(rows)
        spider = FlowSpider(HERE, FlowSpider.parse_arguments({"recording": "flow.json", "inputs": "@rows.csv"}))
        with pytest.raises(UsageError) as refused:
            await spider.before()
        assert said in str(refused.value)
    nothing = FlowSpider(HERE, FlowSpider.parse_arguments({"recording": "flow.json"}))
    with pytest.raises(UsageError, match=" row "):
        await nothing.before()


@pytest.mark.timeout(60)
def test_a_selector_of_an_untrusted_recording_is_read_in_bounded_time() -> None:
    """What backtracks would take hours."""
    assert name_and_role('Search [ role = "button" ] ') == ("Search", "button")
    assert name_and_role("[role='link']") == ("", "link")
    assert name_and_role("Tax bill\n[role=x]") == ("Tax bill\n[role=x]", None)
    for text in ("a" + " " * 100_000 + "]", "[ " * 50_000 + "x", '[role="a"] ' * 10_000 + "x"):
        assert name_and_role(text) == (text, None)


def test_rows_of_recordings_with_other_titles_have_other_records() -> None:
    long = "county search " * 6
    titles = ["County search", "Grundstücke", "税务", "地籍", "", long + "a", long + "b"]
    assert len({record_id(title, "1") for title in titles}) == len(titles)
    assert record_id("County search", "1") == record_id("county-search", "1") == "county-search 1"


def test_what_has_no_end_is_no_recording() -> None:
    with pytest.raises(UsageError, match="262,144"):
        read_files(Path("/dev/zero"))


def test_files_that_cannot_be_recordings_are_not_read(tmp_path: Any) -> None:
    (tmp_path / "large.json").write_bytes(b" " * (MOST_BYTES + 1))
    (tmp_path / "latin.json").write_bytes('{"title": "Bücher"}'.encode("latin-1"))
    for name, said in {"large": "at most 262,144 are read", "latin": "is not UTF-8"}.items():
        with pytest.raises(UsageError, match=said):
            read_files(tmp_path / f"{name}.json")
