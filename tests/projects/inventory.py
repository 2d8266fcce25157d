"""Prints spider -> its module of the project in this folder, as JSON: run by the project's Python."""

import json
import sys

from scrapy.spiderloader import get_spider_loader
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
settings.set("SPIDER_LOADER_WARN_ONLY", True, "cmdline")
loader = get_spider_loader(settings)
json.dump({name: loader.load(name).__module__ for name in loader.list()}, sys.stdout)
