"""Settings of harvester's own project. Settings for its spiders are in harvester.spiders.base.

Projects can begin their settings with `from harvester.settings import *`.
"""

from typing import Any

ADDONS = {"harvester.Addon": 500}
BOT_NAME = "harvester"
SPIDER_MODULES = ["harvester.spiders"]
NEWSPIDER_MODULE = "harvester.spiders"

# Empty, so that a project can add to them: ITEM_PIPELINES |= {...}
ITEM_PIPELINES: dict[Any, Any] = {}
SPIDER_MIDDLEWARES: dict[Any, Any] = {}
DOWNLOADER_MIDDLEWARES: dict[Any, Any] = {}
EXTENSIONS: dict[Any, Any] = {}
DOWNLOAD_HANDLERS: dict[Any, Any] = {}
FEED_EXPORTERS: dict[Any, Any] = {}
