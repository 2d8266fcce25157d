"""Feeds and endpoints of standing jobs: how each stands; added, changed, removed and restarted while workers run."""

from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.control.pages.recurring import read_input
from harvester.control.services.watching import NewItem, Watching
from harvester.exceptions import JobConflict, UnknownJob, UsageError
from harvester.jobs.documents import Job
from harvester.jobs.job_opener import give_items, open_job_of
from harvester.jobs.recurring import Standing
from harvester.jobs.service import JobService
from harvester.project import load_spider

Document = dict[str, Any]
A, B, C = (f"https://{name}.test/feed.xml" for name in "abc")


async def standing_job(service: JobService, spider: str = "feeds", given: str = f"{A},{B},{C}") -> Job:
    kind: Any = load_spider(spider)
    arguments = kind.parse_arguments({spider: given})
    job = (await open_job_of(service.ledger, kind, arguments)).job
    await give_items(service.ledger, kind, job, kind.first_items(arguments))
    return job


def bring(mongodb: Database[Document], key: str, **fields: Any) -> None:
    assert mongodb["job_items"].update_one({"key": key}, {"$set": fields}).matched_count


async def names(watching: Watching, **filters: Any) -> list[str]:
    return [each.name for each in (await watching.list(**filters)).items]


async def test_each_item_says_how_it_stands_and_is_found_by_that(
    service: JobService, mongodb: Database[Document]
) -> None:
    job, watching = await standing_job(service), Watching(service)
    bring(mongodb, A, state="failed", failures=10, reason="HTTP 500")
    bring(mongodb, B, failures=1, reason="no answer")
    page = await watching.list()
    assert [(each.name, each.standing, each.reason) for each in page.items] == [
        (A, Standing.PERMANENTLY_FAILED, "HTTP 500"),
        (B, Standing.FAILED, "no answer"),
        (C, Standing.WAITING, ""),
    ]
    assert {each.recheck for each in page.items} == {job.recheck}
    for standing, name in ((Standing.PERMANENTLY_FAILED, A), (Standing.FAILED, B), (Standing.WAITING, C)):
        assert await names(watching, standings=[standing]) == [name]
    assert await names(watching, standings=[Standing.RUNNING, Standing.REMOVED, Standing.SUCCESS]) == []
    assert await names(watching, text="b.TEST") == [B]
    assert await names(watching, text="http 5", standings=list(Standing)) == [A]
    assert await names(watching, spider="endpoints") == []
    first = await watching.list(most=2)
    assert [each.name for each in (await watching.list(after=first.next or "")).items] == [C]


async def test_items_are_added_removed_and_there_again(service: JobService) -> None:
    job, watching = await standing_job(service), Watching(service)
    new = "https://d.test/feed.xml"
    for accepted in (1, 0):
        added = await watching.add("feeds", [NewItem(new), NewItem("nonsense")])
        assert (added.job, added.accepted, added.known, added.bad) == (job.id, accepted, 1 - accepted, 1)
    assert [(await watching.remove(job.id, [new])).number for _ in range(2)] == [1, 0]
    assert await names(watching, standings=[Standing.REMOVED]) == [new]
    await watching.add("feeds", [NewItem(new)])
    assert await names(watching, standings=[Standing.REMOVED]) == []
    with pytest.raises(UnknownJob, match=r"https://nobody.test/"):
        await watching.remove(job.id, ["https://nobody.test/"])


async def test_an_endpoint_is_added_with_its_table_and_changed(
    service: JobService, mongodb: Database[Document]
) -> None:
    job = await standing_job(service, "endpoints", "https://api.test/a")
    watching = Watching(service)
    wanted = NewItem("prices", {"url": "https://api.test/prices", "interval": "5m", "rows": "data"})
    assert (await watching.add("endpoints", [wanted], job.id)).accepted == 1
    assert (await watching.change(job.id, ["prices"], {"interval": "1h"}, often=2)).number == 1
    item = mongodb["job_items"].find_one({"key": "prices"})
    assert item
    assert (item["input"]["interval"], item["recheck"], item["often"]) == ("1h", "every 1h", 2)
    for bad in ({"interval": "soon"}, {"url": "ftp://x"}, {"odd": 1}):
        with pytest.raises(UsageError):
            await watching.change(job.id, ["prices"], bad)


async def test_no_secret_of_the_workers_can_be_sent_anywhere(service: JobService) -> None:
    job = await standing_job(service, "endpoints", "https://api.test/a")
    headers = {"headers": {"X": "${HARVESTER_SMTP_PASSWORD}"}}
    added = await Watching(service).add("endpoints", [NewItem("x", {"url": "https://evil.test", **headers})])
    assert (added.accepted, added.bad) == (0, 1)
    assert "headers" in added.bad_lines[0].reason
    with pytest.raises(UsageError, match="headers"):
        await Watching(service).change(job.id, ["https://api.test/a"], headers)


async def test_a_secret_goes_nowhere_else_when_its_endpoint_is_changed(
    service: JobService, mongodb: Database[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_KEY", "a secret")
    file = tmp_path / "endpoints.toml"
    file.write_text('[weather]\nurl = "https://api.test/w"\nheaders = {X-Key = "${WEATHER_KEY}"}\n')
    job, watching = await standing_job(service, "endpoints", f"@{file}"), Watching(service)
    before = mongodb["job_items"].find_one({"key": "weather"})
    for wanted in ({"url": "https://evil.test/"}, {"method": "POST", "body": {}}, {"pages": {"by": "link"}}):
        with pytest.raises(UsageError, match="headers"):
            await watching.change(job.id, ["weather"], wanted)
    assert mongodb["job_items"].find_one({"key": "weather"}) == before
    assert (await watching.change(job.id, ["weather"], {}, often=2)).number == 1
    assert await service.change(job.id, ["weather"], {"url": "https://moved.test/"}) == 1, "at the machine itself"
    assert (await watching.change(job.id, ["weather"], {"url": "https://other.test/", "headers": ""})).number == 1


async def test_a_restart_takes_no_more_than_was_said(service: JobService, mongodb: Database[Document]) -> None:
    job, watching = await standing_job(service), Watching(service)
    bring(mongodb, A, state="failed", failures=10)
    bring(mongodb, B, state="failed", failures=10)
    with pytest.raises(JobConflict, match=r"\b1\b"):
        await watching.restart("feeds", expect=1)
    assert (await watching.restart(job=job.id, names=[A])).number == 1
    assert [(await watching.restart(expect=5)).number for _ in range(2)] == [1, 0]
    assert await names(watching, standings=[Standing.WAITING]) == [A, B, C]
    with pytest.raises(UnknownJob, match="'odd'"):
        await watching.restart(names=["odd", A])


async def test_what_cannot_be_meant_is_refused(service: JobService, mongodb: Database[Document]) -> None:
    watching = Watching(service)
    with pytest.raises(UnknownJob, match="feeds"):
        await watching.add("feeds", [NewItem(A)])
    job = await standing_job(service)
    await standing_job(service, "feeds", A)
    with pytest.raises(JobConflict, match=r"feeds.* several "):
        await watching.add("feeds", [NewItem(A)])
    with pytest.raises(UsageError, match=r"feeds.*endpoints"):
        await watching.add("endpoints", [NewItem(A)], job.id)
    with pytest.raises(UsageError, match="`expect`"):
        await watching.restart()
    for wrong in ([], ["x"] * 1001):
        with pytest.raises(UsageError, match="1,000"):
            await watching.remove(job.id, wrong)
    with pytest.raises(UsageError, match="1,000"):
        await watching.add("feeds", [])
    with pytest.raises(UsageError, match=r"`input`.*`often`"):
        await watching.change(job.id, [A], {})
    mongodb["jobs"].update_one({"_id": job.id}, {"$set": {"recheck": ""}})
    with pytest.raises(JobConflict, match=job.id):
        await watching.list(job=job.id)


@pytest.mark.parametrize("text", ["url =", "a = b", "pages = " + "9" * 5_000, "a = " + "[" * 5_000])
def test_lines_of_a_page_that_cannot_be_read_are_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="input"):
        read_input(text)
