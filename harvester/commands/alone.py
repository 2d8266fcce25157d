"""Scrapy's developer tools look at pages and leave nothing behind: no frontier, no MongoDB, no run, no report."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from scrapy import Request
from scrapy.exceptions import IgnoreRequest, UsageError
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings

from harvester.config import load_config
from harvester.exceptions import HarvesterError
from harvester.items.adapter import register
from harvester.items.base import Record
from harvester.project import loader_of

logger = logging.getLogger(__name__)

_ALONE = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
    "RETRY_ENABLED": False,  # Scrapy's own asks again at once, whatever Retry-After says
    "DOWNLOAD_DELAY_JITTER": 0.0,
}
_BEHIND_OTHERS = 10_000
"""Priority of an add-on that is to see what the others have set."""


class RefusalMiddleware:
    """Downloader middleware: says what is not asked for, and why. In a crawl the outcome does; Scrapy says nothing."""

    def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(exception, IgnoreRequest):
            logger.error("%s is not asked for: %s", request.url, exception)


class Alone:
    """Add-on: leaves Scrapy's components and the project's own, also those that a spider names in custom_settings."""

    BASE: ClassVar[dict[str, dict[str, int | None]]] = {
        "ITEM_PIPELINES": {},
        "SPIDER_MIDDLEWARES": {},
        "DOWNLOADER_MIDDLEWARES": {
            "harvester.commands.alone.RefusalMiddleware": 80,
            "harvester.middlewares.addresses.AddressMiddleware": 90,
        },
        "EXTENSIONS": {
            "scrapy.extensions.feedexport.FeedExporter": None,
            "harvester.stores.feeds.RecordFeeds": 0,
            "scrapy.extensions.logstats.LogStats": None,
        },
    }
    """Setting -> what is there beside Scrapy's own."""

    def update_settings(self, settings: BaseSettings) -> None:
        for name, components in self.BASE.items():
            settings.set(name, _own(settings.getdict(name)), settings.getpriority(name) or 0)
            base = getattr(default_settings, f"{name}_BASE") | components
            settings.set(f"{name}_BASE", base, "cmdline")


def be_alone(settings: BaseSettings, addon: type[Alone] = Alone, **more: Any) -> None:
    """Sets what is needed for that, and `more`; what was set by `-s` stays.

    ThrottleMiddleware shares its turns by Redis: Scrapy's own delay keeps the configured rate instead.
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
    settings.set("ADDONS", {**settings.getdict("ADDONS"), addon: _BEHIND_OTHERS}, priority="cmdline")


def _own(components: dict[Any, int | None]) -> dict[Any, int | None]:
    """Those of the project. Where they are added to harvester's, what is off there is off for harvester."""
    ours = [name for name in components if _module(name).startswith("harvester.")]
    own = {name: order for name, order in components.items() if name not in ours}
    return {name: order for name, order in own.items() if order is not None} if ours else own


def _module(component: Any) -> str:
    return component if isinstance(component, str) else str(getattr(component, "__module__", ""))


def shown(outputs: Iterable[Any]) -> Iterator[Any]:
    """What a callback yielded, as Scrapy can show it: records and requests one by one, all else as a dict."""
    for each in outputs:
        if isinstance(each, list):
            yield from shown(each)
        elif isinstance(each, (Record, Request)) or not hasattr(each, "_asdict"):
            yield each
        else:
            yield {type(each).__name__: each._asdict()}
