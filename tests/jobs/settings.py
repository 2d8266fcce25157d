"""harvester's settings, with the spiders of this folder, and without what keeps or judges runs."""

import os

from harvester.jobs import feeder
from harvester.settings import *  # noqa: F403
from harvester.settings import ITEM_PIPELINES as _PIPELINES

feeder.WINDOW = int(os.environ.get("WINDOW", feeder.WINDOW))

SPIDER_MODULES = ["tests.jobs.spiders"]
ITEM_PIPELINES = {name: order for name, order in _PIPELINES.items() if not name.endswith("RecordFilesPipeline")}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0}
EXTENSIONS_BASE: dict[str, int] = {}
HARVESTER_BACKOFF_FACTOR = 0.01  # default 1.0
