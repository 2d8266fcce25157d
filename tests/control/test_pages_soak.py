"""What pages cost in the long run: 500 that were opened, and one that is left open for an hour."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import psutil
import pytest
from playwright.async_api import WebSocket
from pymongo import MongoClient

from harvester.jobs.documents import ItemState
from tests.control.browsing import ControlRoom, Seen, chromium, logged_in, seed, service_of

OPENED = 500
OPEN_S = float(os.environ.get("PAGE_SECONDS", "3600"))
"""For which a page is left open."""
pytestmark = [pytest.mark.soak, pytest.mark.timeout(OPEN_S + 1800)]
FORGOTTEN_S = 90
"""After which NiceGUI has forgotten pages whose browser never came back."""
MOST_GROWTH_MB = 60
"""Of the controller, in either test."""


@pytest.fixture
def room(tmp_path: Path, mongodb_uri: str, own_redis: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlRoom]:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.cli_settings")
    database = f"test-{uuid4().hex[:12]}"
    variables = {
        "HARVESTER_MONGODB_URI": mongodb_uri,
        "HARVESTER_REDIS_URL": own_redis,
        "HARVESTER_DATABASE": database,
    }
    with ControlRoom(tmp_path, variables) as running:
        yield running
    with MongoClient[dict[str, Any]](mongodb_uri) as client:
        client.drop_database(database)
    shutil.rmtree(tmp_path)


def memory_mb(room: ControlRoom) -> float:
    return psutil.Process(room.pid).memory_info().rss / 1e6


async def test_pages_that_were_opened_and_left_leave_nothing_behind(room: ControlRoom) -> None:
    async with service_of(room) as service:
        job = await seed(service, room.folder, [str(n) for n in range(200)], {"blocked": ["7", "8"]})
    paths = ("/", "/jobs", f"/jobs/{job.id}", "/runs", "/submit")
    async with chromium() as browser, logged_in(browser, room.url, room.token) as person:
        for path in paths:
            await person.go(path)
        [cookie] = await person.page.context.cookies()
        cookies = {cookie["name"]: cookie["value"]}
        async with httpx2.AsyncClient(base_url=room.url, cookies=cookies, timeout=60) as http:
            begun = memory_mb(room)
            await opened(http, paths, OPENED)  # their browsers never open a socket
            before = memory_mb(room)  # Python keeps it, for the pages that come when these are forgotten
            await asyncio.sleep(FORGOTTEN_S)
            await opened(http, paths, OPENED)
            await asyncio.sleep(FORGOTTEN_S)
        for number in range(OPENED // 5):
            await person.go(paths[number % len(paths)])
        await asyncio.sleep(FORGOTTEN_S)
        after = memory_mb(room)
    print(f"\n{OPENED} pages whose browsers never came: {1000 * (before - begun) / OPENED:.0f} kB each until forgotten")
    print(f"{before:.0f} MB with these, {after:.0f} MB after as many more and {OPENED // 5} in a browser")
    assert after - before < MOST_GROWTH_MB


async def opened(http: httpx2.AsyncClient, paths: tuple[str, ...], number: int) -> None:
    for each in range(number):
        answer = await http.get(paths[each % len(paths)])
        assert answer.status_code == 200


async def test_a_page_that_is_left_open_does_not_grow(room: ControlRoom) -> None:
    received = 0

    def watch(socket: WebSocket) -> None:
        def count(payload: str | bytes) -> None:
            nonlocal received
            received += len(payload)

        socket.on("framereceived", count)

    async with service_of(room) as service, chromium() as browser:
        job = await seed(service, room.folder, [str(n) for n in range(5000)])
        async with logged_in(browser, room.url, room.token) as person:
            person.page.on("websocket", watch)
            await person.go(f"/jobs/{job.id}")
            await asyncio.sleep(min(60, OPEN_S / 10))
            server, page, before = memory_mb(room), await heap_mb(person), received
            for second in range(int(OPEN_S)):
                done = {"$set": {"state": ItemState.DONE, "outcome": "ok" if second % 2 else "unchanged"}}
                await service.ledger.items.update_one({"job": job.id, "key": str(second % 5000)}, done)
                await asyncio.sleep(1)
            grown, page_grown = memory_mb(room) - server, await heap_mb(person) - page
    print(f"\nIn {OPEN_S:.0f} s: the controller {grown:+.1f} MB, the page {page_grown:+.1f} MB,")
    print(f"{(received - before) / OPEN_S:.0f} bytes a second while a count changes each second")
    assert grown < MOST_GROWTH_MB
    assert page_grown < MOST_GROWTH_MB


async def heap_mb(person: Seen) -> float:
    """Of the page's JavaScript, after its garbage was collected."""
    session = await person.page.context.new_cdp_session(person.page)
    await session.send("HeapProfiler.collectGarbage")
    usage = await session.send("Runtime.getHeapUsage")
    await session.detach()
    return float(usage["usedSize"]) / 1e6
