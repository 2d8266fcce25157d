"""Accounts of a standing job are looked at again: what is new is kept, what is gone is marked, and little is asked."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from harvester.items.bluesky import Post, Repost
from harvester.jobs.documents import Item, ItemState, JobItem
from harvester.recheck import Look
from harvester.sandbox.posts import SandboxPost as Written
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.listings import listings_of
from harvester.spiders.bluesky.revisits import NEWER_COLLECTED, OVERLAP, POSTS_COLLECTED, WHOLE_EVERY, since_of
from tests.bluesky.conftest import Records
from tests.bluesky.test_gone import account
from tests.crash.harvest import Harvest
from tests.sandbox.process import Sandbox

HUB = 0
NOW = datetime(2026, 11, 25, tzinfo=UTC)


def test_a_look_brings_new_posts_marks_those_that_are_gone_and_reads_no_further_than_to_the_last_look(
    harvest: Callable[..., Harvest], site: Sandbox, mongodb: Records
) -> None:
    hub = site.did(HUB)
    asked_for = {"seeds": hub, "depth": "0", "collect": "profiles,posts", "recheck": "every 1h"}
    whole = harvest(**asked_for)
    posts = newest_first(site, HUB)
    new, recent, old = posts[:3], posts[20], posts[-1]
    hide(site, hub, new)
    assert whole.run() == 0, whole.said
    item = mongodb.job_items.find_one({"key": hub})
    assert item
    assert (item["state"], item["stage"], item["why"]) == ("waiting", POSTS_COLLECTED, "every 1h")
    assert f"{item['due_at']:%Y-%m-%d %H:%M:%S}" in whole.said
    known = mongodb.posts.count_documents({"did": hub})

    site.clear_faults()
    hide(site, hub, [recent, old])
    last_look = mongodb.posts.find_one({"_id": posts[30]})["sort_at"] + OVERLAP  # type: ignore[index]
    is_due(mongodb, last_look)
    site.clear_log()
    again = harvest({"SCRAPY_SETTINGS_MODULE": "tests.bluesky.rarely_whole"}, **asked_for)
    assert again.run() == 0, again.said
    item = mongodb.job_items.find_one({"key": hub})
    assert item
    assert (item["state"], item["stage"], item["looks"][-1]["found"]) == ("waiting", NEWER_COLLECTED, len(new))
    assert mongodb.posts.count_documents({"_id": {"$in": new}}) == len(new)
    assert gone(mongodb) == {recent}, "how the old one fares is not known: so far back nothing was read"
    pages = feed_pages(site)

    is_due(mongodb, last_look)
    site.clear_log()
    assert whole.run() == 0, whole.said
    assert feed_pages(site) > pages
    assert gone(mongodb) == {recent, old}
    assert mongodb.posts.count_documents({"did": hub}) == known + len(new)

    site.fault("without_rows", match="getProfiles", texts=[f'"did":"{hub}"'])
    site.fault("status", match=f"getProfile[?].*{hub}", status=400, error="AccountDeactivated")
    is_due(mongodb, last_look)
    began = datetime.now(UTC) - timedelta(seconds=1)
    assert whole.run() == 0, whole.said
    profile, item = mongodb.profiles.find_one({"_id": hub}), mongodb.job_items.find_one({"key": hub})
    assert profile
    assert item
    assert began <= profile["gone_at"] <= datetime.now(UTC)
    assert (item["state"], item["outcome"], item["failures"]) == ("waiting", "gone", 1), "it may come back"


def newest_first(site: Sandbox, author: int) -> list[str]:
    """Addresses of the account's own posts, as its feed shows them."""
    world = site.world
    shown = (world.feed_item(author, position) for position in range(world.feed_length(author)))
    own = [each for each in shown if isinstance(each, Written)]
    return [world.uri(post) for post in sorted(own, key=world.time_ms, reverse=True)]


def hide(site: Sandbox, did: str, posts: list[str]) -> None:
    site.fault("without_rows", match=f"getAuthorFeed.*{did}", texts=[f'{{"post":{{"uri":"{uri}"' for uri in posts])


def is_due(database: Records, last_look: datetime) -> None:
    """As if an account was looked at then for the last time, and its next look were due."""
    changed = {"looks": [{"at": last_look.timestamp(), "found": 1}], "due_at": NOW - timedelta(days=365)}
    assert database.job_items.update_many({"kind": "account"}, {"$set": changed}).modified_count == 1


def gone(database: Records) -> set[str]:
    return {row["_id"] for row in database.posts.find({"gone_at": {"$exists": True}})}


def feed_pages(site: Sandbox) -> int:
    return sum("getAuthorFeed" in request["path"] for request in site.log()["requests"])


def test_an_account_is_read_back_to_the_day_before_the_last_look_and_whole_once_in_a_while() -> None:
    first = job_item("did:plc:a", None)
    assert since_of(first, NOW) is None
    for key in ("did:plc:a", "did:plc:b"):
        days = [NOW + timedelta(days=day) for day in range(int(WHOLE_EVERY.days) * 2)]
        sinces = [since_of(job_item(key, before), at) for before, at in pairwise(days)]
        assert sinces.count(None) in (1, 2)
        assert {at - since for at, since in zip(days, sinces, strict=False) if since} == {OVERLAP}
        assert since_of(job_item(key, NOW - WHOLE_EVERY), NOW) is None


def test_of_a_look_that_read_what_is_newer_only_older_posts_are_not_said_to_be_gone() -> None:
    begun = NOW.timestamp()
    looks = (Look(begun - 9e5, 3), Look(begun - 7200, 2), Look(begun - 3600, None), Look(begun, 0))
    read = replace(account(ItemState.WAITING, "ok"), stage=NEWER_COLLECTED, looks=looks)
    since = NOW - timedelta(hours=2) - OVERLAP

    def timed(item: Item, **arguments: Any) -> dict[type, Any]:
        told = listings_of(item, BlueskyArguments(collect="posts", recheck="every 1h", **arguments))
        return {look.kind: {name: value for name, value in look.where.items() if name != "_id"} for look in told}

    assert timed(read) == {Post: {"sort_at": {"$gte": since}}, Repost: {"created_at": {"$gte": since}}}
    assert timed(read, history="records") == {}, "times of its records are what the account says"
    assert timed(read, since="2020-01-01") == {}
    assert timed(replace(read, failures=1)) == {}, "that attempt failed"
    assert timed(replace(read, stage=POSTS_COLLECTED)) == {Post: {}, Repost: {}}, "it was read whole"


def job_item(key: str, looked: datetime | None) -> JobItem:
    return JobItem(f"job:account:{key}", "job", "account", key, {}, 0, 2, "", looked)
