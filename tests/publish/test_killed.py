"""Every record of a crawl arrives, in order and with one id for doubles, though the crawl is killed by SIGKILL."""

import os
import signal
from functools import partial
from pathlib import Path

from tests.crash.harvest import Harvest, documents
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.publish.arrived import faults
from tests.publish.conftest import House
from tests.sandbox.process import Sandbox

KILLED_AT = (40, 250)
"""Records that were stored."""


def test_a_crawl_that_is_killed_tells_of_all_it_has_stored(house: House, tmp_path: Path, mongodb_uri: str) -> None:
    house.publish('[all]\nkind = "redis"\n')
    with Sandbox(accounts=20, posts=5) as site:
        variables = {"HARVESTER_LEASE_SECONDS": "2"}
        harvest = Harvest(site, tmp_path, mongodb_uri, house.database.name, variables)
        for number in KILLED_AT:
            harvest.start()
            assert harvest.running_until(partial(has, house, number)), harvest.said
            harvest.end(signal.SIGKILL)
        assert harvest.run() == 0, harvest.said
    ran = run(HARVESTER, "publish", "run", "--until-empty", cwd=tmp_path, env=os.environ)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert faults(house.entries(), house.database) == []


def has(house: House, number: int) -> bool:
    return documents(house.database) >= number
