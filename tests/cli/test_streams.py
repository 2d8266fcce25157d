"""Where commands write to, and where they run: it may be closed, full, removed, or of an odd name or width."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harvester import __version__
from harvester.exceptions import UsageError
from tests.forking import Ran
from tests.sandbox.process import Sandbox

HARVESTER = Path(sys.executable).with_name("harvester")


def shell(words: str) -> Ran:
    """What a command does that a shell starts: streams are closed before Python begins."""
    ran = subprocess.run(["/bin/sh", "-c", f"{HARVESTER} {words}"], capture_output=True, text=True)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize(
    ("words", "ended"),
    [
        pytest.param("version >&-", (0, "", ""), marks=pytest.mark.slow),
        pytest.param("version 2>&-", (0, f"{__version__}\n", ""), marks=pytest.mark.slow),
        pytest.param("sites show none 2>&-", (2, "", ""), marks=pytest.mark.slow),
        ("sites show none <&- >&- 2>&-", (2, "", "")),
    ],
)
def test_a_stream_that_is_closed_changes_neither_the_exit_code_nor_the_other_stream(
    words: str, ended: tuple[int, str, str]
) -> None:
    assert shell(words) == ended


@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.slow)])
def test_a_standard_output_that_is_full_is_told_in_one_line(unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    ran = shell("version >/dev/full")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (4, "", 1)
    assert "No space left" in ran.stderr
    assert shell("sites show none 2>/dev/full") == (2, "", "")


def in_folder(folder: bytes, words: str, **environment: str) -> Ran:
    """What a command does in a folder, whatever its name is."""
    ran = subprocess.run(
        ["/bin/sh", "-c", f"{HARVESTER} {words}"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize(
    "columns", [*(pytest.param(each, marks=pytest.mark.slow) for each in ("0", "-5", "wide")), "9" * 12]
)
def test_a_width_that_no_terminal_has_changes_nothing_that_is_printed(columns: str, tmp_path: Path) -> None:
    plain = in_folder(bytes(tmp_path), "jobs --help", COLUMNS="80")
    assert "export" in plain.stdout
    assert in_folder(bytes(tmp_path), "jobs --help", COLUMNS=columns).stdout.split() == plain.stdout.split()


def test_a_working_folder_that_was_removed_is_told_in_one_line(tmp_path: Path) -> None:
    gone = f"cd {tmp_path} && mkdir gone && cd gone && rmdir ../gone && {HARVESTER}"
    ran = subprocess.run(["/bin/sh", "-c", f"{gone} runs list"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (UsageError.exit_code, "", 1)
    ran = subprocess.run(["/bin/sh", "-c", f"{gone} --version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, f"{__version__}\n")


@pytest.mark.soak
def test_a_folder_whose_name_is_no_utf8_holds_private_servers_a_run_and_its_files(tmp_path: Path) -> None:
    folder = bytes(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    with Sandbox(accounts=3, posts=1) as site:
        words = f"crawl bluesky -a seeds={site.handle(0)} -a depth=0 -a service={site.url} -O out.csv"
        variables = {"HARVESTER_ALLOW_PRIVATE_HOSTS": "true", "HARVESTER_REQUESTS_PER_SECOND": "0"}
        ran = in_folder(folder, words, HARVESTER_PLC_URL=site.url, **variables)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr + ran.stdout
    assert in_folder(folder, "runs show").returncode == 0
