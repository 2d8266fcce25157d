"""Runs one suite of monitors."""

import logging
from typing import Any

from spidermon import MonitorRunner, MonitorSuite
from spidermon import settings as spidermon_settings

logger = logging.getLogger(__name__)


def run(suite: MonitorSuite, data: dict[str, Any]) -> Any:
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
