"""harvester's settings with the spider `flow` alone, and without what keeps or judges runs."""

from tests.counties.settings import *  # noqa: F403

SPIDER_MODULES = ["harvester.spiders.flow"]
STATS_DUMP = True  # default False; the tests read it
