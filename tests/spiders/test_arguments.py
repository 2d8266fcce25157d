"""Arguments of the spider `bluesky`: what is understood, and what is refused by name before anything is fetched."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harvester.exceptions import UsageError
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.spider import BlueskySpider
from tests.crawling import Site
from tests.forking import fork
from tests.root import ROOT


def parsed(**given: Any) -> BlueskyArguments:
    arguments = BlueskySpider.parse_arguments(given)
    assert isinstance(arguments, BlueskyArguments)
    return arguments


def test_everything_has_a_default() -> None:
    arguments = parsed()
    assert arguments.model_dump() == {
        "seeds": "",
        "depth": 1,
        "direction": "follows",
        "max_accounts": None,
        "collect": ("graph", "profiles", "posts"),
        "history": "appview",
        "since": None,
        "until": None,
        "media": True,
        "via": "api",
        "service": "https://public.api.bsky.app",
        "web": "https://bsky.app",
        "honour_opt_outs": True,
        "harvest_unknown": False,
        "ask_authors": True,
        "recheck": None,
        "looks_a_day": None,
    }
    assert list(arguments.read_seeds()) == []


def test_the_appview_is_that_of_the_settings_unless_a_crawl_names_another_and_a_job_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARVESTER_BLUESKY_SERVICE", "http://127.0.0.1:2584/")
    usual = parsed()
    assert usual.service == usual.kept()["service"] == "http://127.0.0.1:2584"
    assert parsed(service="appview.example").service == "https://appview.example"


DAY = datetime(2025, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("seeds", "alice.test,bob.test", "alice.test,bob.test"),
        ("depth", "0", 0),
        ("depth", "10", 10),
        ("direction", "followers", "followers"),
        ("direction", "both", "both"),
        ("max_accounts", "1", 1),
        ("max_accounts", "1000000", 1_000_000),
        ("max_accounts", "none", None),
        ("max_accounts", "", None),
        ("collect", "profiles", ("profiles",)),
        (
            "collect",
            " lists , graph,posts, graph,threads,profiles,",
            ("graph", "profiles", "posts", "threads", "lists"),
        ),
        ("history", "records", "records"),
        ("history", "car", "car"),
        ("since", "2025-01-31", DAY),
        ("since", "2025-01-31T00:00:00Z", DAY),
        ("since", "2025-01-31T09:00:00+09:00", DAY),
        ("since", "2025-01-31 00:00", DAY),
        ("since", "none", None),
        ("until", "2025-01-31", DAY),
        ("until", "", None),
        ("media", "yes", True),
        ("media", "No", False),
        ("media", "1", True),
        ("media", "false", False),
        ("honour_opt_outs", "no", False),
        ("service", "https://api.bsky.app/", "https://api.bsky.app"),
        ("service", "api.bsky.app", "https://api.bsky.app"),
        ("service", "HTTP://LocalHost:2584", "http://localhost:2584"),
        ("service", "http://[::1]:2584", "http://[::1]:2584"),
    ],
)
def test_value_is_understood(name: str, text: str, value: Any) -> None:
    assert getattr(parsed(**{name: text}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("seeds", "nobody", "'nobody'"),
        ("seeds", "alice.test,did:plc:short,@", "'did:plc:short'"),
        ("seeds", "@no-such-file.txt", "no-such-file.txt"),
        ("depth", "-1", "greater than or equal to 0"),
        ("depth", "11", "less than or equal to 10"),
        ("depth", "deep", "'deep'"),
        ("depth", "1.5", "'1.5'"),
        ("depth", "", "integer"),
        ("direction", "up", "'followers', 'follows' or 'both'"),
        ("max_accounts", "0", "greater than or equal to 1"),
        ("max_accounts", "many", "'many'"),
        ("max_accounts", str(2**63), "less than or equal to 1000000000"),
        ("looks_a_day", str(2**63), "less than or equal to 1000000000"),
        ("collect", "", ""),
        ("collect", " , ", ""),
        ("collect", "graph,likes", "'likes'"),
        ("collect", "Graph", "'Graph'"),
        ("collect", "threads", "posts"),
        ("history", "firehose", "'firehose'"),
        ("since", "yesterday", "2025-01-31"),
        ("since", "2025-02-30", "'2025-02-30'"),
        ("until", "31.1.2025", "'31.1.2025'"),
        ("media", "maybe", "'maybe'"),
        ("media", "", "yes or no"),
        ("honour_opt_outs", "2", "yes or no"),
        ("service", "", "address"),
        ("service", "ftp://api.example", "address"),
        ("service", "https://api.example/xrpc", "address"),
        ("service", "https://api.example?x=1", "address"),
        ("service", "https://user:password@api.example", "address"),
        ("service", "https://api example", "address"),
        ("service", "https://api.example:99999999", "address"),
        ("service", "https://", "address"),
        ("depht", "1", "'1'"),
    ],
)
def test_value_that_cannot_be_used_is_refused_by_name(name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(**{name: text})
    (line,) = [line for line in str(refused.value).splitlines() if line.startswith("  ")]
    assert line.startswith(f"  {name}: ")
    assert said in line


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        parsed(seeds="nobody", depth="x", service="", depht="1", media="perhaps")
    lines = [line.split(":")[0].strip() for line in str(refused.value).splitlines() if line.startswith("  ")]
    assert lines == ["seeds", "depth", "media", "service", "depht"]
    assert "spiders show bluesky" in str(refused.value)


def test_time_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(UsageError, match=r"since .*until"):
        parsed(since="2025-02-01", until="2025-02-01")
    assert parsed(since="2025-01-31", until="2025-02-01").since == DAY


def test_arguments_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parsed().depth = 2  # type: ignore[misc]


def test_identity_is_what_is_harvested_and_not_how_it_was_typed(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("alice.test\n")
    (tmp_path / "other.txt").write_text("alice.test")
    same = parsed(seeds=f"@{tmp_path}/one.txt", collect="posts,graph", service="api.example", since="2025-01-31")
    typed = parsed(
        seeds=f"@{tmp_path}/other.txt", collect="graph,posts", service="https://api.example/", since="2025-01-31T00:00Z"
    )
    assert same.identity() == typed.identity()
    for name, value in {"depth": "2", "seeds": "bob.test", "media": "no", "since": "2025-01-30"}.items():
        changed = {"seeds": "alice.test", "collect": "graph,posts", "service": "api.example", "since": "2025-01-31"}
        assert parsed(**changed).identity() != parsed(**changed | {name: value}).identity()
    by_browser = parsed(seeds="alice.test", via="browser", web="https://client.example")
    assert by_browser.identity() == parsed(seeds="alice.test").identity()


# As typed at the terminal


async def scrapy(folder: Path, *arguments: str, **variables: str) -> tuple[int | None, str]:
    """Exit code and output of a command that is to end by itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
    environment |= {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings", "COLUMNS": "100"}
    process = await fork("scrapy", *arguments, cwd=folder, env=environment | variables)
    out, log = await process.end(240)
    return process.returncode, out + log


async def test_misspelt_argument_ends_the_command_before_anything_is_fetched_or_started(tmp_path: Path) -> None:
    async with Site() as site:
        given = ["-a", "seeds=alice.test", "-a", "depht=1", "-a", f"service={site.url}"]
        code, said = await scrapy(tmp_path, "crawl", "bluesky", *given)
        assert not site.arrivals
    assert code == 2
    assert re.search("depht: .*'1'", said)
    assert "Traceback" not in said
    assert os.listdir(tmp_path) == []


async def test_bad_seeds_end_the_command_before_anything_is_fetched_or_started(tmp_path: Path) -> None:
    code, said = await scrapy(tmp_path, "crawl", "bluesky", "-a", "seeds=@nowhere.txt")
    assert code == 2
    assert re.search(r"seeds: .*nowhere\.txt", said)
    assert "Traceback" not in said
    assert os.listdir(tmp_path) == []


async def test_an_option_that_there_is_not_is_named(tmp_path: Path) -> None:
    code, said = await scrapy(tmp_path, "crawl", "bluesky", "--depth", "1")
    assert code == 2
    assert "--depth" in said


async def test_help_prints_every_argument(tmp_path: Path) -> None:
    code, said = await scrapy(tmp_path, "crawl", "bluesky", "-a", "help")
    assert code == 0
    for name, field in BlueskyArguments.model_fields.items():
        assert f"\n{name} " in f"\n{said}"
        assert (field.description or "-")[:30] in said
    assert "harvester crawl bluesky" in said, "which works in any folder"
    assert os.listdir(tmp_path) == []
