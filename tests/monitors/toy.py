"""A spider whose harvest is what it is told: python -m tests.monitors.toy SCENARIO

SCENARIO is JSON: `stats` of the harvest, and optionally `late_stats`, which are set while the spider closes,
`attributes` of the spider, `arguments`, `reason` to close with, and `until`: a file for whose appearance the
spider waits, once it has written `<until>.ready`.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import CloseSpider
from scrapy.extensions.corestats import CoreStats
from scrapy.http import Response

from harvester.monitors.extension import RunMonitoring
from harvester.monitors.history import RunHistory

SETTINGS = {
    "EXTENSIONS": {CoreStats: 0, RunMonitoring: 500, RunHistory: 550},
    "LOG_LEVEL": "INFO",
    "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
}


class Arguments(BaseModel):
    """Arguments of every sort."""

    seeds: list[str] = []
    depth: int = 1
    service: str = ""
    password: SecretStr | None = None


class ToySpider(Spider):
    """Fetches one `data:` address and claims the harvest of its scenario."""

    name = "toy"
    scenario: dict[str, Any]

    async def start(self) -> AsyncIterator[Any]:
        assert self.crawler.stats
        self.crawler.stats.set_value("harvester/job", "toy-1")
        self.crawler.signals.connect(self.on_closed, signals.spider_closed)
        yield Request("data:,page")

    async def parse(self, response: Response) -> None:
        assert self.crawler.stats
        for name, value in self.scenario["stats"].items():
            self.crawler.stats.set_value(name, value)
        if until := self.scenario.get("until"):
            await asyncio.to_thread(wait_until, Path(until))
        if reason := self.scenario.get("reason"):
            raise CloseSpider(reason)

    async def on_closed(self) -> None:
        await asyncio.sleep(0.2)
        assert self.crawler.stats
        for name, value in self.scenario.get("late_stats", {}).items():
            self.crawler.stats.set_value(name, value)


def wait_until(appears: Path) -> None:
    appears.with_name(f"{appears.name}.ready").touch()
    while not appears.exists():
        time.sleep(0.02)


def main() -> None:
    scenario = json.loads(sys.argv[1])
    attributes = {"scope": "alike", "resumed": False, **scenario.get("attributes", {})}
    arguments = Arguments.model_validate(scenario.get("arguments", {}))
    process = AsyncCrawlerProcess(SETTINGS)
    process.crawl(ToySpider, scenario=scenario, arguments=arguments, **attributes)
    process.start()


if __name__ == "__main__":
    main()
