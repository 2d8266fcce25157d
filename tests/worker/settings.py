"""harvester's settings, with the spiders of this folder."""

from harvester.settings import *  # noqa: F403

SPIDER_MODULES = ["tests.worker.spiders"]
