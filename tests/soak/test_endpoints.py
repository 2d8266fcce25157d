"""A thousand endpoints, each looked at every minute by one process: when each is asked, and what that costs."""

import asyncio
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web
from pymongo.database import Database

from harvester.recheck.every import share_of
from tests.jobs.running import Runs

ENDPOINTS = 1000
INTERVAL_S = 60
BEGIN_S = 2 * INTERVAL_S
"""All have been looked at by then, and are in their places."""
MEASURED_S = 3 * INTERVAL_S
FAILING = range(20)
"""That answer 503 until somebody mends them."""
CHANGING = range(100, 110)
"""Whose rows have another field from the middle on."""
LATE_S = 2.0

Document = dict[str, Any]


class Thousand:
    """`arrivals`: number of the endpoint -> when it was asked for, in seconds of the epoch."""

    def __init__(self) -> None:
        self.arrivals: defaultdict[int, list[float]] = defaultdict(list)
        self.failing = frozenset(FAILING)
        self.changed: frozenset[int] = frozenset()

    async def __aenter__(self) -> "Thousand":
        application = web.Application()
        application.router.add_get("/{number:[0-9]+}", self._answer)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        self.arrivals[number].append(time.time())
        if number in self.failing:
            return web.Response(status=503, text="{}", content_type="application/json")
        minute = len(self.arrivals[number]) // 3  # two of three looks find nothing new
        field = "cost" if number in self.changed else "price"
        etag = f'"{minute} {field}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        rows = [{"id": each, field: minute + each} for each in range(20)]
        return web.Response(text=json.dumps(rows), content_type="application/json", headers={"ETag": etag})


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_thousand_endpoints_are_each_looked_at_every_minute_by_one_process(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[Document]
) -> None:
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    runs = Runs(tmp_path, "harvester.settings", **variables, idle_seconds="-1", concurrent_per_host="64")
    async with Thousand() as site, runs:
        file = tmp_path / "endpoints.toml"
        tables = [
            f'[e{each}]\nurl = "{site.url}/{each}"\nrows = "@"\nkey = "id"\ncollection = "prices_{each % 10}"'
            for each in range(ENDPOINTS)
        ]
        file.write_text(f'[defaults]\ninterval = "{INTERVAL_S}s"\n' + "\n".join(tables), "utf-8")
        process = await runs.start("endpoints", endpoints=f"@{file}")
        await asyncio.sleep(BEGIN_S)
        watched = psutil.Process(process.pid)
        began, cpu, memory = time.time(), watched.cpu_times(), watched.memory_info().rss
        await asyncio.sleep(MEASURED_S / 2)
        site.changed = frozenset(CHANGING)
        items = mongodb["job_items"]
        failing = {"key": {"$in": [f"e{each}" for each in FAILING]}, "state": "waiting"}
        items.update_many(failing, {"$set": {"failures": 9}, "$unset": {"due_at": ""}})
        await asyncio.sleep(MEASURED_S / 2)
        ended, after = time.time(), watched.cpu_times()
        grown = watched.memory_info().rss
        used = (after.user + after.system - cpu.user - cpu.system) / (ended - began)
        late = sorted(
            (at - share_of(f"e{number}") * INTERVAL_S) % INTERVAL_S
            for number, times in site.arrivals.items()
            if number not in FAILING and number not in CHANGING
            for at in times
            if began <= at < ended
        )
        given_up = items.count_documents({"state": "failed"})
        changed = {"history": {"$elemMatch": {"outcome": "layout_changed", "reason": {"$regex": "lack 'price'"}}}}
        noticed = items.count_documents(changed)
        site.failing = frozenset()
        restarted = await runs._begin("tests.worker.command", "endpoints", "restart", *(f"e{each}" for each in FAILING))
        assert await runs.end(restarted) == 0
        mended = {"key": {"$in": [f"e{each}" for each in FAILING]}, "outcome": "ok"}
        await runs.until(lambda: items.count_documents(mended) == len(FAILING))
        process.terminate()
        await runs.end(process)
    looks = len(late)
    print(
        f"\n{looks:,} looks in {ended - began:.0f} s: {100 * used:.0f} % of one core,"
        f" {memory / 2**20:.0f} MB, at the end {grown / 2**20:.0f} MB;"
        f" begun after {late[looks // 2]:.2f} s (median), {late[looks * 99 // 100]:.2f} s (99 %), {late[-1]:.2f} s"
        f" (latest); {given_up} given up and mended, {noticed} changed schemas noticed"
    )
    assert looks >= (ENDPOINTS - len(FAILING) - len(CHANGING)) * (MEASURED_S // INTERVAL_S) - ENDPOINTS // 50
    assert late[-1] <= LATE_S
    assert given_up == len(FAILING)
    assert noticed == len(CHANGING)
