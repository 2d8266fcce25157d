"""Settings for Scrapy's developer tools, which store nothing: no frontier, no MongoDB, no run, no report."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest, UsageError
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings

from harvester.addon import Addon
from harvester.config import load_config
from harvester.exceptions import HarvesterError
from harvester.items.adapter import register
from harvester.items.base import Record
from harvester.project import loader_of

logger = logging.getLogger(__name__)

_ALONE = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
    "ITEM_PIPELINES_BASE": {},
    "EXTENSIONS_BASE": {
        **default_settings.EXTENSIONS_BASE,
        "scrapy.extensions.feedexport.FeedExporter": None,
        "harvester.stores.feeds.RecordFeeds": 0,
        "scrapy.extensions.logstats.LogStats": None,
    },
    "SPIDER_MIDDLEWARES_BASE": default_settings.SPIDER_MIDDLEWARES_BASE,
    "DOWNLOADER_MIDDLEWARES_BASE": {
        **default_settings.DOWNLOADER_MIDDLEWARES_BASE,
        "harvester.commands.standalone.RefusalMiddleware": 80,
        "harvester.middlewares.addresses.AddressMiddleware": 90,
    },
    "RETRY_ENABLED": False,  # Scrapy's own retries at once and ignores Retry-After
    "DOWNLOAD_DELAY_JITTER": 0.0,
}


class RefusalMiddleware:
    """Downloader middleware that logs refused requests with the reason.

    In a crawl the outcome records it. Scrapy itself logs nothing.
    """

    def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(exception, IgnoreRequest):
            logger.error("%s is not asked for: %s", request.url, exception)


def know_formats(settings: BaseSettings) -> None:
    """Registers harvester's feed formats, so that `-o` is checked against them too."""
    try:
        Addon.update_pre_crawler_settings(settings)
    except HarvesterError as error:
        raise UsageError(str(error), print_help=False) from None


def be_alone(settings: BaseSettings, **more: Any) -> None:
    """Applies the settings of a tool that stores nothing, and `more`. Settings given with `-s` stay.

    Scrapy's own delay keeps the configured rate, because ThrottleMiddleware shares its permits through Redis.
    """
    register()
    try:
        loader_of(settings)
    except HarvesterError as error:
        raise UsageError(str(error), print_help=False) from None
    config = load_config()
    delay_s = 1 / config.requests_per_second if config.requests_per_second else 0
    at_once = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
    manners = {
        "DOWNLOAD_DELAY": max(delay_s, settings.getfloat("DOWNLOAD_DELAY")),
        "CONCURRENT_REQUESTS_PER_DOMAIN": min(at_once, config.concurrent_per_host),
    }
    for name, value in (_ALONE | manners | more).items():
        if (settings.getpriority(name) or 0) < SETTINGS_PRIORITIES["cmdline"]:
            settings.set(name, value, priority="cmdline")


def shown(outputs: Iterable[Any]) -> Iterator[Any]:
    """Yields the outputs of a callback one by one, in a form that Scrapy can show: other objects become dicts."""
    for each in outputs:
        if isinstance(each, list):
            yield from shown(each)
        elif isinstance(each, (Record, Request)) or not hasattr(each, "_asdict"):
            yield each
        else:
            yield {type(each).__name__: each._asdict()}
