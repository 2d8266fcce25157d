"""The comparison of a harvest with the truth that the filling of the AppView tells."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from tests.crash.harvest import fate

Truth = Mapping[str, Any]
"""What truth.json holds."""

EXAMPLES = 3
"""So many examples are told of each kind of difference."""


class Collection(Protocol):
    """The part of a MongoDB collection that is used."""

    def find(self) -> Iterable[Mapping[str, Any]]: ...


class Database(Protocol):
    """The part of a MongoDB database that is used."""

    def __getitem__(self, name: str, /) -> Collection: ...


def compare(truth: Truth, db: Database) -> list[str]:
    """The differences, in words; none if the harvest is complete and correct.

    The harvest is one of graph, profiles, posts and threads, in both directions, deep enough for the whole
    graph, from the accounts `hub` and `followsEveryone` of the truth's cases.

    An account is *within reach* if it is visible and a chain of follows leads to it from these two through
    accounts that are visible and have not opted out; it is *harvested* if it has not opted out itself.

    accounts  Items of the job. Harvested: done, stage `posts_collected`. Opted out and within reach: skipped, for a
              reason that begins with `opt_out`. Any other: absent, or not done.
    profiles  Harvested: present, with no opt_outs. Opted out: absent, or with opt_outs. Any other: absent.
    follows   Exactly the pairs in the lists of follows and of followers of harvested accounts, as the AppView
              shows them to anyone: a pair of two who opted out is in none.
    posts     Exactly the visible posts of harvested accounts, with their texts, parents and roots. A post
              that is not a reply may name itself as its root.
    reposts   All visible reposts by harvested accounts of posts by accounts that did not opt out. Others that
              these accounts once made, of posts no longer visible, may be there. None by any other account.
    threads   The root of every thread that has something to show: a visible post that is not a reply, by a
              harvested account, with a visible reply below it. A reply is below if all posts between are
              visible, and none of them is by an account that blocks, or is blocked by, that of its parent.
              The roots of threads with nothing to show may be there; invisible posts, replies, and posts of
              accounts that are not harvested may not.
    """
    known = Known(truth)
    return [
        *compare_accounts(known, db),
        *compare_profiles(known, db),
        *compare_follows(known, db),
        *compare_posts(known, db),
        *compare_reposts(known, db),
        *compare_threads(known, db),
    ]


@dataclass(frozen=True)
class Known:
    """What follows from the truth."""

    truth: Truth

    @cached_property
    def accounts(self) -> dict[str, Mapping[str, Any]]:
        """All accounts by did."""
        return {account["did"]: account for account in self.truth["accounts"]}

    @cached_property
    def opted_out(self) -> set[str]:
        """A truth without the field `optOut` has one kind of account that did."""
        return {
            did
            for did, account in self.accounts.items()
            if account.get("optOut", "private" if account["kind"] == "private" else None)
        }

    @cached_property
    def within_reach(self) -> set[str]:
        """Includes those who opted out: one finds out by looking."""
        reached: set[str] = set()
        found = [self.truth["cases"]["hub"], self.truth["cases"]["followsEveryone"]]
        while found:
            did = found.pop()
            account = self.accounts[did]
            if did in reached or not account["visible"]:
                continue
            reached.add(did)
            if did not in self.opted_out:
                found += [*account["follows"], *account["followers"]]
        return reached

    @cached_property
    def harvested(self) -> set[str]:
        """Those of whom everything visible has to be there."""
        return self.within_reach - self.opted_out

    @cached_property
    def posts(self) -> dict[str, Mapping[str, Any]]:
        """All posts by uri."""
        return {post["uri"]: post for post in self.truth["posts"]}

    @cached_property
    def replies(self) -> dict[str, list[Mapping[str, Any]]]:
        """Visible replies by the uri of their parent, without those that a block hides."""
        cases = self.truth["cases"]
        blocks = [{cases["blocker"], cases["blocked"]}, {cases["blocks-hub"], cases["hub"]}]
        replies = defaultdict(list)
        for post in self.posts.values():
            if post["visible"] and post.get("parent"):
                pair = {post["by"], self.posts[post["parent"]]["by"]}
                if pair not in blocks:
                    replies[post["parent"]].append(post)
        return replies

    def thread(self, root: str) -> set[str]:
        """The replies that a thread shows below its root."""
        if not self.posts[root]["visible"]:
            return set()
        shown: set[str] = set()
        parents = [root]
        while parents:
            below = [reply["uri"] for reply in self.replies.get(parents.pop(), [])]
            shown.update(below)
            parents += below
        return shown


def compare_accounts(known: Known, db: Database) -> list[str]:
    """Whether each account ended as it should."""
    ends = {item["key"]: fate(item) for item in db["job_items"].find() if item["kind"] == "account"}
    unfinished, not_skipped = [], []
    for did in known.within_reach:
        ended, reason = ends.get(did, ("absent", ""))
        told = f"{name(known, did)} is {ended} {reason}".strip()
        if did in known.harvested and ended != "posts_collected":
            unfinished.append(told)
        if did in known.opted_out and not (ended == "skipped" and reason.startswith("opt_out")):
            not_skipped.append(told)
    claimed = [
        f"{name(known, did)} is {ended}"
        for did, (ended, _) in ends.items()
        if did not in known.within_reach and ended in ("profile_collected", "posts_collected")
    ]
    return [
        *tell("accounts not in the stage posts_collected", unfinished),
        *tell("accounts that opted out and are not skipped for it", not_skipped),
        *tell("accounts that cannot be seen, yet were collected", claimed),
    ]


def compare_profiles(known: Known, db: Database) -> list[str]:
    """Whether the profiles are those of the harvested accounts."""
    opt_outs = {profile["_id"]: profile.get("opt_outs") or [] for profile in db["profiles"].find()}
    return [
        *tell("profiles missing", (name(known, did) for did in known.harvested - opt_outs.keys())),
        *tell("profiles too many", (name(known, did) for did in opt_outs.keys() - known.within_reach)),
        *tell(
            "profiles with wrong opt_outs",
            (
                f"{name(known, did)} has {found}"
                for did, found in opt_outs.items()
                if did in known.within_reach and bool(found) != (did in known.opted_out)
            ),
        ),
    ]


def compare_follows(known: Known, db: Database) -> list[str]:
    """Whether the pairs are exactly those that can be seen."""
    expected = set()
    for did in known.harvested:
        expected |= {(did, subject) for subject in known.accounts[did]["follows"]}
        expected |= {(follower, did) for follower in known.accounts[did]["followers"]}
    documents = list(db["follows"].find())
    found = {(follow["did"], follow["subject_did"]) for follow in documents}

    def pairs(of: Iterable[tuple[str, str]]) -> Iterable[str]:
        return (f"{name(known, a)} -> {name(known, b)}" for a, b in of)

    return [
        *tell("follows missing", pairs(expected - found)),
        *tell("follows too many", pairs(found - expected)),
        *tell(
            "follows with a wrong _id",
            (doc["_id"] for doc in documents if doc["_id"] != f"{doc['did']} {doc['subject_did']}"),
        ),
    ]


def compare_posts(known: Known, db: Database) -> list[str]:
    """Whether the posts are exactly those that can be seen, and say what they should."""
    expected = {uri: post for uri, post in known.posts.items() if post["visible"] and post["by"] in known.harvested}
    found = {post["_id"]: post for post in db["posts"].find()}
    altered = []
    for uri in expected.keys() & found.keys():
        wanted, got = expected[uri], found[uri]
        pairs = {
            "did": (wanted["by"], got.get("did")),
            "text": (wanted["text"], got.get("text")),
            "parent_uri": (wanted.get("parent"), got.get("parent_uri")),
            "root_uri": (wanted.get("root") or uri, got.get("root_uri") or uri),
        }
        altered += [f"{uri} {field}: {b!r} is not {a!r}" for field, (a, b) in pairs.items() if a != b]
    return [
        *tell("posts missing", (describe(known, uri) for uri in expected.keys() - found.keys())),
        *tell("posts too many", (describe(known, uri) for uri in found.keys() - expected.keys())),
        *tell("posts altered", altered),
    ]


def compare_reposts(known: Known, db: Database) -> list[str]:
    """Whether the visible reposts are there, and no invented ones."""
    allowed, expected = set(), set()
    for repost in known.truth["reposts"]:
        if repost["by"] in known.harvested:
            pair = (repost["by"], repost["subject"])
            allowed.add(pair)
            if repost["visible"] and known.posts[repost["subject"]]["by"] not in known.opted_out:
                expected.add(pair)
    found = {(repost["did"], repost["subject_uri"]) for repost in db["reposts"].find()}

    def pairs(of: Iterable[tuple[str, str]]) -> Iterable[str]:
        return (f"by {name(known, did)} of {describe(known, uri)}" for did, uri in of)

    return [
        *tell("reposts missing", pairs(expected - found)),
        *tell("reposts too many", pairs(found - allowed)),
    ]


def compare_threads(known: Known, db: Database) -> list[str]:
    """Whether every thread with something to show is there, and none that cannot be."""
    roots = {
        uri
        for uri, post in known.posts.items()
        if post["visible"] and not post.get("root") and post["by"] in known.harvested
    }
    expected = {uri for uri in roots if known.thread(uri)}
    found = {str(thread["_id"]) for thread in db["threads"].find()}
    return [
        *tell("threads missing", (describe(known, uri) for uri in expected - found)),
        *tell("threads too many", (describe(known, uri) for uri in found - roots)),
    ]


def name(known: Known, did: str) -> str:
    """An account as one recognises it."""
    account = known.accounts.get(did)
    return f"{account['handle']} ({account['kind']})" if account else f"{did} (unknown)"


def describe(known: Known, uri: str) -> str:
    """A post as one recognises it."""
    post = known.posts.get(uri)
    if post is None:
        return f"{uri} (unknown)"
    visibility = "visible" if post["visible"] else "invisible"
    return f"{uri} (a {post['kind']} by {name(known, post['by'])}, {visibility})"


def tell(what: str, differences: Iterable[str]) -> list[str]:
    """One line for all differences of a kind, or none."""
    found = sorted(differences)
    more = [f"and {len(found) - EXAMPLES} more"] if len(found) > EXAMPLES else []
    return [f"{len(found)} {what}: {'; '.join([*found[:EXAMPLES], *more])}"] if found else []
