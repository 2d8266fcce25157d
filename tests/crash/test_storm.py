"""One harvest in a storm: its process and its servers are killed, and Redis loses all that it has; nothing is lost."""

import random
import signal
from pathlib import Path

import pytest
from pymongo.database import Database

from tests.chaos.servers import Valkey
from tests.crash.harvest import Document, Harvest, fates, stored
from tests.crash.mongod import Mongod
from tests.crash.nothing_lost import differences, unstaged, untruths
from tests.pipelines.records import KINDS
from tests.ports import free_port
from tests.sandbox.process import Sandbox

STORM = {"the crawler is killed": 20, "Redis is killed": 3, "MongoDB is killed": 3, "Redis loses everything": 5}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_harvest_in_a_storm_has_the_records_of_an_undisturbed_one(tmp_path: Path) -> None:
    folder = tmp_path / "storm"
    with (
        Sandbox(accounts=600, posts=6) as site,
        Mongod(tmp_path / "mongodb", free_port()) as mongod,
        Valkey(tmp_path / "valkey", free_port()) as valkey,
        mongod.client() as client,
    ):
        site.settings(pds_limit=10**9)
        calm, disturbed = client["calm"], client["disturbed"]
        undisturbed = Harvest(site, tmp_path / "calm", mongod.uri, calm.name)
        assert undisturbed.run() == 0, undisturbed.said[-3000:]
        harvest = Harvest(site, folder, mongod.uri, disturbed.name, {"HARVESTER_REDIS_URL": valkey.uri})
        blows = [blow for blow, times in STORM.items() for _ in range(times)]
        random.Random(20).shuffle(blows)
        every = records(calm) // (len(blows) + 1)
        harvest.start()
        for number, blow in enumerate(blows, 1):
            assert harvest.running_until(lambda: records(disturbed) >= number * every), harvest.said[-3000:]  # noqa: B023
            strike(blow, harvest, mongod, valkey)
        assert harvest.wait() == 0, harvest.said[-3000:]
        assert "job items" in harvest.said
        found, expected = stored(disturbed), stored(calm)
        assert differences(found, expected) == []
        assert differences(fates(disturbed), fates(calm)) == []
        assert untruths(site, found, fates(disturbed)["account"]) == []
        assert unstaged(folder / "data", found, fates(disturbed)["account"]) == []


def records(database: Database[Document]) -> int:
    """Counted one by one: a MongoDB that was killed does not know how many it has."""
    return sum(database[kind.COLLECTION].count_documents({}) for kind in KINDS)


def strike(blow: str, harvest: Harvest, mongod: Mongod, valkey: Valkey) -> None:
    """Returns when what was struck has been started again."""
    match blow:
        case "the crawler is killed":
            harvest.end(signal.SIGKILL)
            harvest.start()
        case "Redis loses everything":
            valkey.lose()
        case _:
            server = valkey if blow == "Redis is killed" else mongod
            server.end(signal.SIGKILL)
            server.start()
