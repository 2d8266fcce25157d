"""From seeds to accounts: handles are resolved, profiles are read, and people who say no are left out."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.download.addresses import refuse_private
from harvester.exceptions import ParseError
from harvester.items import Found, Reject, Said, Stage
from harvester.items.bluesky import Profile
from harvester.jobs.documents import Item, JobItem
from harvester.outcomes import Outcome, Verdict, verdict_of
from harvester.parsers.bluesky import answers as parse
from harvester.parsers.bluesky import identity
from harvester.parsers.bluesky.parts import Parsed
from harvester.pipelines.consent import ConsentPipeline
from harvester.privacy.opt_outs import BULK_DATASET, Declared
from harvester.spiders.bluesky.again import since_of
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.asking import ACCOUNT, Asking, xrpc
from harvester.spiders.job import errback

INTENTS = "org.user-intents.declaration"
PROFILE_COLLECTED = "profile_collected"

BLOCKS = "api-blocks-account"
"""The rule that tells of a block between the account asked for and the one that asks."""
LATER = (
    *(Outcome.RATE_LIMITED, Outcome.BLOCKED, Outcome.CHALLENGE, Outcome.MAINTENANCE),
    *(Outcome.PROXY, Outcome.LOCAL),
)
"""Of a server that is there and may answer later, or that was not reached through a fault of ours. What its accounts
declare is not guessed: they are tried again."""

ABSENT = (Outcome.NOT_FOUND, Outcome.GONE)
Account = dict[str, Any]
"""Of an item, as requests carry it: `id` of the item, `did`, `depth`, `pds`, the origin of the account's server, and
`since`, from when on its posts are read, if it was looked at before."""


class Accounts(Asking):
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
        request, verdict = _failed(failure)
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
                yield self.call(
                    asked_for,
                    "app.bsky.actor.getProfile",
                    {"actor": did},
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
        request, verdict = _failed(failure)
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
            account = accounts[profile.did]
            if profile.opt_outs and asked_for.honour_opt_outs:
                yield from self._leave_out(profile, account)
            elif asked_for.honour_opt_outs or asked_for.history != "appview":
                yield self._ask_did_document(profile, account)
            else:
                yield from self._accept(asked_for, profile, account)

    def _ask_did_document(self, profile: Profile, account: Account) -> Request:
        """Where the account's own server is."""
        method, _, name = profile.did.removeprefix("did:").partition(":")
        url = (
            f"{self.config.plc_url.rstrip('/')}/{profile.did}"
            if method == "plc"
            else f"https://{name}/.well-known/did.json"
        )
        return self._ask_about(url, self.read_did_document, self.server_failed, profile, account)

    def _ask_about(self, url: str, callback: Any, errback: Any, profile: Profile, account: Account) -> Request:
        carried = msgspec.to_builtins(profile, builtin_types=(bytes, datetime))
        return self.ask(url, callback, errback=errback, items=[account["id"]], profile=carried, account=account)

    def read_did_document(self, response: Response, profile: dict[str, Any], account: Account) -> Iterator[Any]:
        """Asks the account's own server whether it declares something, unless nobody wants to know."""
        asked_for = self.arguments_of(response)
        known = msgspec.convert(profile, Profile)
        pds = identity.parse_did_document(response.body)
        refusal = refuse_private(pds, self.config) if pds else "its DID document names no server"
        if pds is None or refusal:
            verdict = Verdict(Outcome.INVALID, refusal or "")
            yield from self._without_server(asked_for, known, account, verdict)
        elif not asked_for.honour_opt_outs:
            yield from self._accept(asked_for, known, {**account, "pds": pds})
        else:
            parameters = {"repo": known.did, "collection": INTENTS, "rkey": "self"}
            url = xrpc(pds, "com.atproto.repo.getRecord", parameters)
            account = {**account, "pds": pds}
            yield self._ask_about(url, self.read_intents, self.intents_failed, known, account)

    def read_intents(self, response: Response, profile: dict[str, Any], account: Account) -> Iterator[Any]:
        """What an account declares of the use of its posts."""
        asked_for = self.arguments_of(response)
        intents = identity.parse_intents(response.body)
        known = msgspec.structs.replace(msgspec.convert(profile, Profile), intents=intents)
        if intents.get(BULK_DATASET) is False:
            known = msgspec.structs.replace(known, opt_outs=(f"intent {BULK_DATASET}",))
            outputs = self._leave_out(known, account)
        else:
            outputs = self._accept(asked_for, known, account)
        yield from outputs

    @errback
    def intents_failed(self, failure: Failure) -> Iterator[Any]:
        """Most accounts declare nothing; of a server that cannot be reached, nothing is known."""
        request, verdict = _failed(failure)
        if verdict.outcome in LATER:
            return
        asked_for = self.arguments_of(request)
        known, account = msgspec.convert(request.cb_kwargs["profile"], Profile), request.cb_kwargs["account"]
        declared = self._declared_before(known.did)
        if verdict.outcome is Outcome.NOT_FOUND:
            withdrawn = msgspec.structs.replace(known, intents={})
            yield from self._accept(asked_for, withdrawn if declared else known, account)
            return
        self.crawler.stats.inc_value("harvester/consent/unknown")
        if declared:
            yield from self._leave_out(msgspec.structs.replace(known, opt_outs=declared), account)
        else:
            yield from self._accept(asked_for, known, account)

    @errback
    def server_failed(self, failure: Failure) -> Iterator[Any]:
        """Nobody says where the account's server is."""
        request, verdict = _failed(failure)
        if verdict.outcome in LATER:
            return
        asked_for = self.arguments_of(request)
        known = msgspec.convert(request.cb_kwargs["profile"], Profile)
        yield from self._without_server(asked_for, known, request.cb_kwargs["account"], verdict)

    def _without_server(
        self, asked_for: BlueskyArguments, profile: Profile, account: Account, verdict: Verdict
    ) -> Iterator[Any]:
        """Without its own server an account's declarations are unknown, and its records cannot be read."""
        self.crawler.stats.inc_value("harvester/consent/unknown")
        declared = self._declared_before(profile.did) if asked_for.honour_opt_outs else ()
        if declared:
            yield from self._leave_out(msgspec.structs.replace(profile, opt_outs=declared), account)
        elif asked_for.history == "appview" or "posts" not in asked_for.collect:
            yield from self._accept(asked_for, profile, account)
        elif is_absent(verdict) or verdict.outcome is Outcome.INVALID:
            reason = f"server: {verdict.outcome}: {verdict.reason}"
            yield Said(account["id"], "failed", verdict.outcome, reason)

    def _declared_before(self, did: str) -> Declared:
        """What an account was known to declare when it was asked last."""
        consent = self.crawler.get_item_pipeline(ConsentPipeline)
        return consent.declared_before(did) if consent else ()

    def _leave_out(self, profile: Profile, account: Account) -> Iterator[Any]:
        """Of an account that does not want to be collected, only that is kept."""
        yield profile
        yield Said(account["id"], "skipped", Outcome.POLICY_DENIED, f"opt_out: {', '.join(profile.opt_outs)}")

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


def _failed(failure: Failure) -> tuple[Request, Verdict]:
    assert failure.value
    request: Request = failure.request  # type: ignore[attr-defined]
    return request, verdict_of(failure.value)


def is_absent(verdict: Verdict) -> bool:
    """Whether it says that there is no such thing (any more)."""
    return verdict.outcome in ABSENT


def account_of_seed(item: str, parsed: Parsed) -> Iterator[Found | Reject | Said]:
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


def rejected(item: str, reject: Reject) -> Said:
    """The item of something that came and cannot be kept."""
    return Said(item, "failed", Outcome.INVALID, f"rejected: {reject.reason}")


def absent(item: str, verdict: Verdict) -> Said:
    """The item of something that is not there, or not for us."""
    if verdict.rule == BLOCKS:
        return blocked(item, verdict.reason)
    return Said(item, "failed", verdict.outcome, f"{verdict.outcome}: {verdict.reason}")


def blocked(item: str, reason: str) -> Said:
    """The item of an account that does not want to be read by the one that asks, or the other way round."""
    return Said(item, "skipped", Outcome.POLICY_DENIED, f"block: {reason}")


def was_absent(item: Item) -> bool:
    """Whether it ended as `absent` says: not one of its lists is missing, but the thing itself."""
    return item.outcome in ABSENT and item.reason.startswith(f"{item.outcome}: ")
