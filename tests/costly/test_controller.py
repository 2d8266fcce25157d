"""`make costly`, of what is sent to the controller: others are answered meanwhile, and each is answered in the end."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harvester.config import Config
from harvester.control.tokens import Scope, Tokens
from harvester.stores import mongodb as stores
from tests.control.server import serving
from tests.costly.bodies import UPLOADS, Body, wanted
from tests.costly.measuring import Cost, check, head, show, watched

pytestmark = [pytest.mark.costly, pytest.mark.timeout(3600)]

ALIVE = "/healthz"


async def test_uploads(config: Config, mongodb_uri: str, own_redis: str, tmp_path: Path) -> None:
    database = stores.connect(config)
    token = (await Tokens(database).add("who sends them", Scope.OPERATE))[1]
    await stores.disconnect(database)
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": config.database}
    variables |= {"data_dir": str(tmp_path / "data"), "state_dir": str(tmp_path / "state")}
    given = {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}
    with serving(given, tmp_path) as server:
        limits = httpx2.Timeout(1800)
        async with httpx2.AsyncClient(base_url=server.url, timeout=limits) as client:
            client.headers["Authorization"] = f"Bearer {token}"
            head()
            costs = [
                show(await _cost(client, server.process.pid, name, body)) for name, body in wanted(UPLOADS).items()
            ]
    check(costs)


async def _cost(client: httpx2.AsyncClient, pid: int, name: str, body: Body) -> Cost:
    content = body.make()
    sending = asyncio.create_task(_sent(client, name, body.kind, content))
    longest = 0.0
    with watched(pid) as watching:
        while not sending.done():
            began = time.monotonic()
            assert (await client.get(ALIVE)).status_code == 200
            longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(0.02)
    answer = await sending
    told = answer.json()
    said = told.get("detail") or "; ".join(line["reason"] for line in told.get("bad_lines", [])[:1])
    return Cost(name, watching.peak, longest, "ok" if answer.status_code < 300 else str(answer.status_code), said)


async def _sent(client: httpx2.AsyncClient, name: str, kind: str, content: bytes) -> httpx2.Response:
    headers = {"Idempotency-Key": name.replace(" ", "-")}
    if kind in ("schema", "path"):
        declared: dict[str, Any] = {"url": "http://127.0.0.1:9/"}
        declared |= {"rows": "@", "schema": json.loads(content)} if kind == "schema" else {"rows": content.decode()}
        item = {"key": "prices", **declared}
        given = {"spider": "endpoints", "arguments": {"endpoints": "http://127.0.0.1:9/"}, "items": [item]}
        return await client.post("/api/v1/jobs", json=given, headers=headers)
    headers["Content-Type"], _, coding = kind.partition("; ")
    if coding:
        headers["Content-Encoding"] = coding
    query = {"spider": "bluesky"}
    return await client.post("/api/v1/jobs/upload", content=content, headers=headers, params=query)
