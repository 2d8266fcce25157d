"""`make costly`: what each body costs, and that it costs others nothing.

For each: megabytes of the process at most, and with all that it has started; the longest while, in seconds of
computing, in which it did nothing else; the outcome and the reason. It fails when a process takes more than MAX_MB or
is silent for more than MAX_GAP_S, and when a body has no outcome, or one other than `ok` without a reason.
"""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pymongo.database import Database

from tests.costly.bodies import ENDPOINTS, FEEDS, PAGES, REPOSITORIES, Body, wanted
from tests.costly.measuring import Cost, Peak, check, head, show, watched
from tests.crawling import Answer, Site
from tests.endpoints.conftest import Endpoints

pytestmark = [pytest.mark.costly, pytest.mark.timeout(3600)]


class Costly(Site):
    """A site with these bodies."""

    def __init__(self, bodies: Mapping[str, Body]) -> None:
        super().__init__()
        self._answers = {
            f"/{quote(name, safe='')}": Answer(body=body.make(), kind=body.kind)
            for name, body in wanted(bodies).items()
        }

    def address(self, name: str) -> str:
        return f"{self.url}/{quote(name, safe='')}"

    async def answer(self, path: str, number: int) -> Answer:
        return self._answers[path]


@pytest.fixture
async def crawls(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[dict[str, Any]]
) -> AsyncIterator["Crawls"]:
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name, "lease_seconds": "120"}
    async with Crawls(tmp_path, mongodb, **variables) as crawls:
        yield crawls


class Crawls(Endpoints):
    """Crawls that are measured."""

    def __init__(self, folder: Path, mongodb: Database[dict[str, Any]], **variables: str) -> None:
        super().__init__(folder, mongodb, **variables)
        self._environment |= {
            "SCRAPY_SETTINGS_MODULE": "tests.costly.settings",
            "COSTLY_GAP": str(folder / "gap"),
            "COSTLY_NOTED": str(folder / "noted"),
        }
        self._gap, self._noted = folder / "gap", folder / "noted"

    async def measure(self, spider: str, **arguments: object) -> tuple[Peak, float]:
        process = await self.start(spider, **arguments)
        with watched(process.pid) as watching:
            await self.end(process, within_s=1800)
        return watching.peak, json.loads(self._gap.read_text())

    def fate(self, key: str) -> tuple[str, str]:
        item = self.mongodb["job_items"].find_one({"key": key}) or {}
        return str(item.get("outcome") or ""), str(item.get("reason") or "")

    def noted(self, url: str) -> tuple[str, str]:
        lines = [line.split("\t") for line in self._noted.read_text().splitlines()]
        return next(((outcome, reason) for at, outcome, reason in lines if at == url), ("", ""))

    def declare(self, bodies: Mapping[str, Body], site: Costly) -> str:
        """The argument of a spider that asks for them."""
        file = self.file.with_suffix(".toml")
        tables = [
            f'[{json.dumps(name)}]\nurl = {json.dumps(site.address(name))}\ncollection = "costly"\n'
            + "".join(f"{key} = {_toml(value)}\n" for key, value in body.declared.items())
            for name, body in bodies.items()
        ]
        file.write_text("\n".join(tables))
        return f"@{file}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


async def test_feeds(crawls: Crawls) -> None:
    async with Costly(FEEDS) as site:
        head()
        costs = []
        for name in wanted(FEEDS):
            measured = await crawls.measure("feeds", feeds=site.address(name), recheck="every 7d")
            costs.append(show(Cost(name, *measured, *crawls.fate(site.address(name)))))
    check(costs)


async def test_endpoints(crawls: Crawls) -> None:
    async with Costly(ENDPOINTS) as site:
        head()
        costs = []
        for name, body in wanted(ENDPOINTS).items():
            measured = await crawls.measure("endpoints", endpoints=crawls.declare({name: body}, site))
            costs.append(show(Cost(name, *measured, *crawls.fate(name))))
    check(costs)


async def test_pages(crawls: Crawls) -> None:
    async with Costly(PAGES) as site:
        head()
        costs = []
        for name in wanted(PAGES):
            measured = await crawls.measure("links", urls=site.address(name))
            costs.append(show(Cost(name, *measured, *crawls.noted(site.address(name)))))
    check(costs)


async def test_repositories(crawls: Crawls) -> None:
    async with Costly(REPOSITORIES) as site:
        head()
        costs = []
        for name in wanted(REPOSITORIES):
            measured = await crawls.measure("repositories", urls=site.address(name))
            costs.append(show(Cost(name, *measured, *crawls.noted(site.address(name)))))
    check(costs)


async def test_all_at_once(crawls: Crawls) -> None:
    """In one process, and as fast as any host is asked: four at a time, eight a second."""
    crawls.set(HARVESTER_REQUESTS_PER_SECOND="8")
    head()
    costs = []
    async with Costly(FEEDS | ENDPOINTS | PAGES) as site:
        feeds = ",".join(map(site.address, FEEDS))
        costs.append(show(Cost("all feeds", *await crawls.measure("feeds", feeds=feeds, recheck="every 7d"), "ok", "")))
        given = crawls.declare(ENDPOINTS, site)
        costs.append(show(Cost("all endpoints", *await crawls.measure("endpoints", endpoints=given), "ok", "")))
        urls = ",".join(map(site.address, PAGES))
        costs.append(show(Cost("all pages", *await crawls.measure("links", urls=urls), "ok", "")))
        outcomes = [crawls.fate(site.address(name)) for name in FEEDS] + [crawls.fate(name) for name in ENDPOINTS]
        outcomes += [crawls.noted(site.address(name)) for name in PAGES]
    check(costs)
    assert all(outcome and (outcome == "ok" or reason) for outcome, reason in outcomes), outcomes
