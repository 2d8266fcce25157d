"""Spidermon as an extension that logs no errors for failed monitors, and runs harvester's suite besides others."""

import logging
from collections.abc import Iterable
from typing import Any, Self

from scrapy import Spider
from scrapy.crawler import Crawler
from spidermon import MonitorRunner, MonitorSuite
from spidermon import settings as spidermon_settings
from spidermon.contrib.scrapy.extensions import Spidermon

from harvester.items import Batch
from harvester.monitors.history import history_of
from harvester.monitors.judgement import Judgement
from harvester.monitors.suites import RunMonitors

logger = logging.getLogger(__name__)


class RunMonitoring(Spidermon):  # type: ignore[misc]
    """Runs the suites of the SPIDERMON_... settings, and then RunMonitors, when the engine has stopped.

    At spider_closed the counts are not final yet. Spidermon's own extension logs each failed monitor's traceback as an
    error, which raises log_count/ERROR, through a spider method that Scrapy deprecates.
    """

    suite: RunMonitors

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        monitoring: Self = super().from_crawler(crawler)
        monitoring.suite = RunMonitors(crawler=crawler)
        others = [suite for suite in monitoring.engine_stopped_suites if not isinstance(suite, RunMonitors)]
        monitoring.engine_stopped_suites = others
        return monitoring

    def engine_stopped(self) -> None:
        if history_of(self.crawler).opened:
            super().engine_stopped()
            _run(self.suite, self._generate_data_for_spider(self.crawler.spider))

    def item_scraped(self, item: Any, response: Any, spider: Spider) -> None:
        for each in item.records if isinstance(item, Batch) else [item]:
            super().item_scraped(each, response, spider)

    def _run_suites(self, spider: Spider, suites: Iterable[MonitorSuite]) -> None:
        data = self._generate_data_for_spider(spider)
        for suite in suites:
            judgement = Judgement.of(_run(suite, data))
            history_of(self.crawler).of_project.update({each.monitor: each for each in judgement.monitors})


def _run(suite: MonitorSuite, data: dict[str, Any]) -> Any:
    """Returns the result of a suite. Logs exceptions of monitors and actions, which Spidermon does not log."""
    result = MonitorRunner().run(suite, **data)
    for ran in (
        *result.monitor_results,
        *result.monitors_finished_action_results,
        *result.monitors_passed_action_results,
        *result.monitors_failed_action_results,
    ):
        if ran.status == spidermon_settings.MONITOR.STATUS.ERROR:
            logger.error("%s broke:\n%s", ran.item.name, ran.error)
    return result
