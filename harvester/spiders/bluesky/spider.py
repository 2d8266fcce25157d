"""Harvests a part of Bluesky: accounts around the seeds, their followers and follows, posts, threads, lists."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, cast

from msgspec.structs import replace
from scrapy import Request

from harvester.exceptions import UsageError
from harvester.identities.bluesky import account_of
from harvester.identities.crawl_identities import account_origin
from harvester.identities.credentials import SpiderAccount
from harvester.items import Found, ItemResult, Provenance, Record
from harvester.jobs.documents import Item, JobItem
from harvester.jobs.missing import Listing
from harvester.parsers.bluesky.scrub import PURGED
from harvester.parsers.bluesky.staged import read_staged
from harvester.pipelines.consent import ConsentPipeline
from harvester.spiders.base import SpiderArguments
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.declarations import Account
from harvester.spiders.bluesky.entries import parse_entry
from harvester.spiders.bluesky.listings import listings_of
from harvester.spiders.bluesky.requests import ACCOUNT, KNOWN_ACCOUNT, KNOWN_THREAD, SEED, THREAD
from harvester.spiders.bluesky.threads import Threads
from harvester.spiders.bluesky.web import WebPages
from harvester.spiders.seeds import BadSeed, parse_line

_post = re.compile(r"at://did:[^/\s]+/app\.bsky\.feed\.post/[^/\s]+")


class BlueskySpider(WebPages, Threads):
    """Harvests accounts of Bluesky (public.api.bsky.app or bsky.app, plc.directory, and the accounts' own servers).

    Caveats: the network's own counts exceed its lists, which leave out suspended accounts; likes come with
    history=records or car only. Arguments: see `harvester spiders show bluesky`.
    """

    name = "bluesky"
    ITEMS_A_REQUEST = {SEED: 25, ACCOUNT: 25, KNOWN_ACCOUNT: 25, KNOWN_THREAD: 25}  # noqa: RUF012
    CHECKED_AS = {ACCOUNT: KNOWN_ACCOUNT, THREAD: KNOWN_THREAD}  # noqa: RUF012
    ITEM_KINDS = (SEED, ACCOUNT, THREAD)
    SERVES_START_LIST = True
    BEGIN = "Give accounts: -a seeds=alice.bsky.social,did:plc:..., or -a seeds=@FILE with one a line."
    ADDRESS = "-a service=..., or -a web=... with via=browser"

    @classmethod
    def check_item(cls, found: Found) -> Found:
        """Accepts anything that names an account as a seed."""
        if found.kind == THREAD:
            if not _post.fullmatch(found.key):
                raise UsageError(f"{found.key!r} is no post's address (at://did:.../app.bsky.feed.post/...)")
            return found
        seed = parse_line(found.key)
        if not isinstance(seed, str):
            raise UsageError(f"{found.key!r} is {seed.reason if seed else 'no account'}")
        named = found_seed(seed)
        if found.kind == ACCOUNT != named.kind:
            raise UsageError(f"{found.key!r} is no DID; submit handles as seeds")
        return replace(found, kind=named.kind, key=named.key, depth=0)

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        return read_staged(kind, key, raw, provenance)

    @classmethod
    def check_start_entry(cls, entry: bytes) -> bool:
        return parse_entry(entry, cls.Arguments()) is not None

    @classmethod
    def read_start_entry(cls, entry: bytes, own: SpiderArguments) -> tuple[SpiderArguments, list[Found]] | None:
        read = parse_entry(entry, cast(BlueskyArguments, own))
        return (read.arguments, [found_seed(seed) for seed in read.seeds]) if read else None

    @classmethod
    def limits_of(cls, arguments: SpiderArguments) -> dict[str, int]:
        most = cast(BlueskyArguments, arguments).max_accounts
        return {} if most is None else {ACCOUNT: most}

    @classmethod
    def recheck_of(cls, arguments: BlueskyArguments) -> str | None:
        return arguments.recheck

    @classmethod
    def looks_a_day_of(cls, arguments: BlueskyArguments) -> int | None:
        return arguments.looks_a_day

    @cached_property
    def account(self) -> SpiderAccount | None:
        """The account to sign in with. Raises UsageError when half a login is configured."""
        return account_of(self.config)

    @property
    def is_serving(self) -> bool:
        return not self.arguments.seeds and not self.only

    @property
    def keeping_all(self) -> list[str]:
        """Jobs of this run that also store posts of people who opt out."""
        return [job for job, (_, known) in self._arguments.items() if not cast(BlueskyArguments, known).honour_opt_outs]

    async def before(self) -> None:
        """Finds the server for requests. Raises UsageError when no seed names an account."""
        if self.arguments.via == "api":
            self.login_origin = await account_origin(self.crawler)
        elif self.account:
            self.logger.warning(
                "The login of HARVESTER_BLUESKY_IDENTIFIER is not used with via=browser: who signs in on a web page is "
                "told by the entry of its site, see docs/bluesky.md"
            )
        if self.arguments.seeds and (refusal := self.arguments.read_seeds().none_of_use()):
            raise UsageError(f"There is no seed to begin with: {refusal}\n{self.BEGIN}")

    @classmethod
    def first_items(cls, arguments: Any) -> Iterator[Found]:
        seeds = cast(BlueskyArguments, arguments).read_seeds()
        return (found_seed(seed) for seed in seeds if not isinstance(seed, BadSeed))

    def items_of_arguments(self) -> Iterator[Found]:
        for seed in self.arguments.read_seeds():
            if isinstance(seed, BadSeed):
                self.logger.warning("Line %d of the seeds, %r, is %s", seed.line, seed.text, seed.reason)
                self.crawler.stats.inc_value("harvester/seeds/rejected")
            else:
                yield found_seed(seed)

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        consent = self.crawler.get_item_pipeline(ConsentPipeline)
        left = [item for item in items if consent is None or consent.is_allowed(item.key)]
        for item in items:
            if item not in left:
                yield ItemResult(item.id, "skipped", PURGED, PURGED)
        if left:
            yield from self._requests_of(left)

    def _requests_of(self, items: Sequence[JobItem]) -> Iterable[Request | ItemResult]:
        asked_for = self.arguments_of(items[0])
        match items[0].kind, asked_for.via:
            case "author", _:
                return self.author_requests(items)
            case "known_account", "browser":
                return self.known_account_page_requests(asked_for, items)
            case "known_account", _:
                return self.known_account_requests(asked_for, items)
            case "known_thread", _:
                return self.known_thread_requests(asked_for, items)
            case "seed", "browser":
                return self.seed_page_requests(asked_for, items)
            case "seed", _:
                return self.seed_requests(asked_for, items)
            case "account", "browser":
                return self.account_page_requests(asked_for, items)
            case "account", _:
                return self.account_requests(asked_for, items)
        return [self.thread_request(asked_for, item) for item in items]

    def listings_of(self, item: Item) -> Iterable[Listing]:
        return listings_of(item, self.arguments_of(item))

    def profile_request(self, asked_for: BlueskyArguments, account: Account) -> Request:
        if asked_for.via == "browser":
            return self.profile_page_request(asked_for, account)
        return super().profile_request(asked_for, account)

    def list_requests(self, asked_for: BlueskyArguments, account: Account) -> Iterator[Request]:
        if asked_for.via == "browser":
            return self.list_page_requests(asked_for, account)
        return super().list_requests(asked_for, account)


def found_seed(seed: str) -> Found:
    """Returns the item of a seed: an account for a DID, or a seed for a handle, which must be resolved first."""
    return Found(ACCOUNT if seed.startswith("did:") else SEED, seed, depth=0)
