"""Which slice of the network is harvested: depth, direction, the most accounts, and the time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest

from harvester.sandbox.posts import SandboxPost
from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
NORMAL = 20
"""An account of no special kind."""


@pytest.mark.parametrize(
    ("depth", "direction", "lists"),
    [
        (0, "follows", ("follows",)),
        (1, "followers", ("followers",)),
        pytest.param(2, "both", ("follows", "followers"), marks=pytest.mark.slow),
    ],
)
def test_accounts_so_many_steps_away_are_harvested_and_their_lists_read(
    depth: int, direction: str, lists: tuple[str, ...], harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    command = harvest(seeds=site.did(NORMAL), depth=str(depth), direction=direction, collect="graph,profiles")
    assert command.run() == 0, command.said
    truth = site.truth_of(seeds=(NORMAL,), hops=depth, directions=lists)
    assert {row["key"]: row["depth"] for row in mongodb.job_items.find({"kind": "account"})} == {
        site.did(index): steps for index, steps in truth.depths.items()
    }
    assert {row["_id"] for row in mongodb.profiles.find()} == truth.accounts.keys()
    follows = [(one, other) for one in truth.kept for other in site.network.visible_follows(one)]
    followers = [(other, one) for one in truth.kept for other in site.network.visible_followers(one)]
    shown = chain(follows if "follows" in lists else [], followers if "followers" in lists else [])
    assert {(row["did"], row["subject_did"]) for row in mongodb.follows.find()} == {
        (site.did(one), site.did(other)) for one, other in shown
    }


def test_max_accounts_is_exact_and_the_nearest_come_first(harvest: Make, site: Sandbox, mongodb: Records) -> None:
    command = harvest(seeds=site.did(NORMAL), depth="3", direction="both", max_accounts="17", collect="graph,profiles")
    assert command.run() == 0, command.said
    begun = list(mongodb.job_items.find({"kind": "account", "reason": {"$ne": "max_items"}}))
    assert len(begun) == 17
    assert {row["_id"] for row in mongodb.profiles.find()} == {row["key"] for row in begun}
    depths = site.truth_of(seeds=(NORMAL,), hops=2).depths
    steps = [depths[site.network.index_of_did(row["key"]) or 0] for row in begun]
    assert sorted(steps) == sorted(depths.values())[:17]
    assert {row["state"] for row in mongodb.job_items.find({"reason": "max_items"})} == {"skipped"}


@pytest.mark.parametrize(
    "history", ["appview", *(pytest.param(history, marks=pytest.mark.slow) for history in ("records", "car"))]
)
def test_only_posts_of_the_time_asked_for_are_kept_and_the_same_whatever_way_they_come(
    history: str, harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    """Also when the newest page of records is of posts that were written long ago elsewhere."""
    site.clear_log()
    site.fault("replace", match=r"listRecords.*limit=100$", old='"createdAt":"20', new='"createdAt":"19')
    since, until = indexed_at(site, SandboxPost(0, 120)), indexed_at(site, SandboxPost(0, 180))
    command = harvest(
        depth="0",
        collect="posts",
        history=history,
        since=f"{since:%Y-%m-%dT%H:%M:%S.%fZ}",
        until=f"{until:%Y-%m-%dT%H:%M:%S.%f+00:00}",
    )
    assert command.run() == 0, command.said
    own = {site.world.uri(SandboxPost(0, number)): dated(site, SandboxPost(0, number)) for number in range(250)}
    wanted = {uri for uri, at in own.items() if since <= at < until}
    assert 0 < len(wanted) <= 60
    stored = list(mongodb.posts.find())
    assert {row["_id"] for row in stored if row["did"] == site.did(0)} == wanted
    assert all(since <= row["sort_at"] < until for row in stored)
    pages = [entry["path"] for entry in site.log()["requests"] if is_page_of_posts(entry["path"])]
    assert len(pages) < 9, "the whole history has more than nine"


def indexed_at(site: Sandbox, post: SandboxPost) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=site.world.time_ms(post))


def dated(site: Sandbox, post: SandboxPost) -> datetime:
    """When the post was written: as its author says, and not later than the AppView saw it."""
    return min(datetime.fromisoformat(site.world.created_at(post)), indexed_at(site, post))


def is_page_of_posts(path: str) -> bool:
    return "getAuthorFeed" in path or ("listRecords" in path and "collection=app.bsky.feed.post&" in path)
