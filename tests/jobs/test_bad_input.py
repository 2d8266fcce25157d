"""What `harvester jobs` is given wrongly: it says what is wrong, ends with the right code, and loses nothing."""

import gzip
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from tests.bad_input.room import little_room
from tests.crawling import until
from tests.forking import begin
from tests.jobs.command import HARVESTER, Answer, Jobs, measured, numbers_in

Document = dict[str, Any]


def refused(answer: Answer, *named: str, code: int = 2) -> None:
    assert answer.code == code, answer
    assert [name for name in named if name not in answer.err] == [], answer.err
    assert answer.out == ""


@pytest.fixture(params=["local", pytest.param("remote", marks=pytest.mark.soak)])
def jobs(request: pytest.FixtureRequest) -> Jobs:
    """All is the same when a controller is asked."""
    jobs: Jobs = request.getfixturevalue(f"{request.param}_jobs")
    return jobs


@pytest.fixture
def nothing(mongodb: Database[Document]) -> Iterator[None]:
    """Checks afterwards that no job was made."""
    yield
    assert mongodb["jobs"].count_documents({}) == 0
    assert mongodb["job_items"].count_documents({}) == 0


# Submitting: nothing can be used ---------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("parcels", "--input", "x.txt", "--kind", "tree"), ["'tree'", "parcel", "owner"]),
        (("parcels", "--input", "x.txt", "-a", "county=ash"), ["county", "'oak'", "'elm'"]),
        (("parcels", "--input", "x.txt", "-a", "job=x"), ["-a job"]),
        (("parcels", "--input", "x.txt", "-a", "county"), ["-a", "'county'", "NAME=VALUE"]),
        (("parcels", "--input", "x.txt", "--key", "parcel"), ["--key", "columns"]),
        (("parcels", "--input", "/proc/self/mem"), ["/proc/self/mem", "Input/output error"]),
        (("parcels",), ["--input"]),
    ],
)
def test_a_submission_that_cannot_be_meant_is_refused(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], named: list[str]
) -> None:
    jobs.write("1\n", "x.txt")
    monkeypatch.chdir(jobs.folder)
    refused(jobs("submit", *words), *named)


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("name", "data", "named"),
    [
        ("x.csv", gzip.compress(b"key\n1\n", mtime=0), ["gzip", "zcat"]),
        ("x.csv", b'key,"n\n1,2\n', ["header", "line 1", "quotation mark"]),
        ("x.csv", b"", ["line"]),
        ("x.csv", b"key,n\n", ["line"]),
        ("x.txt", b"a\nb\n", ["line"]),
    ],
)
def test_an_input_of_which_nothing_can_be_used_makes_no_job(
    jobs: Jobs, name: str, data: bytes, named: list[str]
) -> None:
    refused(jobs.submit(data, name=name), *named)


# Submitting: some can be used ------------------------------------------------------------------------------


def test_a_cancelled_job_takes_no_more_items(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n", "--idempotency-key", "monday")
    jobs("cancel", job, "--yes")
    refused(jobs.submit("2\n", "--idempotency-key", "monday"), job, "cancelled")
    assert mongodb["job_items"].count_documents({}) == 1


@pytest.mark.parametrize("jobs", ["local"], indirect=True)
def test_when_bad_lines_cannot_be_written_what_came_before_stays(jobs: Jobs, mongodb: Database[Document]) -> None:
    (jobs.folder / "data").write_text("a file is in the way")
    lines = "".join(f"{number}\n" for number in range(2000)) + "bad\n" + "5000\n"
    answer = jobs.submit(lines, "--idempotency-key", "monday")
    refused(answer, str(jobs.folder / "data"), code=4)
    job = mongodb["jobs"].find_one({})
    assert job is not None
    assert "2,000" in answer.err
    assert job["_id"] in answer.err
    (jobs.folder / "data").unlink()
    assert jobs.submit(lines, "--idempotency-key", "monday", "--json").json["known"] == 2000
    assert mongodb["job_items"].count_documents({}) == 2001


@contextmanager
def submitting(jobs: Jobs, *words: str, what: Sequence[str] = ("submit", "parcels")) -> Iterator[tuple[Any, int, Path]]:
    """A process that submits what is written to a pipe, the pipe, and what it says on standard error."""
    read, write = os.pipe()
    said = jobs.folder / "said"
    with said.open("wb") as err:
        command = ["jobs", *what, "--input", "-", "--format", "text", *words]
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


async def test_a_submission_that_was_killed_is_completed_by_the_same_command(
    jobs: Jobs, mongodb: Database[Document]
) -> None:
    with submitting(jobs, "--idempotency-key", "monday") as (process, pipe, _):
        os.write(pipe, numbers(0, 1500))
        await until(lambda: mongodb["job_items"].count_documents({}) == 1000)
        process.kill()
        process.wait(60)
    ran = jobs.run("submit", "parcels", "--input", "-", "--idempotency-key", "monday", stdin=numbers(0, 2000))
    assert numbers_in(ran.stdout) == [1000, 1000]
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
        assert process.wait(60) == 128 + number
        assert said.read_text().count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_adding_that_waits_for_lines_is_stopped_at_once(
    jobs: Jobs, mongodb: Database[Document], number: int
) -> None:
    job = json.loads(jobs.run("submit", "parcels", "--input", "-", "--json", stdin=b"5000\n").stdout)["job"]
    with submitting(jobs, what=("add", job)) as (process, pipe, said):
        os.write(pipe, numbers(0, 1000))
        await until(lambda: mongodb["job_items"].count_documents({}) == 1001)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert said.read_text().count("\n") == 1


# Looking and changing --------------------------------------------------------------------------------------


def test_a_filter_that_is_none_is_refused(jobs: Jobs) -> None:
    job = jobs.submitted('{"key": "1", "url": "https://oak.test/"}\n', name="x.jsonl")
    states = "waiting, active, done, failed, skipped"
    refused(jobs("items", job, "--state", "lost"), "--state", "'lost'", states)


@pytest.mark.usefixtures("nothing")
def test_a_state_of_jobs_that_is_none_is_refused(jobs: Jobs) -> None:
    refused(jobs("list", "--state", "lost"), "--state", "'lost'", "open, paused, cancelled, finished")


def test_what_is_changed_that_is_so_already_is_no_fault(jobs: Jobs) -> None:
    job = jobs.submitted("1\n")
    for word in ("resume", "pause", "pause", "resume"):
        assert jobs(word, job).code == 0


def test_text_of_others_does_nothing_to_a_terminal(jobs: Jobs, mongodb: Database[Document]) -> None:
    job = jobs.submitted("1\n", "--name", "\x1b[2Jgone")
    history = [{"attempt": 1, "at": datetime.now(UTC), "state": "failed", "outcome": "gone", "reason": "\x1b[2Jgone"}]
    mongodb["job_items"].update_one({}, {"$set": {"history": history}})
    for answer in (jobs("show", job), jobs("list"), jobs("items", job)):
        assert "\x1b" not in answer.out
        assert "\\x1b[2Jgone" in answer.out


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_what_a_terminal_cannot_show_is_written_with_backslashes(jobs: Jobs, encoding: str) -> None:
    name = "Łódź für 𐍈"
    jobs.submitted("1\n", "--name", name)
    jobs.variables["PYTHONIOENCODING"] = encoding
    ran = jobs.run("list", "--json")
    assert (ran.returncode, json.loads(ran.stdout)[0]["name"]) == (0, name)
    ran = jobs.run("list")
    assert (ran.returncode, "\\u0141\\xf3d\\u017a f" in ran.stdout.replace("\ufffd", "\\xf3")) == (0, True)


def test_a_reader_that_goes_away_is_no_fault_of_the_program(jobs: Jobs) -> None:
    job = jobs.submitted("".join(f"{number}\n" for number in range(3000)))
    read, write = os.pipe()
    said = jobs.folder / "said"
    with said.open("wb") as err:
        command = ["jobs", "items", job, "--json", "--limit", "3000"]
        environment = {**os.environ, **jobs.variables}
        process = begin(HARVESTER, *command, cwd=jobs.folder, env=environment, files=[None, write, err.fileno()])
    os.close(write)
    try:
        assert len(os.read(read, 10)) == 10
    finally:
        os.close(read)
    process.wait(240)
    assert said.read_text() == ""


# The kinds -------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a kind of bad input is tried."""

    jobs: Jobs
    mongodb: Database[Document]
    free_port: int

    @property
    def is_remote(self) -> bool:
        """Whether a controller is asked."""
        return "HARVESTER_URL" in self.jobs.variables

    def keys(self) -> list[str]:
        """Of all items there are."""
        return sorted(item["key"] for item in self.mongodb["job_items"].find())

    def accepts_nothing(self, answer: Answer, *named: str, code: int = 2) -> None:
        refused(answer, *named, code=code)
        assert (self.mongodb["jobs"].count_documents({}), self.keys()) == (0, [])

    def until(self, condition: Callable[[], bool]) -> None:
        over = time.monotonic() + 240
        while not condition():
            assert time.monotonic() < over
            time.sleep(0.01)


Kind = Callable[[Place], None]
KINDS: dict[str, Kind] = {}


def kind(name: str) -> Callable[[Kind], Kind]:
    def register(function: Kind) -> Kind:
        KINDS[name] = function
        return function

    return register


@kind("malformed CSV rows")
def _rows(place: Place) -> None:
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
    answer = place.jobs.submit("key,n\n" + "\n".join(rows) + "\n", "--json", name="x.csv")
    assert (answer.code, place.keys()) == (0, ["1", "11", "3"])
    assert answer.json["accepted"] + answer.json["bad"] == len(rows)
    named = {
        3: ["quotation mark", "8"],
        5: ["3", "2"],
        6: ["1", "2"],
        7: ["key"],
        8: ["NUL"],
        9: ["item" if place.is_remote else "parcel", "65,536"],  # which kind it is knows the controller
        10: ["'9\"x\"'"],
        11: ["'ten'"],
    }
    reasons = {line["line"]: line["reason"] for line in answer.json["bad_lines"]}
    assert reasons.keys() == named.keys()
    assert [(line, name) for line, names in named.items() for name in names if name not in reasons[line]] == []


@kind("UTF-16")
def _utf_16(place: Place) -> None:
    place.accepts_nothing(place.jobs.submit("ключ,n\nkey-1,2\n".encode("utf-16-le"), name="x.csv"), "iconv -f UTF-16LE")


@kind("a JSON array")
def _array(place: Place) -> None:
    answer = place.jobs.submit('[{"key":"1"},\n{"key":"2"}]\n', name="x.json")
    place.accepts_nothing(answer, "JSON array", "jq -c '.[]' FILE | harvester jobs submit")


@kind("line ends of old Macs")
def _old_mac(place: Place) -> None:
    place.accepts_nothing(place.jobs.submit(b"key,n\r1,a\r2,b\r", name="x.csv"), "carriage returns", ": tr ")


@kind("Latin-1")
def _latin_1(place: Place) -> None:
    answer = place.jobs.submit("key,n\n1,ü\n2,ö\n".encode("latin-1"), name="x.csv")
    place.accepts_nothing(answer, "Line 2", "0xfc", "UTF-8", "'ü'", "Windows-1252")


@kind("a byte order mark")
def _byte_order_mark(place: Place) -> None:
    assert place.jobs.submit(b"\xef\xbb\xbfkey,n\n1,a\n", name="x.csv").code == 0
    assert place.keys() == ["1"]


@kind("NUL bytes")
def _nul_bytes(place: Place) -> None:
    place.accepts_nothing(place.jobs.submit(b"\0" * 100), "NUL")
    answer = place.jobs.submit(b"1\n2\x003\n4\n")
    assert (answer.code, "Line 2, '2\\x003'" in answer.err, "NUL" in answer.err) == (0, True, True)
    assert place.keys() == ["1", "4"]


@kind("items that come twice")
def _twice(place: Place) -> None:
    answer = place.jobs.submit("1\n2\n01\n2\n")
    assert (answer.code, numbers_in(answer.out)) == (0, [2, 2])
    assert place.keys() == ["1", "2"]


@kind("an unknown spider")
def _spider(place: Place) -> None:
    path = str(place.jobs.write("1\n", "x.txt"))
    place.accepts_nothing(place.jobs("submit", "nope", "--input", path), "'nope'", "notices, parcels,")
    place.accepts_nothing(place.jobs("submit", "plain", "--input", path), "plain", "items")


@kind("an unknown site")
def _site(place: Place) -> None:
    job = place.jobs.submitted('{"key": "1", "url": "https://oak.test/"}\n', name="x.jsonl")
    refused(place.jobs("items", job, "--site", "ash.test"), "--site", job, "'ash.test'", "oak.test")


@kind("an unknown column")
def _column(place: Place) -> None:
    data = b"parcel,owner\n1,Ann\n"
    place.accepts_nothing(place.jobs.submit(data, name="x.csv"), "`key`", "--key COLUMN", "parcel, owner")
    place.accepts_nothing(place.jobs.submit(data, "--key", "number", name="x.csv"), "'number'", "parcel, owner")


@kind("an unknown argument")
def _argument(place: Place) -> None:
    place.accepts_nothing(place.jobs.submit("1\n", "-a", "country=us"), "country", "'us'")


@kind("a million empty lines")
def _empty_lines(place: Place) -> None:
    peaks = []
    for lines in (1, 1_000_000):
        path = place.jobs.write("\n" * lines, "x.txt")
        ran, peak = measured(place.jobs, "submit", "parcels", "--input", str(path))
        peaks.append(peak)
        place.accepts_nothing(Answer(*ran), "line")
    assert peaks[1] - peaks[0] < 12, f"{peaks} MB"


@kind("an item that is too large")
def _large_item(place: Place) -> None:
    answer = place.jobs.submit("key,n\n1," + "x" * 70_000 + "\n2,\n", name="x.csv")
    assert (answer.code, re.findall(r"\d\d,\d+", answer.err)) == (0, ["70,024", "65,536"])
    answer = place.jobs.submit("3\n" + "x" * 70_000 + "\n")
    assert (answer.code, re.findall(r"\d\d,\d+", answer.err)) == (0, ["70,000", "65,536"])
    assert place.keys() == ["2", "3"]


@kind("a job that is none")
def _job(place: Place) -> None:
    words: list[tuple[str, ...]] = [
        (word, "none") for word in ("show", "items", "pause", "resume", "export", "wait", "run")
    ]
    if place.is_remote:
        words.remove(("run", "none"))  # that is refused for any job
    for each in [*words, ("cancel", "none", "--yes"), ("retry", "none", "--failed"), ("priority", "none", "3")]:
        place.accepts_nothing(place.jobs(*each), "'none'", "harvester jobs list")


@kind("a job that is cancelled while it is submitted")
def _cancelled_meanwhile(place: Place) -> None:
    items = place.mongodb["job_items"]
    with submitting(place.jobs) as (process, pipe, said):
        os.write(pipe, numbers(0, 1000))
        place.until(lambda: items.count_documents({}) == 1000)
        (job,) = place.mongodb["jobs"].find()
        assert place.jobs("cancel", job["_id"], "--yes").code == 0
        with suppress(BrokenPipeError):  # a slow one has looked at its job only now, and ended
            os.write(pipe, numbers(1000, 2000))
        assert process.wait(240) == 2
        came = items.count_documents({"state": "skipped"})
        for named in (job["_id"], "cancelled", f"{came:,}"):
            assert named in said.read_text()
    assert items.count_documents({}) == came
    assert came in (1000, 2000)


@kind("a disk that is full")
def _full_disk(place: Place) -> None:
    """What was exported before is there still, and nothing else; with room the same command exports all."""
    small, large = place.jobs.submitted("1\n"), place.jobs.submitted(numbers(0, 3000))
    out = place.jobs.folder / "out"
    assert place.jobs("export", small, "--out", str(out / "small")).code == 0
    before = (out / "small" / "manifest.jsonl").read_bytes()
    (out / "full").mkdir()
    with little_room(out / "full") as (prefix, make_room):
        (out / "full" / "manifest.jsonl").write_bytes(before)
        command = [*prefix, HARVESTER, "jobs", "export", large, "--out", str(out / "full")]
        environment = os.environ | place.jobs.variables
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert re.search("/full.*(No space left on device|File too large)", ran.stderr)
        assert (ran.returncode, ran.stdout) == (4, "")
        assert {each.name: each.read_bytes() for each in (out / "full").iterdir()} == {"manifest.jsonl": before}
        make_room()
        assert place.jobs("export", large, "--out", str(out / "full")).code == 0
        assert (out / "full" / "manifest.jsonl").read_bytes().count(b"\n") == 3000


@kind("an export to a folder that is not there")
def _missing_folder(place: Place) -> None:
    out = place.jobs.folder / "not" / "there"
    assert place.jobs("export", place.jobs.submitted("1\n"), "--out", str(out)).code == 0
    assert [each.name for each in out.iterdir()] == ["manifest.jsonl"]
    refused(place.jobs("export", place.jobs.submitted("1\n"), "--out", "/proc/not"), "/proc/not", code=4)


@kind("an export to a file")
def _export_to_file(place: Place) -> None:
    file = place.jobs.write("mine", "mine.csv")
    answer = place.jobs("export", place.jobs.submitted("1\n"), "--out", str(file))
    refused(answer, str(file), "File exists", code=4)
    assert file.read_text() == "mine"


@kind("an unknown format")
def _format(place: Place) -> None:
    place.accepts_nothing(place.jobs.submit("1\n", "--format", "xml"), "--format", "'xml'", "csv, jsonl, text")
    answer = place.jobs("export", place.jobs.submitted("1\n"), "--format", "xml")
    refused(answer, "--format", "'xml'", "csv, jsonl, parquet")


@kind("an unknown ending")
def _ending(place: Place) -> None:
    """The first character tells JSON lines; anything else is text."""
    assert place.jobs.submit("1\n2\n", name="x.list").code == 0
    assert place.jobs.submit('{"key": "3"}\n', name="x.list").code == 0
    assert place.keys() == ["1", "2", "3"]


@kind("a standard input that is closed")
def _closed(place: Place) -> None:
    command = ["sh", "-c", '"$@" <&-', "sh", HARVESTER, "jobs", "submit", "parcels", "--input", "-"]
    ran = subprocess.run(command, env=os.environ | place.jobs.variables, capture_output=True)
    answer = Answer(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
    place.accepts_nothing(answer, "standard input")


@kind("a folder as input")
def _folder(place: Place) -> None:
    place.accepts_nothing(place.jobs("submit", "parcels", "--input", "/"), " / ", "Is a directory")


@kind("a file that is not there")
def _missing_file(place: Place) -> None:
    place.accepts_nothing(place.jobs("submit", "parcels", "--input", "none.txt"), "none.txt", "No such file")


@kind("a file that shrinks while it is read")
def _shrinking(place: Place) -> None:
    lines = numbers(0, 200_000)
    path = place.jobs.write(lines, "x.txt")
    command = ["jobs", "submit", "parcels", "--input", "x.txt", "--idempotency-key", "monday"]
    said = place.jobs.folder / "said"
    with said.open("wb") as err:
        environment = {**os.environ, **place.jobs.variables}
        process = begin(HARVESTER, *command, cwd=place.jobs.folder, env=environment, files=[None, None, err.fileno()])
    place.until(lambda: place.mongodb["job_items"].count_documents({}) >= 1000)
    os.truncate(path, 0)
    assert process.wait(240) == 2
    accepted = place.mongodb["job_items"].count_documents({})
    assert accepted < 200_000
    (job,) = place.mongodb["jobs"].find()
    for named in ("x.txt", "shorter", f"{accepted:,}", job["_id"]):
        assert named in said.read_text()
    path.write_bytes(lines[: lines.index(b"\n2000\n") + 1])
    assert place.jobs("submit", "parcels", "--input", str(path), "--idempotency-key", "monday").code == 0


@kind("a limit or a priority that is none")
def _numbers(place: Place) -> None:
    for words in (("--max-items", "0"), ("--max-items", "-1"), ("--priority", "9" * 30), ("--priority", "high")):
        place.accepts_nothing(place.jobs.submit("1\n", *words), words[0])
    job = place.jobs.submitted("1\n", "--priority", "-5")
    refused(place.jobs("items", job, "--limit", "0"), "--limit")
    refused(place.jobs("wait", job, "--timeout", "-1"), "--timeout")
    assert place.jobs("show", job, "--json").json["job"]["priority"] == -5, "a priority may be below zero"


@kind("an idempotency key of something else")
def _idempotency_key(place: Place) -> None:
    job = place.jobs.submitted("1\n", "--idempotency-key", "monday")
    refused(place.jobs.submit("2\n", "-a", "county=elm", "--idempotency-key", "monday"), "'monday'", job)
    refused(place.jobs.submit("2\n", "--kind", "owner", "--idempotency-key", "monday"), "'monday'", job)
    refused(place.jobs.submit("2\n", "--idempotency-key", ""), "--idempotency-key", "200")
    assert place.keys() == ["1"]
    assert place.jobs.submitted("3\n", "--idempotency-key", "monday") == job, "another file adds to the job"
    assert place.keys() == ["1", "3"]


@kind("an item that is none")
def _item(place: Place) -> None:
    job = place.jobs.submitted("1\n")
    place.mongodb["job_items"].update_one({}, {"$set": {"state": "failed"}})
    refused(place.jobs("retry", job, "1", "nope"), job, "'nope'")
    assert place.mongodb["job_items"].count_documents({"state": "failed"}) == 1


@kind("a wait for a job that never ends")
def _endless(place: Place) -> None:
    job = place.jobs.submitted("1\n")
    place.mongodb["jobs"].update_one({"_id": job}, {"$set": {"recheck": "every 1h"}})
    refused(place.jobs("wait", job), job, "standing")
    assert place.jobs("wait", job, "--timeout", "0").code == 7


@kind("a pause of a job that has ended")
def _ended(place: Place) -> None:
    job = place.jobs.submitted("1\n")
    place.mongodb["jobs"].update_one({"_id": job}, {"$set": {"state": "finished"}})
    refused(place.jobs("pause", job), job, "finished")
    refused(place.jobs("cancel", job, "--yes"), job, "finished")
    assert place.jobs("show", job, "--json").json["states"] == {"waiting": 1}


@kind("text that is no UTF-8 in the command")
def _bad_text(place: Place) -> None:
    path = str(place.jobs.write("1\n", "x.txt"))
    ran = place.jobs.run("submit", "parcels", "--input", path, "--name", "caf\udce9")
    place.accepts_nothing(Answer(*ran), "'caf\\udce9'", "UTF-8")


@kind("a MongoDB that is away")
def _away(place: Place) -> None:
    path = str(place.jobs.write("1\n", "x.txt"))
    uri = f"mongodb://127.0.0.1:{place.free_port}/?serverSelectionTimeoutMS=200"
    place.jobs.variables["HARVESTER_MONGODB_URI"] = uri
    for words in (("submit", "parcels", "--input", path), ("list",), ("show", "x"), ("export", "x"), ("run", "x")):
        place.accepts_nothing(Answer(*place.jobs.run(*words)), "MongoDB", code=3)


OF_THIS_MACHINE = {
    "a disk that is full",
    "a job that is cancelled while it is submitted",
    "a MongoDB that is away",
    "a million empty lines",
}
"""Kinds for which a controller makes no difference, or names the fault otherwise."""


@pytest.mark.parametrize(
    ("jobs", "name"),
    [("local", name) for name in KINDS]
    + [pytest.param("remote", name, marks=pytest.mark.soak) for name in KINDS if name not in OF_THIS_MACHINE],
    indirect=["jobs"],
)
def test_bad_input_is_named_ends_with_its_code_and_loses_nothing(
    name: str, jobs: Jobs, mongodb: Database[Document], free_port: int
) -> None:
    assert len(KINDS) >= 20
    KINDS[name](Place(jobs, mongodb, free_port))


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
    job = jobs.submitted("".join(f"{os.urandom(8).hex()}\n" for _ in range(1500)), "--kind", "owner")
    out = jobs.folder / "out"
    name = f"manifest.{form[0]}{'.zst' if '--zstd' in form else ''}"
    assert jobs("export", job, "--format", *form, "--out", str(out)).code == 0
    before = (out / name).read_bytes()
    assert len(before) > 25_000
    with small_files(10_000):
        answer = jobs("export", job, "--format", *form, "--out", str(out))
    refused(answer, str(out), code=4)
    assert "File too large" in answer.err
    assert {each.name: each.read_bytes() for each in out.iterdir()} == {name: before}


@pytest.mark.parametrize(
    ("words", "named", "code"),
    [
        (("--only", "trees"), ["--only", "'trees'", "manifest, "], 2),
        (("--format", "parquet", "--zstd"), ["--zstd", "Parquet"], 2),
        (("--to", "x.csv"), ["--to", "postgresql://USER@HOST/DATABASE", "--out"], 2),
        (("--to", "postgresql://db.example/x", "--zstd"), ["--format", "--zstd", "--out"], 2),
        (("--to", "postgresql://127.0.0.1:1/x"), ["PostgreSQL", "127.0.0.1/x"], 3),
    ],
)
def test_an_export_that_cannot_be_is_refused(jobs: Jobs, words: tuple[str, ...], named: list[str], code: int) -> None:
    refused(jobs("export", jobs.submitted("1\n"), *words), *named, code=code)


def test_an_export_to_a_folder_without_a_name_goes_where_it_goes_without_one(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs.submitted("1\n")
    monkeypatch.chdir(jobs.folder)
    before = set(jobs.folder.iterdir())
    assert jobs("export", job, "--out", "").code == 0
    assert set(jobs.folder.iterdir()) - before <= {jobs.folder / "data"}
    assert (jobs.folder / "data" / "exports" / job / "manifest.jsonl").exists()


def test_parquet_without_its_package_says_what_to_install(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    job = jobs.submitted("1\n")
    refused(jobs("export", job, "--format", "parquet"), "pip install 'harvester[parquet]'")
