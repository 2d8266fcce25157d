"""Reply trees: each thread is read once, from its first post down, in as many answers as that takes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http import Response

from harvester.frontier.changes import ThreadAnswer, ThreadEnded
from harvester.items import Provenance
from harvester.items.bluesky import Post, Thread
from harvester.outcomes import POLICIES, Verdict
from harvester.parsers.bluesky import answers as parse
from harvester.parsers.bluesky.wire import did_of
from harvester.spiders.bluesky.calls import Output

if TYPE_CHECKING:
    from harvester.spiders.bluesky.spider import BlueskySpider

DEPTH = 100
"""Levels of replies asked for at once; deeper ones are asked for from where the answer ends."""


@dataclass(slots=True)
class _Tree:
    """A thread while it is read, which may take several answers."""

    uri: str
    asked: int = 0
    answers: int = 0
    posts: set[str] = field(default_factory=set)
    not_found: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    opt_outs: tuple[str, ...] = ()
    provenance: Provenance | None = None
    failure: Verdict | None = None


class Threads:
    """Asks for threads and reads them."""

    def __init__(self, spider: "BlueskySpider") -> None:
        self._spider = spider

    def begin(self, uri: str) -> Request:
        """The request for the thread below a first post."""
        return self.ask(_Tree(uri), uri)

    def ask(self, tree: _Tree, uri: str) -> Request:
        parameters = {"uri": uri, "depth": DEPTH, "parentHeight": 0}
        tree.asked += 1
        return self._spider.ask_service(
            "app.bsky.feed.getPostThread", parameters, partial(self.read, tree), partial(self.fail, tree)
        )

    def read(self, tree: _Tree, response: Response) -> Iterator[Output]:
        tree.provenance = self._spider.provenance(response)
        part = parse.parse_thread(response.body, tree.provenance)
        for post in part.posts:
            tree.posts.add(post.key)
            if post.key == tree.uri and isinstance(post, Post):
                tree.opt_outs = post.opt_outs
        tree.not_found.update(part.not_found)
        tree.blocked.update(part.blocked)
        yield part.posts
        yield from part.rejects
        for uri in part.cut:
            if uri not in tree.cut:
                tree.cut.add(uri)
                yield self.ask(tree, uri)
        yield from self.answered(tree)

    def fail(self, tree: _Tree, verdict: Verdict) -> Iterator[Output]:
        tree.failure = tree.failure or verdict
        yield from self.answered(tree)

    def answered(self, tree: _Tree) -> Iterator[Output]:
        tree.answers += 1
        if tree.answers < tree.asked:
            yield ThreadAnswer(tree.uri)
        elif tree.failure:
            reason = f"{tree.failure.outcome}: {tree.failure.reason}"
            later = POLICIES[tree.failure.outcome].retryable
            yield ThreadEnded(tree.uri, "failed", reason, later, answers=tree.asked)
        else:
            assert tree.provenance
            yield Thread(
                did=did_of(tree.uri),
                provenance=tree.provenance,
                opt_outs=tree.opt_outs,
                uri=tree.uri,
                post_count=len(tree.posts),
                not_found=tuple(sorted(tree.not_found)),
                blocked=tuple(sorted(tree.blocked)),
            )
            yield ThreadEnded(tree.uri, "collected", answers=tree.asked)
