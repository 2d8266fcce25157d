"""harvester's settings, with the spider of the tests beside its own."""

from harvester.settings import *  # noqa: F403
from harvester.settings import EXTENSIONS, SPIDER_MODULES

SPIDER_MODULES = [*SPIDER_MODULES, "tests.chaos.spiders"]
HARVESTER_BACKOFF_FACTOR = 0.1  # default 1.0; a page of the tree refuses once or twice
EXTENSIONS = EXTENSIONS | {  # a worker's share of a crawl is not to be judged
    "harvester.monitors.extension.RunMonitoring": None,
    "harvester.monitors.history.RunHistory": None,
    "harvester.dashboard.live.LiveView": None,
}
