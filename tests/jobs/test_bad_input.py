"""What `harvester jobs` is given wrongly: it says what is wrong, ends with the right code, and loses nothing."""

import gzip
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.config import load_config
from tests.crawling import until
from tests.forking import begin
from tests.jobs.command import HARVESTER, Answer, Jobs

Document = dict[str, Any]


def refused(answer: Answer, said: str, code: int = 2) -> None:
    assert answer.code == code, answer
    assert said in answer.err, answer.err
    assert answer.out == ""


@pytest.fixture
def nothing(mongodb: Database[Document]) -> Iterator[None]:
    """Checks afterwards that no job was made."""
    yield
    assert mongodb["jobs"].count_documents({}) == 0
    assert mongodb["job_items"].count_documents({}) == 0


# Submitting: nothing can be used ---------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nope", "--input", "x.txt"), "There is no spider 'nope'; there are: parcels, plain."),
        (("plain", "--input", "x.txt"), "plain takes no items: it begins with its arguments"),
        (("parcels", "--input", "x.txt", "--kind", "tree"), "no items of the kind 'tree', but parcel, owner."),
        (("parcels", "--input", "x.txt", "-a", "country=us"), "country: there is no such argument (given: 'us')"),
        (("parcels", "--input", "x.txt", "-a", "county=ash"), "county: Input should be 'oak' or 'elm'"),
        (("parcels", "--input", "x.txt", "-a", "county"), "-a: 'county' is not of the form NAME=VALUE."),
        (("parcels", "--input", "x.txt", "--format", "xml"), "--format: 'xml' is none of csv, jsonl, text."),
        (("parcels", "--input", "x.txt", "--key", "parcel"), "--key: plain text has no columns"),
        (("parcels", "--input", "x.txt", "--idempotency-key", ""), "--idempotency-key: give 1 to 200 characters."),
        (("parcels", "--input", "none.txt"), "The file none.txt cannot be read: No such file or directory."),
        (("parcels", "--input", "/"), "The file / cannot be read: Is a directory."),
        (("parcels", "--input", "/proc/self/mem"), "The file /proc/self/mem cannot be read: Input/output error."),
        (("parcels",), "Missing option '--input'"),
        (("parcels", "--input", "x.txt", "--max-items", "0"), "Invalid value for '--max-items'"),
        (("parcels", "--input", "x.txt", "--priority", "9" * 30), "Invalid value for '--priority'"),
    ],
)
def test_a_submission_that_cannot_be_meant_is_refused(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    jobs.write("1\n", "x.txt")
    monkeypatch.chdir(jobs.folder)
    refused(jobs("submit", *words), said)


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.csv", "key\n1\n".encode("utf-16"), "is UTF-16LE, and inputs are UTF-8. Convert it: iconv -f UTF-16LE"),
        (
            "x.csv",
            "key,n\n1,ü\n2,ö\n".encode("cp1252"),
            "is not UTF-8. Line 2: byte 0xfc is not UTF-8; if it should be",
        ),
        ("x.csv", gzip.compress(b"key\n1\n"), "is compressed with gzip, and inputs are plain text. Instead: zcat"),
        (
            "x.csv",
            b"parcel,owner\n1,Ann\n",
            "has no column `key`: say which is the key (--key COLUMN) of parcel, owner",
        ),
        ("x.csv", b'key,"n\n1,2\n', "The header (line 1) cannot be used: it opens a quotation mark that is not closed"),
        ("x.csv", b"", "There is no line that can be used, so there is no job."),
        ("x.csv", b"key,n\n", "There is no line that can be used, so there is no job."),
        ("x.txt", b"\n" * 1_000_000, "There is no line that can be used, so there is no job."),
        ("x.txt", b"a\nb\n", "There is no line that can be used, so there is no job."),
        ("x.txt", b"\0" * 100, "There is no line that can be used, so there is no job."),
    ],
)
def test_an_input_of_which_nothing_can_be_used_makes_no_job(jobs: Jobs, name: str, data: bytes, said: str) -> None:
    refused(jobs.submit(data, name=name), said)


@pytest.mark.usefixtures("nothing")
def test_without_a_standard_input_nothing_is_submitted(jobs: Jobs) -> None:
    command = [HARVESTER, "jobs", "submit", "parcels", "--input", "-"]
    environment = os.environ | jobs.variables
    closed = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *command], env=environment, capture_output=True)
    assert closed.returncode == 2
    assert closed.stderr.decode() == "There is no standard input.\n"


@pytest.mark.usefixtures("nothing")
def test_an_argument_that_is_no_utf_8_is_refused(jobs: Jobs) -> None:
    jobs.write("1\n", "x.txt")
    ran = jobs.run("submit", "parcels", "--input", "x.txt", "--name", "caf\udce9")
    assert (ran.returncode, "holds bytes that are no UTF-8" in ran.stderr) == (2, True)


@pytest.mark.usefixtures("nothing")
def test_a_mongodb_that_is_away_is_told(jobs: Jobs, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setenv("HARVESTER_MONGODB_URI", f"mongodb://127.0.0.1:{free_port}/?serverSelectionTimeoutMS=200")
    load_config.cache_clear()
    refused(jobs.submit("1\n"), "MongoDB cannot be reached", 3)


# Submitting: some can be used ------------------------------------------------------------------------------


def test_bad_rows_cost_only_themselves(jobs: Jobs, mongodb: Database[Document]) -> None:
    rows = [
        "1,fine",
        '2,"not closed',
        "3,fine",
        "4,too,many",
        "5",
        ",no key",
        "7,nul\0",
        "8," + "x" * 70_000,
        '9"x",fine',
        "ten,not a number",
        '11,"a ""quoted"" word, and a comma"',
    ]
    answer = jobs.submit("key,n\n" + "\n".join(rows) + "\n", "--json", name="x.csv")
    assert answer.code == 0
    assert sorted(item["key"] for item in mongodb["job_items"].find()) == ["1", "11", "3"]
    assert answer.json["accepted"] + answer.json["bad"] == len(rows)
    assert {line["line"]: line["reason"].partition(":")[0] for line in answer.json["bad_lines"]} == {
        3: "its quotation mark is not closed before line 8",
        5: "it has 3 fields, and the header has 2",
        6: "it has 1 fields, and the header has 2",
        7: "its key is empty",
        8: "it holds a NUL byte",
        9: "parcel",
        10: "'9\"x\"' is no number of a parcel",
        11: "'ten' is no number of a parcel",
    }


def test_an_idempotency_key_is_not_used_for_something_else(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n", "--idempotency-key", "monday")
    belongs = f"The idempotency key 'monday' belongs to the job {job}, which has other arguments"
    refused(jobs.submit("2\n", "-a", "county=elm", "--idempotency-key", "monday"), belongs)
    refused(jobs.submit("2\n", "--kind", "owner", "--idempotency-key", "monday"), belongs)
    assert [item["key"] for item in mongodb["job_items"].find()] == ["1"]


def test_a_cancelled_job_takes_no_more_items(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n", "--idempotency-key", "monday")
    jobs("cancel", job, "--yes")
    refused(jobs.submit("2\n", "--idempotency-key", "monday"), f"{job} is cancelled, and takes no more items.")
    assert mongodb["job_items"].count_documents({}) == 1


def test_when_bad_lines_cannot_be_written_what_came_before_stays(jobs: Jobs, mongodb: Database[Document]) -> None:
    (jobs.folder / "data").write_text("a file is in the way")
    lines = "".join(f"{number}\n" for number in range(2000)) + "bad\n" + "5000\n"
    answer = jobs.submit(lines, "--idempotency-key", "monday")
    refused(answer, "cannot be written: ", 4)
    job = mongodb["jobs"].find_one({})
    assert job is not None
    assert f"Before that, 2,000 items came to {job['_id']}; the same command adds the others." in answer.err
    (jobs.folder / "data").unlink()
    assert jobs.submit(lines, "--idempotency-key", "monday", "--json").json["known"] == 2000
    assert mongodb["job_items"].count_documents({}) == 2001


@contextmanager
def submitting(jobs: Jobs, *words: str) -> Iterator[tuple[Any, int, Path]]:
    """A process that submits what is written to a pipe, the pipe, and what it says on standard error."""
    read, write = os.pipe()
    said = jobs.folder / "said"
    with said.open("wb") as err:
        command = ["jobs", "submit", "parcels", "--input", "-", "--format", "text", *words]
        environment = {**os.environ, **jobs.variables}
        process = begin(HARVESTER, *command, cwd=jobs.folder, env=environment, files=[read, None, err.fileno()])
    os.close(read)
    try:
        yield process, write, said
    finally:
        process.kill()
        process.wait()
        os.close(write)


def numbers(first: int, last: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, last))


async def test_a_job_that_is_cancelled_while_it_is_submitted_has_no_item_that_waits(
    jobs: Jobs, mongodb: Database[Document]
) -> None:
    with submitting(jobs) as (process, pipe, said):
        os.write(pipe, numbers(0, 1000))
        await until(lambda: mongodb["job_items"].count_documents({}) == 1000)
        (job,) = mongodb["jobs"].find()
        cancelled = jobs.run("cancel", job["_id"], "--yes")
        assert cancelled.returncode == 0
        os.write(pipe, numbers(1000, 2000))
        assert process.wait(240) == 2
        assert f"{job['_id']} was cancelled, and takes no more items. Before that, 2,000 items came" in said.read_text()
    assert mongodb["job_items"].count_documents({"state": "skipped"}) == 2000


async def test_a_submission_that_was_killed_is_completed_by_the_same_command(
    jobs: Jobs, mongodb: Database[Document]
) -> None:
    with submitting(jobs, "--idempotency-key", "monday") as (process, pipe, _):
        os.write(pipe, numbers(0, 1500))
        await until(lambda: mongodb["job_items"].count_documents({}) == 1000)
        process.kill()
        process.wait(60)
    ran = jobs.run("submit", "parcels", "--input", "-", "--idempotency-key", "monday", stdin=numbers(0, 2000))
    assert ran.stdout.endswith(": 1,000 items accepted, 1,000 known before.\n")
    assert mongodb["jobs"].count_documents({}) == 1
    assert mongodb["job_items"].count_documents({}) == 2000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_submission_that_waits_for_lines_is_stopped_at_once(
    jobs: Jobs, mongodb: Database[Document], number: int
) -> None:
    with submitting(jobs, "--idempotency-key", "monday") as (process, pipe, said):
        os.write(pipe, numbers(0, 1000))
        await until(lambda: mongodb["job_items"].count_documents({}) == 1000)
        process.send_signal(number)
        assert process.wait(60) == 130
        assert said.read_text() == "Stopped: items that were added stay; the same command adds the rest.\n"


# Looking and changing --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    "words",
    [
        *[(word, "none") for word in ("show", "items", "pause", "resume", "export", "wait", "run")],
        ("cancel", "none", "--yes"),
        ("retry", "none", "--failed"),
        ("priority", "none", "3"),
    ],
    ids=lambda words: words[0],
)
def test_a_job_that_is_none_is_named(jobs: Jobs, words: tuple[str, ...]) -> None:
    refused(jobs(*words), "There is no job 'none'; `harvester jobs list` shows those there are.")


def test_an_item_that_is_none_is_named_and_nothing_is_tried_again(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n")
    mongodb["job_items"].update_one({}, {"$set": {"state": "failed"}})
    refused(jobs("retry", job, "1", "nope"), f"{job} has no item 'nope': give its id or its key.")
    assert mongodb["job_items"].count_documents({"state": "failed"}) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--state", "lost"), "--state: 'lost' is none of waiting, active, done, failed, skipped."),
        (("--site", "ash.test"), "has no items of the site 'ash.test'; its sites are oak.test."),
        (("--limit", "0"), "Invalid value for '--limit'"),
    ],
)
def test_a_filter_that_is_none_is_refused(jobs: Jobs, words: tuple[str, ...], said: str) -> None:
    job = jobs.submitted('{"key": "1", "url": "https://oak.test/"}\n', name="x.jsonl")
    refused(jobs("items", job, *words), said)


@pytest.mark.usefixtures("nothing")
def test_a_state_of_jobs_that_is_none_is_refused(jobs: Jobs) -> None:
    refused(jobs("list", "--state", "lost"), "--state: 'lost' is none of open, paused, cancelled, finished.")


def test_what_is_changed_that_is_so_already_is_no_fault(jobs: Jobs) -> None:
    job = jobs.submitted("1\n")
    for word in ("resume", "pause", "pause", "resume"):
        assert jobs(word, job).code == 0


def test_a_finished_job_is_neither_paused_nor_cancelled(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n")
    mongodb["jobs"].update_one({"_id": job}, {"$set": {"state": "finished"}})
    refused(jobs("pause", job), f"{job} is finished, and cannot be paused.")
    refused(jobs("cancel", job, "--yes"), f"{job} is finished, and cannot be cancelled.")


def test_text_of_others_does_nothing_to_a_terminal(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n", "--name", "\x1b[2Jgone")
    history = [{"attempt": 1, "at": datetime.now(UTC), "state": "failed", "outcome": "gone", "reason": "\x1b[2Jgone"}]
    mongodb["job_items"].update_one({}, {"$set": {"history": history}})
    for answer in (jobs("show", job), jobs("list"), jobs("items", job)):
        assert "\x1b" not in answer.out
        assert "\\x1b[2Jgone" in answer.out


def test_a_reader_that_goes_away_is_no_fault_of_the_program(jobs: Jobs) -> None:
    job = jobs.submitted("".join(f"{number}\n" for number in range(3000)))
    command = [HARVESTER, "jobs", "items", job, "--json", "--limit", "3000"]
    environment = os.environ | jobs.variables
    piped = subprocess.run(["sh", "-c", '"$@" | head -c 10', "sh", *command], env=environment, capture_output=True)
    assert len(piped.stdout) == 10
    assert piped.stderr.decode() == ""


# Exporting -------------------------------------------------------------------------------------------------


@contextmanager
def small_files(most_bytes: int) -> Iterator[None]:
    """No file of this process may grow larger: as on a full disk, but with EFBIG for ENOSPC."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a signal ends the process")
@pytest.mark.parametrize("form", [("jsonl",), ("csv",), ("parquet",), ("jsonl", "--zstd")])
def test_an_export_that_finds_no_room_leaves_what_was_there(jobs: Jobs, form: tuple[str, ...]) -> None:
    job = jobs.submitted("".join(f"{os.urandom(8).hex()}\n" for _ in range(3000)), "--kind", "owner")
    out = jobs.folder / "out"
    name = f"manifest.{form[0]}{'.zst' if '--zstd' in form else ''}"
    assert jobs("export", job, "--format", *form, "--out", str(out)).code == 0
    before = (out / name).read_bytes()
    assert len(before) > 50_000
    with small_files(20_000):
        answer = jobs("export", job, "--format", *form, "--out", str(out))
    refused(answer, f"{out} cannot be written: ", 4)
    assert "File too large" in answer.err
    assert {each.name: each.read_bytes() for each in out.iterdir()} == {name: before}


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--format", "xml"), "--format: 'xml' is none of csv, jsonl, parquet.", 2),
        (("--only", "trees"), "--only: there is no 'trees'; there are: manifest, ", 2),
        (("--format", "parquet", "--zstd"), "--zstd: Parquet files are compressed with zstd already.", 2),
        (("--out", "/proc/nowhere"), "/proc/nowhere cannot be written: ", 4),
    ],
)
def test_an_export_that_cannot_be_is_refused(jobs: Jobs, words: tuple[str, ...], said: str, code: int) -> None:
    refused(jobs("export", jobs.submitted("1\n"), *words), said, code)


def test_parquet_without_its_package_says_what_to_install(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    job = jobs.submitted("1\n")
    refused(jobs("export", job, "--format", "parquet"), "Parquet needs a package: pip install 'harvester[parquet]'")
