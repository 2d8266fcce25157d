"""The sandbox tells the truth: what its pages show is what `truth` says, and each fault does what it promises."""

import ast
import gzip
import hashlib
import http.client
import io
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import libipld
import pytest
from PIL import Image

from harvester.sandbox import dag_cbor
from harvester.sandbox.car import layer
from harvester.sandbox.ids import encode_block, raw_cid
from harvester.sandbox.network import HIDDEN, Network
from harvester.sandbox.posts import BIG_ROOT, DEEP_REPLIES, DEEP_ROOT, POPULAR, SandboxPost, SandboxRepost
from tests.root import ROOT
from tests.sandbox.process import Sandbox

ACCOUNTS = 240
PATIENCE_S = 240
"""Who waits longer waits in vain."""


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture(scope="module")
def started() -> Iterator[Sandbox]:
    with Sandbox(accounts=ACCOUNTS, seed=3, posts=20, page_size=40) as site:
        yield site


@pytest.fixture
def site(started: Sandbox) -> Iterator[Sandbox]:
    yield started
    started.clear_faults()


def fetch(
    site: Sandbox,
    path: str,
    method: str = "GET",
    body: object = None,
    timeout: float = PATIENCE_S,
    headers: dict[str, str] | None = None,
) -> Reply:
    connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        response = connection.getresponse()
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def call(site: Sandbox, name: str, headers: dict[str, str] | None = None, **params: Any) -> Reply:
    return fetch(site, f"/xrpc/{name}?{urlencode(params, doseq=True)}", headers=headers)


def walk(site: Sandbox, name: str, rows: str, **params: Any) -> list[Any]:
    """Every row of a list, page by page until the cursor is gone."""
    found: list[Any] = []
    cursor: dict[str, Any] = {}
    for _ in range(1_000):
        page = call(site, name, **params, **cursor).json
        found += page[rows]
        if "cursor" not in page:
            return found
        cursor = {"cursor": page["cursor"]}
    raise AssertionError("the cursors do not end")


def error_of(reply: Reply) -> tuple[int, str, str]:
    return reply.status, reply.json["error"], reply.json["message"]


# The world


@pytest.mark.parametrize("size", [2, 9, 40, 300])
def test_follows_and_followers_are_the_same_edges(size: int) -> None:
    network = Network(size, seed=5)
    forward = {(i, j) for i in range(size) for j in network.visible_follows(i)}
    backward = {(i, j) for j in range(size) for i in network.visible_followers(j)}
    hidden = {i for i in range(size) if network.hidden(i)}
    assert {edge for edge in forward if edge[0] not in hidden} == {e for e in backward if e[1] not in hidden}


def test_identities_are_reversible_and_a_million_accounts_cost_nothing() -> None:
    network = Network(1_000_000, seed=5)
    for index in (0, 1, 17, 999_999):
        assert network.index_of_did(network.did(index)) == index
        assert network.index_of_handle(network.handle(index)) == index
    assert network.index_of_did("did:plc:" + "a" * 24) is None
    assert network.follower_count(0) > 900_000


def test_everybody_is_reachable_from_the_hub_along_follows_alone(site: Sandbox) -> None:
    met = site.truth_of(directions=("follows",)).depths
    assert len(met) == ACCOUNTS - sum(site.network.hidden(i) for i in range(ACCOUNTS))


def test_the_threads_and_facets_and_embeds_asked_for_exist(site: Sandbox) -> None:
    world = site.world
    posts = [SandboxPost(i, n) for i in range(ACCOUNTS) for n in range(world.count(i))]
    embeds = {world.record(post).get("embed", {}).get("$type") for post in posts}
    names = ("images", "video", "gallery", "external", "record", "recordWithMedia")
    assert {f"app.bsky.embed.{name}" for name in names} < embeds
    assert all(world.post_of_uri(world.uri(post)) == post for post in posts[::7])
    assert all(post in world.children(parent) for post in posts if (parent := world.parent(post)) is not None)
    for post in posts[:400]:
        record = world.record(post)
        for facet in record.get("facets", []):
            start, end = facet["index"]["byteStart"], facet["index"]["byteEnd"]
            feature = facet["features"][0]
            if "tag" in feature and not feature["tag"].startswith("bad"):
                assert record["text"].encode()[start:end].decode() == "#" + feature["tag"]


# Walks


@pytest.mark.parametrize("index", [0, 1, 9, 10, 17, 69])
def test_lists_of_accounts_equal_the_truth(site: Sandbox, index: int) -> None:
    network, did = site.network, site.did(index)
    follows = walk(site, "app.bsky.graph.getFollows", "follows", actor=did, limit=100)
    assert [row["did"] for row in follows] == [network.did(n) for n in network.visible_follows(index)]
    followers = walk(site, "app.bsky.graph.getFollowers", "followers", actor=did, limit=30)
    assert [row["did"] for row in followers] == [network.did(n) for n in network.visible_followers(index)]


def test_the_union_of_all_lists_is_the_truth_of_the_follows(site: Sandbox) -> None:
    found = set()
    for index in site.truth.kept:
        did = site.did(index)
        for row in walk(site, "app.bsky.graph.getFollows", "follows", actor=did, limit=100):
            found.add((did, row["did"]))
        for row in walk(site, "app.bsky.graph.getFollowers", "followers", actor=did, limit=100):
            found.add((row["did"], did))
    assert found == site.truth.follows
    assert not site.truth.hidden & {did for edge in found for did in edge}


@pytest.mark.parametrize("index", [0, 6, 9, 10, 16, 20])
def test_feeds_equal_the_truth(site: Sandbox, index: int) -> None:
    did = site.did(index)
    rows = walk(site, "app.bsky.feed.getAuthorFeed", "feed", actor=did, limit=100)
    truth = site.truth_of(honour_opt_outs=False)
    own = {row["post"]["uri"]: row["post"] for row in rows if "reason" not in row}
    expected = {uri: post for uri, post in truth.posts.items() if post.author == did}
    assert {uri: (post["cid"], post["record"]["text"]) for uri, post in own.items()} == {
        uri: (post.cid, post.text) for uri, post in expected.items()
    }
    reposts = {(did, row["post"]["uri"]) for row in rows if "reason" in row}
    assert reposts == {edge for edge in truth.reposts if edge[0] == did}
    times = [row["reason"]["indexedAt"] if "reason" in row else row["post"]["indexedAt"] for row in rows]
    assert times == sorted(times, reverse=True)


def test_filters_and_pins(site: Sandbox) -> None:
    def rows(**wishes: str) -> list[Any]:
        return walk(site, "app.bsky.feed.getAuthorFeed", "feed", actor=site.did(0), limit=100, **wishes)

    assert rows(includePins="true")[0]["reason"]["$type"] == "app.bsky.feed.defs#reasonPin"
    assert all("reply" not in row["post"]["record"] or "reason" in row for row in rows(filter="posts_no_replies"))
    videos = {row["post"]["embed"]["$type"] for row in rows(filter="posts_with_video")}
    assert videos == {"app.bsky.embed.video#view"}
    assert len(rows(filter="nonsense")) == len(rows())


def test_likes_and_reposts_equal_the_truth(site: Sandbox) -> None:
    posts = [POPULAR, *(SandboxPost(i, n) for i in (0, 6, 16) for n in range(6))]
    truth = site.truth_of(honour_opt_outs=False)
    for post in posts:
        uri = site.world.uri(post)
        likes = walk(site, "app.bsky.feed.getLikes", "likes", uri=uri, limit=100)
        assert {(row["actor"]["did"], uri) for row in likes} == {edge for edge in truth.likes if edge[1] == uri}
        reposts = walk(site, "app.bsky.feed.getRepostedBy", "repostedBy", uri=uri, limit=100)
        by = {r.by for r in site.world.reposts_of(post) if not site.network.hidden(r.by)}
        assert {row["did"] for row in reposts} == {site.did(n) for n in by}


def uris_of(node: Any) -> set[str]:
    found = {node["post"]["uri"]}
    for reply in node.get("replies", []):
        found |= uris_of(reply)
    return found


def test_threads_equal_the_truth(site: Sandbox) -> None:
    truth = site.truth_of(honour_opt_outs=False)
    assert len(truth.tree(BIG_ROOT)) > 100
    for root in (BIG_ROOT, SandboxPost(0, 0), SandboxPost(9, 0), SandboxPost(16, 0)):
        uri = site.world.uri(root)
        thread = call(site, "app.bsky.feed.getPostThread", uri=uri, depth=1000).json["thread"]
        assert uris_of(thread) == truth.tree(root)


def test_a_thread_may_be_deeper_than_the_server_shows(site: Sandbox) -> None:
    uri = site.world.uri(DEEP_ROOT)
    node = call(site, "app.bsky.feed.getPostThread", uri=uri, depth=1000).json["thread"]
    depth = 0
    while "replies" in node:
        node = next(reply for reply in node["replies"] if reply["post"]["author"]["did"] == site.did(0))
        depth += 1
    assert depth == 50 < DEEP_REPLIES
    assert node["post"]["replyCount"] > 0


def test_ancestors_that_are_gone_or_blocked(site: Sandbox) -> None:
    world = site.world
    kinds = {}
    for post in (SandboxPost(i, n) for i in range(16, ACCOUNTS) for n in range(world.count(i))):
        parent = world.parent(post)
        if parent and site.network.hidden(parent.author) and not site.network.hidden(post.author):
            kinds["notFound"] = post
    kinds["blocked"] = SandboxPost(10, 3)
    for flag, post in kinds.items():
        thread = call(site, "app.bsky.feed.getPostThread", uri=world.uri(post)).json["thread"]
        assert thread["parent"][flag] is True
    blocker = call(site, "app.bsky.feed.getPostThread", uri=world.uri(SandboxPost(9, 0))).json["thread"]
    assert blocker["post"]["replyCount"] > len(blocker["replies"])


def test_pages_may_be_short_or_empty_before_the_end(site: Sandbox) -> None:
    first = call(site, "app.bsky.graph.getFollowers", actor=site.did(0), limit=40).json
    second = call(site, "app.bsky.graph.getFollowers", actor=site.did(0), limit=40, cursor=first["cursor"]).json
    assert len(first["followers"]) < 40
    assert second["followers"] == []
    assert "cursor" in second


# Repositories


def leaves(blocks: dict[bytes, Any], cid: bytes, level: int | None) -> Iterator[tuple[str, bytes]]:
    """Every key and record of a search tree, checking order, layers and the prefixes."""
    node, path = blocks[cid], b""
    level = layer(node["e"][0]["k"]) if level is None and node["e"] else level
    below = None if level is None else level - 1
    if node["l"] is not None:
        yield from leaves(blocks, node["l"], below)
    for entry in node["e"]:
        path = path[: entry["p"]] + entry["k"]
        assert level is None or layer(path) == level
        yield path.decode(), entry["v"]
        if entry["t"] is not None:
            yield from leaves(blocks, entry["t"], below)


@pytest.mark.parametrize("name", [0, 1, 9, "takendown", "no_profile", "empty", "intents_refuse"])
def test_the_car_file_holds_what_list_records_lists(site: Sandbox, name: str | int) -> None:
    did = site.did(name)
    content = call(site, "com.atproto.sync.getRepo", did=did).body
    header, blocks = libipld.decode_car(content)
    commit: Any = blocks[header["roots"][0]]
    assert (commit["did"], commit["version"]) == (did, 3)
    found = dict(leaves(blocks, commit["data"], None))
    assert list(found) == sorted(found)
    listed = {}
    for collection in call(site, "com.atproto.repo.describeRepo", repo=did).json["collections"]:
        for row in walk(site, "com.atproto.repo.listRecords", "records", repo=did, collection=collection, limit=100):
            listed[row["uri"].removeprefix(f"at://{did}/")] = (row["cid"], row["value"]["$type"])
    assert {path: (libipld.encode_multibase("b", cid), blocks[cid]["$type"]) for path, cid in found.items()} == listed
    for cid, block in list(blocks.items())[:200]:
        assert hashlib.sha256(libipld.encode_dag_cbor(block)).digest() == cid[4:]


def test_records_are_encoded_as_the_library_for_it_does() -> None:
    numbers: list[Any] = [sign * (1 << bits) + more for bits in range(63) for more in (-1, 0, 1) for sign in (1, -1)]
    cid = encode_block({})[0]
    value = {
        "aa": numbers,
        "b": ["", "x" * 23, "é" * 12, "y" * 255, "z" * 70_000],
        "ab": [None, True, False, 0, [], {}],
        "": [b"", b"k" * 36, b"k" * 300],
        "link": cid,
    } | {f"key {number}": number for number in range(300)}
    assert dag_cbor.encode(value) == libipld.encode_dag_cbor(value)
    assert dag_cbor.encode({"blob": {"$link": dag_cbor.cid_text(cid)}}) == libipld.encode_dag_cbor({"blob": cid})
    assert dag_cbor.cid_text(cid) == libipld.encode_multibase("b", cid)


def test_it_is_served_by_the_packages_that_each_installation_has() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    packages = {re.split(r"[^\w-]", each)[0] for each in needed}
    imported = set()
    for path in (ROOT / "harvester" / "sandbox").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
    others = imported - sys.stdlib_module_names - {"harvester"}
    assert others
    assert {{"PIL": "pillow"}.get(name, name) for name in others} <= packages


def test_list_records_runs_both_ways_and_get_record_agrees(site: Sandbox) -> None:
    wish: dict[str, Any] = {"repo": site.handle(0), "collection": "app.bsky.feed.post", "limit": 30}
    newest = walk(site, "com.atproto.repo.listRecords", "records", **wish)
    oldest = walk(site, "com.atproto.repo.listRecords", "records", reverse="true", **wish)
    assert newest == oldest[::-1]
    assert len(newest) == site.world.count(0)
    key = newest[5]["uri"].rpartition("/")[2]
    one = call(site, "com.atproto.repo.getRecord", repo=site.did(0), collection="app.bsky.feed.post", rkey=key)
    assert one.json == newest[5]


def test_user_intents_are_records(site: Sandbox) -> None:
    for name, allow in (("intents_refuse", False), ("intents_allow", True)):
        wish: dict[str, Any] = {"repo": site.did(name), "collection": "org.user-intents.declaration", "rkey": "self"}
        assert call(site, "com.atproto.repo.getRecord", **wish).json["value"]["bulkDataset"]["allow"] is allow


# Errors and special accounts

NOT_FOUND = (400, "InvalidRequest", "Profile not found")
PROFILE_ERRORS = {
    "deactivated": (400, "AccountDeactivated", "Account is deactivated"),
    "takendown": (400, "AccountTakedown", "Account has been suspended"),
    "pds_takendown": (400, "AccountTakedown", "Account has been suspended"),
    "deleted": NOT_FOUND,
}
REPO_ERRORS = {
    "deactivated": "RepoDeactivated Repo has been deactivated: {}",
    "pds_takendown": "RepoTakendown Repo has been takendown: {}",
    "deleted": "RepoNotFound Could not find repo for DID: {}",
}


@pytest.mark.parametrize("name", sorted(HIDDEN))
def test_hidden_accounts_answer_with_the_documented_errors(site: Sandbox, name: str) -> None:
    did = site.did(name)
    assert error_of(call(site, "app.bsky.actor.getProfile", actor=did)) == PROFILE_ERRORS[name]
    graph = call(site, "app.bsky.graph.getFollowers", actor=did)
    assert error_of(graph) == (400, "InvalidRequest", f"Actor not found: {did}")
    assert error_of(call(site, "app.bsky.feed.getAuthorFeed", actor=did)) == NOT_FOUND
    repo = call(site, "com.atproto.sync.getRepo", did=did)
    records = call(site, "com.atproto.repo.listRecords", repo=did, collection="app.bsky.feed.post")
    if name == "takendown":
        assert repo.status == records.status == 200
        return
    error, _, message = REPO_ERRORS[name].partition(" ")
    assert error_of(repo) == (400, error, message.format(did))
    assert error_of(records) == (400, "InvalidRequest", f"Could not find repo: {did}")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("app.bsky.actor.getProfile?actor=nobody.test", NOT_FOUND),
        ("app.bsky.graph.getFollowers?actor=nobody.test", (400, "InvalidRequest", "Actor not found: nobody.test")),
        ("app.bsky.actor.getProfile?actor=nobody", (400, "InvalidRequest", 'Invalid AT identifier (got "nobody")')),
        ("app.bsky.actor.getProfile", (400, "InvalidRequest", 'Missing required key "actor"')),
        ("app.bsky.graph.getFollowers?actor=a.test&limit=0", (400, "InvalidRequest", "small (minimum 1, got 0)")),
        ("app.bsky.graph.getFollowers?actor=a.test&limit=101", (400, "InvalidRequest", "(maximum 100, got 101)")),
        ("app.bsky.graph.getFollowers?actor=a.test&limit=abc", (400, "InvalidRequest", 'value type (got "abc")')),
        ("app.bsky.graph.getFollowers?actor={0}&cursor=garbage", (500, "InternalServerError", "Internal Server")),
        ("app.bsky.feed.getAuthorFeed?actor={0}&cursor=2027-03-16T21:49:34Z", (500, "InternalServerError", "")),
        ("app.bsky.actor.getProfiles?" + "actors=a.test&" * 26, (400, "InvalidRequest", "(maximum 25, got 26)")),
        ("app.bsky.feed.getNothing", (501, "MethodNotImplemented", "Method Not Implemented")),
        ("com.atproto.identity.resolveHandle?handle=nobody.test", (400, "InvalidRequest", "Unable to resolve handle")),
        ("com.atproto.identity.resolveHandle?handle=not+a+handle", (400, "InvalidRequest", "Invalid handle (got")),
        ("com.atproto.repo.getRecord?repo={0}&collection=a.b.c&rkey=x", (400, "RecordNotFound", "Could not locate")),
    ],
)
def test_bad_calls_answer_with_the_documented_errors(site: Sandbox, path: str, expected: tuple[int, str, str]) -> None:
    status, error, message = error_of(fetch(site, "/xrpc/" + path.format(site.did(0))))
    assert (status, error) == expected[:2]
    assert expected[2] in message


def test_special_accounts(site: Sandbox) -> None:
    private = call(site, "app.bsky.actor.getProfile", actor=site.did("private")).json
    assert [label["val"] for label in private["labels"]] == ["!no-unauthenticated"]
    bare = call(site, "app.bsky.actor.getProfile", actor=site.did("no_profile")).json
    assert "createdAt" not in bare
    assert "displayName" not in bare
    invalid = call(site, "app.bsky.actor.getProfile", actor=site.did("handle_invalid")).json
    assert invalid["handle"] == "handle.invalid"
    index = 15
    former = call(site, "com.atproto.identity.resolveHandle", handle=site.network.former_handle(index))
    assert error_of(former) == (400, "InvalidRequest", "Unable to resolve handle")
    resolved = call(site, "com.atproto.identity.resolveHandle", handle=site.handle("renamed"))
    assert resolved.json == {"did": site.did("renamed")}
    empty = call(site, "app.bsky.feed.getAuthorFeed", actor=site.did("empty"))
    assert empty.json == {"feed": []}
    states = {account.state for account in site.truth.accounts.values()}
    assert states == {"visible", "skipped"}


def test_the_other_roles(site: Sandbox) -> None:
    document = fetch(site, f"/{site.did(0)}").json
    assert document["service"][0]["serviceEndpoint"] == site.url
    assert fetch(site, "/did:plc:" + "a" * 24).status == 404
    assert b"Allow: /" in fetch(site, "/robots.txt").body
    assert fetch(site, "/page.html").headers["content-type"].startswith("text/html")
    search = call(site, "app.bsky.feed.searchPosts", q="fox")
    assert search.status == 403
    assert b"administrative rules" in search.body
    profiles = call(site, "app.bsky.actor.getProfiles", actors=[site.did(n) for n in range(8)]).json["profiles"]
    assert [p["did"] for p in profiles] == [site.did(n) for n in range(8) if not site.network.hidden(n)]
    posts = [site.world.uri(SandboxPost(n, 0)) for n in range(6)]
    shown = call(site, "app.bsky.feed.getPosts", uris=posts).json["posts"]
    assert [p["uri"] for p in shown] == [posts[0], posts[1]]
    lists = call(site, "app.bsky.graph.getLists", actor=site.did(0)).json["lists"]
    items = walk(site, "app.bsky.graph.getList", "items", list=lists[0]["uri"], limit=10)
    assert len(items) < lists[0]["listItemCount"]
    packs = call(site, "app.bsky.graph.getActorStarterPacks", actor=site.did(0)).json["starterPacks"]
    pack = call(site, "app.bsky.graph.getStarterPack", starterPack=packs[0]["uri"]).json["starterPack"]
    assert len(pack["listItemsSample"]) == 12


def test_pictures_are_pictures(site: Sandbox) -> None:
    profile = call(site, "app.bsky.actor.getProfile", actor=site.did(0)).json
    path = urlsplit(profile["avatar"]).path
    for suffix, kind in (("", "WEBP"), ("@jpeg", "JPEG")):
        reply = fetch(site, path + suffix)
        assert Image.open(io.BytesIO(reply.body)).format == kind
        assert reply.headers["content-type"] == f"image/{kind.lower()}"
    cid = path.rpartition("/")[2]
    assert raw_cid(call(site, "com.atproto.sync.getBlob", did=site.did(0), cid=cid).body) == cid
    assert fetch(site, path + "@png").json["message"] == "Invalid path: bad format"
    assert fetch(site, path.replace("avatar", "x")).json["message"] == "Invalid path: bad preset"
    assert fetch(site, path[:-3] + "aaa").status == 404
    assert fetch(site, path.replace(site.did(0), site.did("takendown"))).status == 404


def test_gzip_only_when_asked_and_etags(site: Sandbox) -> None:
    path = f"/xrpc/app.bsky.graph.getFollows?actor={site.did(1)}"
    plain, squeezed = fetch(site, path), fetch(site, path, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(squeezed.body) == plain.body
    assert fetch(site, path, headers={"if-none-match": plain.headers["etag"]}).status == 304


# Sessions


def test_sessions_end_and_refresh_tokens_serve_once(site: Sandbox) -> None:
    def post(name: str, body: object = None, token: str = "") -> Reply:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return fetch(site, f"/xrpc/com.atproto.server.{name}", "POST", body, headers=headers)

    def session(token: str) -> Reply:
        return call(site, "com.atproto.server.getSession", {"authorization": f"Bearer {token}"})

    handle = site.handle(0)
    wrong = post("createSession", {"identifier": handle, "password": "x"})
    assert error_of(wrong) == (401, "AuthenticationRequired", "Invalid identifier or password")
    tokens = post("createSession", {"identifier": handle, "password": f"pw-{handle}"}).json
    assert session(tokens["accessJwt"]).json["did"] == site.did(0)
    headers = {"authorization": f"Bearer {tokens['accessJwt']}"}
    assert call(site, "app.bsky.feed.searchPosts", headers, q="e").json["posts"]
    assert error_of(post("refreshSession", token=tokens["accessJwt"]))[1] == "InvalidToken"
    fresh = post("refreshSession", token=tokens["refreshJwt"]).json
    assert error_of(post("refreshSession", token=tokens["refreshJwt"]))[1] == "ExpiredToken"
    site.settings(revoke=site.did(0))
    assert error_of(session(fresh["accessJwt"])) == (400, "ExpiredToken", "Token has expired")
    site.settings(access_seconds=0)
    other = site.handle(1)
    short = post("createSession", {"identifier": other, "password": f"pw-{other}"}).json
    assert error_of(session(short["accessJwt"]))[:2] == (400, "ExpiredToken")
    site.settings(access_seconds=7200, session_limit=2)
    limited = post("createSession", {"identifier": handle, "password": "x"})
    assert limited.status == 429
    assert int(limited.headers["retry-after"]) > 0
    site.settings(session_limit=None)


# Faults

TARGET = "app.bsky.actor.getProfile"


def struck(site: Sandbox, kind: str, **wishes: Any) -> Reply:
    """The profile of account 0 under a fault."""
    site.fault(kind, match=TARGET, **wishes)
    return call(site, TARGET, actor=site.did(0))


@pytest.mark.parametrize(
    ("kind", "wishes", "status", "part"),
    [
        ("status", {"status": 418, "error": "Teapot"}, 418, b'"Teapot"'),
        ("html_403", {}, 403, b"<html>"),
        ("html_429", {}, 429, b"<html>"),
        ("server_error", {}, 502, b"UpstreamFailure"),
        ("server_error", {"status": 503}, 503, b"error"),
        ("html_instead_of_json", {}, 200, b"<html>"),
        ("empty_body", {}, 200, b""),
        ("redirect_loop", {}, 302, b""),
        ("block_all", {}, 403, b"<html>"),
    ],
)
def test_faults_which_replace_the_answer(
    site: Sandbox, kind: str, wishes: dict[str, Any], status: int, part: bytes
) -> None:
    reply = struck(site, kind, **wishes)
    assert reply.status == status
    assert part in reply.body


def test_faults_strike_after_every_and_times(site: Sandbox) -> None:
    site.fault("status", match=TARGET, status=500, after=1, every=2, times=2)
    statuses = [call(site, TARGET, actor=site.did(0)).status for _ in range(7)]
    assert statuses == [200, 500, 200, 500, 200, 200, 200]
    assert call(site, "app.bsky.graph.getFollows", actor=site.did(0)).status == 200


def test_requests_in_the_silence_are_recorded(site: Sandbox) -> None:
    first = struck(site, "rate_limit", seconds=600, times=1)
    assert (first.status, first.headers["retry-after"]) == (429, "600")
    assert call(site, TARGET, actor=site.did(0)).status == 429
    assert len(site.faults()[0]["breaches"]) == 1


def test_a_silence_ends(site: Sandbox) -> None:
    assert struck(site, "rate_limit", seconds=0.2, times=1).status == 429
    deadline = time.monotonic() + PATIENCE_S
    while call(site, TARGET, actor=site.did(0)).status == 429:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    site.clear_faults()
    assert "GMT" in struck(site, "http_date").headers["retry-after"]


def test_faults_which_spoil_the_answer(site: Sandbox) -> None:
    with pytest.raises(json.JSONDecodeError):
        _ = struck(site, "truncated_json").json
    site.clear_faults()
    with pytest.raises(UnicodeDecodeError):
        struck(site, "not_utf8").body.decode()
    site.clear_faults()
    assert "handle" not in struck(site, "drop_field", field="handle").json
    site.clear_faults()
    assert struck(site, "replace", old=site.handle(0), new="new.example").json["handle"] == "new.example"
    site.clear_faults()
    wish: dict[str, Any] = {"actor": site.did(0), "limit": 10}
    whole = call(site, "app.bsky.feed.getAuthorFeed", **wish).json["feed"]
    site.fault("half", match="getAuthorFeed")
    assert call(site, "app.bsky.feed.getAuthorFeed", **wish).json["feed"] == whole[: len(whole) // 2]
    site.clear_faults()
    site.fault("repeat_cursor", match="getFollowers")
    first = call(site, "app.bsky.graph.getFollowers", **wish).json["cursor"]
    assert call(site, "app.bsky.graph.getFollowers", cursor=first, **wish).json["cursor"] == first
    site.clear_faults()
    site.fault("cursor_500", match="getFollowers")
    assert call(site, "app.bsky.graph.getFollowers", **wish).status == 200
    assert call(site, "app.bsky.graph.getFollowers", cursor=first, **wish).status == 500


def test_faults_of_the_wire(site: Sandbox) -> None:
    began = time.monotonic()
    assert struck(site, "slow", seconds=0.3).status == 200
    assert time.monotonic() - began > 0.3
    site.clear_faults()
    began = time.monotonic()
    assert struck(site, "drip", pieces=4, seconds=0.1).json["did"] == site.did(0)
    assert time.monotonic() - began > 0.3
    site.clear_faults()
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        struck(site, "reset")
    site.clear_faults()
    with pytest.raises(http.client.IncompleteRead):
        struck(site, "wrong_content_length")
    site.clear_faults()
    assert len(struck(site, "huge", megabytes=3).body) > 3_000_000
    site.clear_faults()
    bomb = struck(site, "gzip_bomb", megabytes=20)
    assert len(bomb.body) < 100_000
    assert len(gzip.decompress(bomb.body)) > 20_000_000
    site.clear_faults()
    site.fault("hang", match=TARGET, seconds=1)
    with pytest.raises(TimeoutError):
        fetch(site, f"/xrpc/{TARGET}?actor={site.did(0)}", timeout=0.2)


def test_faults_of_pictures(site: Sandbox) -> None:
    path = urlsplit(call(site, TARGET, actor=site.did(0)).json["avatar"]).path
    for kind in ("png", "jpeg"):
        site.fault("image_bomb", match="/img/", format=kind)
        reply = fetch(site, path)
        with pytest.raises(Image.DecompressionBombError):
            Image.open(io.BytesIO(reply.body))
        assert len(reply.body) < 10_000
        site.clear_faults()
    site.fault("image_wrong_type", match="/img/")
    wrong = fetch(site, path)
    assert wrong.headers["content-type"] == "image/jpeg"
    assert b"<html>" in wrong.body
    site.clear_faults()
    whole = fetch(site, path).body
    site.fault("image_truncated", match="/img/")
    assert fetch(site, path).body == whole[: len(whole) // 2]


# The process


def test_the_log_counts_requests(site: Sandbox) -> None:
    site.clear_log()
    call(site, TARGET, actor=site.did(0))
    call(site, TARGET, actor="nobody.test", headers={"authorization": "Bearer a.b.c"})
    log = site.log()
    assert log["counts"] == {f"{TARGET} 200": 1, f"{TARGET} 401": 1}
    assert [entry["actor"] for entry in log["requests"]] == [site.did(0), "nobody.test"]
    assert [entry["authorized"] for entry in log["requests"]] == [False, True]
    assert log["max_concurrency"] == {TARGET: 1}


def test_the_log_is_of_requests_that_began_after_it_was_cleared(site: Sandbox) -> None:
    site.fault("hang", match=TARGET, seconds=0.5)
    connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=PATIENCE_S)
    connection.request("GET", f"/xrpc/{TARGET}?actor={site.did(0)}")
    deadline = time.monotonic() + PATIENCE_S
    while not site.faults()[0]["struck"]:
        assert time.monotonic() < deadline
    site.clear_log()
    assert connection.getresponse().status == 200
    connection.close()
    site.clear_faults()
    call(site, TARGET, actor=site.did(0))
    log = site.log()
    assert (log["counts"], log["max_concurrency"]) == ({f"{TARGET} 200": 1}, {TARGET: 1})


def test_the_process_ends_with_its_parent() -> None:
    command = [sys.executable, "-m", "tests.sandbox", "--accounts", "1000000", "--until-stdin-closes"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["service"].startswith("http://127.0.0.1:")
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_a_repost_in_a_feed_is_a_record_in_the_repository(site: Sandbox) -> None:
    repost = SandboxRepost(0, 2)
    record = site.world.repost_record(repost)
    wish: dict[str, Any] = {
        "repo": site.did(0),
        "collection": "app.bsky.feed.repost",
        "rkey": site.world.repost_rkey(repost),
    }
    assert call(site, "com.atproto.repo.getRecord", **wish).json["value"] == record
