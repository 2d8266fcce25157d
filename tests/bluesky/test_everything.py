"""A harvest finds everything that there is to be found, and nothing else, whatever way the posts come."""

from collections.abc import Callable

import pytest

from harvester.sandbox.views import position_of
from harvester.stores.staging import iter_records
from tests.bluesky.compared import untruths
from tests.bluesky.conftest import Harvested
from tests.crash.nothing_lost import UNSTAGED
from tests.pipelines.records import KINDS
from tests.sandbox.process import Sandbox

By = Callable[[str], Harvested]


@pytest.mark.parametrize(
    "history", ["appview", *(pytest.param(history, marks=pytest.mark.slow) for history in ("records", "car"))]
)
def test_all_that_is_there_is_found_and_nothing_else(history: str, harvested: By, site: Sandbox) -> None:
    assert untruths(site, harvested(history).database, history=history) == []


@pytest.mark.parametrize("history", ["appview", pytest.param("car", marks=pytest.mark.slow)])
def test_the_answer_of_each_record_is_staged(history: str, harvested: By) -> None:
    done = harvested(history)
    refused = {row["_id"] for row in done.database.profiles.find({"opt_outs": {"$exists": True}})}
    for kind in KINDS:
        if kind.KIND not in UNSTAGED:
            stored = {row["_id"] for row in done.database[kind.COLLECTION].find()}
            staged = {line["key"] for line in iter_records(done.data, "bluesky", kind.KIND)}
            assert staged == stored - (refused if kind.KIND == "profile" else set()), kind.KIND


def test_an_account_without_a_valid_handle_is_known_by_its_did(harvested: By, site: Sandbox) -> None:
    database, did = harvested("appview").database, site.did("handle_invalid")
    profile = database.profiles.find_one({"_id": did})
    assert profile
    assert profile["handle"] == "handle.invalid"
    assert database.follows.count_documents({"did": did}) > 0
    assert database.posts.count_documents({"did": did}) > 0


def test_counts_of_a_profile_exceed_its_lists_and_the_harvest_is_complete_nevertheless(
    harvested: By, site: Sandbox
) -> None:
    database, hub = harvested("appview").database, site.did(0)
    profile = database.profiles.find_one({"_id": hub})
    assert profile
    assert profile["followers_count"] > database.follows.count_documents({"subject_did": hub}) > 0
    [job] = database.jobs.find()
    assert job["state"] == "finished"


def test_short_and_empty_pages_do_not_end_a_list(harvested: By, site: Sandbox) -> None:
    paths = [entry["path"] for entry in harvested("appview").requests]
    cursors = [path.partition("cursor=")[2] for path in paths if "getFollowers" in path and site.did(0)[8:] in path]
    gaps = [position_of(cursor.partition("&")[0]) for cursor in cursors]
    assert (30, True) in gaps, "no page of the hub was empty"
    assert harvested("appview").database.follows.count_documents({"subject_did": site.did(0)}) > 30


def test_no_account_is_asked_for_twice(harvested: By) -> None:
    """Deduplicated by DID, each list is read once."""
    paths = [entry["path"] for entry in harvested("appview").requests]
    assert len(paths) == len(set(paths))


def test_a_harvest_of_everything_asks_as_one_who_names_himself_and_makes_no_noise(harvested: By) -> None:
    said = harvested("appview").said
    assert "monitors passed" in " ".join(said.split())
    for word in ("Traceback", "ERROR", "WARNING"):
        assert word not in said
