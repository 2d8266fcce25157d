"""Scrapy's settings. Each value that is not Scrapy's default says why on its line."""

import logging
import sys

from harvester.worker import interrupts

if sys.argv[1:2] in (["crawl"], ["import"]):  # other commands, like `scrapy shell`, have their own way with Ctrl-C
    interrupts.end_on_signals()  # before the long imports: Scrapy reads this module first

from harvester.config import load_config
from harvester.exceptions import UsageError

try:
    _config = load_config()
except UsageError as error:  # Scrapy would show a traceback of this module
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)

BOT_NAME = "harvester"
SPIDER_MODULES = ["harvester.spiders"]
NEWSPIDER_MODULE = "harvester.spiders"
COMMANDS_MODULE = "harvester.commands"  # `scrapy crawl` whose exit code means something

# Manners
USER_AGENT = _config.user_agent  # names us and a contact
ROBOTSTXT_OBEY = True  # default False
ROBOTSTXT_USER_AGENT = "harvester"  # the product token of the User-Agent
DOWNLOAD_DELAY = 0  # ThrottleMiddleware spaces requests, and can hold back what Scrapy has queued
CONCURRENT_REQUESTS = 256  # default 16; requests that wait for the turn of their host count too
CONCURRENT_REQUESTS_PER_DOMAIN = 64  # default 8; ThrottleMiddleware bounds it by the configuration
DOWNLOAD_TIMEOUT = 60  # default 180
DOWNLOAD_MAXSIZE = _config.max_response_mb * 1024 * 1024  # default 1 GiB
DOWNLOAD_WARNSIZE = 0  # default 32 MiB; the bound above is an error already

SCHEDULER = "harvester.frontier.scheduler.Scheduler"  # default keeps requests in this process's memory
DUPEFILTER_CLASS = "scrapy.dupefilters.BaseDupeFilter"  # default remembers every request; frontier and ledger do

# Safety
REMOTE_CONTROL_ENABLED = False  # default True: code execution on a loopback port
TELNETCONSOLE_ENABLED = False  # default True
COOKIES_ENABLED = False  # APIs need none; also keeps tldextract from fetching its list
REFERRER_POLICY = "no-referrer"  # default sends one; the address of an API call is nobody's referrer
REDIRECT_MAX_TIMES = 5  # default 20

# Speed: see docs/performance.md
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
ASYNCIO_EVENT_LOOP = None if sys.platform == "win32" else "uvloop.Loop"  # default None: slower
_HANDLER = "harvester.download.handler.DispatchingHandler"
DOWNLOAD_HANDLERS = {
    "http": _HANDLER,  # default: Twisted's, at about twice the CPU of aiohttp's
    "https": _HANDLER,
    **dict.fromkeys(("data", "file", "ftp", "s3")),  # default: read, for whatever page leads to them
}
HTTPX_HTTP2_ENABLED = True  # default False; the handler of sites that want HTTP/2
CONCURRENT_ITEMS = 2  # default 100: tasks started for every response; records travel in batches
WARN_ON_GENERATOR_RETURN_VALUE = False  # default True: reads a callback's source again for every answer
STATS_CLASS = "harvester.stats.Stats"  # default looks through the arguments of each call
STATS_DUMP = False  # default True; the summary says it in words
LOG_LEVEL = "INFO"  # default DEBUG
LOG_FORMATTER = "harvester.dashboard.logformatter.QuietLogFormatter"  # default logs every page and item

SPIDER_MIDDLEWARES_BASE = {
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,  # default 50
    "harvester.middlewares.httperror.HttpErrorMiddleware": 50,  # as Scrapy's; it knows the verdict
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,  # default 800; 25 at-uris are long
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,  # default 900; a chain of pages is not depth
}
SPIDER_MIDDLEWARES = {
    "harvester.middlewares.lease.LeaseMiddleware": 10,  # nearest the engine: what passes it has passed all others
    "harvester.middlewares.identities.ChainMiddleware": 900,
    "harvester.middlewares.tracing.TracingMiddleware": 940,  # only where HARVESTER_TRACES_URL is set
    "harvester.middlewares.batch.BatchMiddleware": 950,  # nearest the spider: the others see one item a page
}
DOWNLOADER_MIDDLEWARES = {
    "harvester.middlewares.cost.CostMiddleware": 85,  # the last on the way back: other middlewares read no whole page
    "harvester.middlewares.addresses.AddressMiddleware": 90,  # before robots.txt of the host is asked for
    "harvester.middlewares.purged.PurgedMiddleware": 91,
    "harvester.middlewares.local.LocalMiddleware": 93,  # while this machine has a fault, nothing else need see them
    "harvester.middlewares.breaker.BreakerMiddleware": 95,  # what is not to be sent need not go further
    "harvester.middlewares.robots.RobotsMiddleware": 100,
    "harvester.middlewares.usage.UsageMiddleware": 110,  # the other way: sees pages only, all else has failed before
    "harvester.middlewares.conditional.ConditionalMiddleware": 549,
    "harvester.middlewares.outcome.OutcomeMiddleware": 550,  # as Scrapy's RetryMiddleware, whose place it has
    "harvester.middlewares.browser.BrowserMiddleware": 565,  # on the way back, behind all that hold a place
    "harvester.middlewares.compression.CompressionMiddleware": 590,  # as Scrapy's, whose failures are told to nobody
    "harvester.middlewares.redirect.RedirectMiddleware": 600,  # the same
    "harvester.middlewares.identities.IdentitiesMiddleware": 700,  # sees the cookies of redirects; off without sites
    "harvester.middlewares.proxy.ProxyMiddleware": 740,  # off when no site has proxies
    "harvester.middlewares.throttle.ThrottleMiddleware": 900,  # nearest the network: nothing passes it by
    "harvester.middlewares.quota.QuotaMiddleware": 920,  # behind the throttle: what waits there takes nothing
    "harvester.middlewares.breaker.BreakerGate": 950,  # once more: a request may have waited long for its turn
    "harvester.middlewares.environment.EnvironmentMiddleware": 960,  # nobody else sees the secrets it puts into headers
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,  # default 100; RobotsMiddleware obeys better
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,  # default 550; OutcomeMiddleware retries
    "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": None,  # default 750; ProxyMiddleware does it
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,  # default 300
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,  # default 580; answers are no web pages
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,  # default 590
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,  # default 600
    "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware": 350,
}
ITEM_PIPELINES = {
    "harvester.pipelines.consent.ConsentPipeline": 50,
    "harvester.pipelines.clean.CleanPipeline": 100,
    "harvester.pipelines.validate.ValidatePipeline": 200,
    "harvester.pipelines.staging.StagingPipeline": 300,
    "harvester.pipelines.files.RecordFilesPipeline": 400,
    "harvester.pipelines.postgres.PostgresPipeline": 450,  # only where HARVESTER_POSTGRES_URI is set
    "harvester.pipelines.mongo.MongoPipeline": 500,
    "harvester.pipelines.items.ItemsPipeline": 1000,  # behind those of a project, which see items as they are
}
EXTENSIONS = {
    "harvester.frontier.record.FrontierRecord": 450,
    "harvester.spiders.stock.StockSpiders": 475,
    "harvester.monitors.extension.RunMonitoring": 500,  # Spidermon; judges when the engine has stopped
    "harvester.publish.extension.Publishing": 525,  # only where HARVESTER_PUBLISH_FILE is set
    "harvester.monitors.history.RunHistory": 550,  # after it: writes the verdict down
    "harvester.dashboard.live.LiveView": 600,
    "harvester.download.reachability.Reachability": 625,
    "harvester.worker.reporter.WorkerReporter": 650,  # only in processes of `harvester worker`
    "harvester.worker.metrics.WorkerMetrics": 675,  # only where HARVESTER_METRICS_PORT is set
    "scrapy.extensions.corestats.CoreStats": 0,
    "scrapy.extensions.logstats.LogStats": None,  # default 0; LiveView says more
    "scrapy.extensions.feedexport.FeedExporter": None,  # default 0; RecordFeeds knows what is in a batch
    "harvester.stores.feeds.RecordFeeds": 0,
}

_LEAST_LEVELS = {
    "scrapy.utils.log": logging.WARNING,  # versions, at every start
    "scrapy.addons": logging.WARNING,  # that there are none
    "scrapy.middleware": logging.WARNING,  # every component that is on
    "scrapy.crawler": logging.WARNING,  # every setting that differs
    "scrapy.core.downloader.handlers._base_streaming": logging.ERROR,  # that aiohttp's handler is experimental
}


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.levelno >= _LEAST_LEVELS[record.name]


for _name in _LEAST_LEVELS:
    logging.getLogger(_name).addFilter(_is_wanted)  # a filter, since Scrapy resets levels when it sets up logging
logging.getLogger("pymongo").setLevel(logging.INFO)  # at DEBUG it logs commands with their documents

# Feeds: -o FILE, -O FILE
FEED_EXPORT_ENCODING = "utf-8"  # default escapes all but ASCII
FEED_EXPORTERS = {
    "csv": "harvester.stores.exporters.CsvFeed",  # default has the columns of the first item only
    "json": "harvester.stores.exporters.JsonFeed",  # default fails for an item with bytes
    **dict.fromkeys(("jsonlines", "jsonl", "jl"), "harvester.stores.exporters.JsonLinesFeed"),
    "parquet": "harvester.stores.exporters.ParquetFeed",
    "xml": "harvester.stores.exporters.XmlFeed",  # default writes characters that no reader accepts
}

# Pictures and PDFs (pipelines/files.py)
IMAGES_STORE = _config.images_location
IMAGES_STORE_S3_ACL = "bucket-owner-full-control"  # default private: refused by buckets that have ACLs disabled
MEDIA_ALLOW_REDIRECTS = True  # default False; CDNs redirect

# Monitors (monitors/)
SCRAPYD_JOB = ""  # the crawl command sets it to the job's id at Scrapyd; RunHistory writes it down
SPIDERMON_ENABLED = True  # default False
