"""Schedules: added once, changed, paused, removed, and added again by what undoes that."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from harvester.control.services.schedules import ScheduleService
from harvester.exceptions import JobConflict, UnknownJob, UsageError
from harvester.jobs.schedules import Overlap, Schedule
from harvester.jobs.scheduling import NewSchedule, ScheduleChange, Schedules
from harvester.jobs.service import JobService

NIGHTLY = NewSchedule("nightly", "bluesky", {"seeds": "alice.test"}, cron="30  2 * * *", zone="Europe/Berlin")
CHANGES = [
    ScheduleChange(cron="@hourly"),
    ScheduleChange(every="6h"),
    ScheduleChange(zone="Asia/Tokyo"),
    ScheduleChange(overlap=Overlap.QUEUE),
    ScheduleChange(priority=5, arguments={"seeds": "bob.test"}),
]


@pytest.fixture
def schedules(service: JobService) -> ScheduleService:
    return ScheduleService(service)


async def test_a_schedule_that_is_added_twice_is_one(schedules: ScheduleService) -> None:
    added = await schedules.add(NIGHTLY)
    assert (added.when, added.schedule.next_at.minute) == ("cron 30 2 * * * (Europe/Berlin)", 30)
    again = await schedules.add(replace(NIGHTLY, cron="30 2 * * *"))
    assert again.schedule == added.schedule
    assert [each.schedule for each in await schedules.list()] == [added.schedule]
    often = NewSchedule("often", "bluesky", {"seeds": "alice.test"}, every="60m")
    assert await schedules.add(often) == await schedules.add(replace(often, every="1h"))
    with pytest.raises(JobConflict, match="'nightly'"):
        await schedules.add(replace(NIGHTLY, priority=1))


@pytest.mark.parametrize("wanted", CHANGES)
async def test_what_is_changed_of_a_schedule_is_another_and_the_rest_stays(
    schedules: ScheduleService, wanted: ScheduleChange
) -> None:
    before = (await schedules.add(NIGHTLY)).schedule
    changed = (await schedules.change("nightly", wanted)).schedule
    assert changed != before
    expected = await schedules.show("nightly")
    assert expected.schedule == changed
    names = {"cron", "every", "zone", "overlap", "priority", "arguments"}
    given = {name for name in names if getattr(wanted, name) is not None}
    kept = {"overlap", "priority", "arguments", "spider", "catch_up", "created_at"} - given
    assert {name: getattr(changed, name) for name in kept} == {name: getattr(before, name) for name in kept}
    if given & {"cron", "every", "zone"}:
        assert changed.next_at != before.next_at
    assert (await schedules.change("nightly", wanted)).schedule == changed


BAD = [
    ScheduleChange(cron="nonsense"),
    ScheduleChange(cron="@daily", every="6h"),
    ScheduleChange(every="6h", zone="Europe/Berlin"),
    ScheduleChange(zone="Mars/Base"),
    ScheduleChange(arguments={"odd": "x"}),
    ScheduleChange(arguments={"seeds": " @/etc/passwd"}),
]


@pytest.mark.parametrize("wanted", BAD)
async def test_what_cannot_be_changes_nothing(schedules: ScheduleService, wanted: ScheduleChange) -> None:
    before = (await schedules.add(NIGHTLY)).schedule
    with pytest.raises(UsageError):
        await schedules.change("nightly", wanted)
    assert (await schedules.show("nightly")).schedule == before


async def test_of_two_who_change_the_same_one_is_told(
    service: JobService, schedules: ScheduleService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedules.add(NIGHTLY)
    read = Schedules.named
    once = ["another"]

    async def meanwhile(self: Schedules, name: str) -> Schedule:
        found = await read(self, name)
        if once:
            once.clear()
            await schedules.change(name, ScheduleChange(priority=7))
        return found

    monkeypatch.setattr(Schedules, "named", meanwhile)
    with pytest.raises(JobConflict, match=r"'nightly'.*meanwhile"):
        await Schedules(service.ledger).change("nightly", ScheduleChange(priority=8))
    assert (await schedules.show("nightly")).schedule.priority == 7


async def test_a_pause_is_undone_by_resume_and_a_removal_by_what_it_says(schedules: ScheduleService) -> None:
    await schedules.add(NIGHTLY)
    assert [(await schedules.pause("nightly")).number for _ in range(2)] == [1, 0]
    assert (await schedules.coming(48)).times == []
    assert [(await schedules.resume("nightly")).number for _ in range(2)] == [1, 0]
    before = (await schedules.show("nightly")).schedule
    removed = await schedules.remove("nightly")
    assert await schedules.list() == []
    for act in (schedules.remove, schedules.pause, schedules.resume, schedules.show):
        with pytest.raises(UnknownJob, match="'nightly'"):
            await act("nightly")
    assert removed.undo
    after = (await schedules.add(removed.undo)).schedule
    assert (after.cron, after.zone, after.arguments) == (before.cron, before.zone, before.arguments)
    assert after.next_at - before.next_at < timedelta(days=2)


async def test_what_was_paused_when_it_was_removed_is_paused_when_that_is_undone(schedules: ScheduleService) -> None:
    await schedules.add(NIGHTLY)
    await schedules.pause("nightly")
    assert (await schedules.add(NIGHTLY)).schedule.paused, "adding the same again changes nothing"
    removed = await schedules.remove("nightly")
    assert removed.undo
    assert (await schedules.add(removed.undo)).schedule.paused


async def test_a_removal_that_only_somebody_at_the_machine_can_undo_says_so(
    service: JobService, schedules: ScheduleService, tmp_path: Path
) -> None:
    (tmp_path / "accounts.txt").write_text("alice.test\n")
    await Schedules(service.ledger).make(replace(NIGHTLY, arguments={"seeds": f"@{tmp_path}/accounts.txt"}))
    assert (await schedules.remove("nightly")).undo is None


async def test_the_coming_day_says_what_is_begun_when(schedules: ScheduleService) -> None:
    await schedules.add(NIGHTLY)
    await schedules.add(NewSchedule("often", "bluesky", {"seeds": "bob.test"}, every="1h"))
    coming = await schedules.coming(24, most=10)
    assert (len(coming.times), coming.more) == (10, True)
    of_one = await schedules.coming(48, name="nightly")
    assert [(each.what, each.why) for each in of_one.times] == 2 * [
        ("schedule nightly: bluesky", "cron 30 2 * * * (Europe/Berlin)")
    ]
    with pytest.raises(UsageError, match=r"hours: .*8,784"):
        await schedules.coming(float("nan"))
