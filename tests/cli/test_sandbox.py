"""`harvester sandbox` serves a made-up Bluesky, with all settings, for as long as it runs."""

import ast
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harvester.exceptions import UsageError
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER

SECONDS = 240
SMALL = ("--port", "0", "--accounts", "12", "--posts", "3")
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("HARVESTER_", "SCRAPY_"))}
"""The environment of somebody who has set nothing."""
ASKS = """
import os, sys, urllib.request
told = urllib.request.urlopen(os.environ["HARVESTER_PLC_URL"] + "/xrpc/_health").read()
print(os.environ["HARVESTER_BLUESKY_SERVICE"], told.decode(), sys.argv[1:])
sys.exit(7)
"""


def sandbox(folder: Path, *words: str, **variables: str) -> Ran:
    return run(HARVESTER, "sandbox", *words, cwd=folder, env={**PLAIN, **variables})


@contextmanager
def started(folder: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """The command under way; what it writes to stdout lies in a file."""
    command = [HARVESTER, "sandbox", *words]
    with (folder / "settings.sh").open("w") as settings:
        process = subprocess.Popen(command, cwd=folder, env=PLAIN, stdout=settings, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_it_prints_is_typed_in_another_terminal_and_harvests_it(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "its folder", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    with started(here, *SMALL) as network:
        assert network.stderr
        told = iter(network.stderr.readline, "")
        assert "http://127.0.0.1:" in next(told)
        crawl = next(line for line in told if line.startswith("harvester "))
        settings = (here / "settings.sh").read_text()
        typed = subprocess.run(
            ["sh", "-e", "-c", settings + crawl],
            cwd=elsewhere,
            env={**PLAIN, "PATH": f"{Path(HARVESTER).parent}:{PLAIN['PATH']}"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        network.send_signal(signal.SIGINT)
        _, rest = network.communicate(timeout=SECONDS)
    assert typed.returncode == 0, typed.stderr
    said = " ".join(typed.stderr.split())
    assert "HARVESTER_" not in said, "no setting is missing, or unknown"
    assert "database harvester_sandbox" in said
    assert f"{here}/sandbox/.harvester" in said
    assert {path.name for path in (here / "sandbox" / "data").iterdir()} >= {"images", "reports", "staging"}
    assert os.listdir(elsewhere) == []
    assert network.returncode == 0
    assert f"{here}/sandbox" in rest.splitlines()[-1]


def test_a_command_is_run_with_all_settings_and_its_exit_code_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    ran = sandbox(tmp_path, *SMALL, "python", "asks.py", "--port", "-h")
    assert ran.returncode == 7, ran.stderr
    url, told, arguments = ran.stdout.split(maxsplit=2)
    assert (told[:1], ast.literal_eval(arguments.strip())) == ("{", ["--port", "-h"]), "its options are its own"
    for named in (url, "12 accounts", "alice-0.sandbox.test"):
        assert named in ran.stderr
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))):
        """The sandbox has ended with the command."""


def test_programs_of_the_installation_are_found_and_a_killed_command_counts_as_in_a_shell(tmp_path: Path) -> None:
    ran = sandbox(tmp_path, *SMALL, "sh", "-c", "command -v harvester; kill -9 $$", PATH="/usr/bin:/bin")
    assert (ran.returncode, ran.stdout.strip()) == (128 + signal.SIGKILL, HARVESTER), ran.stderr


def test_what_ends_the_sandbox_ends_its_command_first(tmp_path: Path) -> None:
    waits = "import signal as s; s.signal(s.SIGTERM, lambda *_: exit(9)); print(flush=True); s.pause()"
    reading, writing = os.pipe()
    command = [HARVESTER, "sandbox", *SMALL, sys.executable, "-c", waits]
    with subprocess.Popen(command, cwd=tmp_path, env=PLAIN, stdout=writing) as network:
        os.close(writing)
        assert os.read(reading, 1) == b"\n"
        network.send_signal(signal.SIGINT)  # a terminal would send it to the command, too
        network.send_signal(signal.SIGTERM)
        assert network.wait(SECONDS) == 9
    os.close(reading)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--accounts", "1"], ["--accounts", "2"]),
        (["--port", "TAKEN"], ["--port", "TAKEN", "Address already in use"]),
        (["--port", "0", "havester", "crawl"], ["'havester'", "No such file"]),
    ],
)
def test_what_cannot_be_served_or_run_is_said(words: list[str], named: list[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        ran = sandbox(tmp_path, *(word.replace("TAKEN", port) for word in words), COLUMNS="120")
    assert ran.returncode == UsageError.exit_code
    assert [name for name in named if name.replace("TAKEN", port) not in ran.stderr] == [], ran.stderr
    assert "Traceback" not in ran.stderr
