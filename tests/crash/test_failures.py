"""What a site's failures kept back in one run is harvested by the next, as if they had not been."""

from pathlib import Path
from typing import Any

from pymongo.database import Database

from tests.crash.harvest import Harvest, stored
from tests.crash.nothing_lost import differences
from tests.sandbox.process import Sandbox


def test_accounts_behind_a_list_that_failed_are_all_found_by_the_next_run(
    tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str, own_redis: str
) -> None:
    """Also those that were met on another way, too far from the seeds for their own lists to count."""
    with Sandbox(accounts=60, posts=1) as site:
        wishes = {
            "seeds": f"{site.handle(37)},{site.handle(54)}",
            "direction": "follows",
            "collect": "graph,profiles",
            "depth": "2",
            "honour_opt_outs": "no",
        }
        variables = {"HARVESTER_REDIS_URL": own_redis, "HARVESTER_MAX_ERROR_RATIO": "1"}
        harvest = Harvest(site, tmp_path, mongodb_uri, mongodb.name, variables, **wishes)
        harvest.command += ["-s", "HARVESTER_BACKOFF_FACTOR=0"]
        truth = site.truth_of(honour_opt_outs=False, seeds=(37, 54), hops=2, directions=("follows",))
        everybody = {"profiles": dict.fromkeys(truth.accounts)}

        site.fault("status", f"getFollows.*{site.did(37)}", status=500)
        harvest.run()
        assert differences(stored_profiles(mongodb), everybody) != []
        site.clear_faults()
        assert harvest.run() == 0, harvest.said
        assert differences(stored_profiles(mongodb), everybody) == []


def stored_profiles(database: Database[dict[str, Any]]) -> dict[str, dict[str, None]]:
    return {"profiles": dict.fromkeys(stored(database)["profiles"])}
