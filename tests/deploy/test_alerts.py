"""A real Prometheus that asks a real controller: an alert fires when a site is parked, and when a job stalls."""

import asyncio
import json
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml  # type: ignore[import-untyped]
from pydantic import SecretStr
from redis.asyncio import Redis

from harvester.config import Config
from harvester.control.app import create_app
from harvester.control.context import ControllerContext
from harvester.control.tokens import Scope
from harvester.frontier.admin import FrontierAdmin
from harvester.items import Found
from harvester.sites.breaker import SiteBreaker
from tests.ports import free_port as another_port
from tests.root import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
SECONDS = 240
"""After which an alert that should fire counts as missing."""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not shutil.which("prometheus"), reason="Prometheus is not installed: apt-get install prometheus"
    ),
]


def quick_rules() -> str:
    """The rules, with seconds in place of minutes and hours."""
    text = (PROMETHEUS / "harvester.rules.yml").read_text("utf-8")
    return re.sub(r"\[\d+[mh]\]", "[5s]", re.sub(r"for: \d+[mh]", "for: 2s", text))


def configuration(controller: int, token: str, folder: Path) -> Path:
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (scrape,) = (each for each in config["scrape_configs"] if each["job_name"] == "harvester")
    (folder / "token").write_text(token)
    scrape["authorization"]["credentials_file"] = str(folder / "token")
    scrape["static_configs"] = [{"targets": [f"127.0.0.1:{controller}"]}]
    config["scrape_configs"] = [scrape]
    (folder / "harvester.rules.yml").write_text(quick_rules())
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def firing(port: int) -> list[dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/alerts", timeout=10) as answer:
            alerts = json.load(answer)["data"]["alerts"]
    except (urllib.error.URLError, ConnectionError):  # it has not begun
        return []
    return [alert["labels"] for alert in alerts if alert["state"] == "firing"]


async def until_firing(port: int, names: set[str]) -> list[dict[str, Any]]:
    async with asyncio.timeout(SECONDS):
        while True:
            labels = await asyncio.to_thread(firing, port)
            if names <= {each["alertname"] for each in labels}:
                return labels
            await asyncio.sleep(0.5)


async def test_an_alert_fires_when_a_site_is_parked_and_when_a_job_stalls(
    config: Config, own_redis: str, free_port: int, tmp_path: Path
) -> None:
    app = create_app(config.model_copy(update={"redis_url": SecretStr(own_redis)}))
    server = uvicorn.Server(uvicorn.Config(app, port=free_port, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    context: ControllerContext = app.state.context
    _, token = await context.tokens.add("prometheus", Scope.READ)
    ledger = context.jobs.ledger
    job = (await ledger.open_job("flat", "a")).job
    await ledger.add(job.id, [Found("page", "https://up.example/1")], lambda _: "up")
    await ledger.counting.count(job.id)
    async with Redis.from_url(own_redis) as redis:
        await FrontierAdmin(redis, "flat", config.database).set_breaker("down", SiteBreaker().rules(), "open", "a test")
    port = another_port()
    arguments = [
        f"--config.file={configuration(free_port, token, tmp_path)}",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (tmp_path / "log").open("wb") as log:
        prometheus = subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=log)  # noqa: ASYNC220
    try:
        labels = await until_firing(port, {"HarvesterSiteParked", "HarvesterJobStalls", "HarvesterNoWorker"})
    finally:
        prometheus.send_signal(signal.SIGTERM)
        await asyncio.to_thread(prometheus.wait, SECONDS)
        server.should_exit = True
        await serving
    by_name = {each["alertname"]: each for each in labels}
    assert (by_name["HarvesterSiteParked"]["site"], by_name["HarvesterSiteParked"]["spider"]) == ("down", "flat")
    assert by_name["HarvesterJobStalls"]["job_id"] == job.id
    assert by_name["HarvesterNoWorker"]["spider"] == "flat"
