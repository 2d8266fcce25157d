"""harvester's settings, with the spider of the street beside its own, and nothing that keeps records."""

from harvester.settings import *  # noqa: F403
from harvester.settings import EXTENSIONS, SPIDER_MODULES

SPIDER_MODULES = [*SPIDER_MODULES, "tests.street.spiders"]
HARVESTER_BACKOFF_FACTOR = 0.2  # default 1.0; troubles of the street last seconds
ITEM_PIPELINES_BASE: dict[str, int] = {}
EXTENSIONS = EXTENSIONS | {  # a worker's share of a crawl is not to be judged
    "harvester.monitors.extension.RunMonitoring": None,
    "harvester.monitors.history.RunHistory": None,
    "harvester.dashboard.live.LiveView": None,
}
