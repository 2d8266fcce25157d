"""harvester's settings, with the spiders of this folder, and without what keeps or judges runs."""

import os

from harvester.jobs import feeder
from harvester.settings import *  # noqa: F403

feeder.WINDOW = int(os.environ.get("WINDOW", feeder.WINDOW))

SPIDER_MODULES = ["tests.jobs.spiders"]
ITEM_PIPELINES = {"harvester.pipelines.files.RecordFilesPipeline": None}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0}
EXTENSIONS_BASE: dict[str, int] = {}
HARVESTER_BACKOFF_FACTOR = 0.01  # default 1.0
