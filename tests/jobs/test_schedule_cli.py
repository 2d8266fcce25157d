"""`harvester schedule`: what is begun when, in words."""

import re

import pytest
from pymongo.database import Database

from tests.jobs.command import Jobs
from tests.jobs.test_bad_input import refused
from tests.jobs.test_cli import Document


def test_a_schedule_is_added_listed_paused_and_removed(jobs: Jobs, mongodb: Database[Document]) -> None:
    added = jobs.harvester(
        *("schedule", "add", "nightly", "parcels", "-a", "county=elm", "--cron", "@daily", "--zone", "Asia/Tokyo"),
        *("--overlap", "queue", "--catch-up", "all", "--priority", "-2"),
    )
    assert added.code == 0, added
    for named in ("nightly", "parcels", "0 0 * * *", "Asia/Tokyo", " 15:00:00 UTC"):
        assert named in added.out
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
    assert "weekly" in jobs.harvester("schedule", "pause", "weekly").out
    assert "paused" in jobs.harvester("schedule", "list").out
    assert re.search(r"weekly.* \d\d:\d\d:\d\d UTC", jobs.harvester("schedule", "resume", "weekly").out)
    assert "paused" not in jobs.harvester("schedule", "list").out
    assert "weekly" in jobs.harvester("schedule", "remove", "weekly").out
    assert [each["id"] for each in jobs.harvester("schedule", "list", "--json").json] == ["nightly"]
    assert mongodb["jobs"].count_documents({"_id": job}) == 1


def test_a_schedule_is_changed_and_the_rest_of_it_stays(jobs: Jobs) -> None:
    jobs.harvester("schedule", "add", "daily", "parcels", "--cron", "@daily", "--priority", "3")
    words = ("--every", "6h", "-a", "county=elm", "--overlap", "queue")
    answer = jobs.harvester("schedule", "change", "daily", *words)
    assert answer.code == 0, answer.err
    for named in ("daily", "parcels", "every 6h"):
        assert named in answer.out
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
    assert shown[1].split()[:4] == ["now", "a", "of", job]
    looks = [line for line in shown if f"a of {job}" in line]
    assert len(looks) in (24, 25)
    assert all(line.rstrip().endswith("every 1h") for line in looks[1:])
    assert sum("schedule often: parcels" in line for line in shown) == 96
    assert sum("schedule rare: parcels" in line and line.rstrip().endswith("every 20h") for line in shown) == 1
    few = jobs.harvester("schedule", "show", "--limit", "3", "--hours", "2").out
    assert few.count("schedule often") == 1
    assert jobs.harvester("schedule", "show", "--limit", "3", "--hours", "2", "--json").json["times"] != []
    assert "more" in few.splitlines()[-1]
    alone = jobs.harvester("schedule", "show", "rare", "--json").json
    assert [time["what"] for time in alone["times"]] == ["schedule rare: parcels"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("add", "x"), ["spider", "--job JOB"]),
        (("add", "x", "parcels"), ["--cron", "--every"]),
        (("add", "x", "parcels", "--cron", "@daily", "--every", "1d"), ["--cron", "--every"]),
        (("add", "x", "parcels", "--cron", "61 * * * *"), ["--cron", "'61 * * * *'", "minute"]),
        (("add", "x", "parcels", "--cron", "0 0 30 2 *"), ["--cron", "'0 0 30 2 *'", "day-of-month"]),
        (("add", "x", "parcels", "--every", "5"), ["--every", "'5'"]),
        (("add", "x", "parcels", "--cron", "@daily", "--zone", "xyzzy"), ["--zone", "'xyzzy'", "Europe/Berlin"]),
        (("add", "x", "parcels", "--cron", "@daily", "--zone", "Berlin"), ["--zone", "'Berlin'"]),
        (("add", "x", "parcels", "--every", "1d", "--zone", "Europe/Berlin"), ["--zone", "cron"]),
        (("add", "x", "parcels", "--every", "1d", "--overlap", "both"), ["--overlap", "'both'", "skip, queue, join"]),
        (("add", "x", "parcels", "--every", "1d", "--catch-up", "some"), ["--catch-up", "'some'", "none, once, all"]),
        (("add", "a b", "parcels", "--every", "1d"), ["'a b'"]),
        (("add", "x", "parcels", "--every", "1d", "-a", "county=ash"), ["county", "'oak'", "'elm'"]),
        (("add", "x", "nobody", "--every", "1d"), ["spider", "'nobody'"]),
        (("add", "x", "plain", "--every", "1d"), ["plain", "items"]),
        (("add", "x", "notices", "--every", "1d"), ["notices", "every 1h"]),
        (("add", "x", "--job", "nobody", "--every", "1d"), ["job", "'nobody'"]),
        (("add", "x", "--job", "nobody", "--every", "1d", "-a", "county=elm"), ["-a"]),
        (("add", "known", "parcels", "--every", "1d"), ["'known'"]),
        (("change", "nobody", "--every", "1d"), ["'nobody'"]),
        (("change", "known"), ["change"]),
        (("show", "nobody"), ["'nobody'", "harvester schedule list"]),
        (("show", "--hours", "-1"), ["--hours"]),
        (("pause", "nobody"), ["'nobody'", "harvester schedule list"]),
        (("resume", "nobody"), ["'nobody'", "harvester schedule list"]),
        (("remove", "nobody"), ["'nobody'", "harvester schedule list"]),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_and_nothing_is_kept(
    jobs: Jobs, mongodb: Database[Document], words: tuple[str, ...], named: list[str]
) -> None:
    mongodb["schedules"].insert_one({"_id": "known", "paused": True})
    answer = jobs.harvester("schedule", *words)
    refused(answer, *named)
    assert mongodb["schedules"].count_documents({}) == 1
