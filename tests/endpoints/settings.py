"""harvester's settings, without what keeps or judges runs."""

from harvester.settings import *  # noqa: F403

ITEM_PIPELINES = {"harvester.pipelines.files.RecordFilesPipeline": None}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0}
EXTENSIONS_BASE: dict[str, int] = {}
HARVESTER_BACKOFF_FACTOR = 0.01  # default 1.0
