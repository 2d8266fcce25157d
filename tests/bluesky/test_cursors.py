"""A list is read to its end or said to be cut short, whatever its cursors are."""

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
HUB = 0


def test_a_list_whose_cursors_go_round_in_a_circle_is_cut_short_and_marks_nothing(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    command, (first, last) = harvested(harvest, site)
    known = mongodb.follows.count_documents({})
    round_again = f'"cursor":"{first}","subject":'
    site.fault("replace", match=f"getFollowers.*cursor={re.escape(last)}", old='"subject":', new=round_again)
    site.fault("without_rows", match="getFollowers", texts=[site.did(site.network.visible_followers(HUB)[0])])
    assert command.run() == 0, command.said
    assert re.search(rf"{site.did(HUB)} .*\bcursor\b", command.said)
    assert mongodb.job_items.count_documents({"state": "done", "stage": "cut_short"}) == 1
    assert mongodb.follows.count_documents({"gone_at": {"$exists": False}}) == known


def test_a_list_whose_cursor_is_refused_is_read_anew_to_its_end_once(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    command, (first, last) = harvested(harvest, site)
    known = {row["_id"] for row in mongodb.follows.find()}
    refused = {"status": 400, "error": "InvalidRequest", "message": "Malformed cursor"}
    site.fault("status", match=f"getFollowers.*cursor={re.escape(last)}", times=1, **refused)
    mongodb.follows.delete_many({})
    assert command.run() == 0, command.said
    assert {row["_id"] for row in mongodb.follows.find()} == known
    site.clear_faults()
    site.clear_log()
    site.fault("status", match=f"getFollowers.*cursor={re.escape(first)}", **refused)
    command.run()
    reasons = [row["reason"] for row in mongodb.job_items.find({"state": "failed"})]
    assert [(reason.startswith("followers: invalid: "), "cursor" in reason) for reason in reasons] == [(True, True)]
    assert len(cursors(site)) == 2


def harvested(harvest: Make, site: Sandbox) -> tuple[Harvest, list[str]]:
    """A harvest of the followers of the hub, and the cursors of their pages."""
    command = harvest(
        {"HARVESTER_MAX_ERROR_RATIO": "1"}, seeds=site.did(HUB), depth="0", collect="graph", direction="followers"
    )
    site.clear_log()
    assert command.run() == 0, command.said
    return command, cursors(site)


def cursors(site: Sandbox) -> list[str]:
    """With which followers were asked for."""
    asked = [
        parse_qs(urlsplit(each["path"]).query) for each in site.log()["requests"] if "getFollowers" in each["path"]
    ]
    return [query["cursor"][0] for query in asked if "cursor" in query]
