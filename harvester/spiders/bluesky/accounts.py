"""From seeds to accounts: resolves handles, reads profiles, and skips people who opt out."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import ParseError
from harvester.items import Found, ItemResult, Reject, Stage
from harvester.items.bluesky import Profile
from harvester.jobs.documents import Item, JobItem
from harvester.outcomes import Outcome, Verdict, get_policy
from harvester.parsers.bluesky import responses as parse
from harvester.parsers.bluesky.views import Parsed
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.authors import Authors
from harvester.spiders.bluesky.declarations import Account, failed, with_intents
from harvester.spiders.bluesky.requests import ACCOUNT
from harvester.spiders.bluesky.revisits import since_of
from harvester.spiders.job import errback

PROFILE_COLLECTED = "profile_collected"

BLOCKS = "api-blocks-account"
"""The outcome rule for a block between the requested account and the signed-in one."""
COUNTS = {"followers": "followers_count", "follows": "follows_count", "feed": "posts_count"}
"""List -> the field of a profile with the list's length."""


class Accounts(Authors):
    """Requests seeds and profiles, and reads the responses."""

    # Seeds ------------------------------------------------------------------------------------------------

    def seed_requests(self, asked_for: BlueskyArguments, seeds: Sequence[JobItem]) -> Iterator[Request]:
        """Yields the requests that resolve handles to accounts."""
        items = {item.key: item.id for item in seeds}
        yield self._profiles(asked_for, list(items), self.read_seeds, seeds=items)

    def _profiles(self, asked_for: BlueskyArguments, actors: list[str], callback: Any, **more: Any) -> Request:
        parameters = [("actors", actor) for actor in actors]
        return self.call(asked_for, "app.bsky.actor.getProfiles", parameters, callback, **more)

    def read_seeds(self, response: Response, seeds: dict[str, str]) -> Iterator[Any]:
        """Yields the seeds' accounts. `seeds`: handle -> id of the item."""
        asked_for = self.arguments_of(response)
        profiles = parse.parse_profiles(response.body, self.provenance(response)).records
        found = {profile.handle.lower(): profile.did for profile in profiles if isinstance(profile, Profile)}
        for handle, item in seeds.items():
            if handle in found:
                yield Found(ACCOUNT, found[handle], depth=0)
            else:
                yield self.call(
                    asked_for,
                    "app.bsky.actor.getProfile",
                    {"actor": handle},
                    self.read_seed,
                    errback=self.seed_failed,
                    items=[item],
                    handle=handle,
                    item=item,
                )

    def read_seed(self, response: Response, handle: str, item: str) -> Iterator[Any]:
        """Yields the account of a handle that was requested separately."""
        yield from account_of_seed(item, parse.parse_profile(response.body, self.provenance(response)))

    @errback
    def seed_failed(self, failure: Failure) -> Iterator[Any]:
        """Fails the item of a handle that belongs to no account."""
        request, verdict = failed(failure)
        if is_absent(verdict):
            handle = request.cb_kwargs["handle"]
            self.logger.warning("The seed %s cannot be used: %s. Is it spelt right?", handle, verdict.reason)
            self.crawler.stats.inc_value("harvester/seeds/rejected")
            yield absent(request.cb_kwargs["item"], verdict)

    # Profiles ---------------------------------------------------------------------------------------------

    def account_requests(self, asked_for: BlueskyArguments, items: Sequence[JobItem]) -> Iterator[Request]:
        """Yields requests for the profiles of accounts."""
        accounts = accounts_of(items)
        yield self._profiles(asked_for, list(accounts), self.read_profiles, accounts=accounts)

    def read_profiles(self, response: Response, accounts: dict[str, Account]) -> Iterator[Any]:
        """Reads profiles. Requests each absent account separately, to learn why it is absent."""
        asked_for = self.arguments_of(response)
        parsed = parse.parse_profiles(response.body, self.provenance(response))
        yield from self.read_found(asked_for, accounts, parsed)
        known = {profile.key for profile in parsed.records} | {reject.key for reject in parsed.rejects}
        for did, account in accounts.items():
            if did not in known:
                yield self.profile_request(asked_for, account)

    def profile_request(self, asked_for: BlueskyArguments, account: Account) -> Request:
        """Returns the request for the profile of a single account."""
        return self.call(
            asked_for,
            "app.bsky.actor.getProfile",
            {"actor": account["did"]},
            self.read_profile,
            errback=self.profile_failed,
            items=[account["id"]],
            account=account,
        )

    def read_profile(self, response: Response, account: Account) -> Iterator[Any]:
        """Reads a single profile. Raises ParseError when it is another account's."""
        asked_for = self.arguments_of(response)
        parsed = parse.parse_profile(response.body, self.provenance(response))
        yield from self.read_found(asked_for, {account["did"]: account}, of_account(account["did"], parsed))

    @errback
    def profile_failed(self, failure: Failure) -> Iterator[Any]:
        """Fails the item of a missing account: suspended, deactivated, deleted or unknown."""
        request, verdict = failed(failure)
        if is_absent(verdict):
            yield absent(request.cb_kwargs["account"]["id"], verdict)

    def read_found(self, asked_for: BlueskyArguments, accounts: Mapping[str, Account], parsed: Parsed) -> Iterator[Any]:
        """Yields the next requests after profiles: for the accounts' declarations, or for their lists."""
        for reject in parsed.rejects:
            yield reject
            if reject.key in accounts:
                yield rejected(accounts[reject.key]["id"], reject)
        for profile in parsed.records:
            if not isinstance(profile, Profile) or profile.did not in accounts:
                continue
            counts = {name: getattr(profile, field) for name, field in COUNTS.items()}
            account = {**accounts[profile.did], "handle": profile.handle, "counts": counts}
            if profile.opt_outs and asked_for.honour_opt_outs:
                yield profile  # the consent pipeline stores only a stub
                reason = f"opt_out: {', '.join(profile.opt_outs)}"
                yield ItemResult(account["id"], "skipped", Outcome.POLICY_DENIED, reason)
            elif "intents" in account:
                yield from self._accept(asked_for, with_intents(profile, account), account)
            elif asked_for.honour_opt_outs or asked_for.history != "appview":
                self.keep_at_hand(account, profile)
                yield self.ask_declaration(account)
            else:
                yield from self._accept(asked_for, profile, account)

    def go_on(self, asked_for: BlueskyArguments, page: Response | Request, account: Account) -> Iterator[Any]:
        if account.get("is_author"):
            yield from self.author_allows(page, account)
        elif profile := self.take_profile(account):
            yield from self._accept(asked_for, profile, account)
        else:  # another process has read it
            yield self.profile_request(asked_for, account).replace(dont_filter=True)

    def _accept(self, asked_for: BlueskyArguments, profile: Profile, account: Account) -> Iterator[Any]:
        if "profiles" in asked_for.collect:
            yield profile
        yield Stage(account["id"], PROFILE_COLLECTED, 1)
        yield from self.list_requests(asked_for, account)

    @abstractmethod
    def list_requests(self, asked_for: BlueskyArguments, account: Account) -> Iterator[Request]:
        """Yields requests for the first pages of an account's lists."""


def accounts_of(items: Sequence[JobItem]) -> dict[str, Account]:
    """Returns the accounts of items, by DID."""
    now, accounts = datetime.now(UTC), {}
    for item in items:
        since = since_of(item, now)
        accounts[item.key] = {
            "id": item.id,
            "did": item.key,
            "depth": item.depth,
            "since": since.isoformat() if since else None,
        }
    return accounts


def is_absent(verdict: Verdict) -> bool:
    """Returns True if the verdict says that the thing does not exist, or no longer."""
    return get_policy(verdict.outcome).absent


def account_of_seed(item: str, parsed: Parsed) -> Iterator[Found | Reject | ItemResult]:
    """Yields the account that a handle's profile belongs to."""
    yield from (Found(ACCOUNT, profile.key, depth=0) for profile in parsed.records)
    for reject in parsed.rejects:
        yield reject
        yield rejected(item, reject)


def of_account(did: str, parsed: Parsed) -> Parsed:
    """Checks that a response is about the requested account. Raises ParseError for another one."""
    keys = [record.key for record in parsed.records] + [reject.key for reject in parsed.rejects]
    if others := {*keys} - {"", did}:
        raise ParseError(f"the profile of {did} was asked for, and the answer is that of {others.pop()}")
    return parsed._replace(rejects=[reject._replace(key=did) for reject in parsed.rejects])


def rejected(item: str, reject: Reject) -> ItemResult:
    """Returns the result for an item whose record was rejected."""
    return ItemResult(item, "failed", Outcome.INVALID, f"rejected: {reject.reason}")


def absent(item: str, verdict: Verdict) -> ItemResult:
    """Returns the result for an item that is missing or hidden from the signed-in account."""
    if verdict.rule == BLOCKS:
        return blocked(item, verdict.reason)
    return ItemResult(item, "failed", verdict.outcome, f"{verdict.outcome}: {verdict.reason}")


def blocked(item: str, reason: str) -> ItemResult:
    """Returns the result for an account that blocks the signed-in one, or is blocked by it."""
    return ItemResult(item, "skipped", Outcome.POLICY_DENIED, f"block: {reason}")


def was_absent(item: Item) -> bool:
    """Returns True if the item itself is missing, not just a list: if it ended with a result from `absent`."""
    return get_policy(item.outcome).absent and item.reason.startswith(f"{item.outcome}: ")
