"""Several processes run one crawl: together they do what one does, once, also when some of them are killed."""

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pymongo.database import Database

from harvester.stores.staging import recover
from tests.crash.harvest import Harvest, documents, fates, stored
from tests.crash.nothing_lost import unstaged, untruths
from tests.sandbox.process import Sandbox

pytestmark = pytest.mark.timeout(900)

DATABASE = Database[dict[str, Any]]
VARIABLES = {"HARVESTER_LEASE_SECONDS": "3"}
KILLS = 3


@pytest.fixture(scope="module")
def site() -> Iterator[Sandbox]:
    with Sandbox(accounts=90, posts=3) as started:
        started.settings(pds_limit=10**9)
        yield started


@contextmanager
def started(harvests: Sequence[Harvest]) -> Iterator[None]:
    """All of them run meanwhile, and no longer."""
    try:
        for harvest in harvests:
            harvest.start()
        yield
    finally:
        for harvest in harvests:
            if harvest.process and harvest.process.poll() is None:
                harvest.end(signal.SIGKILL)


def workers(number: int, site: Sandbox, folder: Path, uri: str, database: DATABASE, **wishes: str) -> list[Harvest]:
    """The same command in as many processes, which stage into one folder and share a Redis."""
    variables = VARIABLES | {"HARVESTER_DATA_DIR": str(folder / "data"), "HARVESTER_STATE_DIR": str(folder / "state")}
    return [Harvest(site, folder / str(worker), uri, database.name, variables, **wishes) for worker in range(number)]


def feeds(site: Sandbox) -> Counter[str]:
    """How often each account's first page of posts was asked for, with an answer."""
    asked = Counter[str]()
    for request in site.log()["requests"]:
        query = parse_qs(urlsplit(request["path"]).query)
        if "getAuthorFeed" in request["path"] and "cursor" not in query and request["status"] == 200:
            asked[query["actor"][0]] += 1
    return asked


def test_several_processes_bring_all_that_there_is_and_fetch_nothing_twice(
    site: Sandbox, tmp_path: Path, mongodb: DATABASE, mongodb_uri: str
) -> None:
    site.clear_log()
    harvests = workers(3, site, tmp_path, mongodb_uri, mongodb)
    with started(harvests):
        assert [harvest.wait() for harvest in harvests] == [0] * 3, [one.said[-2000:] for one in harvests]
    found, ended = stored(mongodb), fates(mongodb)
    assert untruths(site, found, ended["account"]) == []
    assert unstaged(tmp_path / "data", found, ended["account"]) == []
    kept = {did for did, account in site.truth.accounts.items() if account.state == "visible"}
    assert feeds(site) == Counter(kept)
    (job,) = mongodb.jobs.find()
    assert job["state"] == "finished"
    took_part = [run for run in mongodb.runs.find() if run["counts"].get("post")]
    assert len(took_part) == 3, "all of them did something"
    assert {run["state"] for run in mongodb.runs.find()} == {"finished"}


@pytest.mark.slow
def test_what_a_killed_process_had_is_completed_by_the_others(
    site: Sandbox, tmp_path: Path, mongodb: DATABASE, mongodb_uri: str
) -> None:
    truth = site.truth
    expected = sum(map(len, (truth.accounts, truth.follows, truth.posts, truth.reposted, truth.reposts)))
    dice = random.Random(30)
    steady, *mortal = workers(3, site, tmp_path, mongodb_uri, mongodb)
    struck = 0
    with started([steady, *mortal]):
        for threshold in sorted(dice.randrange(expected) for _ in range(KILLS)):
            victim = dice.choice(mortal)
            assert steady.running_until(lambda least=threshold: documents(mongodb) >= least)  # type: ignore[misc]
            time.sleep(dice.uniform(0, 0.3))
            struck += victim.process is not None and victim.process.poll() is None
            victim.end(signal.SIGKILL)
            victim.start()
        for victim in mortal:
            victim.end(signal.SIGKILL)
        assert steady.wait() == 0, steady.said[-3000:]
    print(f"{struck} of {KILLS} kills, and {len(mortal)} at the end")
    assert struck >= KILLS - 1, "too few of the kills struck"
    found, ended = stored(mongodb), fates(mongodb)
    assert untruths(site, found, ended["account"]) == []
    recover(tmp_path / "data" / "staging")
    assert unstaged(tmp_path / "data", found, ended["account"]) == []
    (job,) = mongodb.jobs.find()
    assert job["state"] == "finished"
    assert mongodb.job_items.count_documents({"state": {"$in": ["waiting", "active"]}}) == 0


def test_max_accounts_holds_for_all_processes_together(
    site: Sandbox, tmp_path: Path, mongodb: DATABASE, mongodb_uri: str
) -> None:
    harvests = workers(3, site, tmp_path, mongodb_uri, mongodb, max_accounts="31", collect="graph,profiles,posts")
    with started(harvests):
        assert [harvest.wait() for harvest in harvests] == [0] * 3, [one.said[-2000:] for one in harvests]
    reasons = Counter((row["state"], row.get("reason")) for row in mongodb.job_items.find({"kind": "account"}))
    left_out = reasons.pop(("skipped", "max_items"), 0)
    assert sum(reasons.values()) == 31
    assert left_out > 0
    assert mongodb.profiles.count_documents({}) <= 31
