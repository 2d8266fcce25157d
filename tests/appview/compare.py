"""The comparison of a harvest with the truth that the filling of the AppView tells."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.appview.files import Records, compare_pictures, compare_staging
from tests.appview.known import Asked, Known, Truth, tell
from tests.appview.shown import differences, stored_post, stored_profile, wanted_post, wanted_profile
from tests.crash.harvest import fate
from tests.pipelines.records import KINDS


class Collection(Protocol):
    """The part of a MongoDB collection that is used."""

    def find(self) -> Iterable[Mapping[str, Any]]: ...


class Database(Protocol):
    """The part of a MongoDB database that is used."""

    def __getitem__(self, name: str, /) -> Collection: ...


def compare(truth: Truth, db: Database, data: Path, asked: Asked) -> list[str]:
    """The differences, in words; none if the harvest is complete and correct. `data` is its data folder.

    The harvest is one of graph, profiles and posts, in both directions, deep enough for the whole graph, from the
    accounts `hub` and `followsEveryone` of the truth's cases; and of what else was asked for. What *within reach* and
    *harvested* mean is said at Known.

    accounts  Items of the latest job. Harvested: done, stage `posts_collected`. Opted out and within reach: skipped,
              for a reason that begins with `opt_out`. Any other: absent, or not done.
    profiles  Harvested: present, with no opt_outs, and as the account shows itself. Opted out: absent, or a stub with
              opt_outs. Any other: absent.
    follows   Exactly the pairs in the lists of follows and of followers of harvested accounts, as the AppView
              shows them to anyone. A pair of two who opted out is in none; it may be there if one of them did so
              after an earlier harvest.
    posts     Exactly the visible posts of harvested accounts that are of the time asked for, with texts, facets,
              embeds, labels, languages, tags and counts. Of a quote that is not to be seen, why it is not.
    reposts   All visible reposts by harvested accounts, of the time asked for, of posts by accounts that did not opt
              out. Others that these accounts once made, of posts no longer visible, may be there. None by others.
    likes     Only if posts came from repositories: then likes as reposts, but of posts no longer visible, too.
    threads   The first post of every thread that has something to show: a visible post by a harvested account, with a
              visible reply below it, that is no reply, or a reply to what is invisible. A reply is below if all posts
              between are visible, and none of them is by an account that blocks, or is blocked by, that of its
              parent. First posts with nothing to show may be there, and replies to what a block hides.
    lists     All lists and starter packs of harvested accounts, each with its visible members; those who opted out
              may be among them, or not.
    gone      Marked are exactly the posts that an earlier harvest found and that cannot be seen any more. They stay.
    pictures  If asked for: all of these posts and profiles, and in the folder those and no others.
    staging   See compare_staging.
    """
    known = Known(truth, asked)
    records = {kind.COLLECTION: list(db[kind.COLLECTION].find()) for kind in KINDS}
    return [
        *compare_accounts(known, list(db["job_items"].find())),
        *compare_profiles(known, records["profiles"]),
        *compare_follows(known, records["follows"]),
        *compare_posts(known, records["posts"]),
        *compare_reposts(known, records["reposts"]),
        *compare_likes(known, records["likes"]),
        *compare_threads(known, records["threads"]),
        *compare_lists(known, records["lists"], records["list_items"]),
        *compare_gone(known, records),
        *compare_pictures(known, records, data),
        *compare_staging(known, records, data),
    ]


Documents = list[Mapping[str, Any]]


def compare_accounts(known: Known, items: Documents) -> list[str]:
    """Whether each account ended as it should."""
    latest = max(items, key=lambda item: item["created_at"])["job"] if items else None
    ends = {item["key"]: fate(item) for item in items if item["kind"] == "account" and item["job"] == latest}
    unfinished, not_skipped = [], []
    for did in known.within_reach:
        ended, reason = ends.get(did, ("absent", ""))
        told = f"{known.name(did)} is {ended} {reason}".strip()
        if did in known.harvested and ended != "posts_collected":
            unfinished.append(told)
        if did in known.opted_out and not (ended == "skipped" and reason.startswith("opt_out")):
            not_skipped.append(told)
    claimed = [
        f"{known.name(did)} is {ended}"
        for did, (ended, _) in ends.items()
        if did not in known.within_reach and ended in ("profile_collected", "posts_collected")
    ]
    return [
        *tell("accounts not in the stage posts_collected", unfinished),
        *tell("accounts that opted out and are not skipped for it", not_skipped),
        *tell("accounts that cannot be seen, yet were collected", claimed),
    ]


STUB = {"_id", "did", "handle", "opt_outs", "intents", "provenance"}
"""Fields that may be left of the profile of an account that opted out."""


def compare_profiles(known: Known, documents: Documents) -> list[str]:
    """Whether the profiles are those of the harvested accounts, and the others stubs."""
    found = {document["_id"]: document for document in documents}
    altered, stubs = [], []
    for did in found.keys() & known.within_reach:
        if did in known.harvested:
            wanted = {"opt_outs": [], **wanted_profile(known.accounts[did])}
            got = {"opt_outs": found[did].get("opt_outs", []), **stored_profile(found[did])}
            altered += [f"{known.name(did)} {difference}" for difference in differences(wanted, got)]
        elif not found[did].get("opt_outs") or found[did].keys() - STUB:
            stubs.append(f"{known.name(did)} has {sorted(found[did].keys() - {'_id'})}")
    return [
        *tell("profiles missing", (known.name(did) for did in known.harvested - found.keys())),
        *tell("profiles too many", (known.name(did) for did in found.keys() - known.within_reach)),
        *tell("profiles altered", altered),
        *tell("profiles of accounts that opted out and are no stubs", stubs),
    ]


def compare_follows(known: Known, documents: Documents) -> list[str]:
    """Whether the pairs are exactly those that can be seen."""
    expected = set()
    for did in known.harvested:
        expected |= {(did, subject) for subject in known.accounts[did]["follows"]}
        expected |= {(follower, did) for follower in known.accounts[did]["followers"]}
    found = {(follow["did"], follow["subject_did"]) for follow in documents}
    late = {did for did in known.opted_out if known.accounts[did].get("late")}
    earlier = {pair for pair in found if known.opted_out.issuperset(pair) and late.intersection(pair)}
    return [
        *tell("follows missing", known.pairs(expected - found, "->")),
        *tell("follows too many", known.pairs(found - expected - earlier, "->")),
        *tell(
            "follows with a wrong _id",
            (doc["_id"] for doc in documents if doc["_id"] != f"{doc['did']} {doc['subject_did']}"),
        ),
    ]


def compare_posts(known: Known, documents: Documents) -> list[str]:
    """Whether the posts are exactly those that can be seen, and say what they should."""
    expected, found = known.wanted_posts, {post["_id"]: post for post in documents}
    altered = [
        f"{uri} {difference}"
        for uri in expected.keys() & found.keys()
        for difference in differences(wanted_post(known, expected[uri]), stored_post(found[uri]))
    ]
    return [
        *tell("posts missing", map(known.describe, expected.keys() - found.keys())),
        *tell("posts too many", map(known.describe, found.keys() - expected.keys() - known.gone)),
        *tell("posts altered", altered),
    ]


def compare_gone(known: Known, records: Records) -> list[str]:
    """Whether what is gone stays and is marked, and nothing else is."""
    marked = {document["_id"] for of in records.values() for document in of if "gone_at" in document}
    return [
        *tell("records marked as gone that are there", marked - known.gone),
        *tell("records gone that are not marked", known.gone - marked),
    ]


def compare_reposts(known: Known, documents: Documents) -> list[str]:
    """Whether the visible reposts are there, and no invented ones."""
    allowed = wanted_edges(known, known.truth["reposts"])
    expected = {
        pair
        for pair, repost in allowed.items()
        if repost["visible"] and known.posts[pair[1]]["by"] not in known.opted_out
    }
    found = {(repost["did"], repost["subject_uri"]) for repost in documents}
    return [
        *tell("reposts missing", known.pairs(expected - found, "of")),
        *tell("reposts too many", known.pairs(found - allowed.keys(), "of")),
    ]


def compare_likes(known: Known, documents: Documents) -> list[str]:
    """Whether the likes are there that repositories have."""
    allowed = wanted_edges(known, known.truth["likes"] if known.asked.history != "appview" else [])
    expected = {pair for pair in allowed if known.posts[pair[1]]["by"] not in known.opted_out}
    found = {(like["did"], like["subject_uri"]): like["_id"] for like in documents}
    wrong = [uri for pair, uri in found.items() if pair in allowed and allowed[pair]["uri"] != uri]
    return [
        *tell("likes missing", known.pairs(expected - found.keys(), "of")),
        *tell("likes too many", known.pairs(found.keys() - allowed.keys(), "of")),
        *tell("likes with a wrong _id", wrong),
    ]


def wanted_edges(known: Known, edges: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Those that harvested accounts made in the time asked for, by who made them and of what."""
    return {
        (edge["by"], edge["subject"]): edge
        for edge in edges
        if edge["by"] in known.harvested and known.asked.is_in_time(edge["createdAt"])
    }


def compare_threads(known: Known, documents: Documents) -> list[str]:
    """Whether every thread with something to show is there, and none that cannot be."""
    firsts, cut_off_by_blocks = set(), set()
    for uri, post in known.wanted_posts.items() if known.asked.threads else ():
        parent = known.posts.get(post.get("parent", ""))
        if parent is None or not parent["visible"]:
            firsts.add(uri)
        elif known.is_blocked(post["by"], parent["by"]):
            cut_off_by_blocks.add(uri)
    expected = {uri for uri in firsts if known.thread(uri)}
    found = {str(thread["_id"]) for thread in documents}
    return [
        *tell("threads missing", map(known.describe, expected - found)),
        *tell("threads too many", map(known.describe, found - firsts - cut_off_by_blocks)),
    ]


def compare_lists(known: Known, lists: Documents, items: Documents) -> list[str]:
    """Whether the lists are there, and who is on them."""
    told = known.truth["lists"] if known.asked.lists else []
    expected = {each["uri"]: each for each in told if each["by"] in known.harvested}
    found = {each["_id"]: each for each in lists}
    altered = [
        f"{uri} {difference}"
        for uri in expected.keys() & found.keys()
        for difference in differences(
            {"did": expected[uri]["by"], **{name: expected[uri][name] for name in ("name", "purpose")}},
            {name: found[uri].get(name) for name in ("did", "name", "purpose")},
        )
    ]
    allowed = {(member, uri) for uri, each in expected.items() for member in each["members"]}
    members = {(item["subject_did"], item["list_uri"]) for item in items}
    missing = {(member, uri) for member, uri in allowed - members if member not in known.opted_out}

    def on(pairs: Iterable[tuple[str, str]]) -> Iterable[str]:
        return (f"{known.name(member)} on {uri}" for member, uri in pairs)

    return [
        *tell("lists missing", expected.keys() - found.keys()),
        *tell("lists too many", found.keys() - expected.keys()),
        *tell("lists altered", altered),
        *tell("members of lists missing", on(missing)),
        *tell("members of lists too many", on(members - allowed)),
    ]
