"""harvester's settings, with what measures, and without what keeps or judges runs."""

from tests.endpoints.settings import *  # noqa: F403

SPIDER_MODULES = ["harvester.spiders", "tests.costly.spiders"]
EXTENSIONS = {
    "scrapy.extensions.corestats.CoreStats": 0,
    "tests.costly.measuring.Measuring": 10,
    "harvester.spiders.stock.StockSpiders": 475,
}
