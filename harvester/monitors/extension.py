"""Spidermon as an extension that logs no errors for monitors that fail."""

import logging
from collections.abc import Iterable
from typing import Any

from scrapy import Spider
from spidermon import MonitorRunner, MonitorSuite
from spidermon import settings as spidermon_settings
from spidermon.contrib.scrapy.extensions import Spidermon

from harvester.monitors.history import history_of

logger = logging.getLogger(__name__)


class RunMonitoring(Spidermon):  # type: ignore[misc]
    """Spidermon with another runner; the suites log what they have to say.

    Suites belong into SPIDERMON_ENGINE_STOP_MONITORS: on spider_closed, spiders still count what they did.
    Its own logs a traceback of each failed monitor as an error, which raises log_count/ERROR, through a
    method of the spider that Scrapy deprecates.
    """

    def engine_stopped(self) -> None:
        if history_of(self.crawler).opened:
            super().engine_stopped()

    def _run_suites(self, spider: Spider, suites: Iterable[MonitorSuite]) -> None:
        data = self._generate_data_for_spider(spider)
        for suite in suites:
            _log_broken(MonitorRunner().run(suite, **data))


def _log_broken(result: Any) -> None:
    """Logs exceptions of monitors and actions, which Spidermon keeps to itself."""
    for ran in (
        *result.monitor_results,
        *result.monitors_finished_action_results,
        *result.monitors_passed_action_results,
        *result.monitors_failed_action_results,
    ):
        if ran.status == spidermon_settings.MONITOR.STATUS.ERROR:
            logger.error("%s broke:\n%s", ran.item.name, ran.error)
