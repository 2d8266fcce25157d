"""From seeds to accounts: handles are resolved, profiles are read, and people who say no are left out."""

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
"""The rule that tells of a block between the account asked for and the one that asks."""
COUNTS = {"followers": "followers_count", "follows": "follows_count", "feed": "posts_count"}
"""List -> the field of a profile that says how many it has."""


class Accounts(Authors):
    """Asks for seeds and profiles, and reads them."""

    # Seeds ------------------------------------------------------------------------------------------------

    def seed_requests(self, asked_for: BlueskyArguments, seeds: Sequence[JobItem]) -> Iterator[Request]:
        """Requests that find out whose handles they are."""
        items = {item.key: item.id for item in seeds}
        yield self._profiles(asked_for, list(items), self.read_seeds, seeds=items)

    def _profiles(self, asked_for: BlueskyArguments, actors: list[str], callback: Any, **more: Any) -> Request:
        parameters = [("actors", actor) for actor in actors]
        return self.call(asked_for, "app.bsky.actor.getProfiles", parameters, callback, **more)

    def read_seeds(self, response: Response, seeds: dict[str, str]) -> Iterator[Any]:
        """`seeds`: handle -> id of its item."""
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
        """The profile of a handle that was asked for alone."""
        yield from account_of_seed(item, parse.parse_profile(response.body, self.provenance(response)))

    @errback
    def seed_failed(self, failure: Failure) -> Iterator[Any]:
        """A handle that names nobody."""
        request, verdict = failed(failure)
        if is_absent(verdict):
            handle = request.cb_kwargs["handle"]
            self.logger.warning("The seed %s cannot be used: %s. Is it spelt right?", handle, verdict.reason)
            self.crawler.stats.inc_value("harvester/seeds/rejected")
            yield absent(request.cb_kwargs["item"], verdict)

    # Profiles ---------------------------------------------------------------------------------------------

    def account_requests(self, asked_for: BlueskyArguments, items: Sequence[JobItem]) -> Iterator[Request]:
        """Requests for the profiles of accounts."""
        accounts = accounts_of(items)
        yield self._profiles(asked_for, list(accounts), self.read_profiles, accounts=accounts)

    def read_profiles(self, response: Response, accounts: dict[str, Account]) -> Iterator[Any]:
        """Of those that are absent each is asked for alone, to learn why."""
        asked_for = self.arguments_of(response)
        parsed = parse.parse_profiles(response.body, self.provenance(response))
        yield from self.read_found(asked_for, accounts, parsed)
        known = {profile.key for profile in parsed.records} | {reject.key for reject in parsed.rejects}
        for did, account in accounts.items():
            if did not in known:
                yield self.profile_request(asked_for, account)

    def profile_request(self, asked_for: BlueskyArguments, account: Account) -> Request:
        """Returns the request for the profile of one account."""
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
        """One profile. Raises ParseError when it is another account's."""
        asked_for = self.arguments_of(response)
        parsed = parse.parse_profile(response.body, self.provenance(response))
        yield from self.read_found(asked_for, {account["did"]: account}, of_account(account["did"], parsed))

    @errback
    def profile_failed(self, failure: Failure) -> Iterator[Any]:
        """An account that is gone: suspended, deactivated, deleted or unknown."""
        request, verdict = failed(failure)
        if is_absent(verdict):
            yield absent(request.cb_kwargs["account"]["id"], verdict)

    def read_found(self, asked_for: BlueskyArguments, accounts: Mapping[str, Account], parsed: Parsed) -> Iterator[Any]:
        """What follows from profiles: the accounts' declarations, or their lists."""
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
                yield profile  # of which a stub is kept
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
        """Requests for the first pages of an account's lists."""


def accounts_of(items: Sequence[JobItem]) -> dict[str, Account]:
    """By DID."""
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
    """Whether it says that there is no such thing (any more)."""
    return get_policy(verdict.outcome).absent


def account_of_seed(item: str, parsed: Parsed) -> Iterator[Found | Reject | ItemResult]:
    """Whose handle a seed is, by the profile that was asked for by it."""
    yield from (Found(ACCOUNT, profile.key, depth=0) for profile in parsed.records)
    for reject in parsed.rejects:
        yield reject
        yield rejected(item, reject)


def of_account(did: str, parsed: Parsed) -> Parsed:
    """What was asked for of this account alone. Raises ParseError when it is of another one."""
    keys = [record.key for record in parsed.records] + [reject.key for reject in parsed.rejects]
    if others := {*keys} - {"", did}:
        raise ParseError(f"the profile of {did} was asked for, and the answer is that of {others.pop()}")
    return parsed._replace(rejects=[reject._replace(key=did) for reject in parsed.rejects])


def rejected(item: str, reject: Reject) -> ItemResult:
    """The item of something that came and cannot be kept."""
    return ItemResult(item, "failed", Outcome.INVALID, f"rejected: {reject.reason}")


def absent(item: str, verdict: Verdict) -> ItemResult:
    """The item of something that is not there, or not for us."""
    if verdict.rule == BLOCKS:
        return blocked(item, verdict.reason)
    return ItemResult(item, "failed", verdict.outcome, f"{verdict.outcome}: {verdict.reason}")


def blocked(item: str, reason: str) -> ItemResult:
    """The item of an account that does not want to be read by the one that asks, or the other way round."""
    return ItemResult(item, "skipped", Outcome.POLICY_DENIED, f"block: {reason}")


def was_absent(item: Item) -> bool:
    """Whether it ended as `absent` says: not one of its lists is missing, but the thing itself."""
    return get_policy(item.outcome).absent and item.reason.startswith(f"{item.outcome}: ")
