"""harvester's settings, with the spider of the tests beside its own."""

from harvester.identities import crawl_identities as identities
from harvester.settings import *  # noqa: F403
from harvester.settings import EXTENSIONS, SPIDER_MODULES

identities.OTHERS_S, identities.REFUSED_WAIT_S = 8.0, 1.0  # half a minute is long for a test

SPIDER_MODULES = [*SPIDER_MODULES, "tests.identities.spiders"]
STATS_DUMP = True  # default False; the tests read it
LOG_LEVEL = "DEBUG"  # default INFO; to see that no secret is in it
ITEM_PIPELINES_BASE: dict[str, int] = {}  # records are none here
EXTENSIONS = EXTENSIONS | {  # a worker's share of a crawl is not to be judged
    "harvester.monitors.extension.RunMonitoring": None,
    "harvester.monitors.history.RunHistory": None,
    "harvester.dashboard.live.LiveView": None,
}
