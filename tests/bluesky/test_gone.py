"""What a later harvest no longer finds is marked, and nothing is removed."""

import signal
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from harvester.items.bluesky import AccountList, Follow, Like, ListItem, Post, Profile, Repost, Thread
from harvester.jobs.documents import Item, State
from harvester.jobs.ledger import now
from harvester.sandbox.posts import Post as Written
from harvester.sandbox.posts import Repost as Reposted
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.listings import listings_of
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
    expected = take_away(site)
    cut = harvest(**asked_for, since="2024-01-01")
    assert cut.run() == 0, cut.said
    assert [row["key"] for row in mongodb.job_items.find({"stage": "cut_short"})] == [site.did(HUB)]
    assert gone(mongodb).keys() == {
        (collection, key) for collection, key in expected if collection == "profiles" or key.startswith(site.did(OTHER))
    }, "not all lists of the hub and of the last came to their end; the posts of the other were cut by `since`"
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
    assert marks.keys() == expected
    assert "gone since then" in again.said
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


def gone(database: Records) -> dict[tuple[str, str], datetime]:
    """(collection, key) -> since when it is gone."""
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
    looks = list(listings_of(account(State.DONE, "ok"), BlueskyArguments(**arguments)))
    assert {look.kind for look in looks} == kinds
    if arguments.get("direction") == "both":
        assert [look.where for look in looks] == [
            {"subject_did": "did:plc:a"},
            {"_id": {"$gte": "did:plc:a ", "$lt": "did:plc:a!"}},
        ]


@pytest.mark.parametrize(
    ("state", "outcome", "reason"),
    [
        (State.FAILED, "timeout", "follows: timeout: no answer"),
        (State.FAILED, "not_found", "server: not_found: DID not registered"),
        (State.SKIPPED, "policy_denied", "opt_out: !no-unauthenticated"),
        (State.WAITING, "ok", ""),
        (State.FAILED, "not_found", "posts: not_found: Could not find repo"),
    ],
)
def test_of_an_account_whose_lists_did_not_all_come_to_their_end_nothing_is_gone(
    state: State, outcome: str, reason: str
) -> None:
    assert list(listings_of(account(state, outcome, reason), BlueskyArguments(collect=ALL))) == []
    cut_short = replace(account(State.DONE, "ok"), stage="cut_short")
    assert list(listings_of(cut_short, BlueskyArguments(collect=ALL))) == []


def test_an_account_and_a_thread_that_are_there_no_more_are_gone_themselves() -> None:
    looks = listings_of(account(State.FAILED, "gone", "gone: AccountDeactivated"), BlueskyArguments())
    assert [(look.kind, look.where) for look in looks] == [(Profile, {"_id": "did:plc:a"})]
    seed = account(State.FAILED, "not_found", "not_found: Profile not found", kind="seed")
    assert [(look.kind, look.where) for look in listings_of(seed, BlueskyArguments())] == [
        (Profile, {"handle": "did:plc:a"})
    ], "who it was is known by the handle that it had"
    thread = account(State.FAILED, "not_found", "not_found: Post not found", kind="thread")
    assert [look.kind for look in listings_of(thread, BlueskyArguments())] == [Thread]


def account(state: State, outcome: str, reason: str = "", kind: str = "account") -> Item:
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
