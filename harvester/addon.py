"""The Scrapy add-on. One line adds harvester to a project: `ADDONS = {"harvester.Addon": 500}`.

It sets single values at Scrapy's priority for add-ons, so that the project, its spiders and `-s` win. It puts
components into the `_BASE` dictionaries, and Scrapy merges the project's own into them.
"""

import logging
import re
import sys
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import is_reactor_installed

from harvester.config import load_config
from harvester.platforms import added_platforms

_HANDLER = "harvester.download.handler.DispatchingHandler"

SETTINGS: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,  # default False
    "CONCURRENT_REQUESTS": 256,  # default 16; requests that wait for the slot of their host count too
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,  # default 8; ThrottleMiddleware limits it by the configuration
    "SCHEDULER": "harvester.frontier.scheduler.Scheduler",  # default keeps requests in this process's memory
    "DOWNLOADER": "harvester.frontier.downloader.LeaseDownloader",  # default knows no leases
    "ITEM_PROCESSOR": "harvester.frontier.confirmations.ConfirmedPipelines",  # default opens no receipts
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",  # default remembers every request, as the frontier does
    # Safety
    "REMOTE_CONTROL_ENABLED": False,  # default True: code execution on a loopback port
    "TELNETCONSOLE_ENABLED": False,  # default True
    # Speed: see docs/performance.md
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "ASYNCIO_EVENT_LOOP": None if sys.platform == "win32" else "uvloop.Loop",  # default None: slower
    "HTTPX_HTTP2_ENABLED": True,  # default False; the handler for sites with HTTP/2
    "STATS_CLASS": "harvester.stats.Stats",  # default: slower, it searches the arguments in each call
    "STATS_DUMP": False,  # default True; the summary shows them in words
    "LOG_LEVEL": "INFO",  # default DEBUG
    "LOG_FORMATTER": "harvester.dashboard.logformatter.QuietLogFormatter",  # default logs every page and item
    # Images and PDFs (pipelines/files.py)
    "IMAGES_STORE_S3_ACL": "bucket-owner-full-control",  # default private: refused by buckets with disabled ACLs
    "SCRAPYD_JOB": "",  # the crawl command sets it to Scrapyd's job id; RunHistory saves it
}
"""Values by setting. A value that differs from Scrapy's default has its reason."""

COMPONENTS: dict[str, dict[str, int | str | None]] = {
    "DOWNLOAD_HANDLERS": {
        "http": _HANDLER,  # default: Twisted's, at about twice the CPU of aiohttp's
        "https": _HANDLER,
        **dict.fromkeys(("file", "ftp", "s3")),  # default: enabled, for any page that links to them
    },
    "SPIDER_MIDDLEWARES": {
        "harvester.middlewares.httperror.HttpErrorMiddleware": 50,  # as Scrapy's; it knows the verdict
        "harvester.middlewares.lease.LeaseMiddleware": 10,  # nearest the engine: its output has passed all others
        "harvester.middlewares.identities.ChainMiddleware": 900,
        "harvester.middlewares.tracing.TracingMiddleware": 940,  # only if HARVESTER_TRACES_URL is set
        "harvester.middlewares.batch.BatchMiddleware": 950,  # nearest the spider: the others see one item a page
    },
    "DOWNLOADER_MIDDLEWARES": {
        "harvester.middlewares.cost.CostMiddleware": 85,  # the last on the way back: others do not parse whole pages
        "harvester.middlewares.addresses.AddressMiddleware": 90,  # before the host's robots.txt is fetched
        "harvester.middlewares.purged.PurgedMiddleware": 91,
        "harvester.middlewares.local.LocalMiddleware": 93,  # while this machine has a fault, the others see nothing
        "harvester.middlewares.breaker.BreakerMiddleware": 95,  # requests to a site with an open breaker end here
        "harvester.middlewares.robots.RobotsMiddleware": 100,
        "harvester.middlewares.usage.UsageMiddleware": 110,  # late on the way back: sees only pages, not failures
        "harvester.middlewares.conditional.ConditionalMiddleware": 549,
        "harvester.middlewares.outcome.OutcomeMiddleware": 550,
        "harvester.middlewares.browser.BrowserMiddleware": 565,  # on the way back, behind all that hold resources
        "harvester.middlewares.redirect.MetaRefreshMiddleware": 580,
        "harvester.middlewares.compression.CompressionMiddleware": 590,
        "harvester.middlewares.redirect.RedirectMiddleware": 600,
        "harvester.middlewares.identities.IdentitiesMiddleware": 700,  # sees cookies of redirects; off without sites
        "harvester.middlewares.proxy.ProxyMiddleware": 740,
        "harvester.middlewares.throttle.ThrottleMiddleware": 900,  # nearest the network: no request bypasses it
        "harvester.middlewares.quota.QuotaMiddleware": 920,  # behind the throttle: waiting requests are not counted
        "harvester.middlewares.breaker.BreakerGate": 950,  # second check: a request may have waited long for its slot
        "harvester.middlewares.environment.EnvironmentMiddleware": 960,  # no other component sees its secrets
    },
    "ITEM_PIPELINES": {
        "harvester.pipelines.consent.ConsentPipeline": 50,
        "harvester.pipelines.clean.CleanPipeline": 100,
        "harvester.pipelines.validate.ValidatePipeline": 200,
        "harvester.pipelines.staging.StagingPipeline": 300,
        "harvester.pipelines.files.RecordFilesPipeline": 400,
        "harvester.pipelines.postgres.PostgresPipeline": 450,  # only if HARVESTER_POSTGRES_URI is set
        "harvester.pipelines.mongo.MongoPipeline": 500,
        "harvester.pipelines.items.ItemsPipeline": 1000,  # last, so that a project's pipelines see plain items
    },
    "EXTENSIONS": {
        "harvester.frontier.frontier_record.FrontierRecord": 450,
        "harvester.spiders.stock.StockSpiders": 475,
        "harvester.monitors.extension.RunMonitoring": 500,  # judges when the engine has stopped
        "harvester.publish.extension.Publishing": 525,  # only if HARVESTER_PUBLISH_FILE is set
        "harvester.monitors.history.RunHistory": 550,  # after it: saves the verdict
        "harvester.dashboard.live.LiveView": 600,
        "harvester.download.reachability.Reachability": 625,
        "harvester.worker.reporter.WorkerReporter": 650,  # only in processes of `harvester worker`
        "harvester.worker.metrics.WorkerMetrics": 675,  # only if HARVESTER_METRICS_PORT is set
        "harvester.stores.feeds.RecordFeeds": 0,
    },
    "FEED_EXPORTERS": {
        "csv": "harvester.stores.exporters.CsvFeed",  # default has the columns of the first item only
        "json": "harvester.stores.exporters.JsonFeed",  # default fails for an item with bytes
        **dict.fromkeys(("jsonlines", "jsonl", "jl"), "harvester.stores.exporters.JsonLinesFeed"),
        "parquet": "harvester.stores.exporters.ParquetFeed",
        "xml": "harvester.stores.exporters.XmlFeed",  # default writes characters that no reader accepts
    },
}
"""Harvester's components by setting, which are added to its `_BASE`."""

REPLACED = {
    "SPIDER_MIDDLEWARES": {
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": "harvester.middlewares.httperror.HttpErrorMiddleware",
    },
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": "harvester.middlewares.robots.RobotsMiddleware",
        "scrapy.downloadermiddlewares.retry.RetryMiddleware": "harvester.middlewares.outcome.OutcomeMiddleware",
        "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": (
            "harvester.middlewares.redirect.MetaRefreshMiddleware"
        ),
        "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": (
            "harvester.middlewares.compression.CompressionMiddleware"
        ),
        "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": "harvester.middlewares.redirect.RedirectMiddleware",
        "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": "harvester.middlewares.proxy.ProxyMiddleware",
    },
    "EXTENSIONS": {
        "scrapy.extensions.feedexport.FeedExporter": "harvester.stores.feeds.RecordFeeds",  # it unpacks batches
        "scrapy.extensions.logstats.LogStats": "harvester.dashboard.live.LiveView",  # it shows more
        "spidermon.contrib.scrapy.extensions.Spidermon": "harvester.monitors.extension.RunMonitoring",
    },
}
"""Replaced components of Scrapy by setting, with harvester's component for each."""
MAY_BE_OFF = (
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware",
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware",
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware",
)
"""Components of Scrapy whose replacement is off where a project sets them to None."""
WRAPPED = {
    "DOWNLOADER": "harvester.frontier.downloader.with_leases",
    "ITEM_PROCESSOR": "harvester.frontier.confirmations.with_receipts",
}
"""Settings with one class, and the function that derives a class of the project's for harvester."""
_PRIORITY = "addon"
_ABOVE_ALL = SETTINGS_PRIORITIES["cmdline"] + 1
_LEAST_LEVELS = {
    "scrapy.utils.log": logging.WARNING,  # it lists versions at every start
    "scrapy.addons": logging.WARNING,  # it lists the add-ons
    "scrapy.middleware": logging.WARNING,  # it lists every component
    "scrapy.crawler": logging.WARNING,  # it lists every setting that differs
    "scrapy.core.downloader.handlers._base_streaming": logging.ERROR,  # it calls aiohttp's handler experimental
}
_PRODUCT = re.compile(r"[A-Za-z_-]+")
"""Matches the product token of a User-Agent. A robots.txt names crawlers by it (RFC 9309)."""


class Addon:
    """A Scrapy add-on. Raises UsageError when harvester's configuration cannot be read."""

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Sets values that commands read before a crawler exists."""
        config = load_config()
        values = SETTINGS | {
            "USER_AGENT": config.user_agent,  # names us and a contact
            "DOWNLOAD_MAXSIZE": config.max_response_mb * 1024 * 1024,  # default 1 GiB
            "IMAGES_STORE": config.images_location,
        }
        for name, value in values.items():
            settings.set(name, value, _PRIORITY)
        for name, components in COMPONENTS.items():
            of_scrapy: dict[str, None] = dict.fromkeys(REPLACED.get(name, {}))
            settings.set(f"{name}_BASE", {**settings[f"{name}_BASE"], **of_scrapy, **components}, _PRIORITY)
        if modules := {each.module for each in added_platforms().values()} - {*settings.getlist("SPIDER_MODULES")}:
            found = [*settings.getlist("SPIDER_MODULES"), *sorted(modules)]
            settings.set("SPIDER_MODULES", found, settings.getpriority("SPIDER_MODULES") or _PRIORITY)
        _quieten(settings["LOG_LEVEL"] == "DEBUG")

    def update_settings(self, settings: BaseSettings) -> None:
        """Sets the remaining values, after the spider's custom_settings."""
        self.update_pre_crawler_settings(settings)
        if is_reactor_installed():  # by a script, which chose the event loop; Scrapy refuses another one
            settings.set("ASYNCIO_EVENT_LOOP", None, _PRIORITY)
        if not settings["SPIDER_MIDDLEWARES_BASE"]:  # a project or spider without Scrapy's components
            settings.set("SPIDER_MIDDLEWARES_BASE", COMPONENTS["SPIDER_MIDDLEWARES"], _ABOVE_ALL)
        for name, replaced in REPLACED.items():
            _put_in_place(settings, name, replaced)
        for name, derive in WRAPPED.items():
            if settings[name] != SETTINGS[name]:
                settings.set(name, load_object(derive)(load_object(settings[name])), _ABOVE_ALL)
        agent = settings["USER_AGENT"]
        product = _PRODUCT.match(agent) if agent != load_config().user_agent else None
        settings.set("ROBOTSTXT_USER_AGENT", product[0] if product else "harvester", _PRIORITY)


def is_brought_into(settings: BaseSettings) -> bool:
    """Returns True if a project has the add-on."""
    return any(load_object(addon) is Addon for addon, order in settings.getdict("ADDONS").items() if order is not None)


def _put_in_place(settings: BaseSettings, name: str, replaced: dict[str, str]) -> None:
    """Removes the Scrapy components that harvester replaces from a project's own dictionary.

    A replacement is off if the project switched off the replaced component, where that is allowed.
    """
    given = settings.getdict(name)
    own = {_loaded(component): component for component in given}
    for path, by in replaced.items():
        if path.rpartition(".")[0] not in sys.modules:  # then no component of the project is of it
            continue
        if (component := own.get(load_object(path))) is None:
            continue
        order = given.pop(component)
        if order is None and path in MAY_BE_OFF:
            given.setdefault(by, None)
    settings.set(name, given, settings.getpriority(name) or 0)


def _loaded(component: Any) -> Any:
    """Returns the object at a path, or like Scrapy the path itself if its module does not contain the object."""
    try:
        return load_object(component)
    except (NameError, TypeError, ValueError):
        return component


def _quieten(says_all: bool) -> None:
    """Hides Scrapy's log lines of every start, unless `says_all`."""
    for name in _LEAST_LEVELS:
        logger = logging.getLogger(name)
        (logger.removeFilter if says_all else logger.addFilter)(_is_wanted)  # Scrapy resets their levels
    logging.getLogger("pymongo").setLevel(logging.INFO)  # at DEBUG it logs commands with their documents


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.levelno >= _LEAST_LEVELS[record.name]
