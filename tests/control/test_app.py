"""The controller as such: who may ask under which name, what errors look like, whether it is ready."""

import pytest

from harvester.control.app import PREFIX
from harvester.control.auth import COOKIE, cookie_of
from harvester.control.tokens import Scope
from harvester.items import Found
from harvester.jobs.documents import Job
from harvester.jobs.service import JobReport
from harvester.wire import reader
from tests.control.serving import Controller


async def job_of(control: Controller, *keys: str) -> Job:
    """A job with these items."""
    ledger = control.context.jobs.ledger
    job = (await ledger.open_job("parcels", f"scope {'-'.join(keys)}", arguments={"county": "elm"})).job
    await ledger.add(job.id, [Found("parcel", key) for key in keys], lambda found: "elm.example")
    return job


async def test_health_and_readiness_need_no_token(control: Controller) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await control.http.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[::1", "", "localhost,evil.example"]
)
async def test_another_host_is_refused(control: Controller, host: str) -> None:
    answer = await control.http.get(f"{PREFIX}/jobs", headers=control.headers() | {"Host": host})
    assert answer.status_code == 421
    assert answer.json()["type"] == "urn:harvester:problem:unknown_host"


async def test_what_is_answered_is_what_the_service_says(control: Controller) -> None:
    job = await job_of(control, "1", "2", "3")
    answer = await control.get(f"/jobs/{job.id}")
    assert answer.status_code == 200, answer.text
    report = reader(JobReport)(answer.content)
    assert (report.job.id, report.job.arguments, report.states) == (job.id, {"county": "elm"}, {"waiting": 3})
    assert report.job.created_at == job.created_at


async def test_jobs_are_listed_page_by_page_each_once(control: Controller) -> None:
    made = [(await job_of(control, str(number))).id for number in range(5)]
    seen: list[str] = []
    after = ""
    while True:
        answer = (await control.get("/jobs", params={"limit": 2, "after": after, "spider": "parcels"})).json()
        seen += [job["id"] for job in answer["jobs"]]
        after = answer["next"]
        if not after:
            break
    assert sorted(seen) == sorted(made)
    assert len(seen) == 5
    page = (await control.get("/jobs", params={"limit": 2})).json()
    other = await control.get("/jobs", params={"after": page["next"], "state": "paused"})
    assert (other.status_code, other.json()["type"]) == (400, "urn:harvester:problem:bad_request")
    assert (await control.get("/jobs", params={"state": "finished"})).json() == {"jobs": [], "next": None}


async def test_errors_say_where_and_what(control: Controller) -> None:
    unknown = await control.get("/jobs/none")
    assert (unknown.status_code, unknown.json()["status"]) == (404, 404)
    assert "'none'" in unknown.json()["detail"]
    wrong = await control.get("/jobs", params={"limit": "501"})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["pointer"] == "/query/limit"
    for after in ("x", "\u00fc", "e30", "W10", "A" * 1999):
        answer = await control.get("/jobs", params={"after": after})
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert (await control.get("/nothing")).status_code == 404


async def test_a_cookie_changes_nothing_for_a_page_of_another_site(control: Controller) -> None:
    (token,) = [each for each in await control.context.tokens.list() if each.scope is Scope.ADMIN]
    cookie = {"Cookie": f"{COOKIE}={cookie_of(control.context, token)}"}
    for origin in (
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1"},
    ):
        answer = await control.http.post(f"{PREFIX}/jobs/any/pause", headers=cookie | origin)
        assert answer.status_code == 403, origin
    same = cookie | {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert (await control.http.post(f"{PREFIX}/jobs/any/pause", headers=same)).status_code in (404, 405)


async def test_the_document_describes_each_operation_and_its_errors(control: Controller) -> None:
    document = (await control.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    operations = [(path, operation) for path, methods in document["paths"].items() for operation in methods.values()]
    assert len({operation["operationId"] for _, operation in operations}) == len(operations)
    for path, operation in operations:
        if path.startswith(PREFIX):
            assert {"400", "401", "403", "422", "429", "503"} <= operation["responses"].keys(), path
            assert operation["security"], path
        assert operation["description"], path
