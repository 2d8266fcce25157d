"""Pages that did not change are not fetched again; and no page counts as unchanged whose records are not stored."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis.asyncio
from pymongo.database import Database
from scrapy import Request
from scrapy.http import Headers
from scrapy.utils.request import fingerprint

from harvester.frontier.store import Frontier
from harvester.stores.validators import KEPT_S, MOST_LENGTH, validators_of
from tests.conditional.site import NEW, OLD, Validating
from tests.crawling import LONGEST_S
from tests.forking import fork
from tests.frontier.crawl import crawl
from tests.politeness.robots.site import Reply

SOON = format_datetime(datetime(2099, 1, 1, tzinfo=UTC), usegmt=True)
LINKED = "/linked?from=redirect"
REPLIES = {
    "/strong": [Reply(headers={"ETag": '"a"', "Last-Modified": OLD})],
    "/weak": [Reply(headers={"ETag": 'W/"b"'})],
    "/dated": [Reply(headers={"Last-Modified": OLD})],
    "/just-now": [Reply(headers={"Last-Modified": SOON})],
    "/secret": [Reply(headers={"ETag": '"c"', "Cache-Control": "private, no-store"})],
    "/plain": [Reply()],
    "/changes": [Reply()],
    "/raises": [Reply(headers={"ETag": '"d"'})],
    "/item-fails": [Reply(headers={"ETag": '"e"'})],
    "/missing-handled": [Reply(404, headers={"ETag": '"f"'})],
    "/redirect": [Reply(302, b"", {"Location": LINKED, "ETag": '"g"'})],
    LINKED: [Reply(headers={"ETag": '"h"'})],
}
PATHS = [path for path in REPLIES if path != LINKED]
ASKED_AGAIN: dict[str, tuple[str | None, str | None]] = {
    "/strong": ('"a"', None),
    "/weak": ('W/"b"', None),
    "/dated": (None, OLD),
    "/just-now": (None, None),
    "/secret": (None, None),
    "/plain": (None, None),
    "/changes": ('"0"', None),
    "/raises": (None, None),
    "/item-fails": (None, None),
    "/missing-handled": (None, None),
    "/redirect": (None, None),
    LINKED: ('"h"', None),
}
"""Path -> what the second crawl says it knows."""
UNCHANGED = {"/strong", "/weak", "/dated", LINKED}


@pytest.fixture
async def frontier(
    redis_url: str, mongodb: Database[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Frontier]:
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("HARVESTER_DATABASE", mongodb.name)
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "0")
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    monkeypatch.setenv("HARVESTER_LEASE_SECONDS", "1")
    client = redis.asyncio.from_url(redis_url)
    frontier = Frontier(client, f"conditional-{uuid4().hex[:8]}", mongodb.name)
    yield frontier
    await frontier.drop()
    await client.aclose()


@pytest.fixture
def known(mongodb: Database[dict[str, Any]], mongodb_uri: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The collection of validators."""
    monkeypatch.setenv("MONGODB_URI", mongodb_uri)
    return mongodb["validators"]


def registered(site: Validating, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the site's entry say that its pages are asked for only if they changed."""
    (folder / "sites").mkdir()
    entry = f'[here]\nhosts = ["{site.name}"]\n[here.politeness]\nconditional = true\n'
    (folder / "sites" / "here.toml").write_text(entry, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(folder / "sites"))


def number_of(url: str) -> int:
    return int.from_bytes(fingerprint(Request(url))[:8], "big", signed=True)


async def test_what_did_not_change_is_not_fetched_again(
    frontier: Frontier, known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Validating(REPLIES) as site:
        site.changed = frozenset({"/changes"})
        registered(site, tmp_path, monkeypatch)
        first = await crawl(tmp_path, frontier.spider, site.url, *PATHS)
        kept = {(row.get("etag"), row.get("modified")) for row in known.find()}
        indexes = known.index_information()
        known.update_many({}, {"$set": {"at": datetime(2026, 11, 1, tzinfo=UTC)}})
        await frontier.drop()
        second = await crawl(tmp_path, frontier.spider, site.url, *PATHS)
        status = await frontier.status()
        said = {path: site.said(path) for path in REPLIES}
    assert {path: told[0] for path, told in said.items()} == dict.fromkeys(REPLIES, (None, None))
    assert {path: told[-1] for path, told in said.items()} == ASKED_AGAIN
    assert kept == {('"a"', None), ('W/"b"', None), (None, OLD), ('"0"', None), ('"h"', None)}
    assert any(index.get("expireAfterSeconds") == KEPT_S for index in indexes.values())
    assert {each for each in first.items if each not in second.items} == UNCHANGED
    assert status.done_by_outcome["unchanged"] == len(UNCHANGED)
    assert (status.balanced, status.ready, status.waiting, status.leased) == (True, 0, 0, 0)
    assert second.stats["harvester/conditional/unchanged"] == len(UNCHANGED)
    assert second.stats["harvester/conditional/asked"] == len(UNCHANGED) + 1
    assert known.count_documents({"at": {"$gt": datetime(2026, 11, 2, tzinfo=UTC)}}) == len(UNCHANGED) + 1
    assert known.find_one({"etag": '"1"'})


async def test_a_page_of_a_killed_worker_is_fetched_in_full_again(
    frontier: Frontier, known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its callback was run to the end; what it led to was not in the frontier yet."""
    async with Validating({"/links": [Reply(headers={"ETag": '"a"'})]}) as site:
        registered(site, tmp_path, monkeypatch)
        plan = (frontier.spider, site.url, "/links", "{}")
        root = Path(__file__).parents[2]
        monkeypatch.setenv("PYTHONPATH", str(root))
        monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "harvester.settings")
        process = await fork("tests.conditional.killed", *plan, cwd=tmp_path, env=os.environ)
        assert await asyncio.wait_for(process.wait(), LONGEST_S) == -signal.SIGKILL
        assert site.pages() == ["/links"]
        assert known.count_documents({}) == 0
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/links")
        assert site.said("/links") == [(None, None)] * 2
        assert len(site.asked("/linked?from=links")) == 1
    assert sorted(crawled.items) == ["/linked?from=links", "/links"]
    assert known.count_documents({}) == 1


async def test_without_mongodb_pages_are_fetched_in_full(
    frontier: Frontier, free_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGODB_URI", f"mongodb://127.0.0.1:{free_port}/?serverSelectionTimeoutMS=200")
    async with Validating({"/page": [Reply(headers={"ETag": '"a"'})]}) as site:
        registered(site, tmp_path, monkeypatch)
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/page", "/other")
    assert sorted(crawled.items) == ["/other", "/page"]
    assert len(re.findall(" in full, .*MongoDB", crawled.log)) == 1


@pytest.mark.parametrize(
    ("headers", "validators"),
    [
        ({"ETag": '"a"'}, {"etag": '"a"'}),
        ({"ETag": ' W/"a" '}, {"etag": 'W/"a"'}),
        ({"ETag": '"a"', "Last-Modified": OLD}, {"etag": '"a"'}),
        ({"ETag": '"' + "a" * MOST_LENGTH + '"'}, None),
        ({"ETag": '"a"', "Cache-Control": "No-Store"}, None),
        ({"ETag": '"a"', "Cache-Control": "no-cache, max-age=0"}, {"etag": '"a"'}),
        ({"Last-Modified": OLD, "Date": NEW}, {"modified": OLD}),
        ({"Last-Modified": OLD}, {"modified": OLD}),
        ({"Last-Modified": NEW, "Date": NEW}, None),
        ({"Last-Modified": "yesterday", "Date": NEW}, None),
        ({"Last-Modified": OLD, "Date": "today"}, None),
        ({}, None),
    ],
)
def test_only_what_can_be_relied_upon_is_kept(headers: dict[str, str], validators: dict[str, str] | None) -> None:
    assert validators_of(Headers(headers)) == validators
