"""The scheduler of spiders whose requests wait in the shared frontier in Redis.

A request is leased, and acknowledged when all its results are safe: its callback has finished, the requests that it
yielded are in the frontier, its items are through the pipelines. scrapy-redis pops a request when it hands it out,
and loses it with the worker.
"""

import logging
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import Protocol, Self
from weakref import WeakKeyDictionary

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import load_object
from scrapy_redis.scheduler import Scheduler as ScrapyRedisScheduler
from scrapy_redis.spiders import RedisMixin
from twisted.internet.defer import Deferred

from harvester.breaker.alerts import BreakerAlerts
from harvester.breaker.breakers import Breakers
from harvester.browser.render_options import forget_answer
from harvester.config import Config, load_config
from harvester.exceptions import FAULT, LEFT, FrontierLost, HarvesterError, UsageError
from harvester.formatting import how_long
from harvester.frontier.attempts import attempts_of
from harvester.frontier.client import PER_SITE, FrontierClient
from harvester.frontier.codec import MOST_SHOWN, TooLargeError, UnserialisableRequestError, decode, encode
from harvester.frontier.confirmations import Confirmations
from harvester.frontier.feeder_client import Feeding
from harvester.frontier.fingerprints import of_attempts
from harvester.frontier.frontier_record import FrontierRecord
from harvester.frontier.held import HeldParts
from harvester.frontier.in_flight import InFlight, WatchedErrback, fresh
from harvester.frontier.keys import is_filtered
from harvester.frontier.messages import (
    AllParked,
    Dead,
    Done,
    EventAck,
    ItemRef,
    Operation,
    Push,
    Release,
    Requeue,
    Skip,
)
from harvester.frontier.owner import FrontierOwner
from harvester.frontier.saved_feeds import SavedFeeds
from harvester.frontier.store import Frontier
from harvester.frontier.watchdog import Watchdog
from harvester.frontier.workers import own_name
from harvester.internal_meta import ITEMS, ITEMS_OF, LEASE, NOT_BEFORE, PARKED, PART, PROBE, RETRY_REASON
from harvester.masking import mask
from harvester.meta import JOB
from harvester.outcomes import Outcome, Verdict, classify_exception, get_policy
from harvester.shutdown import CAUSE, EXIT_CODE, end, fault_of, is_ending
from harvester.sites import load_sites
from harvester.stores.redis import RedisOutage, connect

logger = logging.getLogger(__name__)

_NEEDED = {
    "SPIDER_MIDDLEWARES": "harvester.middlewares.lease.LeaseMiddleware",
    "DOWNLOADER_MIDDLEWARES": "harvester.middlewares.throttle.ThrottleMiddleware",
}
"""Setting -> one of harvester's components in it. Where it is missing, a project has replaced the whole setting. A
project that sets it to None switches it off on purpose."""


def lacks(settings: BaseSettings) -> str:
    """Returns a message if the scheduler is set without the components that it needs; else an empty string."""
    components = settings.get_component_priority_dict_with_base
    missing = [name for name, needed in _NEEDED.items() if needed not in components(name)]
    if missing:
        return (
            f"SCHEDULER is harvester's, but {' and '.join(missing)} are not: hosts would be asked without a limit, and"
            ' no request would be known to be done. Put `ADDONS = {"harvester.Addon": 500}` into settings.py, and'
            f" remove SCHEDULER and {' and '.join(f'{name}_BASE' for name in missing)} from it."
        )
    return ""


def check_frontier(crawler: Crawler) -> None:
    """Raises NotConfigured if the requests of the crawl are not in the frontier."""
    if not issubclass(load_object(crawler.settings["SCHEDULER"]), Scheduler):
        raise NotConfigured  # with a message Scrapy would log a warning


class LeaseListener(Protocol):
    """Receives the beginning and the end of each lease of a crawl."""

    def lease_began(self, request: Request, lease: InFlight) -> None:
        """Receives a request that a worker begins."""

    def lease_ended(self, lease: str, operation: Operation) -> Callable[[], None] | None:
        """Receives the id of a lease and the operation that ends it, before the frontier does.

        The result, if any, is called when the end is safe, if the outcome is ok.
        """


class Scheduler(ScrapyRedisScheduler):  # type: ignore[misc]
    """A scheduler with a leased queue and its own filter, in the place of scrapy-redis's."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        # Not super().__init__(), which connects with blocking calls to Redis.
        self._crawler = crawler
        self._config = config
        self.idle_seconds = config.idle_seconds or crawler.settings.getfloat("SCHEDULER_IDLE_BEFORE_CLOSE")
        """Seconds to wait for more work before closing. -1: for ever."""
        self.waits_for = "what others find"
        """Logged once, when the frontier is empty. Empty text: not logged."""
        self._leases: dict[str, InFlight] = {}
        """Leases by delivery: a worker that was silent may receive a request again that it still works on."""
        self._deliveries = count()
        self._prepared: WeakKeyDictionary[Request, Push] = WeakKeyDictionary()
        self._held: HeldParts | None = None
        self._saved: SavedFeeds | None = None
        self.listeners: list[LeaseListener] = []
        self.worker = own_name()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if fault := lacks(crawler.settings):
            print(fault, file=sys.stderr)  # Scrapy would only report that its engine has no slot
            sys.exit(UsageError.exit_code)
        return cls(crawler, load_config())

    # Scrapy's side ----------------------------------------------------------------------------------------

    def open(self, spider: Spider) -> "Deferred[None]":
        self.spider = spider
        return deferred_from_coro(self._open())

    async def _open(self) -> None:
        config = self._config
        assert self._crawler.request_fingerprinter
        self._fingerprint = self._crawler.request_fingerprinter.fingerprint
        self._redis = connect(config)
        self._held = HeldParts() if self._is_single else None
        is_fed = hasattr(self.spider, "requests_of")
        self.waits_for = "" if is_fed else self.waits_for
        self._record = None if is_fed else self._crawler.get_extension(FrontierRecord)
        self._holder = FrontierOwner(self._crawler, config, self.worker) if is_fed else None
        frontier = Frontier(
            self._redis,
            self.spider.name,
            config.database,
            lease_timeout_s=config.lease_seconds,
            max_deliveries=config.max_deliveries,
        )
        patiently = RedisOutage(self._crawler, config)
        self._client = FrontierClient(
            frontier,
            self.worker,
            patiently,
            self._crawler.stats,
            lease_seconds=config.lease_seconds,
            record=self._record,
            holder=self._holder,
            heals=is_fed,
            per_site=getattr(self.spider, "MOST_HELD", PER_SITE),
            on_change=self._call_engine,
            before_exchange=self._end_finished,
            on_breakers=lambda changes: self._notices.tell(changes),
        )
        self.feeding = Feeding(frontier, self._client, patiently, self._push)
        left, is_shared = await patiently(frontier.left) if self._is_single else (0, True)
        if self._is_single and not is_shared:
            saved = SavedFeeds(self._crawler, config, self.spider, self.lease_of, is_continued=bool(left))
            self._saved = saved if saved.is_on else None
        may_forget = not (left or is_shared or self._crawler.settings.getbool("SCHEDULER_PERSIST"))
        if may_forget and (forgotten := await patiently(frontier.forget_all)):
            logger.info(
                "The last crawl of %s was finished, so all is asked for anew; with -s SCHEDULER_PERSIST=True only what"
                " was not among the %s requests of earlier ones",
                self.spider.name,
                f"{forgotten:,}",
            )
        self._notices = BreakerAlerts(config, self.spider.name, lambda event: self._client.push(EventAck(event)))
        self._confirmations = Confirmations(self._crawler, self.lease_of)
        if self._saved:
            self.listeners.append(self._saved)
        self._client.start(self._on_silence)
        self._watchdog = Watchdog(config, self.spider.name, self.worker, self.lease_of)
        self._watchdog.start()

    @property
    def _is_single(self) -> bool:
        """True if a person started this crawl alone, without a feeder and without a pool of workers."""
        is_fed = hasattr(self.spider, "requests_of") or isinstance(self.spider, RedisMixin)
        return not is_fed and "HARVESTER_WORKER" not in self._crawler.settings

    def close(self, reason: str) -> "Deferred[None]":
        return deferred_from_coro(self._close())

    async def _close(self) -> None:
        self._watchdog.end()
        self._end_finished()
        stats = self._crawler.stats
        refused = stats.get_value("harvester/frontier/unserialisable")
        idle = not stats.get_value("harvester/frontier/leased")
        if stats.get_value("harvester/frontier/duplicates") and idle and not refused:
            logger.info(
                "Everything asked for was fetched before. To fetch it anew: harvester frontier forget %s --all --yes",
                self.spider.name,
            )
        if idle and not refused:
            logger.info("This worker found no work: nothing was asked for, or others have dealt with it")
        if self._client.shared or idle or self._crawler.settings.getbool("SCHEDULER_PERSIST"):
            self.spider.resumed = True  # type: ignore[attr-defined]  # so its counts cover a part of the crawl
        try:
            await self._notices.close()
            await self._client.close()
            dead = await self._client.dead()
            for outcome, number in dead.items():
                stats.set_value(f"harvester/frontier/dead/{outcome}", number)
            if self._record:
                stats.set_value("harvester/frontier/left", self._client.left)
            if self._saved:
                self._saved.is_over = not self._client.left and not dead
        except HarvesterError as error:
            self._on_silence(error)
        finally:
            await self._redis.aclose()
            for document in filter(None, (self._record, self._holder)):
                await document.close()

    def _on_silence(self, error: BaseException) -> None:
        """Ends the run when the frontier cannot be reached. Unsent ends stay leased until the timeout, then repeat."""
        if isinstance(error, FrontierLost):
            logger.error("%s", error)
            self._crawler.stats.set_value(CAUSE, str(error))
            self._crawler.signals.connect(self._tell_loss, signals.spider_closed)
            end(self._crawler, error.finish_reason, error.exit_code)
        elif isinstance(error, HarvesterError):
            logger.error("%s", error)
            end(self._crawler, error.finish_reason, error.exit_code, str(error))
        else:
            logger.error("The conversation with the frontier broke off", exc_info=error)
            end(self._crawler, "program_error", exit_code=FAULT, said=fault_of(error))

    def _tell_loss(self) -> None:
        """Reports the loss even if the run was ending for another reason."""
        self._crawler.stats.set_value("finish_reason", "frontier_lost")
        self._crawler.stats.set_value(EXIT_CODE, FrontierLost.exit_code)

    def enqueue_request(self, request: Request) -> bool:
        """Queues a request without waiting. False: it is refused."""
        lease = self._leases.get(request.meta.get(LEASE, ""))
        if lease is None or lease.moved:
            try:
                push = self._prepared.pop(request, None)
                self._client.push(push or self._push(request))
            except UnserialisableRequestError as error:
                self.note_refused(request, error)
                return False
        else:
            lease.moved = True
            # Under a name from an older registry it would not be parked, but be leased again at once.
            parked = request.meta.pop(PARKED, False) and lease.site == load_sites().of(request.url).name
            self._finish(Release(lease.id) if parked else self._successor(request, lease.id), lease.id)
        return True

    def next_request(self) -> Request | None:
        self._end_finished()
        while (leased := self._client.take()) is not None:
            try:
                request = decode(leased.payload, self.spider, self._held)
            except UnserialisableRequestError as error:
                self._finish(Dead(leased.id, Outcome.INVALID, str(error)), leased.id)
                continue
            items = tuple(ItemRef(*item) for item in request.meta.get(ITEMS, ()))
            lease = InFlight(leased.id, leased.site, items, str(request.meta.get(PART, "")))
            request.meta[LEASE] = delivery = f"{next(self._deliveries)}"
            if leased.probe:
                request.meta[PROBE] = leased.probe
            self._leases[delivery] = lease
            lease.request = request
            request.errback = WatchedErrback(lease, request.errback, self._prepare_follow_up)
            for listener in self.listeners:
                listener.lease_began(request, lease)
            return request
        return None

    def _finish(self, operation: Operation, lease: str, afterwards: Callable[[], None] | None = None) -> None:
        """Ends a lease. `afterwards` is called when the end is safe, if the outcome is ok."""
        calls = [afterwards, *(each.lease_ended(lease, operation) for each in self.listeners)]
        known = [call for call in calls if call]

        def confirmed() -> None:
            for call in known:
                call()

        self._client.finish(operation, lease, confirmed if known else None)

    def has_pending_requests(self) -> bool:
        self._end_finished()
        if not self._client.is_done():
            if all_parked := self._client.all_parked():
                self._end_if_all_parked(all_parked)
            return True
        assert self._client.empty_since is not None
        waits = self.idle_seconds < 0 or monotonic() - self._client.empty_since < self.idle_seconds
        if waits and self.waits_for:
            logger.info("Nothing to do now: waiting for %s, %s", self.waits_for, how_long(self.idle_seconds))
            self.waits_for = ""
        return waits

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def breakers(self) -> Breakers:
        """The breakers that are not closed, as this worker knows them."""
        return self._client.breakers

    # For callbacks and middlewares ------------------------------------------------------------------------

    def lease_of(self, request: Request | None) -> InFlight | None:
        """Returns the lease of a request in progress."""
        return self._leases.get(request.meta.get(LEASE, "")) if request else None

    async def room(self) -> None:
        """Returns when the frontier keeps up with the yielded requests."""
        await self._client.room()

    def prepare(self, request: Request, lease: InFlight | None = None, *, rooted: bool = False) -> None:
        """Encodes a request that a callback yields, with its page's lease; `rooted`: a start request.

        Raises UnserialisableRequestError, and ValueError when the request names items that its page does not belong
        to.
        """
        self._prepared[request] = self._push(request, lease.items if lease else (), rooted=rooted)

    def _prepare_follow_up(self, request: Request, lease: InFlight) -> None:
        """Encodes a request that an errback yields."""
        with suppress(UnserialisableRequestError):  # refused, and counted, when it is queued
            self.prepare(request, lease)

    def _push(self, request: Request, items: tuple[ItemRef, ...] = (), *, rooted: bool = True) -> Push:
        """Returns the push of a new request, which inherits the page's items."""
        fresh(request)
        if rooted and self._saved:
            self._saved.name_start(request, self._number(request))
        names = request.meta.pop(ITEMS_OF, None)
        if names is not None:
            if not {item.id for item in items}.issuperset(names):
                raise ValueError(f"<{request.url}> cannot belong to {names}: what led to it does not")
            items = tuple(item for item in items if item.id in names)
        if items:
            request.meta.update({ITEMS: [list(item) for item in items], JOB: items[0].job})
        return Push(
            self._number(request),
            self._encode(request),
            secrets.token_hex(8),
            request.url,
            request.priority,
            str(request.meta.get(JOB, "")),
            load_sites().of(request.url).name,
            not request.dont_filter,
            rooted=rooted,
            items=items,
        )

    def note_refused(self, request: Request, error: UnserialisableRequestError) -> None:
        """Counts a request that cannot be queued; the log names the first."""
        name = "too_large" if isinstance(error, TooLargeError) else "unserialisable"
        self._note_first(f"harvester/frontier/{name}", f"{mask(request.url, MOST_SHOWN)} is not asked for: {error}.")

    def _note_first(self, stat: str, said: str) -> None:
        stats = self._crawler.stats
        stats.inc_value(stat)
        if stats.get_value(stat) == 1:
            logger.warning("%s Its like are only counted", said)

    def _encode(self, request: Request) -> bytes:
        config = self._config
        most_url, most_bytes = config.max_url_bytes, config.max_request_kb * 1024
        try:
            return encode(request, self.spider, most_url=most_url, most_bytes=most_bytes)
        except UnserialisableRequestError as error:
            if self._held is None or isinstance(error, TooLargeError):
                raise
            encoded = encode(request, self.spider, most_url=most_url, most_bytes=most_bytes, held=self._held)
            self._note_first("harvester/frontier/held", f"Not kept if this process dies: {error}.")
            return encoded

    def _successor(self, request: Request, lease: str) -> Requeue | Dead:
        """Returns the operation that continues the lease as another request: a retry has a reason in its meta.

        A redirect is filtered if the first request was. Middlewares set dont_filter when they send a filtered request
        again; a later redirect must not inherit it.
        """
        if isinstance(request.errback, WatchedErrback):
            request.errback = request.errback.errback
        forget_answer(request)
        meta = request.meta
        meta.pop(LEASE)
        meta.pop(PROBE, None)
        not_before = meta.pop(NOT_BEFORE, 0.0)
        filtered = is_filtered(lease)
        target = self._number(request) if filtered and RETRY_REASON not in meta and not request.dont_filter else None
        request.dont_filter = not filtered
        came_from = meta.get("redirect_urls") or [""]
        outcome, reason, attempt = meta.pop(
            RETRY_REASON, ("redirected", came_from[-1] and f"by {mask(came_from[-1], MOST_SHOWN)}", False)
        )
        try:
            payload = self._encode(request)
        except UnserialisableRequestError as error:
            return Dead(lease, Outcome.INVALID, f"{error}; it was to be asked for again ({outcome}: {reason})")
        return Requeue(
            lease,
            payload,
            request.url,
            load_sites().of(request.url).name,
            request.priority,
            outcome,
            reason,
            not_before,
            attempt,
            target,
        )

    def _end_if_all_parked(self, all_parked: AllParked) -> None:
        """Ends the run when only parked requests are left, for long enough."""
        most_s = self._config.parked_seconds
        if self.idle_seconds < 0 or most_s < 0:
            return
        if all_parked.alone_s >= most_s:
            said = ", ".join(f"{each.parked:,} of {each.site} ({each.state})" for each in all_parked.sites)
            others = all_parked.parked - sum(each.parked for each in all_parked.sites)
            said += f", {others:,} of others" if others else ""
            said = f"Nothing is left but parked requests: {said}. The same command continues the crawl."
            logger.error("%s", said)
            end(self._crawler, "parked", exit_code=LEFT, said=said)

    def _number(self, request: Request) -> int:
        number = int.from_bytes(self._fingerprint(request)[:8], "big", signed=True)
        items = request.meta.get(ITEMS)
        return of_attempts(number, items) if items else number

    def begin_download(self, request: Request) -> InFlight | None:
        """Returns the lease of a request that the engine hands to the downloader for this scheduler.

        Returns None for a download that a callback or a pipeline makes itself.
        """
        lease = self.lease_of(request)
        if lease is None or lease.is_sent or lease.request is not request:
            return None
        lease.is_sent = True
        return lease

    def continued(self, result: Request, request: Request, lease: InFlight) -> Request:
        """Returns a request that replaces the response, such as a redirect, with the lease of the request."""
        result = result.copy() if result is request else result
        if result.meta.get("retry_times", 0) > request.meta.get("retry_times", 0):  # by get_retry_request
            result.meta.setdefault(RETRY_REASON, ("retried", "a middleware of the project asks for it again", True))
        for name in (LEASE, ITEMS, JOB):  # a middleware's own request lacks them
            if name in request.meta:
                result.meta[name] = request.meta[name]
        lease.leads_to = result.url
        return result

    def _end_finished(self) -> None:
        """Ends the leases of requests that the engine has finished: no signal reports it."""
        engine = self._crawler.engine
        in_progress = engine._slot.inprogress if engine and engine._slot else ()
        for delivery in [each for each, lease in self._leases.items() if lease.request not in in_progress]:
            self._end_lease(self._leases.pop(delivery))

    def _end_lease(self, lease: InFlight) -> None:
        request = lease.request
        if lease.moved or request is None:
            return
        if lease.leads_to:
            said = f"it leads to {mask(lease.leads_to, MOST_SHOWN)}, which is off the spider's domains, or refused"
            lease.verdict = Verdict(Outcome.POLICY_DENIED, said)
        fate = lease.fate()
        if lease.records.unsettled and isinstance(fate, (Done, Skip)):
            fate = self._not_stored(request, lease, again=isinstance(fate, Done))
        if lease.records.unsettled and isinstance(fate, Release):
            self._crawler.stats.inc_value("harvester/frontier/put_back")
        self._tell_breakers(request, fate)
        self._finish(fate, lease.id, lease.afterwards)

    def _not_stored(self, request: Request, lease: InFlight, *, again: bool) -> Operation:
        """Returns the operation for a page with unconfirmed records, which is never Done."""
        if is_ending(self._crawler):
            return Release(lease.id)
        error = lease.not_stored()
        follows = attempts_of(self._crawler).not_stored(request, error) if again else classify_exception(error)
        if isinstance(follows, Verdict):
            return Dead(lease.id, follows.outcome, follows.told())
        return self._successor(follows, lease.id)

    def _tell_breakers(self, request: Request, fate: Operation) -> None:
        if isinstance(fate, (Done, Dead)) and get_policy(fate.outcome).page_came:
            probe = request.meta.get(PROBE, 0)
            self._client.breakers.add_page(load_sites().of(request.url), fate.outcome, probe)

    def _call_engine(self) -> None:
        """Makes the engine look for work, which it otherwise does only every five seconds."""
        engine = self._crawler.engine
        if engine is not None and engine._slot is not None and engine._slot.closing is None:
            engine._slot.nextcall.schedule()
