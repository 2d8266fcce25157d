"""A run whose hosts never answer ends after a bound; one that waits for work is told of them, and goes on."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.download import reachability
from harvester.download.reachability import Reachability
from harvester.exceptions import LEFT

UNREACHED = {"harvester/errors/dns/nowhere.example": 1, "harvester/said/dns/nowhere.example": "no such name"}


@pytest.mark.parametrize(("idle_seconds", "codes"), [(0, [LEFT]), (-1, []), (5, [])])
async def test_a_run_that_waits_for_work_goes_on_without_a_host(
    idle_seconds: float, codes: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    ended: list[int] = []
    monkeypatch.setattr(reachability, "LOOK_S", 0.0)
    monkeypatch.setattr(reachability, "end", lambda crawler, reason, code, said: ended.append(code))
    stats, looks = MemoryStatsCollector(get_crawler()), asyncio.Semaphore(0)
    stats.set_stats(dict(UNREACHED))
    extension = Reachability(_crawler(stats), Config(idle_seconds=idle_seconds, unreachable_seconds=0))
    monkeypatch.setattr(extension, "_is_over", _counted(extension._is_over, looks))

    extension.spider_opened()
    for _ in range(1 if codes else 20):
        await looks.acquire()
    await asyncio.sleep(0)
    await extension.spider_closed()

    assert ended == codes
    assert [record.getMessage().count("nowhere.example") for record in caplog.records] == [1]


def _crawler(stats: MemoryStatsCollector) -> Any:
    return SimpleNamespace(stats=stats)


def _counted(judge: Any, looks: asyncio.Semaphore) -> Any:
    def judged(silent: dict[str, str]) -> bool:
        looks.release()
        return bool(judge(silent))

    return judged
