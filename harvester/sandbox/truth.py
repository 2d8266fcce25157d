"""The expected result of a complete harvest without login, computed by the site's own rules."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from harvester.sandbox.network import REFUSING, Kind, Network
from harvester.sandbox.posts import POPULAR, Posts, SandboxPost, SandboxRepost
from harvester.sandbox.records import SandboxRecords

State = Literal["visible", "skipped", "failed"]

REASONS: dict[Kind, str] = {
    "deactivated": "AccountDeactivated",
    "takendown": "AccountTakedown",
    "pds_takendown": "AccountTakedown",
    "deleted": "Profile not found",
    "private": "!no-unauthenticated",
    "intents_refuse": "user intents",
}
"""The reason why accounts of a kind are not harvested."""


@dataclass(frozen=True, slots=True)
class AccountTruth:
    """An account that a harvest visits. Hidden accounts are visited only as seeds."""

    index: int
    handle: str
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PostTruth:
    """A post with the values that every route to it must show."""

    text: str
    cid: str
    created_at: str
    author: str
    root: str | None = None
    parent: str | None = None


class Truth:
    """The expected result, computed part by part on demand. `kept` are the accounts whose data a harvest saves."""

    def __init__(
        self,
        records: SandboxRecords,
        honour_opt_outs: bool = True,
        seeds: Iterable[int] = (0,),
        hops: int | None = None,
        directions: Iterable[str] = ("followers", "follows"),
    ) -> None:
        self.records, self.honour_opt_outs = records, honour_opt_outs
        self._network: Network = records.network
        self._posts: Posts = records.posts
        self._seeds, self._hops, self._directions = tuple(seeds), hops, frozenset(directions)

    @cached_property
    def depths(self) -> dict[int, int]:
        """Maps each visited account to its number of hops. The lists of skipped accounts are not read."""
        found = dict.fromkeys(self._seeds, 0)
        border = list(found)
        depth = 0
        while border and (self._hops is None or depth < self._hops):
            depth += 1
            following = []
            for index in filter(self._keeps, border):
                for other in self._neighbours(index):
                    if other not in found:
                        found[other] = depth
                        following.append(other)
            border = following
        return found

    @cached_property
    def accounts(self) -> dict[str, AccountTruth]:
        return {self._network.did(index): self._account(index) for index in self.depths}

    @cached_property
    def kept(self) -> frozenset[int]:
        return frozenset(filter(self._keeps, self.depths))

    @cached_property
    def hidden(self) -> frozenset[str]:
        """DIDs of accounts that the API never lists."""
        return frozenset(self._network.did(n) for n in range(self._network.size) if self._network.hidden(n))

    @cached_property
    def follows(self) -> frozenset[tuple[str, str]]:
        """Pairs of follower and followed, from the lists of saved accounts within the hops."""
        did = self._network.did
        found: set[tuple[str, str]] = set()
        for index in self._expanded():
            if "follows" in self._directions:
                found.update((did(index), did(other)) for other in self._network.visible_follows(index))
            if "followers" in self._directions:
                found.update((did(other), did(index)) for other in self._network.visible_followers(index))
        return frozenset(found)

    @cached_property
    def posts(self) -> dict[str, PostTruth]:
        """The own posts of saved accounts, by at-uri."""
        numbers = ((index, number) for index in self.kept for number in range(self._posts.count(index)))
        return {self._posts.uri(SandboxPost(*pair)): self.post(SandboxPost(*pair)) for pair in numbers}

    @cached_property
    def reposts(self) -> frozenset[tuple[str, str]]:
        """Pairs of account and at-uri of the reposted post, from the feeds of saved accounts."""
        found = set()
        for index in self.kept:
            for number in range(self._posts.repost_count(index)):
                subject = self._posts.repost_subject(SandboxRepost(index, number))
                if subject is not None and self._network.listed(index, subject.author):
                    found.add((self._network.did(index), self._posts.uri(subject)))
        return frozenset(found)

    @cached_property
    def reposted(self) -> dict[str, PostTruth]:
        """Posts by others in the feeds of saved accounts. Posts by opted-out authors are left out."""
        posts = map(self._posts.post_of_uri, {uri for _, uri in self.reposts})
        return {self._posts.uri(post): self.post(post) for post in posts if post and self._keeps(post.author)}

    @cached_property
    def likes(self) -> frozenset[tuple[str, str]]:
        """Pairs of account and at-uri, from getLikes for the posts of saved accounts."""
        found = set()
        for index in range(self._network.size):
            for slot in range(7):
                subject = self._posts.like_subject(index, slot)
                if subject and subject.author in self.kept and not self._network.hidden(index):
                    found.add((self._network.did(index), self._posts.uri(subject)))
        return frozenset(found)

    @cached_property
    def own_likes(self) -> frozenset[tuple[str, str]]:
        """Pairs of account and at-uri in the repositories of saved accounts. The post may be hidden."""
        subjects = ((n, self._posts.like_subject(n, slot)) for n in self.kept for slot in range(7))
        return frozenset((self._network.did(n), self._posts.uri(subject)) for n, subject in subjects if subject)

    @cached_property
    def own_reposts(self) -> frozenset[tuple[str, str]]:
        """Pairs of account and at-uri in the repositories of saved accounts. The post may be hidden."""
        reposts = (
            SandboxRepost(index, number) for index in self.kept for number in range(self._posts.repost_count(index))
        )
        subjects = ((repost.by, self._posts.repost_subject(repost)) for repost in reposts)
        return frozenset((self._network.did(n), self._posts.uri(subject)) for n, subject in subjects if subject)

    @cached_property
    def threads(self) -> dict[str, frozenset[str]]:
        """Maps each answered root by a saved account, and each of `branches`, to all visible posts in its tree."""
        found = {}
        for index in self.kept:
            for number in range(self._posts.count(index)):
                root = SandboxPost(index, number)
                if self._posts.parent(root) is None:
                    tree = self.tree(root)
                    if len(tree) > 1:
                        found[self._posts.uri(root)] = tree
        return found | {self._posts.uri(post): self.tree(post) for post in self.branches() if len(self.tree(post)) > 1}

    def branches(self, blocks: bool = True) -> frozenset[SandboxPost]:
        """Returns posts whose threads show replies that the root's thread hides. `blocks`: True if blocks hide."""

        def shows(post: SandboxPost, other: SandboxPost) -> bool:
            return not self._network.hidden(other.author) and not (
                blocks and self._network.blocked_pair(post.author, other.author)
            )

        found = set()
        for post in (SandboxPost(index, number) for index in self.kept for number in range(self._posts.count(index))):
            parent = self._posts.parent(post)
            if parent is None or not self._posts.children(post):
                continue
            if not (shows(post, parent) and shows(post, self._posts.root(post))):
                found.add(self._top(post))
        return frozenset(found)

    def _top(self, post: SandboxPost) -> SandboxPost:
        """Returns the topmost visible post above a post, or the post itself when the top is the thread's root."""
        top = post
        while (parent := self._posts.parent(top)) is not None and self._network.listed(top.author, parent.author):
            top = parent
        return post if top == self._posts.root(post) else top

    def tree(self, root: SandboxPost) -> frozenset[str]:
        """Returns the at-uris of a post and all visible posts below it.

        Posts by opted-out authors are left out, but the answers to these stay.
        """
        found, waiting = set(), [root]
        while waiting:
            post = waiting.pop()
            if self._keeps(post.author):
                found.add(self._posts.uri(post))
            waiting += [child for child in self._posts.children(post) if self._posts.shown_under(child, post)]
        return frozenset(found)

    def post(self, post: SandboxPost) -> PostTruth:
        record = self._posts.record(post)
        reply = record.get("reply")
        return PostTruth(
            text=record["text"],
            cid=self._posts.cid(post),
            created_at=record["createdAt"],
            author=self._network.did(post.author),
            root=reply["root"]["uri"] if reply else None,
            parent=reply["parent"]["uri"] if reply else None,
        )

    def totals(self) -> dict[str, Any]:
        """Returns numbers that are cheap to compute, even for a million accounts."""
        network = self._network
        return {"accounts": network.size, "seed": network.seed, "posts_mean": self._posts.mean, "popular": POPULAR}

    def report(self) -> dict[str, Any]:
        """Returns all results as JSON values, for programs that do not import this module."""
        accounts = {did: {"state": found.state, "reason": found.reason} for did, found in self.accounts.items()}
        return self.totals() | {
            "accounts": accounts,
            "follows": sorted(self.follows),
            "posts": {uri: {"text": p.text, "cid": p.cid, "root": p.root} for uri, p in self.posts.items()},
            "reposts": sorted(self.reposts),
            "hidden": sorted(self.hidden),
        }

    def _expanded(self) -> list[int]:
        return [n for n in self.kept if self._hops is None or self.depths[n] < self._hops]

    def _neighbours(self, index: int) -> Iterable[int]:
        if "follows" in self._directions:
            yield from self._network.visible_follows(index)
        if "followers" in self._directions:
            yield from self._network.visible_followers(index)

    def _keeps(self, index: int) -> bool:
        return not self._network.hidden(index) and not (self.honour_opt_outs and self._network.kind(index) in REFUSING)

    def _account(self, index: int) -> AccountTruth:
        kind = self._network.kind(index)
        state: State = "failed" if self._network.hidden(index) else "visible" if self._keeps(index) else "skipped"
        reason = "" if state == "visible" else REASONS[kind]
        return AccountTruth(index, self._network.shown_handle(index), state, reason)


def truth(records: SandboxRecords, honour_opt_outs: bool = True, **limits: Any) -> Truth:
    """Returns the expected result. `limits`: `seeds`, `hops`, `directions` (followers, follows)."""
    return Truth(records, honour_opt_outs, **limits)
