"""What a later harvest no longer finds is marked, and nothing is removed."""

import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from harvester.items.bluesky import AccountList, Follow, Like, ListItem, Post, Profile, Repost, Thread
from harvester.jobs.documents import EndedAttempt, Item, ItemState, JobItem
from harvester.jobs.ledger import now
from harvester.jobs.transitions import was_missing
from harvester.sandbox.posts import SandboxPost as Written
from harvester.sandbox.posts import SandboxRepost as Reposted
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.listings import listings_of
from harvester.spiders.bluesky.revisits import since_of
from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest
from tests.pipelines.records import KINDS
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
HUB, OTHER, LEAVING, UNLISTED = 0, 20, 21, 22


def test_what_is_gone_is_marked_also_by_a_harvest_that_was_killed_and_the_mark_goes_when_it_is_back(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    seeds = ",".join(map(site.did, (HUB, OTHER, LEAVING, UNLISTED)))
    asked_for = {"seeds": seeds, "depth": "0", "direction": "both", "collect": "graph,profiles,posts,lists"}
    first = harvest(**asked_for)
    assert first.run() == 0, first.said
    known = {kind.COLLECTION: mongodb[kind.COLLECTION].count_documents({}) for kind in KINDS}
    assert gone(mongodb) == {}

    site.fault("repeat_cursor", match=f"getFollowers.*{site.did(HUB)}")
    site.fault("status", match=f"getFollows.*{site.did(UNLISTED)}", status=400, error="X", message="Actor not found")
    expected = take_away(site) | made_by(mongodb, site.did(LEAVING))
    cut = harvest(**asked_for, since="2024-01-01")
    assert cut.run() == 0, cut.said
    assert [row["key"] for row in mongodb.job_items.find({"stage": "cut_short"})] == [site.did(HUB)]
    assert marked_but(mongodb, site.did(LEAVING)) == {
        (collection, key) for collection, key in expected if key.startswith(site.did(OTHER))
    } | made_by(mongodb, site.did(LEAVING)), (
        "not all lists of the hub and of the last came to their end; the posts of the other were cut by `since`"
    )
    site.clear_faults()
    take_away(site)
    for kind in KINDS:
        mongodb[kind.COLLECTION].update_many({}, {"$unset": {"gone_at": ""}})

    began = now()
    slow = harvest({"HARVESTER_REQUESTS_PER_SECOND": "25"}, **asked_for)
    slow.start()
    fetched = {"provenance.fetched_at": {"$gt": began}}
    assert slow.running_until(lambda: mongodb.posts.count_documents(fetched) > 60), slow.said
    slow.end(signal.SIGKILL)
    again = harvest(**asked_for)
    assert again.run() == 0, again.said
    marks = gone(mongodb)
    assert marked_but(mongodb, site.did(LEAVING)) == expected
    assert " gone " in again.said
    assert all(began <= at <= now() for at in marks.values())
    assert {kind.COLLECTION: mongodb[kind.COLLECTION].count_documents({}) for kind in KINDS} == known

    site.clear_faults()
    assert again.run() == 0, again.said
    assert gone(mongodb) == {}


def take_away(site: Sandbox) -> set[tuple[str, str]]:
    """From now on the site shows some things no more: their collections and keys."""
    hub, other, leaving = map(site.did, (HUB, OTHER, LEAVING))
    shared = [site.world.repost_subject(Reposted(HUB, number)) for number in range(site.world.repost_count(HUB))]
    once = [each for each in shared if each and shared.count(each) == 1 and site.network.listed(HUB, each.author)]
    number, subject = shared.index(once[0]), site.world.uri(once[0])
    repost = f"at://{hub}/app.bsky.feed.repost/{site.world.repost_rkey(Reposted(HUB, number))}"
    post = next(site.world.uri(each) for n in range(40, 200) if (each := Written(HUB, n)) not in shared)
    others = site.world.uri(Written(OTHER, 0))
    follower, followed = site.network.visible_followers(HUB)[0], site.network.visible_follows(OTHER)[0]
    lasts = next(site.did(n) for n in site.network.visible_followers(UNLISTED) if n > UNLISTED)
    item = site.records.item_uri(HUB, 19)
    site.fault("without_rows", match=f"getAuthorFeed.*{hub}", texts=[f'{{"post":{{"uri":"{post}"', repost])
    site.fault("without_rows", match=f"getAuthorFeed.*{other}", texts=[f'{{"post":{{"uri":"{others}"'])
    site.fault("without_rows", match=f"getFollowers.*{hub}", texts=[site.did(follower)])
    site.fault("without_rows", match=f"getFollowers.*{site.did(UNLISTED)}", texts=[lasts])
    site.fault("without_rows", match=f"getFollows.*{other}", texts=[site.did(followed)])
    site.fault("without_rows", match="getList[?]", texts=[item])
    site.fault("without_rows", match="getProfiles", texts=[f'"did":"{leaving}"'])
    site.fault("status", match=f"getProfile[?].*{leaving}", status=400, error="AccountDeactivated")
    return {
        ("posts", post),
        ("posts", others),
        ("reposts", f"{hub} {subject}"),
        ("follows", f"{site.did(follower)} {hub}"),
        ("follows", f"{other} {site.did(followed)}"),
        ("follows", f"{lasts} {site.did(UNLISTED)}"),
        ("list_items", item),
        ("profiles", leaving),
    }


def made_by(database: Records, did: str) -> set[tuple[str, str]]:
    """Collection and key of each record of an account, but for edges that the lists of others show still."""
    return {
        (kind.COLLECTION, row["_id"])
        for kind in KINDS
        for row in database[kind.COLLECTION].find({"did": did})
        if kind is not Follow
    }


def marked_but(database: Records, did: str) -> set[tuple[str, str]]:
    """What is gone, but for follows of an account."""
    return {(name, key) for name, key in gone(database) if name != "follows" or not key.startswith(did)}


def gone(database: Records) -> dict[tuple[str, str], datetime]:
    """(collection, key) -> since when it is gone; see `made_by`."""
    return {
        (kind.COLLECTION, row["_id"]): row["gone_at"]
        for kind in KINDS
        for row in database[kind.COLLECTION].find({"gone_at": {"$exists": True}})
    }


ALL = "graph,profiles,posts,threads,lists"


@pytest.mark.parametrize(
    ("arguments", "kinds"),
    [
        ({"collect": ALL}, {Follow, Post, Repost, AccountList, ListItem}),
        ({"collect": ALL, "since": "2025-01-01"}, {Follow, AccountList, ListItem}),
        ({"collect": ALL, "until": "2025-01-01", "history": "car"}, {Follow, AccountList, ListItem}),
        ({"collect": "posts", "history": "records"}, {Post, Repost, Like}),
        ({"collect": "posts", "history": "car"}, {Post, Repost, Like}),
        ({"collect": "graph,profiles", "direction": "both"}, {Follow}),
        ({"collect": "profiles"}, set()),
    ],
)
def test_an_account_that_is_done_was_looked_through_but_for_what_since_and_until_cut(
    arguments: dict[str, str], kinds: set[Any]
) -> None:
    looks = list(listings_of(account(ItemState.DONE, "ok"), BlueskyArguments(**arguments)))
    assert {look.kind for look in looks} == kinds
    if arguments.get("direction") == "both":
        assert [look.where for look in looks] == [
            {"subject_did": "did:plc:a"},
            {"_id": {"$gte": "did:plc:a ", "$lt": "did:plc:a!"}},
        ]


@pytest.mark.parametrize(
    ("state", "outcome", "reason"),
    [
        (ItemState.FAILED, "timeout", "follows: timeout: no answer"),
        (ItemState.FAILED, "not_found", "server: not_found: DID not registered"),
        (ItemState.SKIPPED, "policy_denied", "opt_out: !no-unauthenticated"),
        (ItemState.WAITING, "ok", ""),
        (ItemState.FAILED, "not_found", "posts: not_found: Could not find repo"),
    ],
)
def test_of_an_account_whose_lists_did_not_all_come_to_their_end_nothing_is_gone(
    state: ItemState, outcome: str, reason: str
) -> None:
    assert list(listings_of(account(state, outcome, reason), BlueskyArguments(collect=ALL))) == []
    cut_short = replace(account(ItemState.DONE, "ok"), stage="cut_short")
    assert list(listings_of(cut_short, BlueskyArguments(collect=ALL))) == []


@pytest.mark.parametrize("kind", ["account", "known_account"])
def test_with_an_account_that_is_there_no_more_all_that_it_made_is_gone(kind: str) -> None:
    looks = list(listings_of(account(ItemState.FAILED, "gone", "gone: AccountDeactivated", kind), BlueskyArguments()))
    assert all(look.is_absent for look in looks)
    assert {look.kind for look in looks} == {Profile, Post, Repost, Like, Follow, AccountList, ListItem, Thread}
    of_posts = {"$gte": "at://did:plc:a/", "$lt": "at://did:plc:a0"}
    assert [look.where["_id"] for look in looks if look.kind in (Profile, Post)] == ["did:plc:a", of_posts]


def test_a_seed_and_a_thread_that_are_there_no_more_are_gone_themselves() -> None:
    seed = account(ItemState.FAILED, "not_found", "not_found: Profile not found", kind="seed")
    assert [(look.kind, look.where) for look in listings_of(seed, BlueskyArguments())] == [
        (Profile, {"handle": "did:plc:a"})
    ], "who it was is known by the handle that it had"
    for kind in ("thread", "known_thread"):
        thread = account(ItemState.FAILED, "not_found", "not_found: Post not found", kind=kind)
        assert [look.kind for look in listings_of(thread, BlueskyArguments())] == [Thread]


DEACTIVATED = {"status": 400, "error": "AccountDeactivated", "message": "Account is deactivated"}


@pytest.mark.slow
def test_an_account_that_depth_has_met_and_that_is_on_no_list_any_more_is_gone_with_all_that_it_made(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    """Also one that only the lists of a vanished account had led to; one that is only followed no more is there."""
    asked_for = {"seeds": site.did(OTHER), "depth": "1", "direction": "follows", "collect": "graph,profiles,posts"}
    assert (first := harvest(**asked_for)).run() == 0, first.said
    followed = [n for n in site.network.visible_follows(OTHER) if site.network.kind(n) == "normal"]
    deleted, unfollowed = map(site.did, followed[:2])
    written = mongodb.posts.count_documents({"did": deleted})
    assert written
    assert not gone(mongodb)

    site.fault("without_rows", "getFollows", texts=[f'"did":"{deleted}"', f'"did":"{unfollowed}"'])
    site.fault("without_rows", "getProfiles", texts=[f'"did":"{deleted}"'])
    site.fault("status", f"getProfile[?].*{deleted}", **DEACTIVATED)
    for _ in range(2):  # the second hears nothing of it, and says nothing else
        assert (again := harvest(**asked_for)).run() in (0, 6), again.said
        marks = gone(mongodb)
        assert ("profiles", deleted) in marks
        assert ("profiles", unfollowed) not in marks
        assert sum(kind == "posts" and deleted in key for kind, key in marks) == written
        assert not [key for kind, key in marks if kind == "posts" and deleted not in key]
    checked = {row["key"]: row["state"] for row in mongodb.job_items.find({"kind": "known_account"})}
    assert checked == {deleted: "failed", unfollowed: "done"}
    earlier = mongodb.posts.find_one({"did": deleted})
    assert earlier
    mongodb.posts.update_one({"_id": earlier["_id"]}, {"$set": {"gone_at": datetime(2025, 1, 1, tzinfo=UTC)}})

    site.clear_faults()
    site.fault("without_rows", "getFollows", texts=[f'"did":"{deleted}"'])
    assert (back := harvest(**asked_for)).run() in (0, 6), back.said
    left = {key: at for (_, key), at in gone(mongodb).items() if key.startswith((deleted, f"at://{deleted}"))}
    assert list(left) == [earlier["_id"]], "what was gone before its account was stays gone"


@pytest.mark.slow
def test_a_thread_whose_first_post_is_deleted_is_gone_though_no_list_shows_it(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    asked_for = {"seeds": site.did(HUB), "depth": "0", "collect": "posts,threads"}
    assert (first := harvest(**asked_for)).run() == 0, first.said
    thread = mongodb.threads.find_one({"did": site.did(HUB), "root_uri": None})
    assert thread
    site.fault("without_rows", "getAuthorFeed", texts=[thread["_id"]])
    site.fault("without_rows", "getPosts", texts=[f'"uri":"{thread["_id"]}"'])
    site.fault("status", f"getPostThread.*{quote(thread['_id'], safe='')}", status=400, error="NotFound")
    assert (again := harvest(**asked_for)).run() in (0, 6), again.said
    assert {key for kind, key in gone(mongodb) if kind == "threads"} == {thread["_id"]}


def test_an_account_that_was_not_there_is_read_from_its_beginning_when_it_is_back() -> None:
    looked = datetime(2026, 11, 24, tzinfo=UTC)
    item = JobItem("id", "job", "account", "did:plc:a", {}, 0, 3, "posts_collected", looked)
    assert since_of(item, looked)
    assert since_of(item._replace(was_missing=True), looked) is None
    assert since_of(item._replace(stage="feed_ended_early"), looked) is None
    lines = [
        EndedAttempt(n, looked, ItemState.WAITING, outcome) for n, outcome in enumerate(["ok", "gone", "timeout"], 1)
    ]
    assert was_missing(replace(account(ItemState.WAITING, "timeout"), history=tuple(lines)))
    lines.append(EndedAttempt(4, looked, ItemState.WAITING, "ok"))
    assert not was_missing(replace(account(ItemState.WAITING, "ok"), history=tuple(lines)))


def account(state: ItemState, outcome: str, reason: str = "", kind: str = "account") -> Item:
    at = now()
    return Item(
        id="job:account:did:plc:a",
        job="job",
        kind=kind,
        key="did:plc:a",
        state=state,
        outcome=outcome,
        reason=reason,
        fed_at=at,
        created_at=at,
        updated_at=at,
    )
