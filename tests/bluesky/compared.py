"""What a harvest of the sandbox must have stored, and what it has, in a form in which both can be compared."""

from collections.abc import Mapping
from typing import Any

from pymongo.database import Database

from harvester.sandbox.network import REFUSING
from harvester.sandbox.posts import SandboxPost
from harvester.sandbox.records import LIST_NAME
from harvester.sandbox.truth import Truth
from tests.crash.harvest import fates
from tests.crash.nothing_lost import differences
from tests.sandbox.process import Sandbox

Comparable = dict[str, dict[str, Any]]
"""Collection -> key -> what is compared."""


def untruths(
    site: Sandbox, database: Database[dict[str, Any]], truth: Truth | None = None, history: str = "appview"
) -> list[str]:
    """In words, how the harvest differs from the truth; by default that of all accounts around the hub."""
    return differences(found(database), expected(site, truth or site.truth, history))


def found(database: Database[dict[str, Any]]) -> Comparable:
    """What is stored."""
    return {
        "accounts": {key: ended for key, (ended, _) in fates(database)["account"].items()},
        "profiles": {row["_id"]: _profile(row) for row in database.profiles.find()},
        "follows": {row["_id"]: (row["did"], row["subject_did"]) for row in database.follows.find()},
        "posts": {row["_id"]: _post(row) for row in database.posts.find()},
        "reposts": {row["_id"]: row["subject_did"] for row in database.reposts.find()},
        "likes": {f"{row['did']} {row['subject_uri']}": row["subject_did"] for row in database.likes.find()},
        "threads": {row["_id"]: row["post_count"] for row in database.threads.find()},
        "lists": {row["_id"]: (row["name"], row["purpose"], row["item_count"]) for row in database.lists.find()},
        "list_items": {row["_id"]: (row["list_uri"], row["subject_did"]) for row in database.list_items.find()},
    }


def expected(site: Sandbox, truth: Truth, history: str) -> Comparable:
    """What a harvest of everything must store, its posts from `history`."""
    did, network = site.did, site.network
    reposts = truth.reposts if history == "appview" else truth.own_reposts
    likes = frozenset() if history == "appview" else truth.own_likes
    roots = {uri: root for uri in truth.posts if (root := _answered_root(site, uri))}
    whole = site.truth_of(honour_opt_outs=False)  # a thread counts its posts, of whomever they are
    branches = {site.world.uri(post): post for post in truth.branches(blocks=history == "appview")}
    with_list = [index for index in truth.kept if site.records.has_list(index)]
    stages = {"visible": "posts_collected", "skipped": "skipped", "failed": "failed"}
    return {
        "accounts": {key: stages[account.state] for key, account in truth.accounts.items()},
        "profiles": {key: _expected_profile(site, truth, account.index) for key, account in truth.accounts.items()},
        "follows": {f"{one} {other}": (one, other) for one, other in truth.follows},
        "posts": {uri: (post.author, post.text, post.cid, post.root, post.parent) for uri, post in truth.posts.items()},
        "reposts": {f"{one} {uri}": uri.split("/")[2] for one, uri in reposts},
        "likes": {f"{one} {uri}": uri.split("/")[2] for one, uri in likes},
        "threads": {uri: len(whole.tree(post)) for uri, post in (roots | branches).items()},
        "lists": {
            uri: value
            for index in with_list
            for uri, value in (
                (site.records.list_uri(index), (LIST_NAME, "curatelist", 40)),
                (site.records.pack_uri(index), ("Start here 🌱", "starterpack", 40)),
            )
        },
        "list_items": {
            site.records.item_uri(index, position): (site.records.list_uri(index), did(other))
            for index in with_list
            for position, other in enumerate(site.records.list_members(index))
            if not network.hidden(other)
        },
    }


def _profile(row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("handle", "display_name", "description", "followers_count", "follows_count", "posts_count")
    return tuple(row.get(name) for name in names)


def _expected_profile(site: Sandbox, truth: Truth, index: int) -> tuple[Any, ...]:
    network, profiles = site.network, site.records.profiles
    handle = network.shown_handle(index)
    if truth.honour_opt_outs and network.kind(index) in REFUSING:
        return handle, None, None, None, None, None
    texts: tuple[str | None, str | None] = (None, None)
    if profiles.exists(index):
        texts = profiles.display_name(index) or None, profiles.description(index) or None
    counts = network.follower_count(index), len(network.follows(index)), site.world.count(index)
    return handle, *texts, *counts


def _post(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["did"], row["text"], row["cid"], row.get("root_uri"), row.get("parent_uri")


def _answered_root(site: Sandbox, uri: str) -> SandboxPost | None:
    """The post when it begins a thread that somebody answered."""
    post = site.world.post_of_uri(uri)
    assert post
    return post if site.world.parent(post) is None and site.world.children(post) else None
