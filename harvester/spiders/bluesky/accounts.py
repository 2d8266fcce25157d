"""From seeds to accounts: handles are resolved, profiles are read, and people who say no are left out."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from scrapy import Request
from scrapy.http import Response

from harvester.download.addresses import refuse_private
from harvester.frontier.changes import Account, Ended, ProfileCollected, SeedEnded
from harvester.items.bluesky import Profile
from harvester.outcomes import POLICIES, Outcome, Verdict
from harvester.parsers.bluesky import answers as parse
from harvester.parsers.bluesky import identity
from harvester.parsers.bluesky.parts import Parsed
from harvester.privacy.opt_outs import BULK_DATASET
from harvester.spiders.bluesky.calls import Fail, Output, Read, xrpc

if TYPE_CHECKING:
    from harvester.spiders.bluesky.spider import BlueskySpider

INTENTS = "org.user-intents.declaration"


class Accounts:
    """Asks for seeds and profiles, and reads them."""

    def __init__(self, spider: "BlueskySpider") -> None:
        self._spider = spider

    # Seeds ------------------------------------------------------------------------------------------------

    def begin_seeds(self, handles: list[str]) -> Iterator[Request]:
        """Requests that find out whose handles they are."""
        yield self.ask_profiles(handles, partial(self.read_seeds, handles), partial(self.fail_seeds, handles))

    def ask_profiles(self, actors: list[str], read: Read, fail: Fail) -> Request:
        return self._spider.ask_service(
            "app.bsky.actor.getProfiles", [("actors", actor) for actor in actors], read, fail
        )

    def read_seeds(self, handles: list[str], response: Response) -> Iterator[Output]:
        found = {
            profile.handle.lower(): profile.did
            for profile in parse.parse_profiles(response.body, self._spider.provenance(response)).records
            if isinstance(profile, Profile)
        }
        for handle in handles:
            if handle in found:
                yield SeedEnded(handle, found[handle])
            else:
                yield self._spider.ask_service(
                    "app.bsky.actor.getProfile",
                    {"actor": handle},
                    partial(self.read_seed, handle),
                    partial(self.fail_seeds, [handle]),
                )

    def read_seed(self, handle: str, response: Response) -> Iterator[Output]:
        for profile in parse.parse_profile(response.body, self._spider.provenance(response)).records:
            yield SeedEnded(handle, profile.belongs_to)

    def fail_seeds(self, handles: list[str], verdict: Verdict) -> Iterator[Output]:
        later = POLICIES[verdict.outcome].retryable
        for handle in handles:
            if later:
                self._spider.logger.warning("The seed %s waits for the next run: %s", handle, verdict.reason)
            else:
                self._spider.logger.warning(
                    "The seed %s cannot be used: %s. Is it spelt right?", handle, verdict.reason
                )
                self._spider.crawler.stats.inc_value("harvester/seeds/rejected")
            yield SeedEnded(handle, None, f"{verdict.outcome}: {verdict.reason}", later)

    # Profiles ---------------------------------------------------------------------------------------------

    def begin(self, accounts: dict[str, Account]) -> Iterator[Request]:
        """Requests for the profiles of accounts, by DID."""
        dids = list(accounts)
        yield self.ask_profiles(dids, partial(self.read_profiles, accounts), partial(self.fail_profiles, dids))

    def read_profiles(self, accounts: dict[str, Account], response: Response) -> Iterator[Output]:
        parsed = parse.parse_profiles(response.body, self._spider.provenance(response))
        found = {profile.belongs_to for profile in parsed.records}
        yield from self.read_found(accounts, parsed)
        for did in accounts.keys() - found - {reject.key for reject in parsed.rejects}:
            yield self._spider.ask_service(
                "app.bsky.actor.getProfile",
                {"actor": did},
                partial(self.read_profile, accounts),
                partial(self.fail_profiles, [did]),
            )

    def read_profile(self, accounts: dict[str, Account], response: Response) -> Iterator[Output]:
        yield from self.read_found(accounts, parse.parse_profile(response.body, self._spider.provenance(response)))

    def read_found(self, accounts: dict[str, Account], parsed: Parsed) -> Iterator[Output]:
        for reject in parsed.rejects:
            yield reject
            if reject.key in accounts:
                yield Ended(reject.key, "failed", f"rejected: {reject.reason}")
        for profile in parsed.records:
            if isinstance(profile, Profile) and profile.did in accounts:
                if profile.opt_outs and self._spider.arguments.honour_opt_outs:
                    yield from self.leave_out(profile)
                elif self._spider.arguments.honour_opt_outs or self._spider.arguments.history != "appview":
                    yield self.ask_did_document(profile)
                else:
                    yield from self.accept(profile, None)

    def fail_profiles(self, dids: list[str], verdict: Verdict) -> Iterator[Output]:
        reason = f"{verdict.outcome}: {verdict.reason}"
        for did in dids:
            yield Ended(did, "failed", reason, POLICIES[verdict.outcome].retryable)

    def ask_did_document(self, profile: Profile) -> Request:
        """Where the account's own server is."""
        method, _, name = profile.did.removeprefix("did:").partition(":")
        url = (
            f"{self._spider.config.plc_url.rstrip('/')}/{profile.did}"
            if method == "plc"
            else f"https://{name}/.well-known/did.json"
        )
        return self._spider.ask(url, partial(self.read_did_document, profile), partial(self.fail_server, profile))

    def read_did_document(self, profile: Profile, response: Response) -> Iterator[Output]:
        pds = identity.parse_did_document(response.body)
        refusal = refuse_private(pds, self._spider.config) if pds else "its DID document names no server"
        if pds is None or refusal:
            yield from self.fail_server(profile, Verdict(Outcome.INVALID, refusal or ""))
        elif not self._spider.arguments.honour_opt_outs:
            yield from self.accept(profile, pds)
        else:
            parameters = {"repo": profile.did, "collection": INTENTS, "rkey": "self"}
            yield self._spider.ask(
                xrpc(pds, "com.atproto.repo.getRecord", parameters),
                partial(self.read_intents, profile, pds),
                partial(self.fail_intents, profile, pds),
            )

    def read_intents(self, profile: Profile, pds: str, response: Response) -> Iterator[Output]:
        intents = identity.parse_intents(response.body)
        profile = msgspec.structs.replace(profile, intents=intents)
        if intents.get(BULK_DATASET) is False:
            yield from self.leave_out(msgspec.structs.replace(profile, opt_outs=(f"intent {BULK_DATASET}",)))
        else:
            yield from self.accept(profile, pds)

    def fail_intents(self, profile: Profile, pds: str, verdict: Verdict) -> Iterator[Output]:
        """Most accounts declare nothing; of a server that cannot be asked, nothing is known."""
        if verdict.outcome is not Outcome.NOT_FOUND:
            self._spider.crawler.stats.inc_value("harvester/consent/unknown")
        yield from self.accept(profile, pds)

    def fail_server(self, profile: Profile, verdict: Verdict) -> Iterator[Output]:
        """Without its own server an account's declarations are unknown, and its records cannot be read."""
        self._spider.crawler.stats.inc_value("harvester/consent/unknown")
        if self._spider.arguments.history == "appview" or "posts" not in self._spider.arguments.collect:
            yield from self.accept(profile, None)
        else:
            reason = f"server: {verdict.outcome}: {verdict.reason}"
            yield Ended(profile.did, "failed", reason, POLICIES[verdict.outcome].retryable)

    def leave_out(self, profile: Profile) -> Iterator[Output]:
        """Of an account that does not want to be collected, only that is kept."""
        yield profile
        yield Ended(profile.did, "skipped", f"opt_out: {', '.join(profile.opt_outs)}")

    def accept(self, profile: Profile, pds: str | None) -> Iterator[Output]:
        if "profiles" in self._spider.arguments.collect:
            yield profile
        yield ProfileCollected(profile.did, profile.handle, self._spider.chains.wanted(), pds)
