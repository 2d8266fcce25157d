"""Finds a spider of harvester's by its name."""

from collections.abc import Mapping

from harvester import project
from harvester.spiders.base import HarvesterSpider


def load_spider(name: str, overrides: Mapping[str, str] | None = None) -> type[HarvesterSpider]:
    """The spider's class. Raises UsageError that names those there are."""
    spider = project.load_spider(name, overrides)
    assert issubclass(spider, HarvesterSpider)
    return spider
