"""Pages of the items that a filter finds: all of them, once each, and no page looks at more than a bounded number."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pymongo.database import Database

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.items import Found
from harvester.jobs import listing
from harvester.jobs.documents import Document
from harvester.jobs.listing import ItemFilter
from harvester.jobs.service import JobService
from harvester.jobs.transitions import Ended
from tests.jobs.conftest import Ledgers

SEARCHED = 20
ITEMS = 90
FILTERS: list[tuple[ItemFilter, Mapping[str, Any]]] = [
    (ItemFilter(), {}),
    (ItemFilter(text="7"), {"key": {"$regex": "7"}}),
    (ItemFilter(text="nobody has this"), {"key": "none"}),
    (ItemFilter(text="89"), {"key": "page 89"}),
    (ItemFilter(site="rare.example"), {"site": "rare.example"}),
    (ItemFilter(kind="list"), {"kind": "list"}),
    (ItemFilter(state="waiting", text="page"), {"state": "waiting", "kind": "page"}),
    (ItemFilter(outcome="gone,ok", site="rare.example"), {"outcome": {"$in": ["gone", "ok"]}, "site": "rare.example"}),
    (ItemFilter(state="done,failed", outcome="gone"), {"state": "done", "outcome": "gone"}),
    (ItemFilter(state="waiting"), {"state": "waiting"}),
    (ItemFilter(state="active"), {"state": "active"}),
    (ItemFilter(state="active", text="1"), {"state": "active", "key": {"$regex": "1"}}),
    (ItemFilter(state="active,waiting"), {"state": {"$in": ["active", "waiting"]}}),
    (ItemFilter(state="done", kind="list", text="1"), {"state": "done", "kind": "list", "key": {"$regex": "1"}}),
]


def found() -> Iterator[Found]:
    for number in range(ITEMS):
        kind = "list" if number % 11 == 0 else "page"
        yield Found(kind, f"{kind} {number}")


def site_of(item: Found) -> str:
    return "rare.example" if item.key.endswith(("33", "66")) else "common.example"


@pytest.fixture
async def service(ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch) -> JobService:
    monkeypatch.setattr(listing, "MOST_SEARCHED", SEARCHED)
    ledger = ledgers.another()
    return JobService(Config(), ledgers.database, ledger)


@pytest.fixture
async def job(service: JobService, ledgers: Ledgers) -> str:
    job = await ledgers.job()
    await service.ledger.add(job.id, found(), site_of)
    claimed = (await service.ledger.claim(job, 45, "here"))[15:]
    ended = [(item.id, Ended(1, "gone" if number % 3 else "ok")) for number, item in enumerate(claimed)]
    await service.ledger.apply(ended)
    return job.id


@pytest.mark.parametrize("most", [7, *(pytest.param(most, marks=pytest.mark.slow) for most in (1, 1000))])
async def test_pages_have_each_item_once_that_a_filter_finds(
    service: JobService, job: str, mongodb: Database[Document], most: int
) -> None:
    for which, as_query in FILTERS:
        there = [row["_id"] for row in mongodb["job_items"].find({"job": job, **as_query}, sort=[("_id", 1)])]
        listed: list[str] = []
        after: str | None = ""
        while after is not None:
            page = await service.items_page(job, which, most, after, with_results=False)
            assert len(page.items) <= most, which
            assert page.end > after or not page.end, which
            listed += [each.item.id for each in page.items]
            after = page.end or None
        assert listed == there, which
        assert [each.item.id for each in await service.items(job, which, most)] == there[:most], which


async def test_no_page_looks_at_more_items_than_it_may(
    service: JobService, job: str, mongodb: Database[Document]
) -> None:
    behind = (await service.items_page(job, ItemFilter(), 50)).end
    bounded = [each for each, _ in FILTERS if each.site or each.text or each.kind or (each.state and not each.outcome)]
    for which in bounded:
        mongodb["system.profile"].drop()
        mongodb.command("profile", 2)
        for after in ("", behind):
            await service.items_page(job, which, 100, after, with_results=False)
        mongodb.command("profile", 0)
        asked = list(mongodb["system.profile"].find({"op": "query", "ns": f"{mongodb.name}.job_items"}))
        assert len(asked) >= 2, which
        assert max(each["docsExamined"] for each in asked) <= SEARCHED, which
        keys = max(each["keysExamined"] for each in asked)
        assert keys <= 3 * SEARCHED, f"{which}: it skips from one state and outcome to the next"


async def test_a_site_that_no_item_names_is_said(service: JobService, job: str) -> None:
    with pytest.raises(UsageError, match=r"none\.example.*common\.example, rare\.example"):
        await service.items(job, ItemFilter(site="none.example"))
