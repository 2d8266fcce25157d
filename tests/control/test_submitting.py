"""Submitting over HTTP: what is given is in the job, once, whatever happens between."""

import asyncio
import gzip
import json
import resource
from datetime import timedelta
from typing import Any

import psutil
import pytest

from harvester.control import idempotency, uploads
from harvester.control.app import PREFIX
from harvester.control.tokens import Scope
from harvester.jobs import submission
from harvester.jobs import uploads as job_uploads
from harvester.jobs.ledger import now
from harvester.jobs.submission import SHOWN, Submitted
from harvester.sites import recording
from harvester.spiders import seeds
from harvester.wire import reader
from tests.control.serving import Controller, listening
from tests.numbers import numbers_of

Document = dict[str, Any]

BODY = {"spider": "parcels", "arguments": {"county": "elm"}, "items": ["1", 2, {"key": "3", "owner": "Ann"}]}


async def items_of(control: Controller, job: str) -> list[Document]:
    return await control.context.database["job_items"].find({"job": job}, sort=[("_id", 1)]).to_list()


async def test_items_in_json_are_in_the_job(control: Controller) -> None:
    answer = await control.post("/jobs", "k1", json=BODY | {"priority": 7, "name": "Elm"})
    assert answer.status_code == 201, answer.text
    submitted = reader(Submitted)(answer.content)
    assert (submitted.accepted, submitted.known, submitted.bad, submitted.begun) == (3, 0, 0, False)
    assert answer.headers["location"] == f"{PREFIX}/jobs/{submitted.job}"
    assert submitted.job
    job = await control.context.jobs.job(submitted.job)
    assert (job.priority, job.name, job.arguments, job.idempotency_key) == (7, "Elm", {"county": "elm"}, "k1")
    items = await items_of(control, job.id)
    owners = [(item["key"], item.get("input", {}).get("owner")) for item in items]
    assert owners == [("1", None), ("2", None), ("3", "Ann")]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("text/csv", "parcel,owner\n1,Ann\n2,Bob\n"),
        ("application/jsonl", '{"parcel": 1}\n{"parcel": "2"}\n'),
        ("application/x-ndjson", '{"parcel": 1}\n{"parcel": "2"}\n'),
        ("text/plain; charset=utf-8", "1\n2\n"),
        ("application/octet-stream", "1\n2\n"),
    ],
)
async def test_a_file_is_streamed_in_any_form(control: Controller, media_type: str, body: str, zipped: bool) -> None:
    content = gzip.compress(body.encode()) if zipped else body.encode()
    headers = {"Content-Type": media_type} | ({"Content-Encoding": "gzip"} if zipped else {})
    query = {"spider": "parcels", "argument": "county=elm"} | ({"key": "parcel"} if "parcel" in body else {})
    answer = await control.post("/jobs/upload", "k", content=content, headers=headers, params=query)
    assert answer.status_code == 201, answer.text
    assert [item["key"] for item in await items_of(control, answer.json()["job"])] == ["1", "2"]


@pytest.mark.parametrize("item", [True, False, 1.0, None, []])
async def test_what_is_neither_text_nor_a_whole_number_nor_an_object_is_no_item(
    control: Controller, item: object
) -> None:
    job = (await control.post("/jobs", "k1", json=BODY)).json()["job"]
    for path, body in (("/jobs", BODY | {"items": ["4", item]}), (f"/jobs/{job}/items", {"items": ["4", item]})):
        answer = await control.post(path, "k2", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"][:13]) == (422, "/body/items/1")
    assert [each["key"] for each in await items_of(control, job)] == ["1", "2", "3"]


async def test_bad_lines_are_named_and_of_nothing_but_them_no_job_is_made(control: Controller) -> None:
    answer = await control.post("/jobs", "k1", json=BODY | {"items": ["1", "none", {"owner": "Ann"}, {"key": 10**30}]})
    assert answer.status_code == 201, answer.text
    assert [line["line"] for line in answer.json()["bad_lines"]] == [2, 3, 4]
    none = await control.post("/jobs", "k2", json=BODY | {"items": ["none"]})
    assert (none.status_code, none.json()["job"], none.json()["bad"]) == (200, None, 1)


async def test_of_bad_lines_an_answer_holds_the_beginnings_however_long_they_are(control: Controller) -> None:
    long = [json.dumps({"owner": "x" * 900_000, "line": n}) for n in range(20)]
    content = "\n".join([*long, '{"key": "1"}']).encode()
    query = {"spider": "parcels", "argument": "county=elm"}
    headers = {"Content-Type": "application/jsonl"}
    answer = await control.post("/jobs/upload", "k", content=content, headers=headers, params=query)
    assert answer.status_code == 201, answer.text[:500]
    submitted = reader(Submitted)(answer.content)
    assert (submitted.accepted, submitted.bad) == (1, 20)
    assert [line.text for line in submitted.bad_lines] == [line[:SHOWN] for line in long]
    assert submitted.bad_file
    assert [json.loads(line)["text"] for line in submitted.bad_file.read_bytes().splitlines()] == long


async def test_each_submission_has_a_file_of_its_own_bad_lines(control: Controller) -> None:
    bodies = [BODY | {"items": ["1", bad]} for bad in ("none", "nothing")]
    answers = await asyncio.gather(*(control.post("/jobs", f"k{n}", json=body) for n, body in enumerate(bodies)))
    files = [reader(Submitted)(answer.content).bad_file for answer in answers]
    kept = [[json.loads(line)["text"] for line in file.read_bytes().splitlines()] for file in files if file]
    assert kept == [["none"], ["nothing"]]


async def test_a_key_is_needed_and_answers_once(control: Controller) -> None:
    without = await control.post("/jobs", None, json=BODY)
    assert (without.status_code, without.json()["type"]) == (400, "urn:harvester:problem:no_key")
    for bad in ("", '""', "\x7f", "x" * 201):
        assert (await control.post("/jobs", bad, json=BODY)).status_code == 400
    first = await control.post("/jobs", "k", json=BODY)
    again = await control.post("/jobs", '"k"', json=BODY)
    assert (again.status_code, again.content, again.headers["location"]) == (
        first.status_code,
        first.content,
        first.headers["location"],
    )
    assert again.headers["idempotent-replayed"] == "true"
    other = await control.post("/jobs", "k", json=BODY | {"items": ["4"]})
    assert (other.status_code, other.json()["type"]) == (422, "urn:harvester:problem:other_request")
    assert await control.context.database["jobs"].count_documents({}) == 1


async def test_the_same_file_in_another_format_is_another_request(control: Controller) -> None:
    async def upload(media_type: str) -> Any:
        query, headers = {"spider": "parcels", "argument": "county=elm"}, {"Content-Type": media_type}
        return await control.post("/jobs/upload", "k", content=b"key\n1\n", headers=headers, params=query)

    first = await upload("text/plain")
    assert (first.json()["accepted"], first.json()["bad"]) == (1, 1)
    assert (await upload("text/plain; charset=utf-8")).content == first.content
    other = await upload("text/csv")
    assert (other.status_code, other.json()["type"]) == (422, "urn:harvester:problem:other_request")


async def test_one_of_many_with_the_same_key_is_done_and_the_others_are_told_so(control: Controller) -> None:
    answers = await asyncio.gather(*(control.post("/jobs", "k", json=BODY) for _ in range(10)))
    codes = {answer.status_code for answer in answers}
    assert codes <= {201, 409}
    assert 201 in codes
    assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
    refused = [answer for answer in answers if answer.status_code == 409]
    assert all(answer.headers["retry-after"] for answer in refused)
    assert await control.context.database["jobs"].count_documents({}) == 1


async def test_a_key_whose_controller_died_is_taken_over(control: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprint = ""

    async def look(key: str, given: str, *_: object) -> Any:
        nonlocal fingerprint
        fingerprint = given
        raise RuntimeError("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(idempotency.IdempotencyKeys, "once", lambda self, *rest: look(*rest))
        with pytest.raises(RuntimeError):
            await control.post("/jobs", "k", json=BODY)
    assert (await control.context.keys._hold("k", fingerprint, "another, that dies"))["answer"] is None
    assert (await control.post("/jobs", "k", json=BODY)).status_code == 409
    long_ago = now() - timedelta(seconds=idempotency.SILENT_S + 1)
    await control.context.database[idempotency.KEYS].update_one({"_id": "k"}, {"$set": {"beat_at": long_ago}})
    assert (await control.post("/jobs", "k", json=BODY)).status_code == 201


async def test_what_fails_lets_go_of_its_key(control: Controller) -> None:
    wrong = await control.post("/jobs", "k", json=BODY | {"spider": "none"})
    assert (wrong.status_code, "'none'" in wrong.text) == (422, True)
    assert (await control.post("/jobs", "k", json=BODY)).status_code == 201


async def test_items_are_added_changed_and_removed(control: Controller) -> None:
    job = (await control.post("/jobs", "k", json=BODY)).json()["job"]
    added = await control.post(f"/jobs/{job}/items", None, json={"items": ["7", "1"]})
    assert (added.json()["accepted"], added.json()["known"]) == (1, 1)
    text = {"Content-Type": "text/plain"}
    more = await control.post(f"/jobs/{job}/items/upload", None, content=b"8\n9\n", headers=text)
    assert more.json()["accepted"] == 2, more.text
    changed = await control.post(f"/jobs/{job}/items/change", None, json={"items": ["7"], "input": {"owner": "Cy"}})
    assert changed.json() == {"items": 1}, changed.text
    assert (await control.post(f"/jobs/{job}/items/remove", None, json={"items": ["1", "8"]})).json() == {"items": 2}
    items = {item["key"]: item for item in await items_of(control, job)}
    assert items["7"]["input"]["owner"] == "Cy"
    assert {key for key, item in items.items() if item["state"] == "skipped"} == {"1", "8"}
    assert (await control.post(f"/jobs/{job}/items/change", None, json={"items": ["7"]})).status_code == 422
    assert (await control.post(f"/jobs/{job}/items/remove", None, json={"items": ["none"]})).status_code == 404


async def test_what_several_change_of_one_item_at_the_same_time_is_all_kept(control: Controller) -> None:
    job = (await control.post("/jobs", "k", json=BODY)).json()["job"]
    bodies: list[Document] = [{"items": ["1", "3"], "input": {f"field{n}": "x"}} for n in range(5)]
    path = f"/jobs/{job}/items/change"
    answers = await asyncio.gather(*(control.post(path, None, json=body) for body in bodies))
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"items": 2})] * 5
    fields = {f"field{n}": "x" for n in range(5)}
    inputs = {item["key"]: item.get("input", {}) for item in await items_of(control, job)}
    assert inputs == {"1": fields, "2": {}, "3": {"key": "3", "owner": "Ann"} | fields}
    same = await asyncio.gather(
        *(control.post(path, None, json={"items": ["1"], "input": {"owner": f"Ann {n}"}}) for n in range(5))
    )
    assert {answer.status_code for answer in same} == {200}


async def test_a_reader_changes_nothing(control: Controller) -> None:
    job = (await control.post("/jobs", "k", json=BODY)).json()["job"]
    for path in ("", "/upload", f"/{job}/items", f"/{job}/items/remove", f"/{job}/pause", f"/{job}/cancel"):
        answer = await control.post(f"/jobs{path}", "k2", scope=Scope.READ, json=BODY)
        assert answer.status_code == 403, path
    assert len(await items_of(control, job)) == 3


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (gzip.compress(b"\0" * 50_000_000), 413),
        (gzip.compress(b"1\n" * 1000)[:-9], 400),
        (b"no gzip at all", 400),
        (b"", 400),
        (gzip.compress(b"") * 60_000, 413),
    ],
    ids=["a bomb", "cut short", "none", "empty", "nothing comes out of much"],
)
async def test_what_is_no_gzip_or_a_bomb_is_refused(
    control: Controller, monkeypatch: pytest.MonkeyPatch, content: bytes, status: int
) -> None:
    monkeypatch.setattr(control.context.uploads, "_most", 1 << 20)
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    query = {"spider": "parcels", "argument": "county=elm"}
    answer = await control.post("/jobs/upload", "k", content=content, headers=headers, params=query)
    assert answer.status_code == status, answer.text
    assert await control.context.database["jobs"].count_documents({}) == 0


async def test_bodies_are_bounded_and_of_known_kinds(control: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    large = await control.post("/jobs", "k", json=BODY | {"items": ["x" * 3000] * 400})
    assert (large.status_code, large.headers["content-type"]) == (413, "application/problem+json")
    monkeypatch.setattr(control.context.uploads, "_most", 1000)
    query = {"spider": "parcels", "argument": "county=elm"}
    for headers, content, status in (
        ({"Content-Type": "text/plain"}, b"1\n" * 501, 413),
        ({"Content-Type": "application/pdf"}, b"1\n", 415),
        ({}, b"1\n", 415),
        ({"Content-Type": "text/plain", "Content-Encoding": "br"}, b"1\n", 415),
        ({"Content-Type": "text/csv"}, b"\x1f\x8b", 422),
        ({"Content-Type": "text/plain"}, "é\nü\n".encode("cp1252"), 422),
    ):
        answer = await control.post("/jobs/upload", "k", content=content, headers=headers, params=query)
        assert answer.status_code == status, (headers, answer.text)
    monkeypatch.setattr(uploads, "MOST_AT_ONCE", 0)
    text = {"Content-Type": "text/plain"}
    busy = await control.post("/jobs/upload", "k", content=b"1\n", headers=text, params=query)
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "5")
    assert not list((control.context.config.data_dir / "uploads").iterdir()), "no upload is left"


async def test_an_upload_for_which_there_is_no_room_is_refused_and_not_cut(control: Controller) -> None:
    query, text = {"spider": "parcels", "argument": "county=elm"}, {"Content-Type": "text/plain"}
    body = b"".join(b"%d\n" % number for number in range(1_000_000, 1_500_000))
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(body) - 100, most))  # of what is beyond, a part can be written
    try:
        answer = await control.post("/jobs/upload", "k", content=body, headers=text, params=query)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    assert (answer.status_code, answer.json()["type"]) == (507, "urn:harvester:problem:no_room")
    assert await control.context.database["jobs"].count_documents({}) == 0


async def test_files_of_the_controller_are_not_read_for_others(control: Controller) -> None:
    for given in ("@/etc/passwd", " @data/x"):
        answer = await control.post("/jobs", "k", json=BODY | {"arguments": {"county": given}})
        assert answer.status_code == 422
        query = {"spider": "parcels", "argument": f"county={given}"}
        text = {"Content-Type": "text/plain"}
        answer = await control.post("/jobs/upload", "k", content=b"1\n", headers=text, params=query)
        assert answer.status_code == 422
        assert "Upload it" in json.loads(answer.content)["detail"]


@pytest.mark.parametrize(
    ("spider", "arguments"),
    [
        ("bluesky", {"seeds": "-"}),
        ("bluesky", {"seeds": " @/etc/passwd"}),
        ("hashtags", {"tags": "cats, @/etc/passwd"}),
        ("flow", {"recording": "/dev/zero"}),
        ("flow", {"recording": "@/dev/zero"}),
        ("flow", {"recording": '{"title": "x", "steps": []}', "collected": "/etc/x.toml"}),
        ("flow", {"recording": '{"title": "x", "steps": []}', "inputs": "@/etc/passwd"}),
    ],
)
async def test_no_spider_reads_a_file_of_the_controller_for_others(
    control: Controller, monkeypatch: pytest.MonkeyPatch, spider: str, arguments: dict[str, str]
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "harvester.settings")

    def read(*_: object) -> None:
        raise AssertionError("it is read")

    monkeypatch.setattr(seeds, "_standard_input", read)
    monkeypatch.setattr(recording, "read_text", read)
    body = {"spider": spider, "arguments": arguments}
    submitted = await control.post("/jobs", "a key", json=body | {"items": ["a.test"]})
    scheduled = await control.post("/schedules", None, json=body | {"name": "nightly", "every": "1d"})
    for answer in (submitted, scheduled):
        assert (answer.status_code, "controller's machine" in answer.text) == (422, True)


async def test_over_http_a_secret_goes_nowhere_else_when_its_item_is_changed(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "harvester.settings")
    query, text = {"spider": "endpoints", "argument": "endpoints=https://api.test/a"}, {"Content-Type": "text/plain"}
    submitted = await control.post("/jobs/upload", "k", content=b"https://api.test/a\n", headers=text, params=query)
    assert submitted.status_code == 201, submitted.text
    job = submitted.json()["job"]
    headers = {"input.headers": {"X-Key": "${WEATHER_KEY}"}}
    await control.context.database["job_items"].update_one({"job": job}, {"$set": headers})
    change = {"items": ["https://api.test/a"], "input": {"url": "https://evil.test/"}}
    answer = await control.post(f"/jobs/{job}/items/change", None, json=change)
    assert (answer.status_code, "headers" in answer.text) == (422, True)
    [item] = await items_of(control, job)
    assert item["input"]["url"] == "https://api.test/a"


async def test_what_comes_from_elsewhere_names_no_variable_of_the_workers(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "harvester.settings")
    item = {"key": "x", "url": "https://evil.test", "headers": {"X": "${HARVESTER_SMTP_PASSWORD}"}}
    body = {"spider": "endpoints", "arguments": {"endpoints": "https://api.test/a"}, "items": [item]}
    answer = await control.post("/jobs", "a key", json=body)
    assert (answer.status_code, answer.json()["job"], answer.json()["bad"]) == (200, None, 1), answer.text
    assert "headers" in answer.json()["bad_lines"][0]["reason"]
    body["arguments"] = {"endpoints": "@/etc/passwd"}
    assert (await control.post("/jobs", "another key", json=body)).status_code == 422


async def test_endpoints_are_submitted_by_their_address_or_with_their_name(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "harvester.settings")
    body = {"spider": "endpoints", "arguments": {"endpoints": "https://api.test/a"}, "key": "name"}
    given = ["https://api.test/b", {"name": "prices", "url": "https://api.test/c", "rows": "data", "key": "id"}]
    answer = await control.post("/jobs", "a key", json=body | {"items": given})
    assert (answer.status_code, answer.json()["accepted"]) == (201, 2), answer.text
    found = {item["key"]: item["input"] for item in await items_of(control, answer.json()["job"])}
    assert found["https://api.test/b"]["url"] == "https://api.test/b"
    assert {"url": "https://api.test/c", "key": ["id"]}.items() <= found["prices"].items()
    assert "name" not in found["prices"]


OPEN_QUOTES = b"key,b,c\n" + b'a",b,"\n' * 150_000
"""Each line opens a quotation mark that the next one closes, and opens another: each is read again to the end."""


async def _upload(control: Controller, key: str, content: bytes, **headers: str) -> Any:
    query = {"spider": "parcels", "argument": "county=elm"}
    given = {"Content-Type": "text/csv"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return await control.post("/jobs/upload", key, content=content, headers=given, params=query)


async def test_a_small_body_that_unpacks_to_much_is_refused(control: Controller) -> None:
    """25 kB of newlines in gzip were 25 MB to be read, line by line."""
    answer = await _upload(control, "k", gzip.compress(b"\n" * 25_000_000), Content_Encoding="gzip")
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:harvester:problem:too_large")
    usual = b"key,county,state,source\n" + b"".join(b"%d,Elm County,Ohio,assessor\n" % n for n in range(20_000))
    answer = await _upload(control, "k2", gzip.compress(usual), Content_Encoding="gzip")
    assert answer.json()["accepted"] == 20_000


async def test_a_file_that_takes_too_long_to_read_is_refused_and_others_do_not_wait(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_uploads, "CPU_S", 1.0)
    monkeypatch.setattr(job_uploads, "CPU_S_PER_MB", 0.0)
    upload = asyncio.create_task(_upload(control, "k", OPEN_QUOTES))
    for _ in range(5):
        assert (await control.get("/jobs")).status_code == 200
    assert not upload.done()
    answer = await upload
    assert (answer.status_code, 1 in numbers_of(answer.text)) == (422, True), answer.text
    assert control.context.uploads._running == 0


async def test_too_many_bad_lines_are_no_input(control: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_BAD_LINES", 50)
    answer = await _upload(control, "k", b"key,b\n" + b"x\n" * 10_000)
    assert (answer.status_code, 50 in numbers_of(answer.text)) == (422, True), answer.text


async def test_an_upload_ends_when_whoever_sent_it_is_gone(control: Controller) -> None:
    """Its place is free for another one, and no process reads it any more."""
    children = {child.pid for child in psutil.Process().children()}

    def reading() -> list[psutil.Process]:
        return [child for child in psutil.Process().children() if child.pid not in children]

    async with listening(control.app) as address, asyncio.timeout(120):
        host, _, port = address.rpartition("/")[2].partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        lines = [
            f"POST {PREFIX}/jobs/upload?spider=parcels&argument=county%3Delm HTTP/1.1",
            f"Host: {host}",
            *(f"{name}: {value}" for name, value in control.headers(Scope.OPERATE).items()),
            "Idempotency-Key: k",
            "Content-Type: text/csv",
            f"Content-Length: {len(OPEN_QUOTES)}",
        ]
        writer.write("\r\n".join([*lines, "\r\n"]).encode() + OPEN_QUOTES)
        await writer.drain()
        while not reading():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert control.context.uploads._running == 1
        writer.close()
        while control.context.uploads._running or reading():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (await _upload(control, "k2", b"key\n1\n")).status_code == 201
