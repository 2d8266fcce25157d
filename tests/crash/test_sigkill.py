"""Nothing is lost: a harvest killed by SIGKILL again and again ends with the records of an undisturbed one."""

import random
import signal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from tests.crash.harvest import Harvest, after, documents, fates, stored
from tests.crash.nothing_lost import differences, unpictured, unstaged, untruths
from tests.sandbox.process import Sandbox

DATABASE = Database[dict[str, Any]]


class Plan(NamedTuple):
    accounts: int
    posts: int
    kills: int
    media: str


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(20, 3, kills=2, media="yes"), id="20"),
        pytest.param(Plan(40, 3, kills=4, media="yes"), id="40", marks=[pytest.mark.slow, pytest.mark.long]),
        pytest.param(
            Plan(2_000, 8, kills=20, media="no"), id="2000", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]
        ),
    ],
)
def test_nothing_is_lost_when_a_harvest_is_killed_at_random_moments(
    plan: Plan, tmp_path: Path, mongodb: DATABASE, mongodb_uri: str
) -> None:
    names = [f"{mongodb.name}-{name}" for name in ("calm", "killed")]
    calm, killed = (mongodb.client[name] for name in names)
    try:
        with Sandbox(accounts=plan.accounts, posts=plan.posts) as site:
            site.settings(pds_limit=10**9)
            undisturbed = Harvest(site, tmp_path / "calm", mongodb_uri, calm.name, media=plan.media)
            assert undisturbed.run() == 0, undisturbed.said[-3000:]
            variables = {"HARVESTER_LEASE_SECONDS": "5"}
            harvest = Harvest(site, tmp_path / "killed", mongodb_uri, killed.name, variables, media=plan.media)
            kills = kill_at_random(harvest, killed, plan.kills, documents(calm))
            assert harvest.run() == 0, harvest.said[-3000:]
            print(f"{kills} kills of {plan.kills}")
            assert kills > plan.kills * 0.7, "too few of the kills struck"
            expected, found = stored(calm), stored(killed)
            assert differences(found, expected) == []
            assert differences(fates(killed), fates(calm)) == []
            assert untruths(site, found, fates(killed)["account"]) == []
            assert unstaged(tmp_path / "killed" / "data", found, fates(killed)["account"]) == []
            assert unpictured(tmp_path / "killed" / "data", found) == []
            assert (plan.media == "yes") == any("media_paths" in post for post in found["posts"].values())
    finally:
        for name in names:
            mongodb.client.drop_database(name)


def kill_at_random(harvest: Harvest, database: DATABASE, kills: int, all_documents: int) -> int:
    """Starts the harvest and kills it, `kills` times: when it has stored so many documents, or after so many seconds.

    Returns how many kills struck a running harvest. The moments are the same each time, as far as a machine allows.
    """
    dice = random.Random(20)
    thresholds = sorted(dice.randrange(all_documents) for _ in range(kills))
    struck = 0
    for number, threshold in enumerate(thresholds):
        harvest.start()
        if number % 4 == 3:
            reached = harvest.running_until(after(dice.uniform(0.5, 4)))
        else:
            reached = harvest.running_until(partial(reaches, database, threshold))
            reached = reached and harvest.running_until(after(dice.uniform(0, 0.3)))
        harvest.end(signal.SIGKILL)
        struck += reached
    return struck


def reaches(database: DATABASE, least: int) -> bool:
    """Whether so many documents are stored."""
    return documents(database) >= least
