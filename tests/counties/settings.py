"""harvester's settings, without what keeps or judges runs. Files are fetched where FETCH_FILES is set."""

import os

from harvester.settings import *  # noqa: F403
from harvester.settings import ITEM_PIPELINES as _PIPELINES

SPIDER_MODULES = ["harvester.spiders.counties"]
if "FETCH_FILES" not in os.environ:
    ITEM_PIPELINES = {name: order for name, order in _PIPELINES.items() if not name.endswith("RecordFilesPipeline")}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0}
EXTENSIONS_BASE: dict[str, int] = {}
HARVESTER_BACKOFF_FACTOR = 0.001  # default 1.0
