"""Harvests a slice of Bluesky: accounts around the seeds, who follows whom, posts, threads, lists."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Self

from pymongo.asynchronous.database import AsyncDatabase
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.browser.render_options import RENDER
from harvester.config import Config
from harvester.exceptions import HarvesterError, ParseError, UsageError
from harvester.frontier.changes import (
    CHANGES,
    Change,
    Ended,
    Found,
    SeedEnded,
)
from harvester.frontier.ledger import CrawlLedger
from harvester.items import Batch, Record
from harvester.middlewares.outcome import count
from harvester.middlewares.session import account_origin
from harvester.outcomes import POLICIES, Outcome, Verdict, verdict_of
from harvester.parsers.bluesky import answers as parse
from harvester.shutdown import RunEnding, end
from harvester.spiders.base import HarvesterSpider
from harvester.spiders.bluesky.accounts import Accounts
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.calls import Fail, Read, xrpc
from harvester.spiders.bluesky.chains import Chains
from harvester.spiders.bluesky.entries import parse_entry
from harvester.spiders.bluesky.serving import Serving
from harvester.spiders.bluesky.threads import Threads
from harvester.spiders.bluesky.web import WebAccounts, WebChains, of_page
from harvester.spiders.seeds import BadSeed
from harvester.stores.mongodb import MongoOutage, connect

PROFILES_A_CALL = 25
ACCOUNTS_AT_ONCE = 40
"""Accounts whose lists are read at the same time; each list is a chain of one request at a time."""
ACCOUNTS_A_CLAIM = 10
"""As many are claimed together, at least; also to ask MongoDB less often."""
PROFILES_AT_ONCE = 75
THREADS_AT_ONCE = 20
THREADS_A_CLAIM = 5
WAIT_S = 1.0
"""How often it is looked whether others left work, while nothing happens here."""
REFUSALS_IN_A_ROW = 5
"""Failures that speak of the whole service, after which the run ends and leaves it alone."""
REFUSALS = (Outcome.BLOCKED, Outcome.CHALLENGE, Outcome.RATE_LIMITED, Outcome.AUTH_REQUIRED, Outcome.POLICY_DENIED)
ABSENCES = (Outcome.TIMEOUT, Outcome.DNS, Outcome.NETWORK, Outcome.MAINTENANCE, Outcome.SERVER_ERROR)


class BlueskySpider(HarvesterSpider):
    """Harvests accounts of Bluesky (public.api.bsky.app or bsky.app, plc.directory, and the accounts' own servers).

    Caveats: the network's own counts exceed its lists, which leave out suspended accounts; likes come with
    history=records or car only. Arguments: see `harvester spiders show bluesky`.
    """

    name = "bluesky"
    custom_settings = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}  # noqa: RUF012  its queue is the ledger
    Arguments = BlueskyArguments
    SERVES_START_LIST = True
    arguments: BlueskyArguments

    def __init__(self, config: Config, arguments: BlueskyArguments, **kwargs: Any) -> None:
        super().__init__(config, arguments, **kwargs)
        self.arguments = arguments
        self.serving: Serving | None = None
        """Of a start list, when there are no seeds."""
        self.honouring: list[str] = []
        """Crawls of this run that leave out who does not want to be collected."""
        self.refusals = 0
        self.last_failure: Verdict | None = None
        self.answered = False
        self.finished = True
        """Whether nothing was left to do in any crawl that was left."""
        self.database: AsyncDatabase[dict[str, Any]]
        self.patiently: MongoOutage
        self.ledger: CrawlLedger

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.database, spider.patiently = connect(spider.config), MongoOutage(crawler, spider.config)
        if not spider.arguments.seeds:
            spider.serving = Serving(spider, spider.database, spider.patiently)
        spider.work_on(spider.arguments)
        crawler.signals.connect(spider.on_spider_error, signals.spider_error)
        crawler.signals.connect(spider.on_item_error, signals.item_error)
        crawler.signals.connect(spider.on_closed, signals.spider_closed)
        return spider

    @classmethod
    def check_start_entry(cls, entry: bytes) -> bool:
        return parse_entry(entry, cls.Arguments()) is not None

    # The crawl --------------------------------------------------------------------------------------------

    def work_on(self, arguments: BlueskyArguments) -> None:
        """From now on it is the crawl with these arguments."""
        self.arguments = arguments
        by_browser = arguments.via == "browser"
        self.service = arguments.web if by_browser else arguments.service
        """Who is asked: the AppView, with a login the account's own server, or the web client."""
        self.accounts = WebAccounts(self) if by_browser else Accounts(self)
        self.chains = WebChains(self) if by_browser else Chains(self)
        self.threads = Threads(self)
        self.ledger = self.ledger_of(arguments)

    def ledger_of(self, arguments: BlueskyArguments) -> CrawlLedger:
        return CrawlLedger(
            self.database,
            self.patiently,
            spider=self.name,
            scope=self.scope_of(arguments),
            arguments=arguments.model_dump(mode="json"),
            max_accounts=arguments.max_accounts,
            lease_seconds=self.config.lease_seconds,
            served=self.serving is not None,
        )

    async def start(self) -> AsyncIterator[Request]:
        """Hands out what the ledger says is to be done, until nothing is left."""
        try:
            async for request in self.serve(self.serving) if self.serving else self.harvest():
                yield request
        except HarvesterError as error:
            raise self.stop_for(error) from None
        except RunEnding:
            return  # the run is being ended, for the reason that it says

    async def harvest(self) -> AsyncIterator[Request]:
        """One crawl, from the seeds that were given."""
        if all(isinstance(seed, BadSeed) for seed in self.arguments.read_seeds()):
            raise UsageError("There is no seed to begin with. Give accounts: -a seeds=alice.bsky.social,did:plc:...")
        await self.open_crawl()
        await self.ledger.add_seeds(self.good_seeds())
        for seed in self.arguments.read_seeds():
            if isinstance(seed, BadSeed):
                self.logger.warning("Line %d of the seeds, %r, is %s", seed.line, seed.text, seed.reason)
                self.crawler.stats.inc_value("harvester/seeds/rejected")
                await self.ledger.reject_seed(seed.text, seed.reason)
        async for request in self.all_requests():
            yield request

    async def serve(self, serving: Serving) -> AsyncIterator[Request]:
        """One crawl after the other, from the seeds that come in the start list."""
        self.resumed = True  # its counts are those of parts
        await serving.open()
        while arguments := await serving.next_crawl():
            self.work_on(arguments)
            self.forget_counts()
            await self.open_crawl()
            async for request in self.all_requests():
                yield request
            await self.leave_crawl()

    async def all_requests(self) -> AsyncIterator[Request]:
        """Those of the crawl that is open, until nothing is left for any process."""
        while True:
            if self.serving:
                await self.serving.file_entries()
            busy, before = self.ledger.busy(), self.ledger.handed_out
            async for request in self.next_requests():
                yield request
            if self.ledger.handed_out == before:
                if busy or await self.ledger.is_left():  # others may leave work for this process, or die
                    await self.ledger.wait(WAIT_S)
                elif not await self.ledger.reopen_nearer() and not await self.ledger.is_left():
                    break
            await self.ledger.refresh()
            self.publish()
        if self.last_failure and not self.answered:
            raise self.leave_alone(self.last_failure)
        await self.ledger.skip_rest()

    async def open_crawl(self) -> None:
        if self.arguments.via == "api":
            self.service = await account_origin(self.crawler) or self.service
        elif self.config.bluesky_identifier:
            self.logger.warning(
                "The login of HARVESTER_BLUESKY_IDENTIFIER is not used with via=browser: who signs in on a web page is "
                "told by the entry of its site, see docs/bluesky.md"
            )
        await self.ledger.open()
        self.crawl_id = self.ledger.crawl
        if self.arguments.honour_opt_outs:
            self.honouring.append(self.crawl_id)
        self.resumed = self.resumed or self.ledger.resumed
        self.crawler.stats.set_value("harvester/crawl", self.crawl_id)
        last = "posts_collected" if "posts" in self.arguments.collect else "profile_collected"
        self.crawler.stats.set_value("harvester/last_stage", last)
        if self.ledger.resumed:
            runners = self.ledger.others()
            self.logger.info(
                "Continuing the crawl %s%s", self.crawl_id, f", together with {runners}" if runners else ""
            )

    def good_seeds(self) -> Iterator[str]:
        return (seed for seed in self.arguments.read_seeds() if isinstance(seed, str))

    async def next_requests(self) -> AsyncIterator[Request]:
        seeds = await self.ledger.next_seeds(min(PROFILES_A_CALL, PROFILES_AT_ONCE - self.ledger.seeds_in_flight()))
        dids = [seed for seed in seeds if seed.startswith("did:")]
        if dids:
            await self.ledger.confirm([SeedEnded(did, did) for did in dids])
        if handles := [seed for seed in seeds if not seed.startswith("did:")]:
            for request in self.accounts.begin_seeds(handles):
                yield request
        if self.ledger.lists_in_flight() <= ACCOUNTS_AT_ONCE - ACCOUNTS_A_CLAIM:
            for account in await self.ledger.next_open(ACCOUNTS_AT_ONCE - self.ledger.lists_in_flight()):
                for request in self.chains.begin(account):
                    yield request
        if self.ledger.profiles_in_flight() <= PROFILES_AT_ONCE - PROFILES_A_CALL:
            accounts = await self.ledger.next_accounts(PROFILES_A_CALL)
            purged = await self.ledger.purged(account.did for account in accounts) if accounts else set()
            if purged:
                await self.ledger.confirm([Ended(did, "skipped", "purged") for did in purged])
            if wanted := {account.did: account for account in accounts if account.did not in purged}:
                for request in self.accounts.begin(wanted):
                    yield request
        if self.ledger.threads_in_flight() <= THREADS_AT_ONCE - THREADS_A_CLAIM:
            for uri in await self.ledger.next_threads(THREADS_AT_ONCE - self.ledger.threads_in_flight()):
                yield self.threads.begin(uri)

    def publish(self) -> None:
        """The ledger's counts, for those who watch."""
        for room, counter in (("accounts", self.ledger.stages), ("threads", self.ledger.thread_stages)):
            for stage, number in counter.items():
                self.crawler.stats.set_value(f"harvester/{room}/{stage}", number)

    def forget_counts(self) -> None:
        """Those of the crawl before."""
        stats = self.crawler.stats.get_stats()
        for name in [name for name in stats if name.startswith(("harvester/accounts/", "harvester/threads/"))]:
            del stats[name]

    async def on_closed(self) -> None:
        """Counts what became of the accounts, and says whether the crawl is finished."""
        try:
            if self.ledger.crawl:
                await self.leave_crawl()
            if self.serving:
                await self.serving.close()
        except HarvesterError as error:
            self.logger.error("%s", error)  # noqa: TRY400  the next run continues from what was confirmed
            self.crawler.stats.set_value("harvester/exit_code", error.exit_code)

    async def leave_crawl(self) -> None:
        if self.ledger.left:
            return
        finished = await self.ledger.close()
        reasons = await self.ledger.reasons()
        self.resumed = self.resumed or self.ledger.shared  # so its counts are those of a part
        self.publish()
        for (room, stage, reason), number in reasons.items():
            self.crawler.stats.set_value(f"harvester/{room}/reasons/{stage}/{reason}", number)
        self.finished = self.finished and finished
        self.crawler.stats.set_value("harvester/crawl_finished", self.finished)

    # Asking -----------------------------------------------------------------------------------------------

    def ask(self, url: str, read: Read, fail: Fail, **meta: Any) -> Request:
        """A request whose answer goes to `read`, and whose failure goes to `fail`."""
        return Request(
            url,
            callback=self.on_answer,
            errback=self.on_failure,
            cb_kwargs={"read": read, "fail": fail},
            meta=meta,
            dont_filter=True,
        )

    def ask_service(self, call: str, parameters: Any, read: Read, fail: Fail) -> Request:
        """A call of the AppView."""
        return self.ask(xrpc(self.service, call, parameters), read, fail, authenticate=True)

    def on_answer(self, response: Response, read: Read, fail: Fail) -> Iterator[Any]:
        try:
            outputs = list(read(response))
        except ParseError as error:
            yield from self.on_misread(response, Verdict(Outcome.LAYOUT_CHANGED, str(error)), fail)
            return
        if response.url.startswith(self.service):
            self.refusals, self.answered = 0, True
        yield from outputs

    def on_misread(self, response: Response, verdict: Verdict, fail: Fail) -> Iterator[Any]:
        """Asks again for an answer that could not be read; a connection may have spoiled it."""
        request = response.request
        assert request
        count(self.crawler.stats, verdict, request.url)
        tries = request.meta.get("misread", 0) + 1
        if tries <= POLICIES[verdict.outcome].retries:
            yield request.replace(meta=request.meta | {"misread": tries})
        else:
            self.last_failure = verdict
            yield from fail(verdict)

    def on_failure(self, failure: Failure) -> Iterator[Any]:
        request: Request = failure.request  # type: ignore[attr-defined]
        if isinstance(failure.value, RunEnding):
            return
        assert failure.value
        verdict = verdict_of(failure.value)
        if request.meta.get(RENDER):
            verdict = of_page(verdict)
        if request.url.startswith(self.service):
            self.last_failure = verdict
            self.answered = self.answered or not POLICIES[verdict.outcome].error
            self.refusals += POLICIES[verdict.outcome].site
            if self.refusals >= REFUSALS_IN_A_ROW:
                raise self.leave_alone(verdict)
        # Spider middlewares do not see what an errback yields, so the batch is made here.
        outputs = list(request.cb_kwargs["fail"](verdict))
        changes = [output for output in outputs if isinstance(output, CHANGES)]
        records = [output for output in outputs if isinstance(output, Record)]
        if changes or records:
            yield Batch(records, changes)
        yield from (output for output in outputs if isinstance(output, Request))

    def leave_alone(self, verdict: Verdict) -> CloseSpider:
        """The end of a run whose service refuses, cannot be reached, or is none; the work stays queued."""
        by_browser = self.arguments.via == "browser"
        kind, argument = ("web client", "-a web=...") if by_browser else ("API", "-a service=...")
        if verdict.outcome in REFUSALS:
            reason, what = "blocked", "refuses to answer"
            advice = "Wait before you continue the crawl, and ask for less (HARVESTER_REQUESTS_PER_SECOND)."
        elif verdict.outcome in ABSENCES:
            reason, what = "unreachable", "no longer answers" if self.answered else "cannot be reached"
            advice = "Is this machine online? The same command continues."
            if not self.answered:
                advice = f"Is its address right ({argument}), and this machine online? The same command continues."
        else:
            reason, what = "unusable", f"does not answer as the Bluesky {kind} does"
            advice = f"Is it the address of {'a web client' if by_browser else 'an AppView'} ({argument})?"
        return self.stop(reason, f"{self.service} {what} ({verdict.reason}). {advice}", exit_code=7)

    def on_spider_error(self, failure: Failure, response: Response | Failure | None) -> None:
        """A fault of this program: the run ends, and what was not confirmed is fetched again by the next."""
        if response is not None:
            end(self.crawler, "program_error", exit_code=1)

    def on_item_error(self, item: Any, failure: Failure) -> None:
        """A pipeline could not keep a batch: without confirmation nothing of it counts as done."""
        error = failure.value
        if isinstance(error, HarvesterError):  # Scrapy logs what it says
            end(self.crawler, "storage_error", error.exit_code)
        else:
            end(self.crawler, "program_error", exit_code=1)

    def found(self, members: Iterable[parse.Member], depth: int) -> Iterator[Change]:
        """Accounts of a list, to be harvested too unless that is deep enough."""
        if depth < self.arguments.depth and not self.ledger.full():
            yield Found(tuple((member.did, member.handle) for member in members), depth + 1)
