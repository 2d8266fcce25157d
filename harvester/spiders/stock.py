"""Compatibility with spiders written for Scrapy or scrapy-redis: supported settings, and refusals with a remedy.

A table in docs/scrapy.md lists them all.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares import cookies
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy_redis.spiders import RedisMixin
from twisted.python.failure import Failure

from harvester.config import Config, load_config
from harvester.dashboard.progress import UNSTORED
from harvester.download.local_health import domains
from harvester.exceptions import FAULT, HarvesterError, UsageError
from harvester.frontier.codec import TooLargeError, UnserialisableRequestError
from harvester.frontier.scheduler import Scheduler, lacks
from harvester.frontier.start_list import Kind, StartList
from harvester.items import ITEM, Batch, Record, Reject
from harvester.items.receipts import SettlesRecords
from harvester.jobs.start_lists import LOOK_S, Serving
from harvester.pipelines.items import ItemsPipeline
from harvester.project import fault_of_import
from harvester.shutdown import RunEnding, end, fault_of, is_ending, pause
from harvester.spiders.base import HarvesterSpider
from harvester.stores import redis, servers
from harvester.stores.rejects import raw_of, rejects_of

logger = logging.getLogger(__name__)

_REFUSED = {
    "SCHEDULER_PERSIST": (
        False,
        "a worker that ends must not drop what others work at: remove it, and drop a frontier with"
        " `harvester frontier drop {spider}`",
    ),
    "SCHEDULER_FLUSH_ON_START": (
        True,
        "a worker that starts must not drop what others work at: remove it, and call"
        " `harvester frontier drop {spider}` before the first one",
    ),
}
"""Setting -> the refused value, and the reason."""
_COMPONENTS = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS")
"""Settings whose keys name components."""
_CONNECTION = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_PARAMS")
_QUEUES = ("scrapy_redis.queue.PriorityQueue", "scrapy_redis.queue.SpiderPriorityQueue")
_DUPEFILTERS = ("scrapy.dupefilters.BaseDupeFilter", "scrapy_redis.dupefilter.RFPDupeFilter")
_UNUSED = {
    "SCHEDULER_QUEUE_KEY": "each database has a frontier of its own (HARVESTER_DATABASE)",
    "SCHEDULER_DUPEFILTER_KEY": "each database has a frontier of its own (HARVESTER_DATABASE)",
    "SCHEDULER_SERIALIZER": "requests are written as MessagePack",
    "DOWNLOAD_FAIL_ON_DATALOSS": "an answer that is cut short is tried again",
}
"""Settings without effect, and the reason or replacement."""
_REPLACED = ("next_requests", "schedule_next_requests", "spider_idle", "pop_list_queue", "pop_priority_queue")
"""Methods of scrapy-redis's spiders that are never called: harvester claims the entries itself, and loses none."""
_TO_KEEP_COOKIES = (
    "set COOKIES_ENABLED = True, and each worker keeps a jar of its own; or let [<site>.identities] keep sessions for"
    " all workers (docs/sessions.md)"
)
_LIBRARIES = ("scrapy", "scrapy_redis", "harvester", "builtins")
"""Packages whose classes do not count as a spider's own code."""
_NOBODY = (
    "nothing stores it: harvester.pipelines.items.ItemsPipeline is off, and the project has neither pipelines of its"
    " own nor FEEDS (-o)"
)


# Before a crawl -------------------------------------------------------------------------------------------


def prepare(settings: BaseSettings, spider: type[Spider]) -> None:
    """Checks the settings for a spider. Raises UsageError with each fault and its remedy."""
    given = settings.copy()
    spider.update_settings(given)
    found = [f"{name}: {fault}" for name, fault in not_imported(given)]
    if found := found or list(faults(given, spider)):
        raise UsageError("\n".join(found))
    for name, instead in without_effect(given):
        logger.warning("%s is not used: %s", name, instead)


def faults(given: BaseSettings, spider: type[Spider]) -> Iterator[str]:
    """Yields faults, each with its remedy, in settings that include the spider's own.

    Assumes that each component in them can be imported.
    """
    yield from _faults(given, spider)
    yield from _faults_of_class(spider)


def not_imported(given: BaseSettings) -> Iterator[tuple[str, str]]:
    """Yields the settings that name a component that cannot be imported, with the fault."""
    for name in _COMPONENTS:
        for component, order in given.getdict(name).items():
            try:
                load_object(component)
            except Exception as error:  # noqa: BLE001  its module may raise anything
                if order is None and isinstance(error, (NameError, TypeError, ValueError)):
                    continue  # Scrapy skips it, too
                yield name, f"{component!r} cannot be imported: {fault_of_import(error)}"


def without_effect(given: BaseSettings) -> Iterator[tuple[str, str]]:
    """Yields the settings without effect, each with the reason or replacement."""
    for name, instead in _UNUSED.items():
        if given.getpriority(name):  # 0: Scrapy's default
            yield name, instead
    if given["DUPEFILTER_CLASS"] not in _DUPEFILTERS:
        yield "DUPEFILTER_CLASS", "the frontier knows what was asked for, in 9 bytes a request"


def connect(settings: BaseSettings, config: Config) -> None:
    """Sets the address of harvester's Redis for components of scrapy-redis."""
    settings.set("REDIS_URL", servers.redis_url(config))


def _faults(given: BaseSettings, spider: type[Spider]) -> Iterable[str]:
    if given["SCHEDULER"] == "scrapy_redis.scheduler.Scheduler":
        yield (
            "SCHEDULER = 'scrapy_redis.scheduler.Scheduler' loses the requests of a worker that dies:"
            " remove it, harvester.Addon names another."
        )
    elif issubclass(load_object(given["SCHEDULER"]), Scheduler) and (fault := lacks(given)):
        yield fault
    if given["STATS_CLASS"] == "scrapy_redis.stats.RedisStatsCollector":
        yield "STATS_CLASS = 'scrapy_redis.stats.RedisStatsCollector' fails: remove it; runs are kept in MongoDB."
    for name, (value, why) in _REFUSED.items():
        if name in given and given.getbool(name) is value:
            yield f"{name} = {value} is refused: {why.format(spider=spider.name)}."
    if places := [name for name in _CONNECTION if given.get(name)]:
        yield (
            f"{', '.join(places)} in settings are not read: remove them, and set REDIS_URL=redis://host:port/0 in the"
            " environment or in .env. Without it harvester starts a private Redis."
        )
    if (queue := given.get("SCHEDULER_QUEUE_CLASS")) and queue not in _QUEUES:
        yield (
            f"SCHEDULER_QUEUE_CLASS = {queue!r} is refused: remove it; requests go by priority, those of the same in"
            " the order in which they came. Give those that are to come first a higher one."
        )


def _faults_of_class(spider: type[Spider]) -> Iterable[str]:
    own = {name for kind in spider.__mro__ if kind.__module__.split(".")[0] not in _LIBRARIES for name in vars(kind)}
    if "start_requests" in own and "start" not in own:
        yield (
            f"{spider.__name__}.start_requests is called neither by Scrapy any more nor by harvester:"
            " make it `async def start(self)`, which yields the same requests."
        )
    if issubclass(spider, RedisMixin) and (replaced := own.intersection(_REPLACED)):
        yield (
            f"{spider.__name__} has its own {', '.join(sorted(replaced))}, which harvester does not call:"
            " it takes the entries itself. Let make_request_from_data make requests of an entry."
        )


# During a crawl -------------------------------------------------------------------------------------------


class StockSpiders:
    """Extension: counts items other than records, warns about unsent cookies, feeds scrapy-redis's spiders."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._feeding: StartEntries | None = None
        self._is_taken = False
        """True if a pipeline or feed of the project stores items other than records."""
        self._are_records_stored = self._are_items_stored = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        cookies._split_domain = domains  # Scrapy's own blocks the event loop for a download
        stock = cls(crawler)
        crawler.signals.connect(stock.spider_opened, signals.spider_opened)
        if not isinstance(crawler.spider, HarvesterSpider) and not crawler.settings.getbool("COOKIES_ENABLED"):
            crawler.signals.connect(stock.request_scheduled, signals.request_scheduled)
            crawler.signals.connect(stock.response_received, signals.response_received)
        return stock

    def spider_opened(self, spider: Spider) -> None:
        settings = self._crawler.settings
        own = [name for name, order in settings.getdict("ITEM_PIPELINES").items() if order is not None]
        own = [name for name in own if not str(name).startswith("harvester.")]
        self._is_taken = bool(own or settings.getdict("FEEDS"))
        self._are_records_stored = self._crawler.get_item_pipeline(SettlesRecords) is not None
        self._are_items_stored = self._are_records_stored and self._crawler.get_item_pipeline(ItemsPipeline) is not None
        if not self._are_items_stored:
            self._crawler.signals.connect(self.item_scraped, signals.item_scraped)
        assert self._crawler.engine
        scheduler = self._crawler.engine.scheduler
        if isinstance(spider, RedisMixin) and isinstance(scheduler, Scheduler):
            self._feeding = StartEntries(self._crawler, scheduler, spider)
            self._feeding.watch()

    def item_scraped(self, item: Any, response: Response | Failure | None) -> None:
        """Counts and rejects an item that has passed a project's pipelines and is not stored by harvester's."""
        stats = self._crawler.stats
        if isinstance(item, (Batch, Record)):
            if not self._are_records_stored:
                for record in item.records if isinstance(item, Batch) else [item]:
                    stats.inc_value(f"{UNSTORED}/{record.KIND}")
            return
        if item is None:
            return
        stats.inc_value(f"harvester/records/parsed/{ITEM}")
        if self._is_taken:
            stats.inc_value(f"{UNSTORED}/{ITEM}")
            return
        url = getattr(getattr(response, "request", None), "url", "")
        try:
            rejects_of(self._crawler).keep([Reject(ITEM, _NOBODY, "", raw_of(item), url)])
        except (HarvesterError, RunEnding):
            return  # the run ends for this error

    def request_scheduled(self, request: Request) -> None:
        if request.cookies:
            self._crawler.signals.disconnect(self.request_scheduled, signals.request_scheduled)
            logger.warning("%.200s has cookies, which are not sent: %s", request.url, _TO_KEEP_COOKIES)

    def response_received(self, response: Response) -> None:
        if "Set-Cookie" in response.headers:
            self._crawler.signals.disconnect(self.response_received, signals.response_received)
            logger.info("%.200s sets cookies, which are not kept. If it needs them: %s", response.url, _TO_KEEP_COOKIES)


class StartEntries:
    """Feeds a spider of scrapy-redis from its list, set or sorted set.

    An entry is confirmed when the requests made from it are in the frontier: so it outlives the worker that claimed it.
    """

    def __init__(self, crawler: Crawler, scheduler: Scheduler, spider: Any) -> None:
        self._crawler = crawler
        self._scheduler = scheduler
        self._spider = spider
        config = load_config()
        self._client = redis.connect(config)
        start_list = StartList(
            self._client,
            spider.name,
            config.database,
            lease_seconds=config.lease_seconds,
            name=spider.redis_key,
            kind=kind_of(crawler.settings),
        )
        patiently = redis.RedisOutage(crawler, config)
        self._serving = Serving(start_list, patiently, crawler.stats, self._read, self._add, spider.redis_batch_size)
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Claims entries once the engine runs, whenever the frontier has less than a batch ready."""
        signal_manager = self._crawler.signals
        signal_manager.disconnect(self._spider.spider_idle, signals.spider_idle)
        signal_manager.connect(self._start, signals.scheduler_empty)
        signal_manager.connect(self._on_idle, signals.spider_idle)
        signal_manager.connect(self._stop, signals.spider_closed)
        self._scheduler.waits_for = f"entries of the list {self._serving.name} in Redis"
        self._scheduler.idle_seconds = self._scheduler.idle_seconds or self._spider.max_idle_time or -1

    def _start(self) -> None:
        self._crawler.signals.disconnect(self._start, signals.scheduler_empty)
        self._task = asyncio.create_task(self._feed())

    async def _feed(self) -> None:
        try:
            while True:
                if self._scheduler.feeding.ready < self._spider.redis_batch_size:
                    await self._serving.file_entries()
                await pause(self._crawler, LOOK_S)
        except RunEnding:
            await self._serving.leave()
        except HarvesterError as error:
            logger.error("%s", error)  # noqa: TRY400
            end(self._crawler, error.finish_reason, error.exit_code, str(error))
        except Exception as error:  # else the spider waits for entries forever
            logger.exception("Entries are not taken any more")
            end(self._crawler, "program_error", exit_code=FAULT, said=fault_of(error))

    async def _stop(self) -> None:
        if self._task:
            await self._task
        await self._client.aclose()

    def _on_idle(self) -> None:
        if self._serving.is_busy:
            raise DontCloseSpider

    def _read(self, entry: bytes) -> tuple[str, list[Request]]:
        try:
            made = self._spider.make_request_from_data(entry)
            requests = [made] if isinstance(made, Request) else list(made or ())
            for request in requests:
                self._scheduler.prepare(request, rooted=True)
        except (TooLargeError, UnserialisableRequestError) as error:
            raise UsageError(str(error)) from None
        except Exception as error:  # noqa: BLE001  an error in the spider: the next entry may be fine
            raise UsageError(f"{type(error).__name__}: {error}") from None
        if not requests:
            raise UsageError("make_request_from_data made no request of it")
        return "", requests

    async def _add(self, _: str, requests: list[Request]) -> None:
        assert self._crawler.engine
        for request in requests:
            self._crawler.engine.crawl(request)
        await self._scheduler.feeding.heard()
        if is_ending(self._crawler):
            raise RunEnding("it is not known whether the frontier has heard of them")


def start_list_name(settings: BaseSettings, spider: type[Spider]) -> str:
    """Returns the name of the start list of a spider of scrapy-redis; empty for other spiders, and for the default
    name.
    """
    if not issubclass(spider, RedisMixin):
        return ""
    given = settings.copy()
    spider.update_settings(given)
    name: str = getattr(spider, "redis_key", None) or given.get("REDIS_START_URLS_KEY", "")
    return name % {"name": spider.name}


def kind_of(settings: BaseSettings) -> Kind:
    """Returns the Redis type of the start list of scrapy-redis's spiders."""
    if settings.getbool("REDIS_START_URLS_AS_SET"):
        return "set"
    return "zset" if settings.getbool("REDIS_START_URLS_AS_ZSET") else "list"
