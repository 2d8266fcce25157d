"""Requests an account's declaration from its server before the account's data is stored.

These requests carry nothing that the account wrote: they wait in Redis, whose log keeps everything written to it. The
profile waits in the memory of its process until the response arrives. Another process requests the profile again.
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
"""Maximum number of profiles in memory that wait for a declaration. The frontier has a thousand items at a time."""

Account = dict[str, Any]
"""An account, as carried by the requests of the item.

Always `id` of the item, `did`, `depth`, and `since`, the start of the posts to read if the account was visited before.
When known: `handle`; `counts`, the lists' lengths in the profile; `pds`, the origin of the account's server; `intents`,
once that server has answered; `is_author` for an author who appears only in others' posts.
"""


class Declarations(BlueskyRequests):
    """Leads from an account to its server, and then to `go_on`, `leave_out`, or a result with a reason."""

    @cached_property
    def _at_hand(self) -> "OrderedDict[str, Profile]":
        """Item -> its profile; the last one read is at the end."""
        return OrderedDict()

    @cached_property
    def asked(self) -> set[str]:
        """The accounts whose servers this process has asked."""
        return set()

    def keep_at_hand(self, account: Account, profile: Profile) -> None:
        """Keeps a profile in memory until its account's declaration is known."""
        self._at_hand[account["id"]] = profile
        while len(self._at_hand) > MAX_AT_HAND:
            self._at_hand.popitem(last=False)

    def take_profile(self, account: Account) -> Profile | None:
        """Returns the profile with its account's declaration, if this process has read it."""
        profile = self._at_hand.pop(account["id"], None)
        return None if profile is None else with_intents(profile, account)

    def ask_declaration(self, account: Account) -> Request:
        """Returns the request for the account's DID document, which names its server."""
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
        return request.replace(dont_filter=True)  # an account may belong to two items

    def read_did_document(self, response: Response, account: Account) -> Iterator[Any]:
        """Requests the declaration from the account's own server, unless opt-outs are not honoured."""
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
        """Reads an account's declaration on the use of posts."""
        self.asked.add(account["did"])
        intents = identity.parse_intents(response.body)
        account = {**account, "intents": intents}
        if intents.get(BULK_DATASET) is False:
            yield from self.leave_out(response, account, (f"intent {BULK_DATASET}",))
        else:
            yield from self.go_on(self.arguments_of(response), response, account)

    @errback
    def intents_failed(self, failure: Failure) -> Iterator[Any]:
        """Handles a missing declaration: most accounts have none. After another failure the declaration is unknown."""
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
        """Handles an account whose server cannot be found."""
        request, verdict = failed(failure)
        yield from self._undecided(request, request.cb_kwargs["account"], verdict)

    def _undecided(self, page: Response | Request, account: Account, verdict: Verdict) -> Iterator[Any]:
        """Decides on an account whose declaration is unknown.

        Its last known declaration counts. Without one the account is skipped, unless `harvest_unknown` is set. Yields
        nothing when the response may come later: the item is then retried. An author's item is not retried: a run does
        not wait for the servers of strangers.
        """
        asked_for = self.arguments_of(page)
        harvests = asked_for.harvest_unknown or not asked_for.honour_opt_outs
        declared = self.declared_before(account) if asked_for.honour_opt_outs else ()
        if get_policy(verdict.outcome).delay:  # harvest_unknown does not change this
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
        """Returns the last known declaration of an account."""
        consent = self.crawler.get_item_pipeline(ConsentPipeline)
        return consent.declared_before(account["did"]) if consent else ()

    def leave_out(self, page: Response | Request, account: Account, declared: Declared) -> Iterator[Any]:
        """Stores only the refusal of an account that opts out."""
        self._at_hand.pop(account["id"], None)
        yield self.stub(page, account, opt_outs=declared, intents=account.get("intents"))
        yield ItemResult(account["id"], "skipped", Outcome.POLICY_DENIED, f"opt_out: {', '.join(declared)}")

    def stub(self, page: Response | Request, account: Account, **declared: Any) -> Profile:
        """Returns the stub for an account that is not harvested: its identity and its declaration."""
        handle = account.get("handle", "")
        return Profile(did=account["did"], provenance=self.provenance(page), handle=handle, **declared)

    def leave_unknown(self, page: Response | Request, account: Account, reason: str) -> Iterator[Any]:
        """Stores nothing from an account whose declaration is unknown."""
        self._at_hand.pop(account["id"], None)
        yield ItemResult(account["id"], "skipped", Outcome.POLICY_DENIED, reason)

    @abstractmethod
    def go_on(self, asked_for: BlueskyArguments, page: Response | Request, account: Account) -> Iterator[Any]:
        """Yields the next requests for an account that may be harvested."""


def with_intents(profile: Profile, account: Mapping[str, Any]) -> Profile:
    """Returns the profile with its account's declaration."""
    intents = account.get("intents")
    return profile if intents is None else replace(profile, intents=intents)


def failed(failure: Failure) -> tuple[Request, Verdict]:
    """Returns the failed request and its verdict."""
    assert failure.value
    request: Request = failure.request  # type: ignore[attr-defined]
    return request, verdict_of(failure.value)
