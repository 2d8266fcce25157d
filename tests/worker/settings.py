"""harvester's settings, with the spiders of this folder, and without what keeps or judges runs: they start often."""

from harvester.settings import *  # noqa: F403
from harvester.settings import DOWNLOAD_HANDLERS

SPIDER_MODULES = ["tests.worker.spiders"]
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0, "harvester.worker.reporter.WorkerReporter": 650}
EXTENSIONS_BASE: dict[str, int] = {}
DOWNLOAD_HANDLERS = DOWNLOAD_HANDLERS | {  # the pages of `manners` come from nowhere
    "data": "scrapy.core.downloader.handlers.datauri.DataURIDownloadHandler"
}
