"""harvester's settings, with the spider of this folder, and without what keeps or judges runs."""

from harvester.settings import *  # noqa: F403

SPIDER_MODULES = ["tests.breaker.spiders"]
ITEM_PIPELINES_BASE: dict[str, int] = {}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0}
EXTENSIONS_BASE: dict[str, int] = {}
HARVESTER_BACKOFF_FACTOR = 0.1  # default 1.0
