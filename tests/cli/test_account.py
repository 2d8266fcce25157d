"""`harvester account` says what became of an account, and why."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.exceptions import UsageError
from tests.crash.harvest import Harvest
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER
from tests.sandbox.process import Sandbox

Document = dict[str, Any]
Account = Callable[..., Ran]


@pytest.fixture
def site() -> Iterator[Sandbox]:
    with Sandbox(accounts=12, posts=3) as site:
        yield site


@pytest.fixture
def account(site: Sandbox, tmp_path: Path, mongodb: Database[Document], mongodb_uri: str, redis_url: str) -> Account:
    """The command, after a harvest of the hub, what it follows, and a seed that there is not."""
    variables = {"HARVESTER_REDIS_URL": redis_url}
    seeds = f"{site.handle(0)},nobody.invalid"
    harvest = Harvest(site, tmp_path, mongodb_uri, mongodb.name, variables, depth="1", seeds=seeds)
    assert harvest.run() == 0, harvest.said
    environment = {**os.environ, "HARVESTER_MONGODB_URI": mongodb_uri, "HARVESTER_DATABASE": mongodb.name}
    return lambda *words: run(HARVESTER, "account", *words, cwd=tmp_path, env=environment)


def test_each_account_has_its_fate_and_what_is_kept_of_it(
    account: Account, site: Sandbox, mongodb: Database[Document]
) -> None:
    ran = account(site.handle(0))
    assert ran.returncode == 0, ran.stderr
    posts = mongodb["posts"].count_documents({"did": site.did(0)})
    assert ran.stdout.startswith(f"{site.handle(0)} {site.did(0)}")
    assert f"{posts} posts" in ran.stdout
    [job] = [row["_id"] for row in mongodb["jobs"].find()]
    assert f"{job}: account done" in ran.stdout
    same = json.loads(account("--json", site.did(0)).stdout)
    assert same["records"]["posts"] == posts
    assert {item["kind"] for item in same["items"]} >= {"account"}

    skipped = mongodb["job_items"].find_one({"kind": "account", "state": {"$in": ["skipped", "failed"]}})
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
    assert "Nothing is known of 'stranger.test' here." in account("stranger.test").stderr
