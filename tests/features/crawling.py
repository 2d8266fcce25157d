"""Crawls all spiders of tests.features.spiders in this process: `python -m tests.features.crawling SITE [ADDONS]`.

Prints their items, some of their stats and how each ended, as JSON.
"""

import json
import sys
from typing import Any

from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess

from tests.features import spiders

COUNTED = ("item_scraped_count", "item_dropped_count", "retry/count", "own/pages", "spider_exceptions/KeyError")


def main() -> None:
    spiders.SITE = sys.argv[1]
    settings: dict[str, Any] = {
        "ROBOTSTXT_OBEY": True,
        "LOG_LEVEL": "ERROR",
        "RETRY_TIMES": 0,
        "TELNETCONSOLE_ENABLED": False,
    }
    if sys.argv[2:]:
        settings["ADDONS"] = json.loads(sys.argv[2])
    process = AsyncCrawlerProcess(settings)
    items: dict[str, list[Any]] = {}
    crawlers = {}
    for name, kind in spiders.find_features().items():
        crawler = crawlers[name] = process.create_crawler(kind)
        collected: list[Any] = items.setdefault(name, [])

        def collect(item: Any, collected: list[Any] = collected) -> None:
            collected.append(ItemAdapter(item).asdict())

        crawler.signals.connect(collect, signals.item_scraped, weak=False)
        process.crawl(crawler, word="w")
    process.start()
    found = {}
    for name, crawler in crawlers.items():
        stats = crawler.stats.get_stats() if crawler.stats else {}
        counts = {key: stats[key] for key in COUNTED if key in stats}
        of_spider = sorted(items[name], key=json.dumps)
        found[name] = {"items": of_spider, "counts": counts, "end": stats.get("finish_reason")}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
