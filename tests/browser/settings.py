"""harvester's settings, with the spider of the tests beside its own."""

from harvester.settings import *  # noqa: F403
from harvester.settings import EXTENSIONS, SPIDER_MODULES

SPIDER_MODULES = [*SPIDER_MODULES, "tests.browser.spiders"]
STATS_DUMP = True  # default False; the tests read it
HARVESTER_BACKOFF_FACTOR = 0.01  # the tests wait for retries
ITEM_PIPELINES_BASE: dict[str, int] = {}  # records are none here
EXTENSIONS = EXTENSIONS | {  # a worker's share of a crawl is not to be judged
    "harvester.monitors.extension.RunMonitoring": None,
    "harvester.monitors.history.RunHistory": None,
    "harvester.dashboard.live.LiveView": None,
}
