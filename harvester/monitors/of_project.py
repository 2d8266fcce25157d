"""Spidermon with the project's own suites, as an extension that logs no errors for failed monitors."""

from collections.abc import Iterable
from typing import Any, Self

from scrapy import Spider
from scrapy.crawler import Crawler
from spidermon import MonitorSuite
from spidermon.contrib.scrapy.extensions import Spidermon

from harvester.items import Batch
from harvester.monitors.history import history_of
from harvester.monitors.judgement import Judgement
from harvester.monitors.running import run
from harvester.monitors.suites import RunMonitors


class ProjectMonitoring(Spidermon):  # type: ignore[misc]
    """Runs the suites of the SPIDERMON_... settings, except RunMonitors, which RunMonitoring runs after them.

    Spidermon's own extension logs each failed monitor's traceback as an error, which raises log_count/ERROR, through a
    spider method that Scrapy deprecates.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        monitoring: Self = super().from_crawler(crawler)
        others = [suite for suite in monitoring.engine_stopped_suites if not isinstance(suite, RunMonitors)]
        monitoring.engine_stopped_suites = others
        return monitoring

    def engine_stopped(self) -> None:
        if history_of(self.crawler).opened:
            super().engine_stopped()

    def item_scraped(self, item: Any, response: Any, spider: Spider) -> None:
        for each in item.records if isinstance(item, Batch) else [item]:
            super().item_scraped(each, response, spider)

    def _run_suites(self, spider: Spider, suites: Iterable[MonitorSuite]) -> None:
        data = self._generate_data_for_spider(spider)
        for suite in suites:
            judgement = Judgement.of(run(suite, data))
            history_of(self.crawler).of_project.update({each.monitor: each for each in judgement.monitors})
