"""Asks whether accounts and threads are there still that an earlier harvest has met, and to which nothing leads now."""

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
    """Asks for many at a time, and reads of the answers who is in them. Nothing else of them is kept."""

    def known_account_requests(self, asked_for: BlueskyArguments, items: Sequence[JobItem]) -> Iterator[Request]:
        """Yields the request that shows which accounts are there."""
        accounts = {item.key: {"id": item.id, "did": item.key, WAS_GONE: WAS_GONE in item.input} for item in items}
        parameters = [("actors", did) for did in accounts]
        call = "app.bsky.actor.getProfiles"
        yield self.call(asked_for, call, parameters, self.read_known_accounts, accounts=accounts)

    def read_known_accounts(self, response: Response, accounts: dict[str, Account]) -> Iterator[Any]:
        """Of those that are absent now each is asked for alone, to learn why."""
        asked_for = self.arguments_of(response)
        parsed = parse.parse_profiles(response.body, self.provenance(response))
        there = {record.key for record in parsed.records} | {reject.key for reject in parsed.rejects}
        for record in parsed.records:
            if isinstance(record, Profile) and record.opt_outs and asked_for.honour_opt_outs:
                yield record  # of which a stub is kept
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
        """Ends the check of an account that is there after all."""
        of_account(account["did"], parse.parse_profile(response.body, self.provenance(response)))
        yield Stage(account["id"], THERE, 1)

    def known_thread_requests(self, asked_for: BlueskyArguments, items: Sequence[JobItem]) -> Iterator[Request]:
        """Yields the request that shows which first posts of threads are there."""
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
