"""`harvester db` lets other programs at the private MongoDB, for as long as it runs."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from harvester.exceptions import UsageError
from tests.forking import run
from tests.jobs.command import HARVESTER


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_address_is_printed_and_works_until_the_command_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen([HARVESTER, "db"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        address = process.stdout.readline().decode().strip()
        with MongoClient[dict[str, Any]](address) as client:
            client["harvester"]["posts"].insert_one({"_id": "x"})
            assert client["harvester"]["posts"].count_documents({}) == 1
        process.send_signal(number)
        out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (0, b"")
    assert b"database harvester" in err
    assert b"Ctrl-C" in err


def test_a_configured_server_is_named_and_not_waited_for(tmp_path: Path, mongodb_uri: str) -> None:
    environment = {**os.environ, "HARVESTER_MONGODB_URI": mongodb_uri}
    ran = run(HARVESTER, "db", cwd=tmp_path, env=environment)
    assert (ran.returncode, ran.stdout) == (0, f"{mongodb_uri}\n")


def test_mongosh_is_told_where_and_which_database_and_nothing_on_its_command_line(
    tmp_path: Path, mongodb_uri: str
) -> None:
    """mongosh itself is not to be had here: a script stands for it."""
    shell = tmp_path / "mongosh"
    shell.write_text('#!/bin/sh\necho "$HARVESTER_MONGOSH_URI"\necho "$@"\nexit 3\n')
    shell.chmod(0o755)
    environment = {**os.environ, "HARVESTER_MONGODB_URI": mongodb_uri, "HARVESTER_DATABASE": "mine"}
    ran = run(HARVESTER, "db", "shell", cwd=tmp_path, env=environment | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    address, arguments = ran.stdout.splitlines()
    assert (ran.returncode, address) == (3, mongodb_uri)
    assert "getSiblingDB('mine')" in arguments
    assert mongodb_uri not in arguments
    missing = run(HARVESTER, "db", "shell", cwd=tmp_path, env=environment | {"PATH": str(tmp_path / "nowhere")})
    assert missing.returncode == UsageError.exit_code
    assert "mongosh" in missing.stderr
    assert "Traceback" not in missing.stderr
