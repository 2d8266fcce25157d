"""What follows from the truth that the filling of the AppView tells, for a harvest that was asked for so and so."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

Truth = Mapping[str, Any]
"""What truth.json holds."""
Told = Mapping[str, Any]
"""What it tells of an account, a post, a repost, a like or a list."""

EXAMPLES = 3
"""So many examples are told of each kind of difference."""
ALWAYS = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Asked(NamedTuple):
    """What a harvest was asked for, where that decides what it finds."""

    history: str = "appview"
    media: bool = False
    threads: bool = True
    """Not together with `since` and `until`: posts of threads are kept whenever they were written."""
    lists: bool = True
    since: datetime = ALWAYS[0]
    until: datetime = ALWAYS[1]

    def is_in_time(self, *told: str) -> bool:
        """Whether the earliest of these times is of the time asked for."""
        return self.since <= min(map(moment, told)) < self.until


PLAIN = Asked()


@dataclass(frozen=True)
class Known:
    """An account is *within reach* if it is visible and a chain of follows leads to it from the accounts `hub` and
    `followsEveryone` through accounts that are visible and have not opted out; it is *harvested* if it has not opted
    out itself.
    """

    truth: Truth
    asked: Asked = PLAIN

    @cached_property
    def accounts(self) -> dict[str, Told]:
        """All accounts by did."""
        return {account["did"]: account for account in self.truth["accounts"]}

    @cached_property
    def opted_out(self) -> set[str]:
        return {did for did, account in self.accounts.items() if account["optOut"]}

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
    def posts(self) -> dict[str, Told]:
        """All posts by uri."""
        return {post["uri"]: post for post in self.truth["posts"]}

    @cached_property
    def wanted_posts(self) -> dict[str, Told]:
        """Those that have to be there, by uri."""
        return {
            uri: post
            for uri, post in self.posts.items()
            if post["visible"]
            and post["by"] in self.harvested
            and self.asked.is_in_time(post["record"]["createdAt"], post["shown"]["indexedAt"])
        }

    @cached_property
    def gone(self) -> set[str]:
        """Posts that were there in an earlier harvest: they stay, and are marked."""
        return {uri for uri, post in self.posts.items() if post.get("gone")}

    def is_blocked(self, one: str, other: str) -> bool:
        """Whether one of two accounts blocks the other."""
        cases = self.truth["cases"]
        blocks = [{cases["blocker"], cases["blocked"]}, {cases["blocks-hub"], cases["hub"]}]
        return {one, other} in blocks

    @cached_property
    def replies(self) -> dict[str, list[str]]:
        """Visible replies by their parent, without those that a block hides."""
        replies = defaultdict(list)
        for uri, post in self.posts.items():
            parent = post.get("parent")
            if post["visible"] and parent and not self.is_blocked(post["by"], self.posts[parent]["by"]):
                replies[parent].append(uri)
        return replies

    def thread(self, first: str) -> set[str]:
        """The replies that a thread shows below a post."""
        if not self.posts[first]["visible"]:
            return set()
        shown: set[str] = set()
        parents = [first]
        while parents:
            below = self.replies.get(parents.pop(), [])
            shown.update(below)
            parents += below
        return shown

    def name(self, did: str) -> str:
        """An account as one recognises it."""
        account = self.accounts.get(did)
        return f"{account['handle']} ({account['kind']})" if account else f"{did} (unknown)"

    def describe(self, uri: str) -> str:
        """A post as one recognises it."""
        post = self.posts.get(uri)
        if post is None:
            return f"{uri} (unknown)"
        visibility = "visible" if post["visible"] else "invisible"
        return f"{uri} (a {post['kind']} by {self.name(post['by'])}, {visibility})"

    def pairs(self, of: Iterable[tuple[str, str]], between: str) -> Iterable[str]:
        """Accounts, each with another or with a post."""
        return (f"{self.name(did)} {between} {self.describe(to) if '/' in to else self.name(to)}" for did, to in of)


def moment(told: str) -> datetime:
    """A time as MongoDB holds it: of a millisecond."""
    at = datetime.fromisoformat(told).astimezone(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def tell(what: str, differences: Iterable[str]) -> list[str]:
    """One line for all differences of a kind, or none."""
    found = sorted(differences)
    more = [f"and {len(found) - EXAMPLES} more"] if len(found) > EXAMPLES else []
    return [f"{len(found)} {what}: {'; '.join([*found[:EXAMPLES], *more])}"] if found else []
