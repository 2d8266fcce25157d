"""harvester's settings, without what keeps or judges runs."""

from harvester.settings import *  # noqa: F403
from harvester.settings import ITEM_PIPELINES as _PIPELINES

ITEM_PIPELINES = {name: order for name, order in _PIPELINES.items() if not name.endswith("RecordFilesPipeline")}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0}
EXTENSIONS_BASE: dict[str, int] = {}
HARVESTER_BACKOFF_FACTOR = 0.01  # default 1.0
