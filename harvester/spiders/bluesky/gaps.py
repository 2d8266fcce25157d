"""Notices lists that end early, and accounts that are taken down while their lists are read.

A service may show 150 of 1,000 posts and no further cursor: only the account's profile shows the gap. When a feed is
short, the spider reads the records from the account's own server instead.
"""

from collections.abc import Iterator
from typing import Any

from scrapy import Request
from scrapy.http import Response

from harvester.items import ItemResult, Stage
from harvester.items.bluesky import Post, Profile
from harvester.outcomes import POLICIES, Verdict
from harvester.parsers.bluesky import responses as parse
from harvester.parsers.bluesky.views import Parsed
from harvester.spiders.bluesky.accounts import of_account
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.declarations import Account
from harvester.spiders.bluesky.known import KnownAccounts
from harvester.spiders.bluesky.revisits import FEED_ENDED_EARLY, READ_INSTEAD, collected
from harvester.spiders.pagination import CUT_SHORT, STAGE_RANK

MIN_GAP = 10
"""Number of posts that a feed may lack without a report: moderation hides single posts, and counts are late."""
MIN_GAP_RATIO = 0.1
"""Share of the profile's post count that a feed may lack without a report. An empty feed may lack none."""
MIN_MEMBERS = 100
MIN_MEMBERS_RATIO = 0.25
"""Minimum share of a profile's followers or follows that a list must show.

The counts include accounts that lists leave out, but these are the minority.
"""


class Gaps(KnownAccounts):
    """Compares the rows of an account's lists with the counts in its profile."""

    def check_feed(self, asked_for: BlueskyArguments, account: Account, came: int) -> Iterator[Any]:
        """Ends a feed that was read completely, or requests the current profile when posts are missing."""
        if is_short(came, account.get("counts", {}).get("feed")):
            yield self._profile_now(asked_for, account, self.read_profile_after, came=came)
        else:
            yield collected(account)

    def read_profile_after(self, response: Response, account: Account, came: int) -> Iterator[Any]:
        """Reads the records from the account's server instead of the feed, if posts are still missing."""
        asked_for = self.arguments_of(response)
        parsed = of_account(account["did"], parse.parse_profile(response.body, self.provenance(response)))
        says = next((profile.posts_count for profile in parsed.records if isinstance(profile, Profile)), None)
        account = {**account, "counts": account.get("counts", {}) | {"feed": says}}
        ended_early = self.feed_ended_early(account, came)
        if ended_early is None:
            yield collected(account)
            return
        yield ended_early
        account = {**account, "instead": True}
        yield self._ask_records(asked_for, account) if "pds" in account else self.ask_declaration(account)

    def feed_ended_early(self, account: Account, came: int) -> Stage | None:
        """Reports a feed that lacks posts, and returns the account's new stage; None when the feed is complete."""
        says = account.get("counts", {}).get("feed")
        if not is_short(came, says):
            return None
        self.logger.warning(
            "The feed of %s ended after %d posts of its own, and its profile says that it has %d",
            *(account["did"], came, says),
        )
        self.crawler.stats.inc_value("harvester/lists/ended_early/feed")
        self.crawler.stats.inc_value("harvester/posts/not_in_feed", says - came)
        return Stage(account["id"], FEED_ENDED_EARLY, STAGE_RANK)

    def go_on(self, asked_for: BlueskyArguments, page: Response | Request, account: Account) -> Iterator[Any]:
        if not account.get("instead"):
            yield from super().go_on(asked_for, page, account)
        elif "pds" in account:
            yield self._ask_records(asked_for, account)

    def _ask_records(self, asked_for: BlueskyArguments, account: Account) -> Request:
        return self.ask_list(asked_for, account, "posts")

    def ask_list(self, asked_for: BlueskyArguments, account: Account, name: str) -> Request:
        """Returns the request for the first page of a list."""
        raise NotImplementedError

    def read_instead(self, account: Account) -> Stage:
        """Returns the stage of an account whose records from the server replaced an incomplete feed."""
        self.logger.info("The posts of %s were read from its server instead", account["did"])
        return Stage(account["id"], READ_INSTEAD, STAGE_RANK + 1)

    def other_history_failed(self, account: Account, verdict: Verdict) -> Iterator[Stage]:
        """Accepts that only the posts of an account's feed are stored, unless its server may answer later."""
        if not POLICIES[verdict.outcome].retryable:
            self.logger.warning("The posts of %s cannot be read from its server: %s", account["did"], verdict.reason)
            yield Stage(account["id"], FEED_ENDED_EARLY, STAGE_RANK)

    def check_members(self, account: Account, name: str, came: int) -> Iterator[Stage]:
        """Reports followers or follows that ended far below the count in the profile."""
        says = account.get("counts", {}).get(name) or 0
        if says >= MIN_MEMBERS and came < says * MIN_MEMBERS_RATIO:
            self.logger.warning(
                "The %s of %s ended after %d accounts, and its profile says that it has %d",
                *(name, account["did"], came, says),
            )
            self.crawler.stats.inc_value(f"harvester/lists/ended_early/{name}")
            yield Stage(account["id"], CUT_SHORT, STAGE_RANK)

    # Accounts that disappear ------------------------------------------------------------------------------

    def ask_whether_there(
        self, asked_for: BlueskyArguments, account: Account, list_name: str = "", verdict: Verdict | None = None
    ) -> Request:
        """Returns the request that checks whether the account still exists, after a list was missing.

        `verdict`: the verdict on the list; the account ends with it if the account itself exists. None: an existing
        account is fine.
        """
        name = "members" if list_name.startswith("at://") else list_name
        why = (verdict.outcome.value, f"{name}: {verdict.outcome}: {verdict.reason}") if verdict else None
        return self._profile_now(asked_for, account, self.read_whether_there, why=why)

    def read_whether_there(
        self, response: Response, account: Account, why: tuple[str, str] | None
    ) -> Iterator[ItemResult]:
        """Ends an account that exists although its list is missing."""
        of_account(account["did"], parse.parse_profile(response.body, self.provenance(response)))
        if why:
            outcome, reason = why
            yield ItemResult(account["id"], "failed", outcome, reason)

    def _profile_now(self, asked_for: BlueskyArguments, account: Account, callback: Any, **arguments: Any) -> Request:
        request = self.call(
            asked_for,
            "app.bsky.actor.getProfile",
            {"actor": account["did"]},
            callback,
            errback=self.profile_failed,
            items=[account["id"]],
            account=account,
            **arguments,
        )
        return request.replace(dont_filter=True)


def is_short(came: int, says: int | None) -> bool:
    """Returns True if the number of posts is too far below the profile's count."""
    if not says:
        return False
    return came == 0 or says - came > max(MIN_GAP, says * MIN_GAP_RATIO)


def own_posts(account: Account, parsed: Parsed) -> set[str]:
    """Returns the keys of the account's own posts on a page of the feed, including the unreadable ones."""
    own = {record.uri for record in parsed.records if isinstance(record, Post) and record.did == account["did"]}
    return own | {reject.key or str(number) for number, reject in enumerate(parsed.rejects)}
