"""`harvester jobs add`, `remove` and `change`, and how standing jobs are shown."""

import re

import pytest
from pymongo.database import Database

from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import Ended
from tests.jobs.command import Jobs, numbers_in
from tests.jobs.test_bad_input import refused
from tests.jobs.test_cli import Document, Work, work

__all__ = ["work"]


def standing(jobs: Jobs, *words: str) -> str:
    """A job with the pages a, b and c."""
    path = jobs.write("a\nb\nc\n", "pages.txt")
    answer = jobs("submit", "notices", "--input", str(path), "--json", *words)
    assert answer.code == 0, answer.err
    job: str = answer.json["job"]
    return job


def look(work: Work, job: str) -> None:
    """At all that is due: two new things each; c fails."""

    async def act(ledger: Ledger) -> None:
        known = await ledger.job(job)
        assert known
        for item in await ledger.claim(known, 100, "worker"):
            outcome = "invalid" if item.key == "c" else "ok"
            await ledger.apply([(item.id, Ended(item.attempts, outcome, "", {"new": 2, "requests": 1}))])

    work(act)


def states(mongodb: Database[Document]) -> dict[str, tuple[str, str]]:
    return {row["key"]: (row["state"], row.get("reason", "")) for row in mongodb["job_items"].find()}


def test_items_are_added_removed_and_brought_back(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n2\n")
    assert numbers_in(jobs("add", job, "3", "003", "4").out) == [2, 1]
    bad = jobs("add", job, "3", "three")
    assert (bad.code, bad.err.startswith("Line 2, 'three': ")) == (0, True)
    assert numbers_in(jobs("remove", job, "1", f"{job}:parcel:2").out) == [2]
    assert numbers_in(jobs("remove", job, "1").out) == [0]
    removed = ("skipped", "removed")
    assert states(mongodb) == {"1": removed, "2": removed, "3": ("waiting", ""), "4": ("waiting", "")}
    path = jobs.write("2\nfive\n5\n", "more.txt")
    answer = jobs("add", job, "--input", str(path), "--json")
    assert (answer.code, answer.json["accepted"], answer.json["known"], answer.json["bad"]) == (0, 1, 1, 1)
    assert states(mongodb)["2"] == states(mongodb)["5"] == ("waiting", "")
    assert jobs("retry", job, "1").code == 0
    assert states(mongodb)["1"] == ("waiting", "")
    assert mongodb["jobs"].count_documents({}) == 1


def test_items_that_are_added_to_a_finished_job_open_it_again(jobs: Jobs, work: Work) -> None:
    job = jobs.submitted("1\n")
    work.end(job, _1="ok")
    assert work.finish(job)
    assert jobs("add", job, "2").code == 0
    assert jobs("show", job, "--json").json["job"]["state"] == "open"


def test_an_item_gets_another_input_and_another_pace(jobs: Jobs, work: Work, mongodb: Database[Document]) -> None:
    job = standing(jobs)
    look(work, job)
    due = {row["key"]: row["due_at"] for row in mongodb["job_items"].find()}
    assert numbers_in(jobs("change", job, "a", "b", "--often", "4").out) == [2]
    assert numbers_in(jobs("change", job, "c", "--set", "page=2", "--set", "lang=de").out) == [1]
    items = {row["key"]: row for row in mongodb["job_items"].find()}
    assert items["a"]["due_at"] < due["a"]
    assert (items["c"]["input"]["page"], items["c"].get("due_at")) == ("2", None)
    assert jobs("change", job, "c", "--set", "lang=").code == 0
    assert mongodb["job_items"].find_one({"key": "c"}, {"_id": 0, "input": 1}) == {"input": {"page": "2"}}
    assert numbers_in(jobs("change", job, "a", "--often", "4").out) == [0]


def test_a_standing_job_shows_when_it_looks_at_what_and_why_then(jobs: Jobs, work: Work) -> None:
    job = standing(jobs, "-a", "looks_a_day=14400", "--name", "Notices")
    (line,) = (line for line in jobs("list").out.splitlines() if job in line)
    assert line.split()[-3:] == ["every", "1h", "Notices"]
    shown = jobs("show", job).out
    assert re.search(r"\bevery 1h\b.*\b14,400\b", shown)
    assert re.search(r"^ +now +a .+$", shown, re.MULTILINE)
    look(work, job)
    shown = jobs("show", job).out
    assert re.search(r" a .*every 1h$", shown, re.MULTILINE)
    assert re.search(r" c .*(1 failure|every 1h)$", shown, re.MULTILINE)
    report = jobs("show", job, "--json").json
    assert report["next_look"] == min(item["due_at"] for item in report["next_items"])
    items = {line.split()[0].rpartition(":")[2]: line for line in jobs("items", job).out.splitlines() if job in line}
    for key, named in (("a", ["every 1h", "2 found", "1 attempt"]), ("c", ["0 found", "1 failed"])):
        assert [name for name in named if name not in items[key]] == []
    assert jobs("remove", job, "a", "b", "c").code == 0
    report = jobs("show", job, "--json").json
    assert (report["next_look"], report["next_items"]) == (None, [])
    assert "every 1h" in jobs("show", job).out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("add", "JOB"), ["keys", "--input FILE"]),
        (("add", "JOB", "1", "--input", "x.txt"), ["keys", "--input FILE"]),
        (("add", "JOB", "none"), ["'none'", "line"]),
        (("add", "JOB", "1", "--kind", "tree"), ["'tree'", "parcel, owner"]),
        (("add", "JOB", "1", "--often", "2"), ["JOB", "standing"]),
        (("add", "JOB", "1", "--often", "1000"), ["--often"]),
        (("add", "nobody", "1"), ["'nobody'", "harvester jobs list"]),
        (("remove", "JOB", "nope"), ["JOB", "'nope'"]),
        (("change", "JOB", "1"), ["--set NAME=VALUE", "--often NUMBER"]),
        (("change", "JOB", "1", "--set", "x"), ["--set", "'x'", "NAME=VALUE"]),
        (("change", "JOB", "1", "--often", "2"), ["JOB", "standing"]),
        (("change", "NOTICES", "a", "--set", "url=b"), ["a: ", "'b'"]),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(
    jobs: Jobs, mongodb: Database[Document], words: tuple[str, ...], named: list[str]
) -> None:
    names = {"JOB": jobs.submitted("1\n"), "NOTICES": standing(jobs)}
    before = list(mongodb["job_items"].find().sort("_id"))
    answer = jobs(*(names.get(word, word) for word in words))
    refused(answer, *(names.get(name, name) for name in named))
    assert list(mongodb["job_items"].find().sort("_id")) == before


def test_items_of_a_cancelled_job_are_neither_added_nor_changed(jobs: Jobs) -> None:
    job = jobs.submitted("1\n")
    jobs("cancel", job, "--yes")
    for words in (("add", job, "2"), ("change", job, "1", "--set", "x=1")):
        refused(jobs(*words), job, "cancelled")
