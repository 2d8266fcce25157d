"""Metrics of a crawling process for Prometheus: its stats at each scrape. It pushes and stores nothing.

Enabled by HARVESTER_METRICS_PORT. With several processes of `harvester worker`, the first listens on this port, the
second on the next port, and so on. docs/monitoring.md lists the metrics.
"""

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from threading import Thread
from typing import Any, NamedTuple, Self
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from harvester.config import Config, load_config
from harvester.dashboard.progress import below, errors_by_outcome, two_below

logger = logging.getLogger(__name__)

MOST_STATS = 1_000
"""Maximum number of stats to report under their own names."""
_OF_HOSTS = tuple(
    f"harvester/{room}/" for room in ("errors", "said", "unclassified", "waiting", "limit", "interval", "reasons")
)
"""Prefixes of stats by host or reason: too many for Prometheus."""


class DiskUse(NamedTuple):
    """The space on the disk with a folder."""

    folder: str
    """The folder: `data` or `state`."""
    free_bytes: int
    size_bytes: int


class WorkerMetrics:
    """Scrapy extension that serves metrics.

    It only reads stats; if its port is taken, the run continues without metrics.
    """

    def __init__(self, crawler: Crawler, config: Config, port: int) -> None:
        self._crawler = crawler
        self._config = config
        self._port = port
        self._server: tuple[WSGIServer, Thread] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = load_config()
        if config.metrics_port is None:
            raise NotConfigured
        number = crawler.settings.getint("HARVESTER_WORKER")
        metrics = cls(crawler, config, config.metrics_port + max(0, number - 1))
        crawler.signals.connect(metrics.spider_opened, signals.spider_opened)
        crawler.signals.connect(metrics.engine_stopped, signals.engine_stopped)
        return metrics

    def spider_opened(self) -> None:
        registry = CollectorRegistry()
        registry.register(StatsCollector(self._crawler, self._config))
        ProcessCollector(registry=registry)
        host = self._config.metrics_host
        try:
            self._server = start_http_server(self._port, host, registry)
        except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            said = getattr(error, "strerror", None) or error
            logger.error("No metrics: %s:%d cannot be listened on: %s", host, self._port, said)  # noqa: TRY400
        else:
            logger.info("Metrics are told on http://%s:%d/metrics", host, self._port)

    def engine_stopped(self) -> None:
        if self._server:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()


class StatsCollector(Collector):
    """The stats of a crawl as metrics. A thread of the HTTP server collects them during the crawl."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config

    def describe(self) -> list[Metric]:
        """Returns an empty list; otherwise the registry would collect once to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics from a copy of the stats. The copy is made in one step, so no stat changes meanwhile."""
        yield from stats_families(dict(self._crawler.stats.get_stats()), self._crawler.spidercls.name)
        yield from disk_families(disks_of(self._config))


def stats_families(stats: Mapping[str, Any], spider: str) -> Iterator[Metric]:
    """Yields the metrics that all spiders share under their own names, then the numbers that are not about a host."""
    pages = _counter("harvester_worker_pages", "Answers that were of use.")
    pages.add_metric([spider], stats.get("harvester/pages", 0))
    yield pages
    for name, documentation, label, counts in (
        ("outcomes", "Requests by what became of them.", "outcome", below(stats, "harvester/outcomes")),
        ("errors", "Failures by outcome, of all hosts.", "outcome", errors_by_outcome(stats)),
        ("ended_items", "Job items that ended here.", "outcome", below(stats, "harvester/jobs/ended")),
        ("log_lines", "Lines of the log.", "level", below(stats, "log_count")),
    ):
        family = _counter(f"harvester_worker_{name}", documentation, label)
        for value, count in counts.items():
            family.add_metric([spider, value], count)
        yield family
    records = _counter("harvester_worker_records", "Records by what became of them.", "event", "kind")
    for event, kinds in two_below(stats, "harvester/records").items():
        for kind, count in kinds.items():
            if "/" not in kind:  # a path with / is a reason
                records.add_metric([spider, event, kind], count)
    yield records
    away = GaugeMetricFamily(
        "harvester_worker_waits_for", "1 if it waits for this server.", labels=["spider", "server"]
    )
    for server in ("mongodb", "redis"):
        away.add_metric([spider, server], bool(stats.get(f"harvester/waiting_for/{server}")))
    yield away
    others = UnknownMetricFamily(
        "harvester_worker_stat", "A stat of Scrapy or of harvester, by its path.", labels=["spider", "path"]
    )
    for path in [path for path, value in sorted(stats.items()) if _is_told(path, value)][:MOST_STATS]:
        others.add_metric([spider, path], stats[path])
    yield others


def _is_told(path: str, value: Any) -> bool:
    return isinstance(value, (int, float)) and not path.startswith(_OF_HOSTS)


def _counter(name: str, documentation: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, documentation, labels=["spider", *labels])


def disks_of(config: Config) -> list[DiskUse]:
    """Returns the space for the data and state folders, or for the nearest existing parent."""
    uses = []
    for name, path in (("data", config.data_dir), ("state", config.state_dir)):
        folder = path.absolute()
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        use = shutil.disk_usage(folder)
        uses.append(DiskUse(name, use.free, use.total))
    return uses


def disk_families(disks: Sequence[DiskUse]) -> Iterator[Metric]:
    """Yields the disk space as Prometheus metrics."""
    free = GaugeMetricFamily("harvester_disk_free_bytes", "Room on the disk of a folder.", labels=["folder"])
    total = GaugeMetricFamily("harvester_disk_size_bytes", "Size of that disk.", labels=["folder"])
    for folder, free_bytes, size_bytes in disks:
        free.add_metric([folder], free_bytes)
        total.add_metric([folder], size_bytes)
    yield from (free, total)
