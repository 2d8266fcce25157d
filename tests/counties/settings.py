"""harvester's settings, without what keeps or judges runs. Files are fetched where FETCH_FILES is set."""

import os

from harvester.settings import *  # noqa: F403

SPIDER_MODULES = ["harvester.spiders.counties"]
if "FETCH_FILES" not in os.environ:
    ITEM_PIPELINES = {"harvester.pipelines.files.RecordFilesPipeline": None}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0}
EXTENSIONS_BASE: dict[str, int] = {}
HARVESTER_BACKOFF_FACTOR = 0.001  # default 1.0
