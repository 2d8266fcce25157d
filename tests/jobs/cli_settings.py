"""harvester's settings, with the spiders that the tests of `harvester jobs` submit to."""

from harvester.settings import *  # noqa: F403

SPIDER_MODULES = ["tests.jobs.cli_spiders"]
EXTENSIONS_BASE: dict[str, int] = {}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0}
