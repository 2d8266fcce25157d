"""The extension that judges a run when the engine has stopped: at spider_closed the counts are not final yet."""

from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler

from harvester.monitors.history import history_of
from harvester.monitors.running import run
from harvester.monitors.suites import RunMonitors


class RunMonitoring:
    """Runs RunMonitors, and before it the project's own suites, where SPIDERMON_ENABLED is on."""

    of_project: Any = None
    """Spidermon's extension with the project's suites."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.suite = RunMonitors(crawler=crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        monitoring = cls(crawler)
        if crawler.settings.getbool("SPIDERMON_ENABLED"):
            from harvester.monitors.of_project import ProjectMonitoring  # it brings JSON Schema and Zyte's client

            monitoring.of_project = ProjectMonitoring.from_crawler(crawler)
        crawler.signals.connect(monitoring.engine_stopped, signals.engine_stopped)
        return monitoring

    def engine_stopped(self) -> None:
        if history_of(self.crawler).opened:
            assert self.crawler.stats
            stats = self.crawler.stats.get_stats()
            run(self.suite, {"stats": stats, "crawler": self.crawler, "spider": self.crawler.spider})
