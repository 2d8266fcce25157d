"""A list that ends early, and an account that is taken down while its lists are read, are noticed and marked."""

import re
from collections.abc import Callable

import pytest

from harvester.sandbox.posts import SandboxPost
from harvester.spiders.bluesky.gaps import is_short
from harvester.spiders.bluesky.revisits import FEED_ENDED_EARLY, READ_INSTEAD
from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest, fates
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
HUB, OTHER = 0, 20
GONE = {"status": 400, "error": "AccountTakedown", "message": "Account has been suspended"}
FEWER = 6
"""Exit code of a run of which the monitors say that it brought fewer records than the one before."""
NOT_LISTED = {"status": 400, "error": "InvalidRequest"}


@pytest.mark.parametrize("honour_opt_outs", [pytest.param("yes", marks=pytest.mark.slow), "no"])
def test_posts_that_a_feed_does_not_show_come_from_the_account_s_own_server(
    honour_opt_outs: str, harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    hub, other = site.did(HUB), site.did(OTHER)
    site.fault("drop_field", f"getAuthorFeed.*{hub}", field="cursor")
    command = harvest(seeds=f"{hub},{other}", depth="0", collect="posts", honour_opt_outs=honour_opt_outs)
    assert command.run() == 0, command.said
    assert fates(mongodb)["account"] == {hub: (READ_INSTEAD, ""), other: ("posts_collected", "")}
    every = {site.world.uri(SandboxPost(HUB, number)) for number in range(site.world.count(HUB))}
    assert {row["_id"] for row in mongodb.posts.find({"did": hub})} == every
    assert re.search(rf"{hub}.*\b{len(every)}\b", command.said)


@pytest.mark.slow
def test_an_account_keeps_its_mark_when_its_server_has_no_other_history_and_nothing_of_it_is_said_to_be_gone(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    hub = site.did(HUB)
    asked_for = {"seeds": hub, "depth": "0", "collect": "posts"}
    whole = harvest(**asked_for)
    assert whole.run() == 0, whole.said
    site.fault("drop_field", f"getAuthorFeed.*{hub}", field="cursor")
    site.fault("status", f"listRecords.*{hub}", **NOT_LISTED, message="Could not find repo")
    again = harvest(**asked_for)
    assert again.run() in (0, FEWER), again.said
    assert fates(mongodb)["account"][hub] == (FEED_ENDED_EARLY, "")
    assert not mongodb.posts.count_documents({"gone_at": {"$exists": True}})


def test_follows_that_end_far_from_the_number_in_the_profile_are_marked(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    hub = site.did(HUB)
    site.fault("replace", "getProfiles", old='"followersCount":', new='"followersCount":99')
    command = harvest(seeds=hub, depth="0", collect="graph", direction="followers")
    assert command.run() == 0, command.said
    assert fates(mongodb)["account"] == {hub: ("cut_short", "")}


@pytest.mark.parametrize(("came", "says", "short"), [
    (0, None, False), (0, 0, False), (0, 1, True), (90, 100, False), (89, 100, True), (995, 1_000, False),
    (150, 1_000, True), (3, 8, False), (120, 100, False),
])  # fmt: skip
def test_a_feed_may_lack_a_few_posts(came: int, says: int | None, short: bool) -> None:
    assert is_short(came, says) is short


@pytest.mark.parametrize(
    "history", ["appview", *(pytest.param(history, marks=pytest.mark.slow) for history in ("records", "car"))]
)
def test_an_account_that_is_taken_down_between_its_profile_and_its_lists_ends_as_gone(
    history: str, harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    """Its own server shows its records still, as real ones do, and the AppView none of its posts."""
    other = site.did(OTHER)
    asked_for = {"seeds": other, "depth": "0", "collect": "profiles,posts", "history": history}
    before = harvest(**asked_for)
    assert before.run() == 0, before.said
    site.fault("status", f"getProfile[?].*{other}", **GONE)
    site.fault("status", f"getAuthorFeed.*{other}", **NOT_LISTED, message="Profile not found")
    site.fault("without_rows", "getPosts", texts=[other])
    command = harvest(**asked_for)
    assert command.run() in (0, FEWER), command.said
    assert fates(mongodb)["account"][other] == ("failed", "gone: AccountTakedown")
    profile = mongodb.profiles.find_one({"_id": other})
    assert profile
    assert "gone_at" in profile


def test_an_account_whose_feed_is_empty_though_it_has_posts_is_asked_for_once_more(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    other = site.did(OTHER)
    site.fault("status", f"getProfile[?].*{other}", **GONE)
    site.fault("without_rows", f"getAuthorFeed.*{other}", texts=["uri"])
    site.fault("drop_field", f"getAuthorFeed.*{other}", field="cursor")
    command = harvest(seeds=other, depth="0", collect="profiles,posts")
    assert command.run() == 0, command.said
    assert fates(mongodb)["account"] == {other: ("failed", "gone: AccountTakedown")}


def test_a_list_that_is_not_found_fails_with_its_own_reason_when_its_account_is_there(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    other, said = site.did(OTHER), "Actor not found"
    site.fault("status", f"getFollows.*{other}", **NOT_LISTED, message=said)
    command = harvest(seeds=other, depth="0", collect="graph")
    assert command.run() == 0, command.said
    assert fates(mongodb)["account"] == {other: ("failed", f"follows: not_found: {said}")}
