"""A process that crawls tells Prometheus its stats, when it is asked."""

import logging
import shutil
import socket
import subprocess
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from harvester.worker.metrics import MOST_STATS, WorkerMetrics, stats_families


class Flat(Spider):
    name = "flat"


def crawler_with(monkeypatch: pytest.MonkeyPatch, port: int, number: int = 0) -> Crawler:
    monkeypatch.setenv("HARVESTER_METRICS_PORT", str(port))
    return get_crawler(Flat, {"HARVESTER_WORKER": number} if number else {})


def scraped(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        content: bytes = answer.read()
        return content


def test_stats_are_read_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    crawler = crawler_with(monkeypatch, free_port)
    metrics = WorkerMetrics.from_crawler(crawler)
    metrics.spider_opened()
    try:
        told = []
        for pages in (7, 8):
            crawler.stats.set_value("harvester/pages", pages)
            crawler.stats.set_value("harvester/records/stored/post", 100)
            crawler.stats.set_value("harvester/records/rejected/post/no_key", 3)
            crawler.stats.set_value("harvester/errors/timeout/a.example", 2)
            crawler.stats.set_value("harvester/errors/timeout/b.example", 3)
            told.append(scraped(free_port).decode())
    finally:
        metrics.engine_stopped()
    for pages, text in zip((7, 8), told, strict=True):
        assert f'harvester_worker_pages_total{{spider="flat"}} {pages}.0' in text
    assert 'harvester_worker_records_total{event="stored",kind="post",spider="flat"} 100.0' in told[0]
    assert 'kind="post/no_key"' not in told[0]
    assert 'harvester_worker_errors_total{outcome="timeout",spider="flat"} 5.0' in told[0]
    assert "example" not in told[0], "hosts are too many for Prometheus"
    assert "process_resident_memory_bytes" in told[0]
    assert 'harvester_disk_free_bytes{folder="data"}' in told[0]
    with pytest.raises(OSError, match="refused"):
        scraped(free_port)


def test_processes_of_one_supervisor_take_ports_in_a_row(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    metrics = WorkerMetrics.from_crawler(crawler_with(monkeypatch, free_port - 1, number=2))
    metrics.spider_opened()
    try:
        assert b"harvester_worker_pages_total" in scraped(free_port)
    finally:
        metrics.engine_stopped()


def test_a_port_that_is_taken_costs_the_metrics_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = WorkerMetrics.from_crawler(crawler_with(monkeypatch, taken.getsockname()[1]))
        with caplog.at_level(logging.ERROR):
            metrics.spider_opened()
    metrics.engine_stopped()
    assert "127.0.0.1:" in caplog.text


def test_a_host_that_none_can_be_called_costs_the_metrics_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, free_port: int
) -> None:
    monkeypatch.setenv("HARVESTER_METRICS_HOST", "127.0.0..1")
    WorkerMetrics.from_crawler(crawler_with(monkeypatch, free_port)).spider_opened()
    assert f"127.0.0..1:{free_port}" in caplog.text


def test_nothing_listens_unless_a_port_is_set() -> None:
    with pytest.raises(NotConfigured):
        WorkerMetrics.from_crawler(get_crawler(Flat))


def test_stats_of_a_spider_take_a_bounded_number_of_series() -> None:
    stats = {f"odd/{number}": number for number in range(2 * MOST_STATS)}
    assert sum(len(family.samples) for family in stats_families(stats, "flat")) < MOST_STATS + 10


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed: apt-get install prometheus")
def test_promtool_finds_nothing_to_say_of_a_worker(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    metrics = WorkerMetrics.from_crawler(crawler_with(monkeypatch, free_port))
    metrics.spider_opened()
    try:
        told = scraped(free_port)
    finally:
        metrics.engine_stopped()
    checked = subprocess.run(["promtool", "check", "metrics"], input=told, capture_output=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    assert list(text_string_to_metric_families(told.decode()))
