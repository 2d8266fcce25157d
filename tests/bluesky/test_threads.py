"""Threads that are deeper than an answer shows are read to their end, whatever becomes of the posts on the way."""

import json
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlencode

from harvester.sandbox.posts import DEEP_ROOT, SandboxPost
from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest, fates
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
SHOWN = 50
"""Levels of replies in one answer."""
ASKED_FOR = {"depth": "0", "collect": "posts,threads"}


def test_a_reply_that_is_gone_when_it_is_its_turn_is_missing_in_its_thread_and_is_not_its_end(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    root, cut = site.world.uri(DEEP_ROOT), site.world.uri(SandboxPost(0, DEEP_ROOT.number + SHOWN))
    command = harvest(seeds=site.did(0), **ASKED_FOR)
    assert command.run() == 0, command.said
    gone = {"status": 400, "error": "NotFound", "message": f"Post not found: {cut}"}
    site.fault("status", match=f"getPostThread.*{cut}", **gone)
    assert command.run() == 0, command.said
    assert fates(mongodb)["thread"][root] == ("done", "")
    thread = mongodb.threads.find_one({"_id": root})
    assert thread
    assert cut in thread["not_found"]
    assert "gone_at" not in thread


def test_a_reply_that_an_answer_shows_twice_is_asked_for_once(harvest: Make, site: Sandbox, mongodb: Records) -> None:
    root = site.world.uri(DEEP_ROOT)
    node = shown(site, root)
    for _ in range(SHOWN):
        node = next(reply for reply in node["replies"] if reply["post"]["author"]["did"] == site.did(0))
    last = json.dumps(node, separators=(",", ":"), ensure_ascii=False)
    site.fault("replace", match=f"getPostThread.*{root}", old=last, new=f"{last},{last}")
    assert json.dumps(shown(site, root)).count(json.dumps(node)) == 2
    site.clear_log()
    command = harvest(seeds=site.did(0), **ASKED_FOR)
    assert command.run() == 0, command.said
    thread = mongodb.threads.find_one({"_id": root})
    assert thread, "it was not read to its end"
    assert thread["post_count"] == len(site.truth.tree(DEEP_ROOT))
    asked = [unquote(each["path"]) for each in site.log()["requests"]]
    assert sum(node["post"]["uri"] in path for path in asked if "getPostThread" in path) == 1


def test_a_first_post_that_is_hidden_from_a_reply_alone_has_the_one_tree_of_both(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    root, reply = site.world.uri(DEEP_ROOT), site.world.uri(SandboxPost(0, DEEP_ROOT.number + SHOWN))
    site.fault("replace", match="getAuthorFeed", old='"reply":{"root":{', new='"reply":{"root":{"blocked":true,')
    command = harvest(seeds=site.did(0), **ASKED_FOR)
    assert command.run() == 0, command.said
    assert fates(mongodb)["thread"][reply] == ("done", ""), "it was not looked at"
    assert mongodb.threads.count_documents({"root_uri": root}) == 0
    thread = mongodb.threads.find_one({"_id": root})
    assert thread
    assert thread["post_count"] == len(site.truth.tree(DEEP_ROOT))


def shown(site: Sandbox, uri: str) -> Any:
    """The thread below a post, as the site shows it."""
    query = urlencode({"uri": uri, "depth": 1000})
    with urllib.request.urlopen(f"{site.url}/xrpc/app.bsky.feed.getPostThread?{query}") as answer:
        return json.load(answer)["thread"]
