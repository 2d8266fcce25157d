"""Checks whether accounts and threads from an earlier harvest still exist, when no page leads to them any more."""

from collections.abc import Iterator, Sequence
from typing import Any

from scrapy import Request
from scrapy.http import Response

from harvester.items import ItemResult, Stage
from harvester.items.bluesky import Profile
from harvester.jobs.documents import JobItem
from harvester.jobs.missed import WAS_GONE
from harvester.outcomes import Outcome
from harvester.parsers.bluesky import responses as parse
from harvester.spiders.bluesky.accounts import Accounts, of_account
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.declarations import Account
from harvester.spiders.bluesky.requests import THERE


class KnownAccounts(Accounts):
    """Checks many accounts or threads per request. Stores nothing from the responses except stubs of opt-outs."""

    def known_account_requests(self, asked_for: BlueskyArguments, items: Sequence[JobItem]) -> Iterator[Request]:
        """Yields the request that shows which accounts exist."""
        accounts = {item.key: {"id": item.id, "did": item.key, WAS_GONE: WAS_GONE in item.input} for item in items}
        parameters = [("actors", did) for did in accounts]
        call = "app.bsky.actor.getProfiles"
        yield self.call(asked_for, call, parameters, self.read_known_accounts, accounts=accounts)

    def read_known_accounts(self, response: Response, accounts: dict[str, Account]) -> Iterator[Any]:
        """Ends the checks of accounts. Requests each absent account separately, to learn why it is absent."""
        asked_for = self.arguments_of(response)
        parsed = parse.parse_profiles(response.body, self.provenance(response))
        there = {record.key for record in parsed.records} | {reject.key for reject in parsed.rejects}
        for record in parsed.records:
            if isinstance(record, Profile) and record.opt_outs and asked_for.honour_opt_outs:
                yield record  # the consent pipeline stores only a stub
        for did, account in accounts.items():
            if did in there:
                yield Stage(account["id"], THERE, 1)
            elif account[WAS_GONE]:
                yield ItemResult(account["id"], "failed", Outcome.GONE, f"{Outcome.GONE}: it was gone before")
            else:
                yield self.call(
                    asked_for,
                    "app.bsky.actor.getProfile",
                    {"actor": did},
                    self.read_known_account,
                    errback=self.profile_failed,
                    items=[account["id"]],
                    account=account,
                )

    def read_known_account(self, response: Response, account: Account) -> Iterator[Stage]:
        """Ends the check of an account that exists after all."""
        of_account(account["did"], parse.parse_profile(response.body, self.provenance(response)))
        yield Stage(account["id"], THERE, 1)

    def known_thread_requests(self, asked_for: BlueskyArguments, items: Sequence[JobItem]) -> Iterator[Request]:
        """Yields the request that shows which first posts of threads exist."""
        threads = {item.key: item.id for item in items}
        parameters = [("uris", uri) for uri in threads]
        yield self.call(asked_for, "app.bsky.feed.getPosts", parameters, self.read_known_threads, threads=threads)

    def read_known_threads(self, response: Response, threads: dict[str, str]) -> Iterator[Stage | ItemResult]:
        """Ends the checks of threads. `threads`: address of the first post -> id of the item."""
        there = parse.parse_uris(response.body)
        for uri, item in threads.items():
            if uri in there:
                yield Stage(item, THERE, 1)
            else:
                yield ItemResult(item, "failed", Outcome.NOT_FOUND, f"{Outcome.NOT_FOUND}: Post not found")
