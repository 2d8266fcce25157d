"""Finds the settings of the Scrapy project and its spiders: by scrapy.cfg, or harvester's own where there is none."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from harvester.exceptions import UsageError
from harvester.validation import did_you_mean

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import Settings
    from scrapy.spiderloader import SpiderLoaderProtocol

SETTINGS_MODULE = "SCRAPY_SETTINGS_MODULE"


def spider_loader(overrides: Mapping[str, str] | None = None) -> "SpiderLoaderProtocol":
    """What finds them, with Scrapy's settings as a crawl would have them."""
    from scrapy.spiderloader import get_spider_loader

    settings = project_settings()
    settings.setdict(dict(overrides or {}), "cmdline")
    return get_spider_loader(settings)


def project_settings() -> "Settings":
    """Those of the project whose scrapy.cfg is in this folder or above it; harvester's own where there is none."""
    from scrapy.settings import Settings
    from scrapy.utils.conf import init_env

    if SETTINGS_MODULE not in os.environ:
        init_env(os.environ.get("SCRAPY_PROJECT", "default"))
    settings = Settings()
    settings.setmodule(os.environ.get(SETTINGS_MODULE, "harvester.settings"))
    return settings


def load_spider(name: str, overrides: Mapping[str, str] | None = None) -> "type[Spider]":
    """The spider's class. Raises UsageError that names those there are."""
    loader = spider_loader(overrides)
    if name not in loader.list():
        raise UsageError(unknown_spider(name, loader))
    return loader.load(name)


def unknown_spider(name: str, loader: "SpiderLoaderProtocol") -> str:
    """What is said of a spider that there is not."""
    known = sorted(loader.list())
    return f"There is no spider {name!r}; there are: {', '.join(known)}{did_you_mean(name, known) or '.'}"
