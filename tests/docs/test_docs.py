"""The documents name all that there is, and nothing that there is not."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from harvester import exceptions
from harvester.config import Config
from harvester.items.base import RESERVED
from harvester.monitors.suites import RunMonitors
from harvester.outcomes import Outcome
from harvester.publish.distribution import DELIVERIES
from harvester.publish.outbox import PUBLISHING
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.counties.iasworld.spider import SHARDED
from harvester.spiders.counties.platform import NO_RESULTS, UNKNOWN_SITE
from harvester.spiders.hashtags.arguments import HashtagsArguments
from tests.docs.tables import arguments, settings
from tests.pipelines.records import KINDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
SOURCES = sorted((ROOT / "harvester").rglob("*.py"))
RUNNING = (DOCS / "running.md").read_text("utf-8")
MONITORING = (DOCS / "monitoring.md").read_text("utf-8")
BLUESKY = (DOCS / "bluesky.md").read_text("utf-8")
OF_RECORDS = (DOCS / "records.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


@cache
def stats() -> set[str]:
    """What may be the name of a stat, of every text in the source, the fixed parts of f-strings too."""
    found = set()
    for text in (path.read_text("utf-8") for path in SOURCES):
        for node in ast.walk(ast.parse(text)) if "harvester/" in text else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("harvester/"):
                found.add(node.value)
    return found


def test_every_setting_is_in_the_table_as_the_program_has_it() -> None:
    """To renew it: python -m tests.docs.tables"""
    assert settings() in (DOCS / "settings.md").read_text("utf-8")
    assert "||" not in settings().replace(" ", "").replace("|---|---|---|", ""), "a setting has no docstring"


def test_every_argument_of_a_spider_is_in_the_table_as_the_program_has_it() -> None:
    """To renew it: python -m tests.docs.tables"""
    assert arguments(BlueskyArguments) in BLUESKY
    assert arguments(HashtagsArguments) in (DOCS / "hashtags.md").read_text("utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_variable_that_is_named_exists(path: Path) -> None:
    known = {f"HARVESTER_{name.upper()}" for name in Config.model_fields}
    named = set(re.findall(r"HARVESTER_[A-Z_]+[A-Z]", path.read_text("utf-8")))
    others = "HARVESTER_(SESSION_[A-Z]+_(USER|PASSWORD)|PUBLISH_[A-Z]+_(URL|SECRETS))"
    assert {name for name in named if not re.fullmatch(others, name)} <= known


def test_every_exit_code_is_documented() -> None:
    errors = [value for value in vars(exceptions).values() if isinstance(value, type) and issubclass(value, Exception)]
    codes = {error.exit_code for error in errors if issubclass(error, exceptions.HarvesterError)}
    named = {value for value in vars(exceptions).values() if isinstance(value, int)}
    bare = [code for path in SOURCES for code in re.findall(r"exit_code=\d+", path.read_text("utf-8"))]
    assert not bare, "codes have names, in harvester/exceptions.py"
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", RUNNING, re.MULTILINE)}
    assert documented == {0} | named | codes


def test_every_monitor_is_documented() -> None:
    names = {monitor().monitor_name for monitor in RunMonitors.monitors}
    table = MONITORING.partition("| Monitor |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| ([A-Z][a-z ]+) \| ", table, re.MULTILINE)) == names


def test_every_room_of_the_stats_is_documented() -> None:
    rooms = {text.split("/")[1] for text in stats() if re.match(r"harvester/[a-z_]{2,}", text)}
    assert rooms - set(re.findall(r"harvester/([a-z_]+)", MONITORING)) == set()


def test_every_stat_is_documented() -> None:
    """As far as its name is known where it is counted: that of the room, and one word more."""
    documented = {
        f"harvester/{room}/{name}"
        for room, names in re.findall(r"`harvester/([a-z_]+)/([^`/]+)", MONITORING)
        for name in names.strip("{}").split(",")
    }
    counted = {found[0] for text in stats() if (found := re.match(r"harvester/[a-z_]{2,}/[a-z_]{2,}", text))}
    assert counted - documented == set()


def test_what_each_outcome_means_for_a_parcel_is_in_the_table() -> None:
    page = (DOCS / "county-records.md").read_text("utf-8")
    table = page.partition("## What became of a parcel")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {*Outcome, NO_RESULTS, UNKNOWN_SITE, SHARDED}


def test_every_collection_and_kind_of_record_is_documented() -> None:
    known = {"jobs", "job_items", "runs", "events", "alerts", "purged", PUBLISHING, DELIVERIES} | {
        kind.COLLECTION for kind in KINDS
    }
    for name in known:
        assert f"| `{name}` |" in OF_RECORDS
    code = "\n".join(path.read_text("utf-8") for path in SOURCES)
    assert set(re.findall(r'database\["(\w+)"\]', code)) <= known
    for kind in KINDS:
        assert f"`{kind.COLLECTION}`" in README


def test_no_collection_of_harvesters_own_is_taken_for_one_of_records() -> None:
    """Whoever may read records would read it, and a spider named like it would write there."""
    used = set[str]()
    for path in SOURCES:
        code = path.read_text("utf-8")
        used |= {*re.findall(r'database\["(\w+)"\]', code)}
        if names := re.findall(r"database\[([A-Z_]+)\]", code):
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            used |= {getattr(module, name) for name in names if hasattr(module, name)}  # else imported where needed
    assert {"audit", "jobs", "tokens"} <= used
    assert used - {kind.COLLECTION for kind in KINDS} <= RESERVED


def anchors(path: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(path: Path) -> None:
    text = path.read_text("utf-8")
    for target in re.findall(r"\]\((?!https?://|mailto:)([^)#]+)", text):
        assert (path.parent / target).exists(), target
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", text):
        assert anchor in anchors(path.parent / target if target else path), (target, anchor)
    for named in re.findall(r"`((?:tests|harvester)/[\w/]+\.py)`", text):
        assert (ROOT / named).exists(), named


def test_pages_that_messages_and_comments_name_exist() -> None:
    files = [*SOURCES, *(path for path in (ROOT / "deploy").rglob("*") if path.suffix in {".env", ".yaml", ".yml"})]
    named = {(page, path.name) for path in files for page in re.findall(r"docs/[\w-]+\.md", path.read_text("utf-8"))}
    assert named
    assert [(page, where) for page, where in sorted(named) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_are_named_exist(path: Path) -> None:
    from harvester.cli.app import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups if group.name}
    assert set(re.findall(r"(?:^    |`)harvester ([a-z]+)", path.read_text("utf-8"), re.MULTILINE)) <= known


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_targets_of_make_that_are_named_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", path.read_text("utf-8"), re.MULTILINE)) <= targets


def test_the_readme_names_the_versions_of_python_with_which_make_works() -> None:
    setup = (ROOT / "scripts" / "setup").read_text("utf-8")
    found = re.search(r"'>=3\.(\d+),<3\.(\d+)'", setup)
    assert found
    *first, last = [f"3.{minor}" for minor in range(int(found[1]), int(found[2]))]
    versions = f"Python {', '.join(first)} or {last}"
    assert f"`make` needs {versions}" in README
    assert f"harvester needs {versions}." in setup
    assert f"Install {versions} first" in (ROOT / "scripts" / "uv").read_text("utf-8")


def test_no_page_and_no_setting_points_to_an_address_that_nobody_has() -> None:
    """The project has no page of its own; what stands for yours is in capital letters."""
    clone = re.findall(r"git clone (\S+)", README)
    assert clone == [clone[0].upper()]
    assert Config.model_fields["contact"].default == ""
    for path in (*DOCUMENTS, ROOT / "deploy" / "harvester.env"):
        contacts = re.findall(r"HARVESTER_CONTACT=(\w+:\S+?)[`\s]", path.read_text("utf-8"))
        assert {*contacts} <= {"mailto:NAME@YOUR-DOMAIN"}, path.name
