"""Reply trees: each thread is read once, from its first post down, one response after another.

A reply that is shown without the thread's first post is a separate item: it leads to the topmost visible post above it,
and the tree is read from there.
"""

from collections.abc import Iterator
from typing import Any

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.items import Found, Provenance
from harvester.items.bluesky import Post, Thread
from harvester.jobs.documents import JobItem
from harvester.outcomes import verdict_of
from harvester.parsers.bluesky import responses as parse
from harvester.parsers.bluesky.wire import did_of
from harvester.spiders.bluesky.accounts import BLOCKS, absent, blocked, is_absent
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.authors import authors_of
from harvester.spiders.bluesky.requests import THREAD, BlueskyRequests
from harvester.spiders.job import errback

LEVELS = 100
"""Levels of replies per request; deeper ones are requested from the end of the response."""

HEIGHT = 100
"""Maximum number of parents per request; the parents of the topmost one are requested next."""

Tree = dict[str, Any]
"""The state of a thread, carried by its requests.

`uri`: the post to read from; `root`: the thread's first post if that is another; `item`; `posts`: number of posts;
`not_found`; `blocked`; `cut`: posts where responses ended, to be requested; `asked`: such posts that were requested;
`opt_outs`.
"""


class Threads(BlueskyRequests):
    """Requests threads and reads them."""

    def thread_request(self, asked_for: BlueskyArguments, item: JobItem) -> Request:
        """Returns the request for the thread below a first post, or around a post that is cut off from it."""
        tree = {"uri": item.key, "item": item.id, "posts": 0, "not_found": [], "blocked": [], "cut": [], "opt_outs": []}
        tree["root"] = item.input.get("root")
        return self._ask_from(asked_for, item.key, tree, height=HEIGHT if tree["root"] else 0)

    def _ask_from(self, asked_for: BlueskyArguments, uri: str, tree: Tree, height: int = 0) -> Request:
        parameters = {"uri": uri, "depth": LEVELS, "parentHeight": height}
        name = "app.bsky.feed.getPostThread"
        return self.call(asked_for, name, parameters, self.read_thread, errback=self.thread_failed, at=uri, tree=tree)

    def read_thread(self, response: Response, at: str, tree: Tree) -> Iterator[Any]:
        """Reads the posts below `at`. Yields the next request, or the thread when it is complete."""
        asked_for = self.arguments_of(response)
        provenance = self.provenance(response)
        part = parse.parse_thread(response.body, provenance)
        if tree["root"] and at == tree["uri"] and part.above:
            # If only the two authors block each other, the tree of the first post still shows the reply.
            is_whole = part.above == tree["root"]
            yield Found(THREAD, part.above, {} if is_whole else {"root": tree["root"]}, depth=0)
            return
        yield part.posts
        yield from part.rejects
        yield from authors_of(asked_for, part.posts)
        keys = {post.key for post in part.posts}
        known = {tree["uri"], at, *tree["cut"], *tree.get("asked", ())}
        opt_outs = [list(post.opt_outs) for post in part.posts if isinstance(post, Post) and post.key == tree["uri"]]
        tree = {
            **tree,
            "posts": tree["posts"] + len(keys - ({at} if at != tree["uri"] else set())),
            "not_found": sorted({*tree["not_found"], *part.not_found}),
            "blocked": sorted({*tree["blocked"], *part.blocked}),
            "cut": [*tree["cut"], *(uri for uri in dict.fromkeys(part.cut) if uri not in known)],
            "opt_outs": opt_outs[0] if opt_outs else tree["opt_outs"],
        }
        if at == tree["uri"] and tree["uri"] in part.blocked:
            yield blocked(tree["item"], "blockedPost")
            return
        yield self._next(asked_for, tree, provenance)

    @errback
    def thread_failed(self, failure: Failure) -> Iterator[Any]:
        """Fails a missing thread. When a post inside is missing, reads the rest of the thread."""
        assert failure.value
        request: Request = failure.request  # type: ignore[attr-defined]
        verdict, (at, tree) = verdict_of(failure.value), (request.cb_kwargs[name] for name in ("at", "tree"))
        if is_absent(verdict) and at == tree["uri"]:
            yield absent(tree["item"], verdict)
        elif is_absent(verdict):
            hidden = "blocked" if verdict.rule == BLOCKS else "not_found"
            tree = {**tree, hidden: sorted({*tree[hidden], at})}
            yield self._next(self.arguments_of(request), tree, self.provenance(request))

    def _next(self, asked_for: BlueskyArguments, tree: Tree, provenance: Provenance) -> Request | Thread:
        """Returns the request below the next post where a response ended, or the complete thread."""
        if tree["cut"]:
            first, *rest = tree["cut"]
            return self._ask_from(asked_for, first, {**tree, "cut": rest, "asked": [*tree.get("asked", ()), first]})
        return Thread(
            did=did_of(tree["uri"]),
            provenance=provenance,
            opt_outs=tuple(tree["opt_outs"]),
            uri=tree["uri"],
            root_uri=tree["root"],
            post_count=tree["posts"],
            not_found=tuple(tree["not_found"]),
            blocked=tuple(tree["blocked"]),
        )
