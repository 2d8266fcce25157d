"""The command `harvester`: what it prints, and its exit codes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from harvester import __version__
from harvester.cli.app import ORDER, app
from harvester.config import Config, misspelt, read_config, variable_of
from harvester.exceptions import UsageError
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.stores.redis import check_address
from tests.forking import Ran, run

HARVESTER = str(Path(sys.executable).with_name("harvester"))


def harvester(*arguments: str, **environment: str) -> Ran:
    return run(HARVESTER, *arguments, cwd=Path.cwd(), env={**os.environ, **environment})


@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_version_is_printed(word: str) -> None:
    assert harvester(word).stdout.strip() == __version__


@pytest.mark.parametrize("words", [["-h"], ["jobs", "-h"], ["jobs", "submit", "-h"]])
def test_short_help_is_help(words: list[str]) -> None:
    answer = harvester(*words)
    assert answer.returncode == 0
    assert answer.stdout == harvester(*words[:-1], "--help").stdout
    assert "Usage:" in answer.stdout


def test_commands_are_listed_as_one_comes_to_need_them_and_flags_without_a_type() -> None:
    shown = harvester("--help").stdout
    listed = re.findall(r"^│ ([a-z]+) +[A-Z]", shown, re.MULTILINE)
    assert listed == list(ORDER)
    assert sorted(listed) == sorted(get_command(app).commands)  # type: ignore[attr-defined]
    for words in ([], ["jobs", "submit"], ["frontier", "drop"]):
        assert "<bool>" not in harvester(*words, "--help").stdout


@pytest.mark.parametrize(
    "words",
    [
        "crawl blue",
        "worker blue",
        "feed blue",
        "spiders show blue",
        "frontier status blue",
        "jobs submit blue",
        "jobs list --spider blue",
        "runs list --spider blue",
    ],
)
def test_names_of_spiders_are_completed(words: str) -> None:
    """As bash asks, once `harvester --install-completion` has told it of that."""
    asked = {"COMP_WORDS": f"harvester {words}", "COMP_CWORD": str(len(words.split()))}
    answer = harvester(**asked, _HARVESTER_COMPLETE="complete_bash")
    assert answer.stdout.split() == ["bluesky"]


def test_completion_says_nothing_where_settings_cannot_be_used() -> None:
    asked = {"COMP_WORDS": "harvester worker blue", "COMP_CWORD": "2", "_HARVESTER_COMPLETE": "complete_bash"}
    answer = harvester(**asked, HARVESTER_MAX_IMAGE_MB="many")
    assert (answer.stdout.strip(), answer.stderr) == ("", "")


def test_spiders_are_listed_with_a_summary() -> None:
    lines = harvester("spiders", "list").stdout.splitlines()
    assert [line for line in lines if line.startswith("bluesky  ") and len(line) > 40]


def test_a_spider_is_shown_with_all_its_arguments() -> None:
    shown = harvester("spiders", "show", "bluesky").stdout
    assert [name for name in BlueskyArguments.model_fields if f"\n{name} " not in shown] == []


def test_an_unknown_spider_is_refused_and_the_known_ones_are_named() -> None:
    answer = harvester("spiders", "show", "nope")
    assert answer.returncode == 2
    assert "'nope'" in answer.stderr
    assert "bluesky" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["frontier", "find", "bluesky", "http://a.example/", "--job", "a\udcff"],
        ["frontier", "open", "bluesky", "a.example", "--reason", "a\udcff"],
        ["frontier", "replay", "bluesky", "a\udcff"],
        ["purge", "--account", "a\udcff"],
    ],
)
def test_a_word_that_is_no_text_is_refused_by_every_command(words: list[str], mongodb_uri: str, redis_url: str) -> None:
    answer = harvester(*words, HARVESTER_MONGODB_URI=mongodb_uri, REDIS_URL=redis_url)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1
    assert "'a\\udcff'" in answer.stderr
    assert "UTF-8" in answer.stderr


def test_a_setting_that_cannot_be_used_is_named() -> None:
    answer = harvester("report", HARVESTER_MAX_IMAGE_MB="many")
    assert answer.returncode == 2
    assert "HARVESTER_MAX_IMAGE_MB" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HARVESTER_LEASE_SECONDS", "inf"),
        ("HARVESTER_DEFERRED_SECONDS", "1e999"),
        ("HARVESTER_REQUESTS_PER_SECOND", "inf"),
        ("HARVESTER_SMTP_PORT", "65536"),
    ],
)
def test_a_number_that_cannot_be_used_is_refused_by_the_name_of_its_variable(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"  {name}: "):
        read_config()


def test_an_empty_path_is_as_none_given(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [name for name, field in Config.model_fields.items() if field.annotation in (Path, Path | None)]
    assert len(paths) == 6
    for name in paths:
        monkeypatch.setenv(f"HARVESTER_{name.upper()}", "")
    assert {name: getattr(read_config(), name) for name in paths} == {
        name: Config.model_fields[name].default for name in paths
    }


@pytest.mark.parametrize("name", ["REDIS_URL", "HARVESTER_REDIS_URL"])
def test_messages_name_the_variable_that_was_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "htp://127.0.0.1")
    config = Config()
    with pytest.raises(UsageError, match=rf"^{name}\b"):
        check_address(config)
    assert variable_of("mongodb_uri") == variable_of("HARVESTER_MONGODB_URI") == "HARVESTER_MONGODB_URI"


def test_a_variable_of_the_environment_is_named_rather_than_one_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("HARVESTER_REDIS_URL=redis://a.example\n")
    monkeypatch.setitem(Config.model_config, "env_file", str(tmp_path / ".env"))
    assert variable_of("redis_url") == "HARVESTER_REDIS_URL"
    monkeypatch.setenv("REDIS_URL", "redis://b.example")
    assert variable_of("redis_url") == "REDIS_URL"


STEPS = """
[county]
hosts = ["county.example"]
[county.browser]
render = true
steps = [{ fill = "#user", secret = "county_user" }]
[county.identities]
kind = "browser"
credentials = ["OAK"]
[county.identities.browser]
steps = [{ open = "https://county.example/" }, { fill = "#pin", secret = "county_pin" }]
success = { text = "Welcome" }
"""


def test_a_setting_that_there_is_not_is_named_once_with_the_one_that_may_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sites, state = tmp_path / "sites", tmp_path / "state"
    sites.mkdir()
    (sites / "county.toml").write_text(STEPS, "utf-8")
    (tmp_path / ".env").write_text("HARVESTER_MIN_RECORD=secret\nharvester_contact=me@example.org\n", "utf-8")
    given = {
        "HARVESTER_REQUEST_PER_SECOND": "secret",
        "HARVESTER_WEATHER": "fine",
        "HARVESTER_SITES_DIR": str(sites),
        "HARVESTER_STATE_DIR": str(state),
        "HARVESTER_COUNTY_USER": "ann",
        "HARVESTER_COUNTY_PIN": "1234",
        "HARVESTER_SESSION_OAK_USER": "ann",
        "HARVESTER_SESSION_OAK_PASSWORD": "1234",
    }
    answer = harvester("spiders", "list", **given)
    assert answer.returncode == 0
    assert [re.findall(r"HARVESTER_\w+", line) for line in answer.stderr.splitlines()] == [
        ["HARVESTER_MIN_RECORD", "HARVESTER_MIN_RECORDS"],
        ["HARVESTER_REQUEST_PER_SECOND", "HARVESTER_REQUESTS_PER_SECOND"],
        ["HARVESTER_WEATHER"],
    ]
    assert "secret" not in answer.stderr


def test_what_kubernetes_tells_of_services_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    named = "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP", "PORT_80_TCP_ADDR", "PORTS"
    for name in named:
        monkeypatch.setenv(f"HARVESTER_REDIS_{name}", "tcp://10.0.0.1:80")
    [said] = misspelt(Config())
    assert re.findall(r"HARVESTER_REDIS_\w+", said)[0] == "HARVESTER_REDIS_PORTS"


def test_a_line_of_the_settings_that_is_none_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("HARVESTER_MIN_RECORDS = 2\nthis is 'none\n", "utf-8")
    assert harvester("spiders", "list").stderr.count("could not parse") == 1


def test_a_setting_of_harvester_that_is_given_to_scrapy_is_named() -> None:
    scrapy = str(Path(sys.executable).with_name("scrapy"))
    words = ["crawl", "bluesky", "-a", "help", "-s", "HARVESTER_REQUESTS_PER_SECOND=1"]
    environment = os.environ | {"SCRAPY_SETTINGS_MODULE": "harvester.settings"}
    answer = run(scrapy, *words, cwd=Path.cwd(), env=environment)
    assert answer.returncode == 0
    (said,) = answer.stderr.splitlines()
    assert "HARVESTER_REQUESTS_PER_SECOND" in said


def test_an_address_that_is_none_is_refused() -> None:
    answer = harvester("doctor", "--site", "file:///etc/passwd")
    assert answer.returncode == 2
    assert "--site" in answer.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    words = {"COMP_WORDS": "harvester sp", "COMP_CWORD": "1"}  # for bash
    words |= {"_TYPER_COMPLETE_ARGS": "harvester sp", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    completed = harvester(_HARVESTER_COMPLETE=f"complete_{shell}", **words)
    assert "spiders" in completed.stdout
    assert "doctor" not in completed.stdout


def test_a_completion_waits_for_no_library_that_it_does_not_need() -> None:
    program = "import sys, harvester.cli.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "typer" in loaded
    assert {"lxml", "pymongo", "redis", "scrapy", "twisted"}.isdisjoint(loaded)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="bash is what it is tried with")
def test_completion_installs_itself(tmp_path: Path) -> None:
    installed = subprocess.run(
        ["/bin/bash", "-c", f"{HARVESTER} --install-completion; true"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "completion installed" in installed.stdout, installed.stderr
    assert "harvester" in (tmp_path / ".bashrc").read_text()


def test_help_and_completion_load_neither_scrapy_nor_what_reads_the_settings() -> None:
    heavy = {"scrapy", "twisted", "pydantic", "pymongo", "pyarrow", "lxml"}
    code = f"import harvester.cli.app, sys; print(*sorted({heavy!r} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
