"""`harvester account` says what became of an account, and why."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from harvester.exceptions import UsageError
from tests.crash.harvest import Harvest
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER
from tests.sandbox.process import Sandbox

Document = dict[str, Any]
Account = Callable[..., Ran]


@pytest.fixture(scope="module")
def site() -> Iterator[Sandbox]:
    with Sandbox(accounts=12, posts=3) as site:
        yield site


@pytest.fixture(scope="module")
def harvested(
    site: Sandbox, tmp_path_factory: pytest.TempPathFactory, mongodb_uri: str, redis_url: str
) -> Iterator[Harvest]:
    """The hub, what it follows, and a seed that there is not."""
    seeds, database = f"{site.handle(0)},nobody.invalid", f"test-{uuid4().hex[:12]}"
    variables = {"HARVESTER_REDIS_URL": redis_url}
    folder = tmp_path_factory.mktemp("harvest")
    harvest = Harvest(site, folder, mongodb_uri, database, variables, depth="1", seeds=seeds)
    assert harvest.run() == 0, harvest.said
    yield harvest
    with MongoClient[Document](mongodb_uri) as client:
        client.drop_database(database)


@pytest.fixture
def records(harvested: Harvest, mongodb_uri: str) -> Iterator[Database[Document]]:
    with MongoClient[Document](mongodb_uri) as client:
        yield client[harvested.environment["HARVESTER_DATABASE"]]


@pytest.fixture
def account(harvested: Harvest) -> Account:
    """The command, after the harvest."""
    return lambda *words: run(HARVESTER, "account", *words, cwd=harvested.folder, env=harvested.environment)


def test_each_account_has_its_fate_and_what_is_kept_of_it(
    account: Account, site: Sandbox, records: Database[Document]
) -> None:
    ran = account(site.handle(0))
    assert ran.returncode == 0, ran.stderr
    posts = records["posts"].count_documents({"did": site.did(0)})
    assert ran.stdout.startswith(f"{site.handle(0)} {site.did(0)}")
    assert f"{posts} posts" in ran.stdout
    [job] = [row["_id"] for row in records["jobs"].find()]
    assert f"{job}: account done" in ran.stdout
    same = json.loads(account("--json", site.did(0)).stdout)
    assert same["records"]["posts"] == posts
    assert {item["kind"] for item in same["items"]} >= {"account"}

    skipped = records["job_items"].find_one({"kind": "account", "state": {"$in": ["skipped", "failed"]}})
    assert skipped
    ran = account(skipped["key"])
    assert f"account {skipped['state']}" in ran.stdout
    assert skipped["reason"] in ran.stdout

    ran = account("@Nobody.invalid".lower())
    assert ran.returncode == 0, ran.stderr
    assert "seed failed" in ran.stdout
    assert "kept: nothing" in ran.stdout


def test_who_is_not_known_is_said(account: Account) -> None:
    for name in ("stranger.test", "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "did:nonsense", "\udcff"):
        ran = account(name)
        assert ran.returncode == UsageError.exit_code, name
        assert "Traceback" not in ran.stderr
    assert "'stranger.test'" in account("stranger.test").stderr
