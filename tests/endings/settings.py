"""harvester's settings, with what keeps and judges runs, and the spiders of the tests of jobs."""

from harvester.settings import *  # noqa: F403

SPIDER_MODULES = ["tests.jobs.spiders"]
HARVESTER_BACKOFF_FACTOR = 0.01  # default 1.0
