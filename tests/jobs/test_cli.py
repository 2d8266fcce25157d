"""`harvester jobs`: what people ask for, what they are told, and what they change."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from io import StringIO
from typing import Any, TypeVar

import pytest
import typer
from pydantic import SecretStr
from pymongo import AsyncMongoClient
from pymongo.database import Database

from harvester.cli.jobs import jobs as commands
from harvester.cli.printing import new_console, new_table
from harvester.config import Config, load_config
from harvester.frontier.operations import set_breaker
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import Ended
from harvester.stores.servers.kinds import SERVERS
from harvester.stores.servers.state import ServerState, running_in
from tests.forking import run
from tests.jobs.command import HARVESTER, Jobs, numbers_in

T = TypeVar("T")
Document = dict[str, Any]

ASKED = "[y/N]"
"""What a question ends with."""
CSV = "key,owner\n001,Ann\n002,Bob\n003,Cy\n"


async def _at_once(operation: Callable[[], Awaitable[Any]]) -> Any:
    return await operation()


class Work:
    """What workers do to items."""

    def __init__(self, uri: str, database: str) -> None:
        self._uri = uri
        self._database = database

    def __call__(self, act: Callable[[Ledger], Awaitable[T]]) -> T:
        async def run() -> T:
            async with AsyncMongoClient[Document](self._uri, tz_aware=True) as client:
                return await act(Ledger(client[self._database], _at_once))

        return asyncio.run(run())

    def end(self, job: str, **outcomes: str) -> None:
        """Begins items, of which those named by their keys (as _1=ok) end so."""

        async def act(ledger: Ledger) -> None:
            known = await ledger.job(job)
            assert known
            for item in await ledger.claim(known, 1000, "worker"):
                if outcome := outcomes.get(f"_{item.key}"):
                    counts = {"requests": 2, "records": 5, "rejected": 0}
                    await ledger.apply([(item.id, Ended(item.attempts, outcome, f"because of {outcome}", counts))])

        self(act)

    def finish(self, job: str) -> bool:
        return self(lambda ledger: ledger.finish(job))


@pytest.fixture(params=["local", pytest.param("remote", marks=pytest.mark.soak)])
def jobs(request: pytest.FixtureRequest) -> Jobs:
    """All is the same when a controller is asked."""
    jobs: Jobs = request.getfixturevalue(f"{request.param}_jobs")
    return jobs


@pytest.fixture
def work(mongodb_uri: str, mongodb: Database[Document]) -> Work:
    return Work(mongodb_uri, mongodb.name)


# Submitting ------------------------------------------------------------------------------------------------


def test_what_was_submitted_is_in_the_job(jobs: Jobs, mongodb: Database[Document]) -> None:
    answer = jobs.submit(CSV, "-a", "county=elm", "--name", "Elm 2026", "--priority", "7", name="parcels.csv")
    assert answer.code == 0
    (job,) = mongodb["jobs"].find()
    assert (job["_id"] in answer.out, numbers_in(answer.out)) == (True, [3])
    assert (job["spider"], job["arguments"], job["state"]) == ("parcels", {"county": "elm"}, "open")
    assert (job["name"], job["priority"]) == ("Elm 2026", 7)
    items = list(mongodb["job_items"].find().sort("_id"))
    assert [(item["_id"], item["key"], item["line"]) for item in items] == [
        (f"{job['_id']}:parcel:{number}", str(number), number + 1) for number in (1, 2, 3)
    ]
    assert items[0]["input"] == {"key": "001", "owner": "Ann"}
    assert {(item["kind"], item["state"], item["depth"]) for item in items} == {("parcel", "waiting", 0)}


def test_items_that_come_twice_are_counted_and_are_one(jobs: Jobs, mongodb: Database[Document]) -> None:
    answer = jobs.submit("1\n2\n01\n2\n", "--json")
    assert (answer.json["accepted"], answer.json["known"], answer.json["bad"]) == (2, 2, 0)
    assert mongodb["job_items"].count_documents({}) == 2


def test_bad_lines_are_named_and_kept_and_the_others_are_accepted(jobs: Jobs) -> None:
    answer = jobs.submit("1\nnone\n2\n\n\x07\n")
    assert answer.code == 0
    assert numbers_in(answer.out) == [2, 2]
    assert "Line 2, 'none': 'none' " in answer.err
    assert "Line 5, '\\x07': " in answer.err
    (file,) = (jobs.folder / "data" / "jobs").iterdir()
    assert str(file) in answer.err
    first, second = [json.loads(line) for line in file.read_text().splitlines()]
    assert (first["line"], first["text"], "'none'" in first["reason"]) == (2, "none", True)
    assert (second["line"], second["text"], "'\\x07'" in second["reason"]) == (5, "\x07", True)


def test_a_line_of_which_its_spider_makes_no_item_is_a_bad_line(jobs: Jobs) -> None:
    lines = jobs.write('{"key": "a", "url": ""}\n{"key": "b"}\n', "input.jsonl")
    answer = jobs("submit", "notices", "--input", str(lines), "--json")
    assert (answer.json["accepted"], answer.json["bad"]) == (1, 1)
    (bad,) = answer.json["bad_lines"]
    assert (bad["line"], bad["text"], bad["reason"].startswith("page: '' ")) == (1, "a", True)


def test_the_first_twenty_bad_lines_are_shown_and_all_are_kept(jobs: Jobs) -> None:
    answer = jobs.submit("x\n" * 50 + "1\n")
    assert answer.err.count("Line ") == 20
    assert "30 more" in answer.err
    (file,) = (jobs.folder / "data" / "jobs").iterdir()
    assert len(file.read_text().splitlines()) == 50


def test_standard_input_is_read(jobs: Jobs) -> None:
    ran = jobs.run("submit", "parcels", "--input", "-", "--json", stdin=b'{"key": 5}\n{"key": "6"}\n')
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["accepted"] == 2


def test_the_only_column_is_the_key_of_what_is_submitted_and_added(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("parcel_id\n17\n18\n", name="only.csv")
    more = jobs.write("parcel_id\n19\n", "more.csv")
    assert jobs("add", job, "--input", str(more)).code == 0
    assert {item["key"] for item in mongodb["job_items"].find()} == {"17", "18", "19"}


def test_another_kind_of_items_is_submitted_by_name(jobs: Jobs, mongodb: Database[Document]) -> None:
    jobs.submitted("Ann Arbor\n", "--kind", "owner")
    assert [(item["kind"], item["key"]) for item in mongodb["job_items"].find()] == [("owner", "Ann Arbor")]


def test_a_limit_is_of_the_kind_that_is_submitted(jobs: Jobs, mongodb: Database[Document]) -> None:
    jobs.submitted("1\n2\n", "--max-items", "1")
    (job,) = mongodb["jobs"].find()
    assert job["limits"] == {"parcel": 1, "owner": 100}, "the spider's own are there, too"


def test_whoever_is_named_with_a_job_is_told_of_it(
    jobs: Jobs, mongodb: Database[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(jobs.folder / "state"))
    load_config.cache_clear()
    answer = jobs.submit("1\n", "--webhook", "http://127.0.0.1:9/hook", "--json")
    (webhook,) = mongodb["webhooks"].find()
    assert (webhook["job"], webhook["url"]) == (answer.json["job"], "http://127.0.0.1:9/hook")
    assert all(named in answer.err for named in (webhook["_id"], answer.json["job"], "whsec_"))
    for url, named in (("http://ann@127.0.0.1:9/hook", "user"), ("ftp://127.0.0.1/", "https")):
        refused = jobs.submit("1\n", "--webhook", url)
        assert (refused.code, named in refused.err, url in refused.err) == (2, True, False)
    assert mongodb["webhooks"].count_documents({}) == 1
    assert mongodb["jobs"].count_documents({}) == 2


def test_each_submission_is_a_job_of_its_own(jobs: Jobs) -> None:
    assert jobs.submitted("1\n") != jobs.submitted("1\n")


def test_with_the_same_idempotency_key_it_is_the_same_job(jobs: Jobs) -> None:
    first = jobs.submit("1\n2\n", "--idempotency-key", "monday", "--json").json
    second = jobs.submit("1\n2\n3\n", "--idempotency-key", "monday", "--json").json
    assert (first["begun"], second["begun"]) == (False, True)
    assert second["job"] == first["job"]
    assert (second["accepted"], second["known"]) == (1, 2)


def test_items_that_come_to_a_finished_job_open_it_again_and_items_that_are_there_do_not(
    jobs: Jobs, work: Work
) -> None:
    job = jobs.submitted("1\n", "--idempotency-key", "monday")
    work.end(job, _1="ok")
    assert work.finish(job)
    jobs.submitted("1\n", "--idempotency-key", "monday")
    assert jobs("show", job, "--json").json["job"]["state"] == "finished"
    jobs.submitted("2\n", "--idempotency-key", "monday")
    assert jobs("show", job, "--json").json["job"]["state"] == "open"


# Looking ---------------------------------------------------------------------------------------------------


def test_jobs_are_listed_the_latest_first(jobs: Jobs, work: Work) -> None:
    first, second = jobs.submitted("1\n2\n", "--name", "One"), jobs.submitted("3\n")
    work.end(first, _1="ok")
    jobs("show", first)
    assert [job["id"] for job in jobs("list", "--json").json] == [second, first]
    lines = [" ".join(line.split()) for line in jobs("list").out.splitlines()]
    assert lines[0].split() == ["job", "state", "waiting", "active", "done", "failed", "skipped", "created", "name"]
    assert lines[1].startswith(f"{second} open 1 0 0 0 0 ")
    *row, date, _, name = lines[2].split()
    assert (row, name) == ([first, "open", *"01100"], "One")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert [job["id"] for job in jobs("list", "--limit", "1", "--json").json] == [second]
    assert jobs("list", "--spider", "others").out == "None.\n"
    jobs("pause", first)
    assert [job["id"] for job in jobs("list", "--state", "paused", "--json").json] == [first]


def test_rows_of_a_table_are_whole_where_there_is_no_terminal(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    job = jobs.submitted("1\n", "--name", "of the county " * 8)
    _, row = jobs("list").out.splitlines()
    assert row.startswith(job)
    assert row.rstrip().endswith("of the county " * 7 + "of the county")


def test_a_terminal_loses_nothing_of_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    table = new_table("job", "created")
    table.add_row("0123456789abcdef", "2026-11-01 12:00")
    new_console().print(table)
    names, cells = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).split("\n", 1)
    assert (sorted("".join(cells.split())), names.split()) == (
        sorted("0123456789abcdef2026-11-0112:00"),
        ["job", "created"],
    )


def test_a_job_is_shown_with_its_counts(jobs: Jobs, work: Work) -> None:
    job = jobs.submitted("1\n2\n3\n4\n", "-a", "county=elm")
    work.end(job, _1="ok", _2="broken", _3="timeout")
    shown = jobs("show", job, "--json").json
    assert shown["states"] == {"active": 1, "done": 1, "failed": 1, "waiting": 1}
    assert shown["kinds"] == {"parcel": shown["states"]}
    assert shown["outcomes"] == {"broken": 1, "ok": 1, "timeout": 1}
    assert shown["deferred"]["items"] == 1
    assert sum(shown["states"].values()) == shown["items"] == 4
    text = [" ".join(line.split()) for line in jobs("show", job).out.splitlines()]
    assert text[0].startswith(f"{job}: open, created ")
    assert text[1] == "parcels county=elm"
    assert {"items 4", "waiting 1", "active 1", "done 1", "failed 1", "skipped 0"} <= set(text)
    assert sum("1 broken, 1 ok, 1 timeout" in line for line in text) == 1
    assert sum("1 item (1 timeout)" in line for line in text) == 1


def test_the_pace_of_a_job_is_that_of_its_last_counts(jobs: Jobs, work: Work, mongodb: Database[Document]) -> None:
    job = jobs.submitted("".join(f"{number}\n" for number in range(1, 11)))
    (pace,) = mongodb["jobs"].find_one({"_id": job})["pace"]  # type: ignore[index]
    mongodb["jobs"].update_one({"_id": job}, {"$set": {"pace.0.at": pace["at"] - timedelta(seconds=100)}})
    work.end(job, **{f"_{number}": "ok" for number in range(1, 6)})
    shown = jobs("show", job, "--json").json
    assert shown["rate"] == pytest.approx(0.05, rel=0.2)
    assert shown["left_s"] == pytest.approx(100, rel=0.2)
    assert re.search(r"items +10 +[23](\.\d)? .*\b[12] min", jobs("show", job).out)


def test_a_pause_is_shown_with_its_reason(jobs: Jobs) -> None:
    job = jobs.submitted("1\n")
    assert job in jobs("pause", job, "--reason", "repairs").out
    assert re.search(r"paused.*: repairs\n", jobs("show", job).out)
    assert job in jobs("resume", job).out
    assert "paused" not in jobs("show", job).out


def test_a_job_that_was_not_given_all_its_items_says_so_while_it_is_open(
    jobs: Jobs, mongodb: Database[Document]
) -> None:
    job = jobs.submitted("1\n")
    assert "incomplete" not in jobs("show", job).out
    mongodb["jobs"].update_one({"_id": job}, {"$set": {"incomplete": True}})
    assert "incomplete: " in jobs("show", job).out
    jobs("cancel", job, "--yes")
    assert "incomplete" not in jobs("show", job).out


def test_sites_that_are_left_alone_are_shown_with_the_items_that_wait_for_them(
    jobs: Jobs, redis_url: str, mongodb_uri: str, mongodb: Database[Document]
) -> None:
    config = Config(redis_url=SecretStr(redis_url), mongodb_uri=SecretStr(mongodb_uri), database=mongodb.name)
    job = jobs.submitted(
        '{"key": "1", "url": "https://oak.test/1"}\n{"key": "2", "url": "https://elm.test/2"}\n', name="input.jsonl"
    )
    for site in ("oak.test", "fir.test"):
        asyncio.run(set_breaker(config, "parcels", site, "held", "ann"))
    (alone,) = jobs("show", job, "--json").json["left_alone"]
    assert (alone["site"], alone["items"], alone["breaker"]["state"]) == ("oak.test", 1, "held")
    said = jobs("show", job).out
    assert re.search(r"oak\.test: held\b", said)
    assert "fir.test" not in said
    assert re.search(r"items .*: 1$", said.partition("oak.test")[2], re.MULTILINE)
    for site in ("oak.test", "fir.test"):
        asyncio.run(set_breaker(config, "parcels", site, "closed", "ann"))


@pytest.mark.parametrize("jobs", ["local"], indirect=True)
def test_a_job_is_shown_though_redis_is_away(jobs: Jobs, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    job = jobs.submitted("1\n")
    monkeypatch.setenv("HARVESTER_REDIS_URL", f"redis://127.0.0.1:{free_port}")
    load_config.cache_clear()
    shown = jobs("show", job)
    assert shown.code == 0
    assert "Redis" in shown.out


def test_items_are_found_by_state_outcome_site_and_text(jobs: Jobs, work: Work) -> None:
    rows = "".join(f'{{"key": "{number}", "url": "https://{number % 2}.test/"}}\n' for number in range(1, 6))
    job = jobs.submitted(rows, name="input.jsonl")
    work.end(job, _1="ok", _2="broken")

    def keys(*words: str) -> list[str]:
        return [each["item"]["key"] for each in jobs("items", job, "--json", *words).json]

    assert keys() == ["1", "2", "3", "4", "5"]
    assert keys("--limit", "2") == ["1", "2"]
    assert keys("--state", "active") == ["3", "4", "5"]
    assert keys("--outcome", "broken") == ["2"]
    assert keys("--site", "0.test") == ["2", "4"]
    assert keys("--text", "BECAUSE of bro") == ["2"]
    assert keys("--text", "5") == ["5"]
    assert keys("--text", ".") == []
    assert jobs("items", job, "--state", "skipped").out == "None.\n"


def test_an_item_is_shown_with_its_attempts(jobs: Jobs, work: Work) -> None:
    job = jobs.submitted("7\n", "--kind", "parcel")
    work.end(job, _7="broken")
    said = jobs("items", job).out
    first, *others = said.splitlines()
    assert re.match(rf"{job}:parcel:7 +failed\b.*\b1 attempt, line 1$", first)
    (attempt,) = (line for line in others if "attempt 1: " in line)
    for named in ("failed", "broken: because of broken", "2 requests", "5 records"):
        assert named in attempt
    (item,) = jobs("items", job, "--json").json
    assert item["item"]["history"][0]["reason"] == "because of broken"
    assert item["item"]["counts"] == {"requests": 2, "records": 5, "rejected": 0}


def test_an_item_is_shown_with_its_records_and_files(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("7\n")
    mongodb["posts"].create_index("provenance.item")
    provenance = {"crawl": job, "item": f"{job}:parcel:7"}
    mongodb["posts"].insert_many(
        [{"_id": f"at://{n}", "provenance": provenance, "media_paths": {"0": f"a/{n}.jpg"}} for n in range(5)]
    )
    (item,) = jobs("items", job, "--json").json
    assert item["results"] == {
        "records": {"posts": [f"at://{n}" for n in range(5)]},
        "files": [f"a/{n}.jpg" for n in range(5)],
    }
    *_, records, files = jobs("items", job).out.splitlines()
    assert ("posts: at://0, at://1, at://2" in records, "at://3" in records, "2 more" in records) == (True, False, True)
    assert ("a/0.jpg, a/1.jpg, a/2.jpg" in files, "a/3.jpg" in files, "2 more" in files) == (True, False, True)


# Changing --------------------------------------------------------------------------------------------------


def states(jobs: Jobs, job: str) -> dict[str, str]:
    return {each["item"]["key"]: each["item"]["state"] for each in jobs("items", job, "--json").json}


def test_a_cancelled_job_skips_what_waits(jobs: Jobs, work: Work) -> None:
    job = jobs.submitted("1\n2\n3\n")
    work.end(job, _1="ok", _2="timeout")
    cancelled = jobs("cancel", job, "--yes").out
    assert (job in cancelled, numbers_in(cancelled)) == (True, [1])
    assert states(jobs, job) == {"1": "done", "2": "skipped", "3": "active"}
    assert jobs("cancel", job, "--yes", "--json").json == {"job": job, "state": "cancelled", "skipped": 0}
    for word in ("pause", "resume"):
        answer = jobs(word, job)
        assert (answer.code, "cancelled" in answer.err) == (2, True)
    answer = jobs("retry", job, "--failed")
    assert (answer.code, "cancelled" in answer.err) == (2, True)


def test_a_cancel_is_asked_about(jobs: Jobs) -> None:
    job = jobs.submitted("1\n")
    ran = jobs.run("cancel", job, stdin=b"n\n")
    assert (ran.returncode, ASKED in ran.stderr) == (130, True)
    assert states(jobs, job) == {"1": "waiting"}


@pytest.mark.parametrize("closed", [True, False])
def test_a_cancel_that_nobody_can_answer_says_what_to_give(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    job = jobs.submitted("1\n")
    monkeypatch.setattr("sys.stdin", None if closed else StringIO())
    answer = jobs("cancel", job)
    assert (answer.code, "give --yes" in answer.err) == (2, True)
    assert states(jobs, job) == {"1": "waiting"}


def test_a_job_that_there_is_not_is_not_asked_about(jobs: Jobs) -> None:
    ran = jobs.run("cancel", "nope", stdin=b"y\n")
    assert (ran.returncode, ASKED in ran.stderr, "'nope'" in ran.stderr) == (2, False, True)


def test_items_are_tried_again_by_name_by_outcome_or_all_that_failed(jobs: Jobs, work: Work) -> None:
    job = jobs.submitted("1\n2\n3\n4\n")
    outcomes = {"_1": "ok", "_2": "broken", "_3": "gone_for_good", "_4": "empty_handed"}
    work.end(job, **outcomes)
    assert work.finish(job)
    failed = {key for key, state in states(jobs, job).items() if state == "failed"}
    assert failed
    assert numbers_in(jobs("retry", job, "1").out) == [1]
    assert states(jobs, job)["1"] == "waiting"
    assert jobs("show", job, "--json").json["job"]["state"] == "open"
    one = min(failed)
    number = jobs("retry", job, "--outcome", outcomes[f"_{one}"], "--json").json["retried"]
    assert number == 1
    assert jobs("retry", job, "--failed", "--json").json["retried"] == len(failed) - 1
    assert {states(jobs, job)[key] for key in failed} == {"waiting"}
    assert jobs("retry", job, f"{job}:parcel:1", "--json").json["retried"] == 0


@pytest.mark.parametrize("words", [(), ("1", "--failed"), ("--failed", "--outcome", "broken")])
def test_what_to_try_again_is_said_in_one_way(jobs: Jobs, words: tuple[str, ...]) -> None:
    job = jobs.submitted("1\n")
    answer = jobs("retry", job, *words)
    assert (answer.code, "--failed" in answer.err, "--outcome" in answer.err) == (2, True, True)


def test_a_priority_may_be_below_zero(jobs: Jobs) -> None:
    job = jobs.submitted("1\n")
    assert "-5" in jobs("priority", job, "-5").out
    assert jobs("show", job, "--json").json["job"]["priority"] == -5


# Waiting and running ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outcome", "code"), [("ok", 0), ("broken", 6)])
def test_wait_ends_as_the_job_does(jobs: Jobs, work: Work, outcome: str, code: int) -> None:
    job = jobs.submitted("1\n")
    work.end(job, _1=outcome)
    assert work.finish(job)
    answer = jobs("wait", job, "--json")
    assert (answer.code, answer.json["state"]) == (code, "finished")


def test_wait_says_when_the_time_is_over(jobs: Jobs) -> None:
    job = jobs.submitted("1\n")
    assert jobs("wait", job, "--timeout", "0").code == 7
    jobs("cancel", job, "--yes")
    assert jobs("wait", job).code == 130


def test_a_standing_job_is_waited_for_no_longer_than_is_said(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n")
    mongodb["jobs"].update_one({"_id": job}, {"$set": {"recheck": "every 1h"}})
    answer = jobs("wait", job)
    assert (answer.code, job in answer.err, "standing" in answer.err) == (2, True, True)
    assert jobs("wait", job, "--timeout", "0").code == 7


def test_every_command_can_print_json() -> None:
    command = typer.main.get_command(commands)
    assert isinstance(command, typer.core.TyperGroup)
    options = {name: {word for each in of.params for word in each.opts} for name, of in command.commands.items()}
    assert [name for name, words in options.items() if "--json" not in words] == []
    assert len(options) >= 12


# Without servers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", ["local"], indirect=True)
def test_no_server_is_needed(jobs: Jobs) -> None:
    state = jobs.folder / "state"
    variables = {name: value for name, value in jobs.variables.items() if not name.endswith(("_URL", "_URI"))}
    alone = {**os.environ, **variables, "HARVESTER_STATE_DIR": str(state)}
    for name in ("HARVESTER_REDIS_URL", "HARVESTER_MONGODB_URI"):
        del alone[name]
    path = jobs.write("1\n2\n", "input.txt")
    try:
        command = ["jobs", "submit", "parcels", "--input", str(path), "--json"]
        submitted = run(HARVESTER, *command, cwd=jobs.folder, env=alone)
        assert submitted.returncode == 0, submitted.stderr
        shown = run(
            HARVESTER, "jobs", "show", json.loads(submitted.stdout)["job"], "--json", cwd=jobs.folder, env=alone
        )
        assert json.loads(shown.stdout)["states"] == {"waiting": 2}
    finally:
        for server in SERVERS:
            supervisor = running_in(state / server, ServerState.read(state / server).supervisor_pid)
            if supervisor:
                supervisor.wait(240)
