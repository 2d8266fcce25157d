"""A harvest from the real AppView and PDS is complete and correct, whichever way posts are collected.

APPVIEW_INFO=<file> uses a stack that is already up: JSON with `appview`, `pds`, `plc` and `truth`, as
`python -m tests.appview.stack up` prints it. Without it, each seed has a stack of its own.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.appview.compare import compare
from tests.appview.stack import PROJECT, running_stack
from tests.appview.verify import verify

GIVEN = os.environ.get("APPVIEW_INFO")
SEEDS = ["given"] if GIVEN else ["1", "2", "3"]
HISTORIES = ["appview", "records", "car"]
CRAWL_TIMEOUT_SECONDS = 1200

pytestmark = [pytest.mark.appview, pytest.mark.timeout(CRAWL_TIMEOUT_SECONDS + 600)]


@pytest.fixture(scope="module", params=SEEDS)
def stack(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Addresses of a stack that runs."""
    if GIVEN:
        yield json.loads(Path(GIVEN).read_text())
    else:
        with running_stack({"SEED_RANDOM": request.param}) as addresses:
            yield addresses


def test_the_truth_is_what_the_appview_shows(stack: dict[str, Any]) -> None:
    assert verify(stack) == []


@pytest.mark.parametrize("history", HISTORIES)
def test_a_harvest_finds_all_that_is_visible_and_nothing_else(
    history: str,
    stack: dict[str, Any],
    mongodb: Database[dict[str, Any]],
    mongodb_uri: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    truth = json.loads(Path(stack["truth"]).read_text())
    arguments = {
        "seeds": f"{truth['cases']['hub']},{truth['cases']['followsEveryone']}",
        "depth": "3",
        "direction": "both",
        "collect": "graph,profiles,posts,threads",
        "media": "no",
        "history": history,
        "service": stack["appview"],
    }
    environment = {
        **os.environ,
        "HARVESTER_PLC_URL": stack["plc"],
        "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_DATABASE": mongodb.name,
        "HARVESTER_STATE_DIR": str(tmp_path / "state"),
        "HARVESTER_DATA_DIR": str(tmp_path / "data"),
        "MONGODB_URI": mongodb_uri,
    }
    options = [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
    log = tmp_path / "crawl.log"
    began = time.monotonic()
    with log.open("wb") as output:
        crawl = subprocess.run(
            [sys.executable, "-m", "scrapy", "crawl", "bluesky", *options],
            cwd=PROJECT,
            env=environment,
            stdout=output,
            stderr=output,
            timeout=CRAWL_TIMEOUT_SECONDS,
            check=False,
        )
    seconds = time.monotonic() - began
    seed = truth["options"]["random"]
    with capsys.disabled():
        print(f"\nseed {seed}, history={history}: {seconds:.1f} s, {mongodb.posts.count_documents({})} posts")

    assert crawl.returncode == 0, log.read_text(errors="replace")[-5000:]
    assert compare(truth, mongodb) == []
