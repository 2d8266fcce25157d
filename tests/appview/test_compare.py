"""The comparison with the truth, on a truth small enough to be seen through."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harvester.stores.staging import OPEN, SUFFIX, SegmentWriter
from tests.appview.compare import compare
from tests.appview.known import Asked
from tests.pipelines.records import KINDS

Documents = list[dict[str, Any]]


class Collection:
    """The documents of a collection."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def find(self) -> Documents:
        return self._documents


class Harvest:
    """A database of lists and a data folder, changed by the tests."""

    def __init__(self, data: Path, **collections: Documents) -> None:
        self.collections = collections
        self.data = data
        self.lines: Documents = []
        self.unstaged: set[str] = set()
        """Keys of records that get no line."""
        for document in (document for of in collections.values() for document in of):
            for path in document.get("media_paths", {}).values():
                self.picture(path).touch()

    def __getitem__(self, name: str) -> Collection:
        return Collection(self.collections.get(name, []))

    def compared(self, truth: Mapping[str, Any], asked: Asked) -> list[str]:
        """The differences, when all records are staged."""
        writer = SegmentWriter(self.data / "staging" / "bluesky")
        for kind in KINDS:
            for document in self.collections.get(kind.COLLECTION, []):
                if kind.KIND != "thread" and document["_id"] not in self.unstaged:
                    self.stage(kind.KIND, document["_id"], document.get("did", ""))
        for line in self.lines:
            writer.write(line["kind"], [json.dumps(line).encode()])
        writer.close()
        return compare(truth, self, self.data, asked)

    def stage(self, kind: str, key: str, did: str, raw: object = None) -> None:
        """Adds a staged line."""
        self.lines.append({"kind": kind, "key": key, "did": did, "raw": raw})

    def file(self, *parts: str) -> Path:
        """A file of the data folder."""
        file = self.data.joinpath(*parts)
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def picture(self, path: str) -> Path:
        return self.file("images", path)

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

    def add_edge(self, collection: str, did: str, subject: str, **more: object) -> None:
        self.add(collection, **{"_id": f"{did} {subject}", "did": did, "subject_uri": subject} | more)


def find(documents: Documents, **fields: str) -> dict[str, Any]:
    (found,) = [doc for doc in documents if fields.items() <= doc.items()]
    return found


def account(did: str, follows: str = "", followers: str = "", **more: object) -> dict[str, Any]:
    return {
        "did": did,
        "handle": f"{did}.test",
        "kind": "author",
        "optOut": None,
        "visible": True,
        "profile": {"description": described(did)},
        "labels": [],
        "shown": {"followersCount": 1, "followsCount": 2, "postsCount": 3},
        "follows": follows.split(),
        "followers": followers.split(),
        **more,
    }


def post(uri: str, parent: str | None = None, root: str | None = None, **more: Any) -> dict[str, Any]:
    """A post of the truth; its uri is "<did>/<key>"."""
    told = {
        "uri": uri,
        "cid": f"cid of {uri}",
        "by": uri.split("/")[0],
        "kind": "post",
        "visible": True,
        "record": {"text": text(uri), "createdAt": "2024-01-01T00:00:00.123456Z"} | more.pop("record", {}),
        "labels": [],
        "shown": {"indexedAt": "2024-01-02T00:00:00Z", **dict.fromkeys(("likeCount", "repostCount"), 4)}
        | {"replyCount": 5, "quoteCount": 6},
        **more,
    }
    return told | ({"kind": "reply", "parent": parent, "root": root or parent} if parent else {})


def text(uri: str) -> str:
    return f"ö, the words of the post {uri}."


def described(did: str) -> str:
    return f"the description of the account {did}."


BLOB = {"ref": {"$link": "bafy"}}
RICH = {
    "langs": ["en", "eo"],
    "tags": ["outside"],
    "labels": {"values": [{"val": "nudity"}]},
    "facets": [
        {"index": {"byteStart": 4, "byteEnd": 7}, "features": [{"$type": "a#tag", "tag": "the"}]},
        {"index": {"byteStart": 1, "byteEnd": 7}, "features": [{"$type": "a#tag", "tag": "cut"}]},
        {"index": {"byteStart": 4, "byteEnd": 99}, "features": [{"$type": "a#tag", "tag": "beyond"}]},
    ],
    "embed": {
        "record": {},
        "media": {"images": [{"alt": "a", "image": BLOB, "aspectRatio": {"width": 2, "height": 1}}]},
    },
}
"""What the richest post has; it quotes another."""


@pytest.fixture
def truth() -> dict[str, Any]:
    """`hub` and `all` reach everyone but `alone`; `no` opted out by a label, `intends` by a record."""
    at = "2024-01-01T00:00:00Z"
    card = {"uri": "https://card.example", "title": "t", "description": ""}
    return {
        "accounts": [
            account("hub", followers="all no", profile={"displayName": "Hub", "avatar": {}}),
            account("all", follows="hub no intends yes not"),
            account("no", follows="hub intends", followers="all", kind="private", optOut="no-unauthenticated"),
            account("intends", followers="all no", kind="intents", optOut="intents"),
            account("yes", followers="all", kind="blocker", labels=[{"val": "!warn", "src": "labeler"}]),
            account("not", followers="all", kind="blocked"),
            account("away", kind="deactivated", visible=False),
            account("alone", kind="empty"),
        ],
        "posts": [
            post("hub/1"),
            post("all/1", parent="hub/1"),
            post("hub/2", parent="all/1", root="hub/1"),
            post("hub/3", record=RICH, quotes="all/3", labels=[{"val": "porn", "src": "labeler"}]),
            post("hub/4", record={"embed": {"external": card}}),
            post("hub/5", parent="hub/4", visible=False),
            post("hub/6", parent="hub/5", root="hub/4", record={"embed": {"video": BLOB, "alt": "film"}}),
            post("all/6", parent="hub/6", root="hub/4", quotes="no/2"),
            post("yes/1", record={"createdAt": "2099-01-01T00:00:00Z"}),
            post("not/1", parent="yes/1", quotes="yes/1"),
            post("all/2", parent="not/1", root="yes/1", quotes="away/1"),
            post("all/3"),
            post("no/1", parent="all/3"),
            post("no/2"),
            post("all/4", parent="no/2", quotes="hub/1"),
            post("away/1", visible=False),
            post("all/5", parent="away/1"),
        ],
        "reposts": [
            {"by": "hub", "subject": "all/3", "visible": True, "createdAt": at},
            {"by": "hub", "subject": "away/1", "visible": False, "createdAt": at},
            {"by": "hub", "subject": "no/2", "visible": True, "createdAt": at},
            {"by": "no", "subject": "hub/1", "visible": True, "createdAt": at},
        ],
        "likes": [
            {"by": "hub", "subject": "all/3", "uri": "hub/like1", "createdAt": at},
            {"by": "hub", "subject": "away/1", "uri": "hub/like2", "createdAt": at},
            {"by": "hub", "subject": "no/2", "uri": "hub/like3", "createdAt": at},
            {"by": "no", "subject": "hub/1", "uri": "no/like1", "createdAt": at},
        ],
        "lists": [
            {"by": "hub", "uri": "hub/list", "name": "N", "purpose": "curatelist", "members": ["all", "no"]},
            {"by": "no", "uri": "no/list", "name": "N", "purpose": "curatelist", "members": ["all"]},
        ],
        "cases": {
            "hub": "hub",
            "followsEveryone": "all",
            "blocker": "yes",
            "blocked": "not",
            "blocks-hub": "alone",
            "detachedQuote": "all/4",
        },
    }


ALL = Asked("records", media=True)
AT = datetime(2024, 1, 1, microsecond=123_000, tzinfo=UTC)


@pytest.fixture
def harvest(tmp_path: Path) -> Harvest:
    """All that is to be found, as it should be stored."""

    def stored(uri: str, parent: str | None = None, root: str | None = None, **more: Any) -> dict[str, Any]:
        did = uri.split("/")[0]
        replied = {"parent_uri": parent, "root_uri": root or parent} if parent else {}
        counts = {"like_count": 4, "repost_count": 4, "reply_count": 5, "quote_count": 6}
        own = {"_id": uri, "did": did, "cid": f"cid of {uri}", "handle": f"{did}.test", "text": text(uri)}
        return own | {"created_at": AT, "sort_at": AT} | counts | replied | more

    def profile(did: str, **more: Any) -> dict[str, Any]:
        counts = {"followers_count": 1, "follows_count": 2, "posts_count": 3}
        return {"_id": did, "did": did, "handle": f"{did}.test"} | counts | more

    def quote(uri: str, kind: str, **more: str) -> dict[str, Any]:
        return {"quote": {"uri": uri, "kind": kind, **more}}

    pairs = ["all hub", "no hub", "all no", "all intends", "all yes", "all not"]
    image = {"url": "https://pictures.example", "alt": "a", "cid": "bafy", "width": 2, "height": 1}
    late: dict[str, Any] = {"created_at": datetime(2099, 1, 1, tzinfo=UTC), "sort_at": datetime(2024, 1, 2, tzinfo=UTC)}
    return Harvest(
        tmp_path,
        job_items=[
            *(account_item(did, "done", stage="posts_collected") for did in ("hub", "all", "yes", "not")),
            account_item("no", "skipped", reason="opt_out: label"),
            account_item("intends", "skipped", reason="opt_out: record"),
            account_item("hub", "failed", job="earlier", created_at=1),
            {"kind": "seed", "key": "hub.test", "state": "done", "job": "latest", "created_at": 2},
        ],
        profiles=[
            profile("hub", display_name="Hub", avatar_url="https://a.example", media_paths={"avatar": "hub/pfp.jpg"}),
            profile("all", description=described("all")),
            profile("yes", description=described("yes"), labels=[{"val": "!warn", "src": "labeler"}]),
            profile("not", description=described("not")),
        ],
        follows=[{"_id": pair, "did": pair.split()[0], "subject_did": pair.split()[1]} for pair in pairs],
        posts=[
            stored("hub/1"),
            stored("all/1", "hub/1"),
            stored("hub/2", "all/1", "hub/1"),
            stored(
                "hub/3",
                langs=["en", "eo"],
                tags=["outside"],
                labels=[{"val": "porn", "src": "labeler"}, {"val": "nudity", "src": "hub"}],
                facets=[{"start": 3, "end": 6, "kind": "tag", "value": "the"}],
                embed={"images": [image], **quote("all/3", "post", text=text("all/3"))},
                media_paths={"0": "hub/posts/3_0.jpg"},
            ),
            stored("hub/4", embed={"external": {"url": "https://card.example", "title": "t"}}),
            stored("hub/6", "hub/5", "hub/4", embed={"video": {"alt": "film", "cid": "bafy"}}),
            stored("all/6", "hub/6", "hub/4", embed=quote("no/2", "opted_out")),
            stored("yes/1", **late),
            stored("not/1", "yes/1", embed=quote("yes/1", "blocked")),
            stored("all/2", "not/1", "yes/1", embed=quote("away/1", "not_found")),
            stored("all/3"),
            stored("all/4", "no/2", embed=quote("hub/1", "detached")),
            stored("all/5", "away/1"),
        ],
        reposts=[{"_id": "hub all/3", "did": "hub", "subject_uri": "all/3"}],
        likes=[
            {"_id": "hub/like1", "did": "hub", "subject_uri": "all/3"},
            {"_id": "hub/like2", "did": "hub", "subject_uri": "away/1"},
        ],
        threads=[{"_id": "hub/1"}, {"_id": "hub/6"}, {"_id": "all/3"}],
        lists=[{"_id": "hub/list", "did": "hub", "name": "N", "purpose": "curatelist"}],
        list_items=[{"_id": "hub/item1", "did": "hub", "list_uri": "hub/list", "subject_did": "all"}],
    )


def account_item(did: str, state: str, **fields: Any) -> dict[str, Any]:
    """As an item of a job."""
    return {"kind": "account", "key": did, "state": state, "job": "latest", "created_at": 2, **fields}


def test_a_complete_harvest_does_not_differ(truth: dict[str, Any], harvest: Harvest) -> None:
    assert harvest.compared(truth, ALL) == []


TOLERATED: dict[str, Callable[[Harvest], None]] = {
    "a stub of an account that opted out": lambda h: h.add("profiles", _id="no", handle="no.test", opt_outs=["label"]),
    "an invisible account that failed": lambda h: h.add(
        "job_items", **account_item("away", "failed", reason="not_found")
    ),
    "a thread with nothing to show": lambda h: h.add("threads", _id="hub/4"),
    "a thread below a block": lambda h: h.add("threads", _id="not/1"),
    "a repost of a lost post": lambda h: h.add_edge("reposts", "hub", "away/1"),
    "a repost of a post by one who opted out": lambda h: h.add_edge("reposts", "hub", "no/2"),
    "a like of a post by one who opted out": lambda h: h.add_edge("likes", "hub", "no/2", _id="hub/like3"),
    "a member who opted out": lambda h: h.add("list_items", _id="hub/2", list_uri="hub/list", subject_did="no"),
    "a staged line of one who opted out, as others list it": lambda h: h.stage("follow", "no hub", "no"),
    "a record that was staged twice": lambda h: h.stage("post", "hub/1", "hub"),
}


@pytest.mark.parametrize("change", TOLERATED.values(), ids=TOLERATED)
def test_what_may_be_there_is_no_difference(
    truth: dict[str, Any], harvest: Harvest, change: Callable[[Harvest], None]
) -> None:
    change(harvest)
    assert harvest.compared(truth, ALL) == []


def quoting(change: Mapping[str, object]) -> dict[str, Any]:
    """The embed of all/6, changed."""
    return {"quote": {"uri": "no/2", "kind": "opted_out", **change}}


DIFFERENCES: dict[str, Callable[[Harvest], None]] = {
    "1 accounts not in the stage": lambda h: h.change("job_items", {"key": "yes"}, stage="profile_collected"),
    "1 accounts not in the stage posts_collected: all": lambda h: h.without("job_items", key="all"),
    "1 accounts not in the stage posts_collected: not": lambda h: h.change("job_items", {"key": "not"}, job="earlier"),
    "1 accounts that opted out": lambda h: h.change("job_items", {"key": "no"}, reason="unwanted"),
    "1 accounts that cannot be seen": lambda h: h.add(
        "job_items", **account_item("away", "done", stage="posts_collected")
    ),
    "1 profiles missing": lambda h: h.without("profiles", _id="all"),
    "1 profiles too many: away.test": lambda h: h.add("profiles", _id="away"),
    "1 profiles too many: alone.test": lambda h: h.add("profiles", _id="alone"),
    "1 profiles altered: hub.test (author) opt_outs": lambda h: h.change("profiles", {"_id": "hub"}, opt_outs=["x"]),
    "1 profiles altered: hub.test (author) handle": lambda h: h.change("profiles", {"_id": "hub"}, handle="b.test"),
    "1 profiles altered: hub.test (author) display": lambda h: h.change("profiles", {"_id": "hub"}, display_name="B"),
    "1 profiles altered: hub.test (author) description": lambda h: h.change(
        "profiles", {"_id": "hub"}, description="not its own"
    ),
    "1 profiles altered: hub.test (author) banner": lambda h: h.change("profiles", {"_id": "hub"}, banner_url="x"),
    "1 profiles altered: hub.test (author) followers_count": lambda h: h.change(
        "profiles", {"_id": "hub"}, followers_count=0
    ),
    "1 profiles altered: yes.test (blocker) labels": lambda h: h.change("profiles", {"_id": "yes"}, labels=[]),
    "1 profiles of accounts that opted out and are no stubs: no": lambda h: h.add("profiles", _id="no", opt_outs=[]),
    "1 profiles of accounts that opted out and are no stubs: intends": lambda h: h.add(
        "profiles", _id="intends", opt_outs=["x"], followers_count=1
    ),
    "1 follows missing: no.test": lambda h: h.without("follows", _id="no hub"),
    "1 follows too many: no.test": lambda h: h.add("follows", _id="no intends", did="no", subject_did="intends"),
    "1 follows with a wrong _id": lambda h: h.change("follows", {"_id": "all hub"}, _id="hub all"),
    "1 posts missing: hub/6": lambda h: h.without("posts", _id="hub/6"),
    "1 posts too many: hub/5": lambda h: h.add("posts", _id="hub/5", did="hub"),
    "1 posts too many: hub/99 (unknown)": lambda h: h.add("posts", _id="hub/99", did="hub"),
    "1 posts too many: no/1": lambda h: h.add("posts", _id="no/1"),
    "1 posts altered: hub/1 text": lambda h: h.change("posts", {"_id": "hub/1"}, text="text"),
    "1 posts altered: hub/1 cid": lambda h: h.change("posts", {"_id": "hub/1"}, cid="other"),
    "1 posts altered: hub/1 handle": lambda h: h.change("posts", {"_id": "hub/1"}, handle="other.test"),
    "1 posts altered: hub/1 created_at": lambda h: h.change("posts", {"_id": "hub/1"}, created_at=None),
    "1 posts altered: yes/1 sort_at": lambda h: h.change("posts", {"_id": "yes/1"}, sort_at=None),
    "1 posts altered: hub/2 parent_uri": lambda h: h.change("posts", {"_id": "hub/2"}, parent_uri=None),
    "1 posts altered: hub/2 root_uri": lambda h: h.change("posts", {"_id": "hub/2"}, root_uri="all/1"),
    "1 posts altered: hub/3 langs": lambda h: h.change("posts", {"_id": "hub/3"}, langs=["en"]),
    "1 posts altered: hub/3 tags": lambda h: h.change("posts", {"_id": "hub/3"}, tags=[]),
    "1 posts altered: hub/3 facets: [] is": lambda h: h.change("posts", {"_id": "hub/3"}, facets=[]),
    "1 posts altered: hub/3 facets: [(4,": lambda h: h.change(
        "posts", {"_id": "hub/3"}, facets=[{"start": 4, "end": 7, "kind": "tag", "value": "the"}]
    ),
    "1 posts altered: hub/3 labels": lambda h: h.change("posts", {"_id": "hub/3"}, labels=[]),
    "2 posts altered: hub/3 images": lambda h: h.change("posts", {"_id": "hub/3"}, embed={}),
    "1 posts altered: hub/4 external": lambda h: h.change("posts", {"_id": "hub/4"}, embed={}),
    "1 posts altered: hub/6 video": lambda h: h.change("posts", {"_id": "hub/6"}, embed={"video": {"cid": "bafy"}}),
    "1 posts altered: all/6 quote": lambda h: h.change("posts", {"_id": "all/6"}, embed=quoting({"kind": "purged"})),
    "1 posts altered: all/2 quote": lambda h: h.change(
        "posts", {"_id": "all/2"}, embed={"quote": {"uri": "away/1", "kind": "post", "text": "still there"}}
    ),
    "1 posts altered: not/1 quote": lambda h: h.change("posts", {"_id": "not/1"}, embed={}),
    "1 posts altered: all/4 quote": lambda h: h.change("posts", {"_id": "all/4"}, embed={}),
    "1 posts altered: hub/1 like_count": lambda h: h.change("posts", {"_id": "hub/1"}, like_count=3),
    "1 posts altered: hub/1 quote_count": lambda h: h.change("posts", {"_id": "hub/1"}, quote_count=0),
    "1 reposts missing": lambda h: h.without("reposts", did="hub"),
    "1 reposts too many: yes.test": lambda h: h.add_edge("reposts", "yes", "hub/1"),
    "1 likes missing": lambda h: h.without("likes", subject_uri="away/1"),
    "1 likes too many": lambda h: h.add_edge("likes", "yes", "hub/1"),
    "1 likes with a wrong _id": lambda h: h.change("likes", {"subject_uri": "all/3"}, _id="hub/like4"),
    "1 threads missing: hub/1": lambda h: h.without("threads", _id="hub/1"),
    "1 threads missing: hub/6": lambda h: h.without("threads", _id="hub/6"),
    "1 threads missing: all/3": lambda h: h.without("threads", _id="all/3"),
    "1 threads too many: away/1": lambda h: h.add("threads", _id="away/1"),
    "1 threads too many: no/2": lambda h: h.add("threads", _id="no/2"),
    "1 threads too many: all/1": lambda h: h.add("threads", _id="all/1"),
    "1 lists missing": lambda h: h.without("lists", _id="hub/list"),
    "1 lists too many: no/list": lambda h: h.add("lists", _id="no/list"),
    "1 lists altered: hub/list purpose": lambda h: h.change("lists", {"_id": "hub/list"}, purpose="modlist"),
    "1 members of lists missing: all.test": lambda h: h.without("list_items", subject_did="all"),
    "1 members of lists too many: yes.test": lambda h: h.add(
        "list_items", _id="hub/2", list_uri="hub/list", subject_did="yes"
    ),
    "1 records marked as gone that are there: hub/1": lambda h: h.change("posts", {"_id": "hub/1"}, gone_at=AT),
    "1 pictures that a record lacks, or has and should not: 0 of hub/1": lambda h: h.change(
        "posts", {"_id": "hub/1"}, media_paths={"0": "hub/pfp.jpg"}
    ),
    "2 pictures that a record lacks, or has and should not: avatar of hub; banner": lambda h: h.change(
        "profiles", {"_id": "hub"}, media_paths={"banner": "hub/pfp.jpg"}
    ),
    "1 pictures that a record names": lambda h: h.picture("hub/pfp.jpg").unlink(),
    "1 pictures in the folder": lambda h: h.picture("no/pfp.jpg").touch(),
    "1 segments unfinished": lambda h: h.file("staging", "bluesky", f"1{SUFFIX}{OPEN}").touch(),
    "1 records not staged: post hub/3": lambda h: h.unstaged.add("hub/3"),
    "1 staged lines of accounts that opted out": lambda h: h.stage("repost", "no hub/1", "no"),
    "1 staged lines and records with words of accounts that opted out: post all/6": lambda h: h.stage(
        "post", "all/6", "all", {"quote": text("no/2")}
    ),
    "1 staged lines and records with words of accounts that opted out: follow no hub": lambda h: h.stage(
        "follow", "no hub", "no", {"description": described("no")}
    ),
    "1 staged lines and records with words of accounts that opted out: posts hub/4": lambda h: h.change(
        "posts", {"_id": "hub/4"}, text_clean=f"> {text('no/2')}"
    ),
}


@pytest.mark.parametrize(("told", "change"), DIFFERENCES.items(), ids=DIFFERENCES)
def test_each_difference_is_told_once(
    truth: dict[str, Any], harvest: Harvest, told: str, change: Callable[[Harvest], None]
) -> None:
    change(harvest)
    (line,) = harvest.compared(truth, ALL)
    assert line.startswith(told)


UNASKED: dict[str, Asked] = {
    "2 pictures that a record lacks": ALL._replace(media=False),
    "2 likes too many": ALL._replace(history="appview"),
    "3 threads too many": ALL._replace(threads=False),
    "1 lists too many": ALL._replace(lists=False),
}


@pytest.mark.parametrize(("told", "asked"), UNASKED.items(), ids=UNASKED)
def test_what_was_not_asked_for_is_a_difference(
    truth: dict[str, Any], harvest: Harvest, told: str, asked: Asked
) -> None:
    assert told in " ".join(harvest.compared(truth, asked))


@pytest.mark.parametrize(
    ("since", "until", "told"),
    [
        (datetime(2024, 1, 2, tzinfo=UTC), ALL.until, ["12 posts too many", "1 reposts too many", "2 likes too many"]),
        (ALL.since, datetime(2024, 1, 2, tzinfo=UTC), ["1 posts too many"]),
    ],
)
def test_posts_of_another_time_are_too_many(
    since: datetime, until: datetime, told: list[str], truth: dict[str, Any], harvest: Harvest
) -> None:
    harvest.collections["threads"].clear()
    found = harvest.compared(truth, ALL._replace(threads=False, since=since, until=until))
    assert [line.split(":")[0] for line in found if "pictures" not in line] == told


def test_follows_between_two_of_whom_one_opted_out_later_may_be_left(truth: dict[str, Any], harvest: Harvest) -> None:
    harvest.add("follows", _id="no intends", did="no", subject_did="intends")
    find(truth["accounts"], did="intends")["late"] = True
    assert harvest.compared(truth, ALL) == []


def test_what_an_earlier_harvest_found_and_is_gone_stays_and_is_marked(truth: dict[str, Any], harvest: Harvest) -> None:
    find(truth["posts"], uri="all/5").update(visible=False, gone=True)
    harvest.change("posts", {"_id": "all/5"}, gone_at=AT)
    assert harvest.compared(truth, ALL) == []
    del find(harvest.collections["posts"], _id="all/5")["gone_at"]
    assert harvest.compared(truth, ALL) == ["1 records gone that are not marked: all/5"]
    harvest.without("posts", _id="all/5")
    assert harvest.compared(truth, ALL) == ["1 records gone that are not marked: all/5"]


def test_many_differences_of_a_kind_are_one_line_with_examples(truth: dict[str, Any], tmp_path: Path) -> None:
    found = Harvest(tmp_path).compared(truth, ALL)
    assert [line.split(":")[0] for line in found] == [
        "4 accounts not in the stage posts_collected",
        "2 accounts that opted out and are not skipped for it",
        "4 profiles missing",
        "6 follows missing",
        "13 posts missing",
        "1 reposts missing",
        "2 likes missing",
        "3 threads missing",
        "1 lists missing",
        "1 members of lists missing",
    ]
    assert found[4].endswith("; and 10 more")
