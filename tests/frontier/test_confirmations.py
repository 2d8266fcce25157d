"""A page counts as done when each of its records is stored, or rejected with a written reason, and not before."""

import errno
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import pytest
import redis.asyncio
from pymongo.database import Database
from scrapy import Request
from scrapy.utils.request import fingerprint

from harvester.frontier.store import Frontier
from harvester.items.other import item_kind
from harvester.stores.staging import read_segment
from tests.crawling import LONGEST_S, Answer, Site, until
from tests.forking import Forked, fork
from tests.frontier.confirming import ENDING
from tests.images.samples import GOOD
from tests.root import ROOT

FATES = {
    "/fine": ("done", ""),
    "/plain": ("done", ""),
    "/rebuilds": ("done", ""),
    "/repeats": ("done", ""),
    "/recovers": ("done", ""),
    "/missing-stored": ("done", ""),
    "/drops": ("done", ""),
    "/plain-drops": ("done", ""),
    "/number": ("done", ""),
    "/no-text": ("done", ""),
    "/unheard-of": ("done", ""),
    "/breaks-a-rule": ("done", ""),
    "/swallows": ("dead", "3 of 3 records"),
    "/empties": ("dead", "3 of 3 records"),
    "/loses-one": ("dead", "1 of 3 records"),
    "/exchanges-one": ("dead", "1 of 3 records"),
    "/plain-swallows": ("dead", "1 of 1 records"),
    "/missing-swallowed": ("dead", "1 of 1 records"),
    "/raises": ("dead", "KeyError: 'owner' (confirming.py:"),
    "/cancels": ("dead", "CancelledError"),
}
"""Path -> state, and what its reason says."""
ALL = ("fine", "rebuilds", "repeats", "recovers")
TWO = ("number", "no-text", "unheard-of", "breaks-a-rule")
MISSING = ("missing-stored",)
REJECTED = {
    ("item", "", "seen in another county"),
    ("row", "breaks-a-rule c", "item_count is negative"),
    ("row", "no-text c", "JSON"),
    ("row", "number c", "MongoDB"),
    ("row", "unheard-of c", "MongoDB"),
    *(("row", f"drops {part}", "seen in another county") for part in "abc"),
}
"""Kind, key, and what the reason says."""


class Slow(Site):
    """Answers pages when as many are asked for as it waits for, and pictures when the crawl is ending."""

    waits_for = 0
    folder = Path()
    on_picture: Callable[[], None] = staticmethod(lambda: None)

    async def answer(self, path: str, number: int) -> Answer:
        await until(lambda: len(self.arrivals) >= self.waits_for)
        if path.startswith("/picture/"):
            self.on_picture()
            await until((self.folder / ENDING).exists)
            return Answer(kind="image/jpeg", body=GOOD["plain.jpg"])
        return await super().answer(path, number)


class Late(Slow):
    """Answers when the crawl is ending."""

    async def answer(self, path: str, number: int) -> Answer:
        await until((self.folder / ENDING).exists)
        return Answer(body=b"fine")


class Crawled(NamedTuple):
    stats: dict[str, Any]
    log: str


class House(NamedTuple):
    """Where a test crawls to."""

    folder: Path
    frontier: Frontier
    database: Database[dict[str, Any]]

    async def start(self, site: Site, paths: list[str], **plan: Any) -> Forked:
        arguments = (site.url, self.frontier.spider, " ".join(paths), json.dumps(plan))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings"}
        return await fork("tests.frontier.confirming", *arguments, cwd=self.folder, env=environment)

    async def end(self, process: Forked) -> Crawled:
        out, log = await process.end(LONGEST_S)
        assert process.returncode == 0, log
        return Crawled(json.loads(out), log)

    async def crawl(self, site: Site, paths: list[str], **plan: Any) -> Crawled:
        return await self.end(await self.start(site, paths, **plan))

    def stored(self) -> set[str]:
        return set(self.database["rows"].distinct("_id"))

    def items(self) -> list[dict[str, Any]]:
        """Those that are no records."""
        return list(self.database[item_kind(self.frontier.spider)].find())

    async def done(self, site: Site, paths: list[str]) -> set[str]:
        states = {path: await self.state(site, path) for path in paths}
        return {path for path, (state, _, _) in states.items() if state == "done"}

    async def state(self, site: Site, path: str) -> tuple[str, str, str]:
        number = int.from_bytes(fingerprint(Request(site.url + path))[:8], "big", signed=True)
        fate = await self.frontier.look_up(number)
        return (fate.state, fate.outcome, fate.reason) if fate else ("unknown", "", "")


@pytest.fixture
async def house(
    redis_url: str,
    mongodb: Database[dict[str, Any]],
    mongodb_uri: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> AsyncIterator[House]:
    variables = {
        "REDIS_URL": redis_url,
        "MONGODB_URI": mongodb_uri,
        "DATABASE": mongodb.name,
        "DATA_DIR": str(tmp_path / "data"),
        "STATE_DIR": str(tmp_path / "state"),
        "REQUESTS_PER_SECOND": "0",
        "CONCURRENT_PER_HOST": "64",
        "ALLOW_PRIVATE_HOSTS": "true",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"HARVESTER_{name}", value)
    client = redis.asyncio.from_url(redis_url)
    frontier = Frontier(client, f"confirming-{uuid4().hex[:8]}", mongodb.name)
    yield House(tmp_path, frontier, mongodb)
    await frontier.drop()
    await client.aclose()


async def test_no_pipeline_turns_silence_into_done(house: House) -> None:
    missing = {path: [Answer(404, b"")] for path in FATES if path.startswith("/missing")}
    async with Site(missing) as site:
        crawled = await house.crawl(site, list(FATES))
        for path, (state, reason) in FATES.items():
            found = await house.state(site, path)
            assert (path, found[0]) == (path, state), found
            assert reason in found[2]
            assert (found[1] == "not_stored") == ("records" in reason)
        assert site.count("/swallows") == 3
        assert site.count("/recovers") == 2
        assert site.count("/raises") == site.count("/fine") == site.count("/drops") == 1
    expected = {f"{name} {part}" for name in ALL for part in "abc"}
    expected |= {f"{name} {part}" for name in TWO for part in "ab"}
    expected |= {f"{name} missing" for name in MISSING}
    assert expected <= house.stored()
    segments = (house.folder / "data" / "rejects").rglob("*.jsonl.zst")
    rejects = [msgspec.json.decode(line) for path in segments for line in read_segment(path)]
    assert {(each["kind"], each["key"]) for each in rejects} == {(kind, key) for kind, key, _ in REJECTED}
    reasons = {(each["kind"], each["key"]): each["reason"] for each in rejects}
    assert all(reason in reasons[kind, key] for kind, key, reason in REJECTED), reasons
    assert len(rejects) == len(REJECTED)
    status = await house.frontier.status()
    assert status.balanced
    assert status.leased == status.ready == status.waiting == 0
    assert (status.queued, status.done + status.dead) == (len(FATES), len(FATES))
    assert (status.rejected, status.jobs[""]["rejected"]) == (len(REJECTED), len(REJECTED))
    assert crawled.stats["harvester/records/dropped/row/seen_in_another_county"] == 3
    assert crawled.stats["finish_reason"] == "finished"
    assert crawled.stats["harvester/frontier/dead/not_stored"] == 6


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of POSIX")
async def test_pages_that_meet_a_full_disk_are_fetched_again_when_there_is_room(house: House) -> None:
    """They arrive together, so that many are under way when the disk is full."""
    paths = [f"/page/{number}" for number in range(60)]
    async with Slow() as site:
        site.waits_for = 40
        first = await house.crawl(site, paths, largest_file=60_000)
        done, stored = await house.done(site, paths), house.stored()
        status = await house.frontier.status()
        second = await house.crawl(site, paths)
    assert (first.stats["finish_reason"], first.stats["harvester/exit_code"]) == ("storage_error", 4)
    assert first.log.count(os.strerror(errno.EFBIG)) <= 2, "one cause is said once"
    assert 0 < len(done) < 40
    assert {f"page.{path.rpartition('/')[2]} {part}" for path in done for part in "abc"} <= stored
    assert (status.balanced, status.leased, status.dead) == (True, 0, 0)
    assert second.stats["finish_reason"] == "finished"
    assert house.stored() == {f"page.{number} {part}" for number in range(60) for part in "abc"}
    status = await house.frontier.status()
    assert (status.balanced, status.done) == (True, 60)


async def test_a_run_told_to_end_while_pictures_are_under_way_puts_their_pages_back(house: House) -> None:
    paths = [f"/page/{number}" for number in range(20)]
    async with Slow() as site:
        site.folder = house.folder
        process = await house.start(site, paths, pictures=True)

        def interrupt() -> None:
            if sum(arrival.path.startswith("/picture/") for arrival in site.arrivals) == 5:
                process.send_signal(signal.SIGINT)

        site.on_picture = interrupt
        first = await house.end(process)
        done, stored = await house.done(site, paths), house.stored()
        between = await house.frontier.status()
        await house.crawl(site, paths, pictures=True)
    assert first.stats["finish_reason"] == "shutdown"
    assert "log_count/ERROR" not in first.stats, first.log
    assert {f"page.{path.rpartition('/')[2]} {part}" for path in done for part in "abc"} <= stored
    assert len(done) < 20
    assert (between.balanced, between.leased, between.dead) == (True, 0, 0)
    assert house.stored() == {f"page.{number} {part}" for number in range(20) for part in "abc"}
    after = await house.frontier.status()
    assert (after.balanced, after.done) == (True, 20)


async def test_a_page_whose_files_a_projects_own_pipeline_could_not_fetch_since_the_run_ends_is_put_back(
    house: House,
) -> None:
    """That pipeline takes the end of the run for a file that cannot be had, and lets the item pass."""
    async with Late() as site:
        site.folder = house.folder
        process = await house.start(site, ["/files"], files=True)
        await until(lambda: site.count("/files") == 1)
        process.send_signal(signal.SIGINT)
        await house.end(process)
        between = house.items()
        await house.crawl(site, ["/files"], files=True)
    assert (between, site.count("/file")) == ([], 1)
    assert [[file["status"] for file in item["files"]] for item in house.items()] == [["downloaded"]]


async def test_a_file_that_a_projects_own_pipeline_asks_for_is_tried_again_as_scrapy_would(house: House) -> None:
    async with Site({"/file": [Answer(503, b""), Answer(502, b""), Answer(body=b"fine")]}) as site:
        await house.crawl(site, ["/files"], files=True)
        assert site.count("/file") == 3
    async with Site({"/file": [Answer(404, b"")]}) as site:
        await house.crawl(site, ["/files"], files=True)
        assert site.count("/file") == 1
    assert sorted(len(item["files"]) for item in house.items()) == [0, 1]
