"""A callback that blocks its worker for longer than its lease is found and named."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from harvester.frontier.store import Frontier
from tests.crawling import Answer, Site
from tests.frontier.crawl import crawl

LEASE_S = 3
OTHER = "/other"
WATCHER = "watcher"


class Pages(Site):
    """One of the pages is not answered before it may be."""

    def __init__(self) -> None:
        super().__init__()
        self.answering = asyncio.Event()

    async def answer(self, path: str, number: int) -> Answer:
        if path == OTHER:
            await self.answering.wait()
        return Answer(kind="text/plain", body=b"fine")


@pytest.mark.timeout(300)
async def test_a_callback_that_blocks_for_longer_than_its_lease_is_a_dead_letter_that_names_it(
    tmp_path: Path, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARVESTER_REDIS_URL", redis_url)
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "0")
    monkeypatch.setenv("HARVESTER_LEASE_SECONDS", str(LEASE_S))
    monkeypatch.setenv("HARVESTER_MAX_DELIVERIES", "1")
    frontier = Frontier(redis, f"test-{uuid4().hex[:12]}", lease_timeout_s=LEASE_S, max_deliveries=1)
    async with Pages() as site, asyncio.timeout(240):
        crawling = asyncio.create_task(crawl(tmp_path, frontier.spider, site.url, "/blocks", OTHER))
        try:
            for release in (1, 2):
                taken = 0
                while not taken:
                    await frontier.exchange(WATCHER, [])
                    if await redis.hlen(frontier.prefix + "blocked"):
                        taken = await frontier.reap(WATCHER)
                    await asyncio.sleep(LEASE_S / 30)
                    assert not crawling.done(), crawling.result()
                site.answering.set()
                (tmp_path / f"released-{release}").touch()
        finally:
            for release in (1, 2):
                (tmp_path / f"released-{release}").touch()
            await frontier.leave(WATCHER)
            crawled = await crawling
    (letter,) = await frontier.dead()
    assert letter.outcome == "callback_blocked", letter
    assert "on_blocks (crawl.py:" in letter.reason
    assert f"({LEASE_S} s)" in letter.reason
    assert letter.reason.rpartition(" ")[2].count(":") == 3, "it ends with the worker"
    fate = await frontier.look_up(int(letter.id))
    assert fate is not None
    assert [event.outcome for event in fate.history] == ["callback_blocked", "callback_blocked"]
    status = await frontier.status()
    assert (status.dead, status.done, status.balanced) == (1, 1, True)
    assert status.redelivered >= 2, "the other page was held too, and not blamed"
    assert OTHER in crawled.items
    assert crawled.reason == "finished"
    assert crawled.log.count(" on_blocks (crawl.py:") == 2, crawled.log
    assert "HARVESTER_LEASE_SECONDS" in crawled.log
    assert "Traceback" not in crawled.log
    await frontier.drop()
