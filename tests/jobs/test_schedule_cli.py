"""`harvester schedule`: what is begun when, in words."""

import re

import pytest
from pymongo.database import Database

from tests.jobs.command import Jobs
from tests.jobs.test_cli import Document


def test_a_schedule_is_added_listed_paused_and_removed(jobs: Jobs, mongodb: Database[Document]) -> None:
    added = jobs.harvester(
        *("schedule", "add", "nightly", "parcels", "-a", "county=elm", "--cron", "@daily", "--zone", "Asia/Tokyo"),
        *("--overlap", "queue", "--catch-up", "all", "--priority", "-2"),
    )
    expected = r"nightly: parcels, cron 0 0 \* \* \* \(Asia/Tokyo\), first at .* 15:00:00 UTC.\n"
    assert re.fullmatch(expected, added.out), added
    (row,) = mongodb["schedules"].find()
    assert (row["arguments"], row["overlap"], row["catch_up"], row["priority"]) == (
        {"county": "elm"},
        "queue",
        "all",
        -2,
    )
    job = jobs.submitted("1\n")
    assert jobs.harvester("schedule", "add", "weekly", "--job", job, "--every", "7d").code == 0
    listed = jobs.harvester("schedule", "list").out.splitlines()
    assert [line.split()[0] for line in listed[:3]] == ["schedule", "nightly", "weekly"]
    assert jobs.harvester("schedule", "pause", "weekly").out == "weekly is paused.\n"
    assert "paused" in jobs.harvester("schedule", "list").out
    assert jobs.harvester("schedule", "resume", "weekly").out.startswith("weekly goes on, next at ")
    assert jobs.harvester("schedule", "remove", "weekly").out == "weekly is removed; its jobs stay.\n"
    assert [each["id"] for each in jobs.harvester("schedule", "list", "--json").json] == ["nightly"]
    assert mongodb["jobs"].count_documents({"_id": job}) == 1


def test_a_schedule_is_changed_and_the_rest_of_it_stays(jobs: Jobs) -> None:
    jobs.harvester("schedule", "add", "daily", "parcels", "--cron", "@daily", "--priority", "3")
    words = ("--every", "6h", "-a", "county=elm", "--overlap", "queue")
    answer = jobs.harvester("schedule", "change", "daily", *words)
    assert answer.out.startswith("daily: parcels, every 6h, next at "), answer.err
    [changed] = jobs.harvester("schedule", "list", "--json").json
    assert {name: changed[name] for name in ("arguments", "overlap", "priority", "cron", "zone")} == {
        "arguments": {"county": "elm"},
        "overlap": "queue",
        "priority": 3,
        "cron": "",
        "zone": "UTC",
    }


def test_the_coming_day_has_the_times_of_schedules_and_the_looks_of_standing_jobs(jobs: Jobs) -> None:
    assert jobs.harvester("schedule", "show").out == "Nothing.\n"
    jobs.harvester("schedule", "add", "often", "parcels", "--cron", "*/15 * * * *")
    jobs.harvester("schedule", "add", "rare", "parcels", "--every", "20h")
    path = jobs.write("a\nb\n", "pages.txt")
    job = jobs("submit", "notices", "--input", str(path), "--json").json["job"]
    shown = jobs.harvester("schedule", "show", "--limit", "1000").out.splitlines()
    assert shown[1].split() == ["now", "a", "of", job, "not", "looked", "at", "yet"]
    looks = [line for line in shown if f"a of {job}" in line]
    assert len(looks) in (24, 25)
    assert all(line.rstrip().endswith("every 1h") for line in looks[1:])
    assert sum("schedule often: parcels" in line for line in shown) == 96
    assert sum("schedule rare: parcels" in line and line.rstrip().endswith("every 20h") for line in shown) == 1
    few = jobs.harvester("schedule", "show", "--limit", "3", "--hours", "2").out
    assert few.count("schedule often") == 1
    assert "... and more until" in few
    alone = jobs.harvester("schedule", "show", "rare", "--json").json
    assert [time["what"] for time in alone["times"]] == ["schedule rare: parcels"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "x"), "add: give one of the name of a spider and --job JOB."),
        (("add", "x", "parcels"), "add: give one of --cron and --every."),
        (("add", "x", "parcels", "--cron", "@daily", "--every", "1d"), "add: give one of --cron and --every."),
        (("add", "x", "parcels", "--cron", "61 * * * *"), "--cron: '61 * * * *' is no cron expression: Bad minute."),
        (
            ("add", "x", "parcels", "--cron", "0 0 30 2 *"),
            "--cron: '0 0 30 2 *' is no cron expression: Bad day-of-month.",
        ),
        (("add", "x", "parcels", "--every", "5"), "--every: '5' is no duration"),
        (("add", "x", "parcels", "--cron", "@daily", "--zone", "xyzzy"), "zone 'xyzzy'. Give one like Europe/Berlin."),
        (("add", "x", "parcels", "--cron", "@daily", "--zone", "Berlin"), "--zone: there is no time zone 'Berlin'"),
        (("add", "x", "parcels", "--every", "1d", "--zone", "Europe/Berlin"), "--zone: it is of a cron expression"),
        (
            ("add", "x", "parcels", "--every", "1d", "--overlap", "both"),
            "--overlap: 'both' is none of skip, queue, join.",
        ),
        (
            ("add", "x", "parcels", "--every", "1d", "--catch-up", "some"),
            "--catch-up: 'some' is none of none, once, all.",
        ),
        (("add", "a b", "parcels", "--every", "1d"), "'a b' is no name of a schedule"),
        (("add", "x", "parcels", "--every", "1d", "-a", "county=ash"), "county: Input should be 'oak' or 'elm'"),
        (("add", "x", "nobody", "--every", "1d"), "no spider 'nobody'"),
        (("add", "x", "plain", "--every", "1d"), "plain begins no job: schedules are of spiders that deal with items."),
        (
            ("add", "x", "notices", "--every", "1d"),
            "Jobs of notices with these arguments stand, and look again every 1h",
        ),
        (("add", "x", "--job", "nobody", "--every", "1d"), "There is no job 'nobody'"),
        (("add", "x", "--job", "nobody", "--every", "1d", "-a", "county=elm"), "-a: the arguments of the job"),
        (
            ("add", "known", "parcels", "--every", "1d"),
            "There is a schedule 'known': give another name, or remove that",
        ),
        (("change", "nobody", "--every", "1d"), "There is no schedule 'nobody'"),
        (("change", "known"), "change: say what is to be another."),
        (("show", "nobody"), "There is no schedule 'nobody'; `harvester schedule list` shows those there are."),
        (("show", "--hours", "-1"), "Invalid value for '--hours'"),
        (("pause", "nobody"), "There is no schedule 'nobody'; `harvester schedule list` shows those there are."),
        (("resume", "nobody"), "There is no schedule 'nobody'; `harvester schedule list` shows those there are."),
        (("remove", "nobody"), "There is no schedule 'nobody'; `harvester schedule list` shows those there are."),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_and_nothing_is_kept(
    jobs: Jobs, mongodb: Database[Document], words: tuple[str, ...], said: str
) -> None:
    mongodb["schedules"].insert_one({"_id": "known", "paused": True})
    answer = jobs.harvester("schedule", *words)
    assert answer.code == 2
    assert said in answer.err
    assert mongodb["schedules"].count_documents({}) == 1
