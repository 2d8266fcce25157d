"""Threads that are deeper than an answer shows are read to their end, whatever becomes of the posts on the way."""

from collections.abc import Callable

from harvester.sandbox.posts import DEEP_ROOT, Post
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
    root, cut = site.world.uri(DEEP_ROOT), site.world.uri(Post(0, DEEP_ROOT.number + SHOWN))
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
