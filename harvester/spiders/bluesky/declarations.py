"""Asks the server of an account what the account declares, before anything of the account is kept.

Nothing that the account wrote travels with these requests: they wait in Redis, whose log keeps what was once written
to it. A profile that was read stays in the memory of its process until the answer is there. Whoever has not read it
asks for the profile again.
"""

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec.structs import replace
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.download.addresses import refuse_private
from harvester.items import ItemResult
from harvester.items.bluesky import Profile
from harvester.outcomes import POLICIES, Outcome, Verdict, get_policy, verdict_of
from harvester.parsers.bluesky import identity
from harvester.pipelines.consent import ConsentPipeline
from harvester.privacy.opt_outs import BULK_DATASET, UNKNOWN, Declared
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.requests import BlueskyRequests, xrpc
from harvester.spiders.job import errback

INTENTS = "org.user-intents.declaration"
MAX_AT_HAND = 5_000
"""Profiles that wait in memory for what their accounts declare. The frontier has a thousand items at a time."""

Account = dict[str, Any]
"""Of an item, as its requests carry it:

`id` of the item, `did`, `depth`, and `since`, from when on its posts are read, if it was looked at before. Then, as far
as they are known: `handle`; `counts`, what its profile says of its lists; `pds`, the origin of its server; `intents`,
once its server was asked; `is_author` for one of whom only words in posts of others are kept.
"""


class Declarations(BlueskyRequests):
    """Leads from an account to its server, and from there to one of `go_on`, `leave_out` and an end that says why."""

    @cached_property
    def _at_hand(self) -> "OrderedDict[str, Profile]":
        """Item -> its profile, the one that was read last behind the others."""
        return OrderedDict()

    @cached_property
    def asked(self) -> set[str]:
        """Returns the accounts whose servers this process has asked."""
        return set()

    def keep_at_hand(self, account: Account, profile: Profile) -> None:
        """Keeps a profile in memory until its account has been asked."""
        self._at_hand[account["id"]] = profile
        while len(self._at_hand) > MAX_AT_HAND:
            self._at_hand.popitem(last=False)

    def take_profile(self, account: Account) -> Profile | None:
        """Returns the profile, if this process has read it, with what its account declares."""
        profile = self._at_hand.pop(account["id"], None)
        return None if profile is None else with_intents(profile, account)

    def ask_declaration(self, account: Account) -> Request:
        """Returns the request for the account's DID document, which says where its server is."""
        method, _, name = account["did"].removeprefix("did:").partition(":")
        url = (
            f"{self.config.plc_url.rstrip('/')}/{account['did']}"
            if method == "plc"
            else f"https://{name}/.well-known/did.json"
        )
        return self._ask_about(url, self.read_did_document, self.server_failed, account)

    def _ask_about(
        self, url: str, callback: Callable[..., Any], errback: Callable[..., Any], account: Account
    ) -> Request:
        request = self.ask(url, callback, errback=errback, items=[account["id"]], account=account)
        return request.replace(dont_filter=True)  # one account may be asked for two items

    def read_did_document(self, response: Response, account: Account) -> Iterator[Any]:
        """Asks the account's own server whether it declares something, unless nobody wants to know."""
        asked_for = self.arguments_of(response)
        pds = identity.parse_did_document(response.body)
        refusal = refuse_private(pds, self.config) if pds else "its DID document names no server"
        if pds is None or refusal:
            yield from self._undecided(response, account, Verdict(Outcome.INVALID, refusal or ""))
        elif not asked_for.honour_opt_outs:
            yield from self.go_on(asked_for, response, {**account, "pds": pds, "intents": None})
        else:
            parameters = {"repo": account["did"], "collection": INTENTS, "rkey": "self"}
            url = xrpc(pds, "com.atproto.repo.getRecord", parameters)
            yield self._ask_about(url, self.read_intents, self.intents_failed, {**account, "pds": pds})

    def read_intents(self, response: Response, account: Account) -> Iterator[Any]:
        """Reads what an account declares of the use of its posts."""
        self.asked.add(account["did"])
        intents = identity.parse_intents(response.body)
        account = {**account, "intents": intents}
        if intents.get(BULK_DATASET) is False:
            yield from self.leave_out(response, account, (f"intent {BULK_DATASET}",))
        else:
            yield from self.go_on(self.arguments_of(response), response, account)

    @errback
    def intents_failed(self, failure: Failure) -> Iterator[Any]:
        """Most accounts declare nothing. When their server does not answer, it is not known what they declare."""
        request, verdict = failed(failure)
        account = request.cb_kwargs["account"]
        if verdict.outcome is Outcome.NOT_FOUND:
            self.asked.add(account["did"])
            withdrawn: dict[str, bool] | None = {} if self.declared_before(account) else None
            yield from self.go_on(self.arguments_of(request), request, {**account, "intents": withdrawn})
        else:
            yield from self._undecided(request, account, verdict)

    @errback
    def server_failed(self, failure: Failure) -> Iterator[Any]:
        """Nobody says where the account's server is."""
        request, verdict = failed(failure)
        yield from self._undecided(request, request.cb_kwargs["account"], verdict)

    def _undecided(self, page: Response | Request, account: Account, verdict: Verdict) -> Iterator[Any]:
        """Decides on an account of which it is not known what it declares.

        What it declared when it was asked last counts. Without that nothing of it is harvested, unless somebody wants
        that. Yields nothing when the answer may come later: the item is tried again then. An author's is not: a run
        does not wait for the servers of strangers.
        """
        asked_for = self.arguments_of(page)
        harvests = asked_for.harvest_unknown or not asked_for.honour_opt_outs
        declared = self.declared_before(account) if asked_for.honour_opt_outs else ()
        if get_policy(verdict.outcome).delay:  # also when unknown ones are harvested
            return
        if declared and not (harvests and declared == UNKNOWN):
            self.crawler.stats.inc_value("harvester/consent/unknown")
            yield from self.leave_out(page, account, declared)
        elif harvests and ("pds" in account or not asked_for.needs_server):
            self.crawler.stats.inc_value("harvester/consent/unknown")
            yield from self.go_on(asked_for, page, {**account, "intents": {} if declared else None})
        elif POLICIES[verdict.outcome].retryable and not account.get("is_author"):
            return
        elif harvests:
            yield ItemResult(account["id"], "failed", verdict.outcome, f"server: {verdict.outcome}: {verdict.reason}")
        else:
            self.crawler.stats.inc_value("harvester/consent/unknown")
            yield from self.leave_unknown(page, account, f"{UNKNOWN[0]}: {verdict.reason}")

    def declared_before(self, account: Account) -> Declared:
        """Returns what an account was known to declare when it was asked last."""
        consent = self.crawler.get_item_pipeline(ConsentPipeline)
        return consent.declared_before(account["did"]) if consent else ()

    def leave_out(self, page: Response | Request, account: Account, declared: Declared) -> Iterator[Any]:
        """Keeps of an account that refuses only that it does."""
        self._at_hand.pop(account["id"], None)
        yield self.stub(page, account, opt_outs=declared, intents=account.get("intents"))
        yield ItemResult(account["id"], "skipped", Outcome.POLICY_DENIED, f"opt_out: {', '.join(declared)}")

    def stub(self, page: Response | Request, account: Account, **declared: Any) -> Profile:
        """Returns what is kept of an account that is not harvested: who it is, and what it declares."""
        handle = account.get("handle", "")
        return Profile(did=account["did"], provenance=self.provenance(page), handle=handle, **declared)

    def leave_unknown(self, page: Response | Request, account: Account, reason: str) -> Iterator[Any]:
        """Keeps nothing of an account of which nobody could say whether it refuses."""
        self._at_hand.pop(account["id"], None)
        yield ItemResult(account["id"], "skipped", Outcome.POLICY_DENIED, reason)

    @abstractmethod
    def go_on(self, asked_for: BlueskyArguments, page: Response | Request, account: Account) -> Iterator[Any]:
        """Yields what follows for an account that may be harvested."""


def with_intents(profile: Profile, account: Mapping[str, Any]) -> Profile:
    """Returns the profile with what its account declares."""
    intents = account.get("intents")
    return profile if intents is None else replace(profile, intents=intents)


def failed(failure: Failure) -> tuple[Request, Verdict]:
    """Returns the request that has failed, and the verdict on it."""
    assert failure.value
    request: Request = failure.request  # type: ignore[attr-defined]
    return request, verdict_of(failure.value)
