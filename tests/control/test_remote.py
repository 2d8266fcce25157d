"""`harvester jobs --url`: what only a controller elsewhere brings. The rest is tested in tests/jobs, for both ways."""

import asyncio
import os
import re
import runpy
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pymongo import AsyncMongoClient
from pymongo.database import Database

from harvester.client.access import ControllerAccess
from harvester.client.connection import ControllerConnection
from harvester.client.rows import RemoteRows
from harvester.config import Config
from harvester.control.tokens import Scope, Tokens
from harvester.jobs.inputs import PACKED
from tests.control.serving import BASE, Controller
from tests.crawling import until
from tests.forking import Forked, fork
from tests.jobs.command import HARVESTER, Jobs, measured
from tests.jobs.conftest import controllers, local_jobs, remote_jobs
from tests.numbers import numbers_of
from tests.pipelines.records import PAGE
from tests.root import ROOT

__all__ = ["controllers", "local_jobs", "remote_jobs"]

Document = dict[str, Any]


def numbers(most: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(most))


async def token_for(mongodb_uri: str, database: str, scope: Scope) -> str:
    async with AsyncMongoClient[Document](mongodb_uri, tz_aware=True) as client:
        return (await Tokens(client[database]).add("Ann", scope))[1]


# Refusals --------------------------------------------------------------------------------------------------


def test_run_is_refused_with_a_sentence(remote_jobs: Jobs) -> None:
    answer = remote_jobs("run", "some-job")
    assert (answer.code, answer.out) == (2, "")
    assert "--url" in answer.err
    assert "`harvester jobs wait`" in answer.err


def test_a_token_that_is_none_or_reaches_not_far_enough_is_refused(
    remote_jobs: Jobs, mongodb_uri: str, mongodb: Database[Document], tmp_path: Path
) -> None:
    file = tmp_path / "token"
    for token, said in (
        ("harvester_000000000000_" + "0" * 64, "token"),
        (asyncio.run(token_for(mongodb_uri, mongodb.name, Scope.READ)), "scope operate"),
    ):
        file.write_text(token)
        file.chmod(0o600)
        path = str(remote_jobs.write("1\n", "x.txt"))
        answer = remote_jobs("submit", "parcels", "--input", path, "--token-file", str(file))
        assert (answer.code, said in answer.err) == (2, True), answer.err
        assert token not in answer.err
    assert remote_jobs("list", "--token-file", str(file)).out == "None.\n", "the scope read is enough to look"
    assert mongodb["job_items"].count_documents({}) == 0


def test_a_controller_that_is_away_ends_the_command_with_its_code(remote_jobs: Jobs, free_port: int) -> None:
    for words in (("list",), ("show", "x"), ("export", "x"), ("pause", "x"), ("wait", "x")):
        answer = remote_jobs(*words, "--url", f"http://127.0.0.1:{free_port}")
        assert (answer.code, answer.out, f"http://127.0.0.1:{free_port}" in answer.err) == (3, "", True), answer.err


def test_a_file_of_the_controller_s_machine_is_not_read_for_an_argument(remote_jobs: Jobs) -> None:
    answer = remote_jobs.submit("1\n", "-a", "county=@/etc/passwd")
    assert (answer.code, "county: a file" in answer.err) == (2, True)


NO_ITEMS = [b"", b"{}", b'[1, "a"]', b'[0, "a", {}]', b'[-1, "a", {}]', b'[%d, "a", {}]' % 10**30, b"[]", b"\xff"]


async def test_what_is_no_item_as_the_client_sends_it_is_a_bad_line(
    control: Controller, mongodb: Database[Document]
) -> None:
    """Whoever has a token may send anything."""
    headers = control.headers(Scope.OPERATE) | {"Content-Type": PACKED, "Idempotency-Key": "a"}
    body = b"\n".join([*NO_ITEMS, b'[2, "7", {}]', b""])
    answer = await control.http.post("/api/v1/jobs/upload?spider=parcels", content=body, headers=headers)
    assert answer.status_code == 201
    assert (answer.json()["accepted"], answer.json()["bad"]) == (1, len(NO_ITEMS))
    assert ["no item" in each["reason"] for each in answer.json()["bad_lines"]] == [True] * len(NO_ITEMS)
    assert [item["line"] for item in mongodb["job_items"].find()] == [2]


async def test_a_part_that_is_sent_again_is_answered_as_the_first_time(control: Controller) -> None:
    answer = await control.post("/jobs", "k", json={"spider": "parcels", "items": ["1"]})
    path, headers = f"/jobs/{answer.json()['job']}/items/upload", {"Content-Type": PACKED}
    answers = [
        await control.post(path, key, content=b'[1, "1", {}]\n[2, "2", {}]\n', headers=headers)
        for key in ("part-0", "part-0", None)
    ]
    counts = [(answer.json()["accepted"], answer.json()["known"]) for answer in answers]
    assert counts == [(1, 1), (1, 1), (0, 2)]


async def test_the_manifest_is_read_though_an_item_has_very_many_records(
    control: Controller, mongodb: Database[Document]
) -> None:
    job = (await control.post("/jobs", "k", json={"spider": "parcels", "items": ["1"]})).json()["job"]
    mongodb["posts"].create_index("provenance.item", sparse=True)
    provenance = {"url": PAGE.url, "fetched_at": PAGE.fetched_at, "spider": "parcels", "item": f"{job}:parcel:1"}
    keys = [f"{number:06} {'x' * 1000}" for number in range(60_000)]  # as many bytes as a million of usual ones
    mongodb["posts"].insert_many([{"_id": key, "provenance": provenance} for key in keys])
    access = ControllerAccess(BASE, control.tokens[Scope.READ])
    connection = ControllerConnection(access, Config(), httpx2.ASGITransport(control.app))
    [row] = [row async for row in RemoteRows(connection, f"jobs/{job}/rows").manifest()]
    assert sorted(row["records"]["posts"]) == keys
    await connection.close()


# The page of the documentation -----------------------------------------------------------------------------


def test_the_example_in_python_does_what_it_says(
    remote_jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "remote.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(code)
    remote_jobs.write("key,owner\n001,Ann\n002,Bob\n", "parcels.csv")
    file = tmp_path / "token"
    file.write_text(remote_jobs.variables["HARVESTER_TOKEN"])
    file.chmod(0o600)
    monkeypatch.chdir(remote_jobs.folder)
    harvest: Callable[[str, Path], Awaitable[int]] = runpy.run_path(str(script))["harvest"]
    assert asyncio.run(harvest(remote_jobs.variables["HARVESTER_URL"], file)) == 2  # type: ignore[arg-type]


# Killed, and large -----------------------------------------------------------------------------------------


@pytest.mark.soak
async def test_a_controller_that_is_killed_while_items_are_submitted_is_waited_for_and_no_item_comes_twice(
    local_jobs: Jobs, mongodb_uri: str, mongodb: Database[Document], free_port: int
) -> None:
    total, kills = 30_000, (2_000, 12_000)
    path = local_jobs.write(numbers(total), "x.txt")
    environment = {**os.environ, **local_jobs.variables}
    here = environment | {"HARVESTER_MONGODB_URI": "mongodb://127.0.0.1:1", "HARVESTER_DATABASE": "none"}
    here["HARVESTER_URL"] = f"http://127.0.0.1:{free_port}"
    here["HARVESTER_TOKEN"] = await token_for(mongodb_uri, mongodb.name, Scope.OPERATE)

    async def begun() -> Forked:
        controller = await fork("tests.control.alone", str(free_port), cwd=ROOT, env=environment)
        await until(lambda: is_listening(free_port))
        return controller

    controller = await begun()
    words = ["jobs", "submit", "parcels", "--input", str(path), "--idempotency-key", "monday"]
    command = await fork(HARVESTER, *words, cwd=local_jobs.folder, env=here)
    try:
        for most in kills:
            await until(lambda most=most: mongodb["job_items"].estimated_document_count() >= most)  # type: ignore[misc]
            controller.kill()
            await controller.wait()
            assert command.returncode is None
            controller = await begun()
        out, err = await command.end(240)
        assert (command.returncode, err) == (0, "")
        (job,) = mongodb["jobs"].find()
        assert job["_id"] in out
        assert sum(numbers_of(out.replace(job["_id"], ""))) == total, out
        assert mongodb["job_items"].count_documents({}) == total
        assert len(mongodb["job_items"].distinct("key")) == total
        assert sorted(item["line"] for item in mongodb["job_items"].find({}, {"line": 1})) == [*range(1, total + 1)]
    finally:
        command.kill()
        controller.kill()
        await asyncio.gather(command.wait(), controller.wait())


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_million_items_are_submitted_with_flat_memory(remote_jobs: Jobs, mongodb: Database[Document]) -> None:
    peaks = []
    for number in (1000, 1_000_000):
        path = remote_jobs.write(numbers(number), "x.txt")
        ran, peak = measured(remote_jobs, "submit", "parcels", "--input", str(path), within_s=3000)
        assert ran.returncode == 0, ran.stderr
        peaks.append(peak)
    assert mongodb["job_items"].estimated_document_count() == 1_001_000
    assert peaks[1] - peaks[0] < 40, f"{peaks} MB"
