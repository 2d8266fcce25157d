"""What runs in a container besides the program: secrets from files, and an end that lets jobs finish."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from harvester.config import Config
from tests.deploy.conftest import Records
from tests.deploy.jobs import run_of, schedule_slow
from tests.deploy.scrapyd import PASSWORD, Scrapyd
from tests.root import ROOT
from tests.sandbox.process import Sandbox

ENTRYPOINT = ROOT / "deploy" / "docker" / "entrypoint"
SHOW = "import os; print(os.environ.get('HARVESTER_MONGODB_URI'), os.environ.get('HARVESTER_MONGODB_URI_FILE'))"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers run Linux")


def enter(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ENTRYPOINT), *command], env={**os.environ, **variables}, capture_output=True, text=True, timeout=240
    )


def test_a_secret_is_read_from_a_file_and_only_its_value_reaches_the_program(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mongodb://me:pass $word'\"@mongo/\n")
    answer = enter(sys.executable, "-c", SHOW, HARVESTER_MONGODB_URI_FILE=str(secret))
    assert answer.stdout == "mongodb://me:pass $word'\"@mongo/ None\n", answer.stderr


def test_a_setting_that_names_a_file_reaches_the_program_as_it_is(tmp_path: Path) -> None:
    fields = Config.model_fields
    files = [each for each in fields if each.endswith("_file") and each.removesuffix("_file") not in fields]
    assert files == ["proxies_file", "publish_file"]
    named = {f"HARVESTER_{each.upper()}": str(tmp_path / each) for each in files}
    show = f"import os; print([os.environ[name] for name in {[*named]}])"
    answer = enter(sys.executable, "-c", show, **named)
    assert answer.stdout == f"{[*named.values()]}\n", answer.stderr


def test_a_secret_that_cannot_be_read_or_is_given_twice_is_refused(tmp_path: Path) -> None:
    missing = enter("true", HARVESTER_MONGODB_URI_FILE=str(tmp_path / "none"))
    assert missing.returncode == 2
    assert "HARVESTER_MONGODB_URI_FILE" in missing.stderr
    twice = enter("true", REDIS_URL="redis://there", REDIS_URL_FILE=str(tmp_path))
    assert twice.returncode == 2
    assert "REDIS_URL_FILE" in twice.stderr


@pytest.mark.parametrize("variables", [{}, {"SCRAPYD_USERNAME": "me"}, {"SCRAPYD_PASSWORD": "sesame"}])
def test_scrapyd_does_not_start_without_a_login(variables: dict[str, str]) -> None:
    answer = enter("scrapyd", **variables)
    assert answer.returncode == 2
    assert "SCRAPYD_PASSWORD" in answer.stderr


@pytest.mark.soak
def test_jobs_end_cleanly_when_the_container_is_stopped(
    tmp_path: Path, free_port: int, variables: dict[str, str], site: Sandbox, records: Records, scrapyd: Scrapyd
) -> None:
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    copytree(scrapyd.folder / "eggs_dir", tmp_path / "eggs_dir")  # what was deployed there
    container = Scrapyd(tmp_path, free_port, {**variables, "SCRAPYD_PASSWORD_FILE": str(password)}, entrypoint=True)
    container.start()
    try:
        job = schedule_slow(container, site, depth=4)
    finally:
        container.stop()
    run = run_of(records, job)
    assert (run["state"], run["finish_reason"], run["exit_code"]) == ("interrupted", "shutdown", 143)
