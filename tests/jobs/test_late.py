"""A schedule or a recurring job at which no worker looks is said to be late, before and after its time."""

from datetime import timedelta
from typing import Any

import pytest
from pymongo.database import Database

from harvester.cli import doctor
from harvester.cli.doctor import Level
from harvester.config import Config
from harvester.control.services.schedules import ScheduleService
from harvester.jobs.late import LATE, find_late, late_schedule
from harvester.jobs.ledger import now
from harvester.jobs.schedules import Schedule
from harvester.jobs.scheduling import Schedules
from harvester.jobs.service import job_service
from tests.jobs.command import Jobs
from tests.jobs.conftest import Ledgers
from tests.jobs.test_standing import MORNING, Clock, clock

Document = dict[str, Any]
MINUTE = timedelta(minutes=1)

__all__ = ["clock"]


@pytest.fixture(autouse=True)
def _project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.settings")


def hourly(**fields: Any) -> Schedule:
    given: dict[str, Any] = {
        "spider": "tree",
        "arguments": {"urls": "http://site.example", "first": "1"},
        "cron": "0 * * * *",
        "created_at": MORNING,
        "next_at": MORNING + timedelta(hours=1),
    }
    return Schedule(id="s", **(given | fields))


@pytest.mark.parametrize(
    ("seen_ago", "due_in", "is_late"),
    [
        (timedelta(0), 60 * MINUTE, False),
        (LATE, 60 * MINUTE, False),
        (LATE + MINUTE, 60 * MINUTE, True),
        (None, 60 * MINUTE, True),
        (None, -60 * MINUTE, True),
        (LATE + MINUTE, -MINUTE, True),
        (timedelta(0), -MINUTE, False),
        (timedelta(0), -LATE - MINUTE, True),
    ],
)
def test_it_is_late_when_nobody_looks_or_its_time_has_passed(
    seen_ago: timedelta | None, due_in: timedelta, is_late: bool
) -> None:
    seen_at = None if seen_ago is None else MORNING - seen_ago
    schedule = hourly(next_at=MORNING + due_in)
    said = late_schedule(schedule, seen_at, MORNING)
    assert bool(said) is is_late
    if is_late:
        assert f"{schedule.next_at:%H:%M:%S}" in said
    assert not late_schedule(hourly(next_at=MORNING + due_in, paused=True), seen_at, MORNING)


@pytest.mark.parametrize(("spider", "is_late"), [(None, False), ("tree", False), ("flat", True)])
async def test_a_worker_that_looks_is_known_for_a_while(
    ledgers: Ledgers, clock: Clock, spider: str | None, is_late: bool
) -> None:
    ledger = ledgers.another()
    await Schedules(ledger).add(hourly())
    assert (await find_late(ledger, await Schedules(ledger).all())).schedules.keys() == {"s"}
    await Schedules(ledger).begin_due(spider)
    assert ("s" in (await find_late(ledger, await Schedules(ledger).all())).schedules) is is_late
    clock.turn(minutes=3)
    assert (await find_late(ledger, await Schedules(ledger).all())).schedules.keys() == {"s"}


def test_it_is_said_by_the_list_the_doctor_and_the_page_until_a_worker_looks(
    jobs: Jobs, mongodb: Database[Document], config: Config
) -> None:
    assert doctor.schedules(config) is None
    jobs.harvester("schedule", "add", "nightly", "parcels", "-a", "county=elm", "--cron", "@daily")
    assert "harvester worker" in jobs.harvester("schedule", "list").out
    [listed] = jobs.harvester("schedule", "list", "--json").json
    assert "parcels" in listed["late"]
    found = doctor.schedules(config)
    assert found
    assert (found.level, "nightly" in found.text) == (Level.WARN, True)
    long_ago = now() - timedelta(days=40)
    mongodb["schedules"].update_one({}, {"$set": {"next_at": long_ago}})
    assert f"{long_ago:%Y-%m-%d}" in jobs.harvester("schedule", "list", "--json").json[0]["late"]
    mongodb["schedules"].update_one({}, {"$set": {"next_at": now() + timedelta(hours=5)}})
    mongodb["schedule_looks"].insert_one({"_id": "", "at": now()})
    assert not jobs.harvester("schedule", "list", "--json").json[0]["late"]
    assert "harvester worker" not in jobs.harvester("schedule", "list").out
    found = doctor.schedules(config)
    assert found
    assert found.level is Level.OK


async def test_the_api_says_it_too(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    async with job_service(config) as service:
        await Schedules(service.ledger).add(hourly(created_at=now(), next_at=now() + timedelta(hours=1)))
        [status] = await ScheduleService(service).list()
        assert "tree" in status.late
        await Schedules(service.ledger).begin_due()
        assert (await ScheduleService(service).show("s")).late == ""


def test_a_recurring_job_whose_visits_are_due_and_that_nobody_looks_at_is_said(
    jobs: Jobs, mongodb: Database[Document], config: Config
) -> None:
    path = jobs.write("a\nb\n", "pages.txt")
    job = jobs("submit", "notices", "--input", str(path), "--json").json["job"]
    assert job not in jobs.harvester("schedule", "list").out, "it has just been added"
    long_ago = now() - timedelta(days=3)
    mongodb["job_items"].update_many({}, {"$set": {"due_at": long_ago}})
    listed = jobs.harvester("schedule", "list").out
    assert (job in listed, f"{long_ago:%Y-%m-%d}" in listed) == (True, True)
    found = doctor.schedules(config)
    assert found
    assert (found.level, job in found.text) == (Level.WARN, True)
    mongodb["schedule_looks"].insert_one({"_id": "notices", "at": now()})
    assert job not in jobs.harvester("schedule", "list").out
    assert doctor.schedules(config) is None
