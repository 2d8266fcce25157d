"""The comparison with the truth, on a truth small enough to be seen through."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.appview.compare import compare

Documents = list[dict[str, Any]]


class Collection:
    """The documents of a collection."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def find(self) -> Documents:
        return self._documents


class Harvest:
    """A database of lists, changed by the tests."""

    def __init__(self, **collections: Documents) -> None:
        self.collections = collections

    def __getitem__(self, name: str) -> Collection:
        return Collection(self.collections[name])

    def without(self, collection: str, **fields: str) -> None:
        """Removes the one document that has these fields."""
        documents = self.collections[collection]
        documents.remove(find(documents, **fields))

    def change(self, collection: str, where: Mapping[str, str], **fields: object) -> None:
        """Changes fields of the one document."""
        find(self.collections[collection], **where).update(fields)

    def add(self, collection: str, **fields: object) -> None:
        """Adds a document."""
        self.collections[collection].append(fields)


def find(documents: Documents, **fields: str) -> dict[str, Any]:
    (found,) = [doc for doc in documents if fields.items() <= doc.items()]
    return found


def account(did: str, follows: str = "", followers: str = "", **more: object) -> dict[str, Any]:
    return {
        "did": did,
        "handle": f"{did}.test",
        "kind": "author",
        "visible": True,
        "follows": follows.split(),
        "followers": followers.split(),
        **more,
    }


def post(uri: str, parent: str | None = None, root: str | None = None, visible: bool = True) -> dict[str, Any]:
    """A post of the truth; its uri is "<did>/<key>"."""
    told = {"uri": uri, "by": uri.split("/")[0], "kind": "post", "visible": visible, "text": f"text of {uri}"}
    return told | ({"kind": "reply", "parent": parent, "root": root or parent} if parent else {})


@pytest.fixture
def truth() -> dict[str, Any]:
    """`hub` and `all` reach everyone but `alone`; `no` opted out by a label, `intends` by a record."""
    return {
        "accounts": [
            account("hub", followers="all no"),
            account("all", follows="hub no intends yes not"),
            account("no", follows="hub intends", followers="all", kind="private"),
            account("intends", followers="all no", kind="intents", optOut="intents"),
            account("yes", followers="all", kind="blocker"),
            account("not", followers="all", kind="blocked"),
            account("away", kind="deactivated", visible=False),
            account("alone", kind="empty"),
        ],
        "posts": [
            post("hub/1"),
            post("all/1", parent="hub/1"),
            post("hub/2", parent="all/1", root="hub/1"),
            post("hub/3"),
            post("hub/4"),
            post("hub/5", parent="hub/4", visible=False),
            post("hub/6", parent="hub/5", root="hub/4"),
            post("yes/1"),
            post("not/1", parent="yes/1"),
            post("all/2", parent="not/1", root="yes/1"),
            post("all/3"),
            post("no/1", parent="all/3"),
            post("no/2"),
            post("all/4", parent="no/2"),
            post("away/1", visible=False),
            post("all/5", parent="away/1"),
        ],
        "reposts": [
            {"by": "hub", "subject": "all/3", "visible": True},
            {"by": "hub", "subject": "away/1", "visible": False},
            {"by": "hub", "subject": "no/2", "visible": True},
            {"by": "no", "subject": "hub/1", "visible": True},
        ],
        "likes": [],
        "cases": {
            "hub": "hub",
            "followsEveryone": "all",
            "blocker": "yes",
            "blocked": "not",
            "blocks-hub": "alone",
        },
    }


@pytest.fixture
def harvest() -> Harvest:
    """All that is to be found, as it should be stored."""

    def stored(uri: str, parent: str | None = None, root: str | None = None) -> dict[str, Any]:
        did = uri.split("/")[0]
        return {
            "_id": uri,
            "did": did,
            "text": f"text of {uri}",
            "parent_uri": parent,
            "root_uri": root or parent,
        }

    pairs = ["all hub", "no hub", "all no", "all intends", "all yes", "all not"]
    collected = ["hub", "all", "yes", "not"]
    return Harvest(
        job_items=[
            *(account_item(did, "done", stage="posts_collected") for did in collected),
            account_item("no", "skipped", reason="opt_out: label"),
            account_item("intends", "skipped", reason="opt_out: record"),
            {"kind": "seed", "key": "hub.test", "state": "done"},
        ],
        profiles=[{"_id": did, "opt_outs": []} for did in collected],
        follows=[{"_id": pair, "did": pair.split()[0], "subject_did": pair.split()[1]} for pair in pairs],
        posts=[
            stored("hub/1"),
            stored("all/1", "hub/1"),
            stored("hub/2", "all/1", "hub/1"),
            stored("hub/3"),
            stored("hub/4"),
            stored("hub/6", "hub/5", "hub/4"),
            stored("yes/1"),
            stored("not/1", "yes/1"),
            stored("all/2", "not/1", "yes/1"),
            stored("all/3"),
            stored("all/4", "no/2"),
            stored("all/5", "away/1"),
        ],
        reposts=[{"did": "hub", "subject_uri": "all/3"}],
        threads=[{"_id": "hub/1"}, {"_id": "all/3"}],
    )


def account_item(did: str, state: str, **fields: str) -> dict[str, Any]:
    """As an item of a job."""
    return {"kind": "account", "key": did, "state": state, **fields}


def test_a_complete_harvest_does_not_differ(truth: dict[str, Any], harvest: Harvest) -> None:
    assert compare(truth, harvest) == []


TOLERATED: dict[str, Callable[[Harvest], None]] = {
    "a profile that names its opt-out": lambda h: h.add("profiles", _id="no", opt_outs=["label"]),
    "an invisible account that failed": lambda h: h.add(
        "job_items", **account_item("away", "failed", reason="not_found")
    ),
    "a root that names itself": lambda h: h.change("posts", {"_id": "hub/1"}, root_uri="hub/1"),
    "a thread with nothing to show": lambda h: h.add("threads", _id="hub/4"),
    "a repost of a lost post": lambda h: h.add("reposts", did="hub", subject_uri="away/1"),
    "a repost of a post by one who opted out": lambda h: h.add("reposts", did="hub", subject_uri="no/2"),
}


@pytest.mark.parametrize("change", TOLERATED.values(), ids=TOLERATED)
def test_what_may_be_there_is_no_difference(
    truth: dict[str, Any], harvest: Harvest, change: Callable[[Harvest], None]
) -> None:
    change(harvest)
    assert compare(truth, harvest) == []


DIFFERENCES: dict[str, Callable[[Harvest], None]] = {
    "1 accounts not in the stage": lambda h: h.change("job_items", {"key": "yes"}, stage="profile_collected"),
    "1 accounts not in the stage posts_collected: hub": lambda h: h.without("job_items", key="hub"),
    "1 accounts that opted out": lambda h: h.change("job_items", {"key": "no"}, reason="unwanted"),
    "1 accounts that cannot be seen": lambda h: h.add(
        "job_items", **account_item("away", "done", stage="posts_collected")
    ),
    "1 profiles missing": lambda h: h.without("profiles", _id="hub"),
    "1 profiles too many: away.test": lambda h: h.add("profiles", _id="away", opt_outs=[]),
    "1 profiles too many: alone.test": lambda h: h.add("profiles", _id="alone", opt_outs=[]),
    "1 profiles with wrong opt_outs: hub": lambda h: h.change("profiles", {"_id": "hub"}, opt_outs=["label"]),
    "1 profiles with wrong opt_outs: no": lambda h: h.add("profiles", _id="no", opt_outs=[]),
    "1 follows missing: no.test": lambda h: h.without("follows", _id="no hub"),
    "1 follows too many: no.test": lambda h: h.add("follows", _id="no intends", did="no", subject_did="intends"),
    "1 follows with a wrong _id": lambda h: h.change("follows", {"_id": "all hub"}, _id="hub all"),
    "1 posts missing: hub/6": lambda h: h.without("posts", _id="hub/6"),
    "1 posts too many: hub/5": lambda h: h.add("posts", _id="hub/5", did="hub"),
    "1 posts too many: no/1": lambda h: h.add("posts", _id="no/1", did="no"),
    "1 posts too many: hub/99 (unknown)": lambda h: h.add("posts", _id="hub/99", did="hub"),
    "1 posts altered: hub/1 text": lambda h: h.change("posts", {"_id": "hub/1"}, text="text"),
    "1 posts altered: hub/2 parent_uri": lambda h: h.change("posts", {"_id": "hub/2"}, parent_uri=None),
    "1 posts altered: hub/2 root_uri": lambda h: h.change("posts", {"_id": "hub/2"}, root_uri="all/1"),
    "1 reposts missing": lambda h: h.without("reposts", did="hub"),
    "1 reposts too many: by no.test": lambda h: h.add("reposts", did="no", subject_uri="hub/1"),
    "1 threads missing: hub/1": lambda h: h.without("threads", _id="hub/1"),
    "1 threads missing: all/3": lambda h: h.without("threads", _id="all/3"),
    "1 threads too many: away/1": lambda h: h.add("threads", _id="away/1"),
    "1 threads too many: no/2": lambda h: h.add("threads", _id="no/2"),
    "1 threads too many: all/1": lambda h: h.add("threads", _id="all/1"),
}


@pytest.mark.parametrize(("told", "change"), DIFFERENCES.items(), ids=DIFFERENCES)
def test_each_difference_is_told_once(
    truth: dict[str, Any], harvest: Harvest, told: str, change: Callable[[Harvest], None]
) -> None:
    change(harvest)
    (line,) = compare(truth, harvest)
    assert line.startswith(told)


def test_many_differences_of_a_kind_are_one_line_with_examples(truth: dict[str, Any]) -> None:
    nothing = Harvest(job_items=[], profiles=[], follows=[], posts=[], reposts=[], threads=[])
    assert [line.split(":")[0] for line in compare(truth, nothing)] == [
        "4 accounts not in the stage posts_collected",
        "2 accounts that opted out and are not skipped for it",
        "4 profiles missing",
        "6 follows missing",
        "12 posts missing",
        "1 reposts missing",
        "2 threads missing",
    ]
    assert compare(truth, nothing)[4].endswith("; and 9 more")
