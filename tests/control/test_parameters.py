"""A query parameter that a route does not know is refused by every route of the API: it would be ignored in silence."""

from harvester.control.app import PREFIX
from harvester.control.tokens import Scope
from tests.control.serving import Controller


async def test_no_route_ignores_a_parameter_that_it_does_not_know(control: Controller) -> None:
    routes = [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, methods in control.app.openapi()["paths"].items()
        if path.startswith(PREFIX)
        for method in methods
    ]
    assert len(routes) > 40
    for method, path in routes:
        headers = control.headers(Scope.ADMIN) | {"Idempotency-Key": f"{method} {path}"}
        answer = await control.http.request(method, f"{path}?no_such_thing=1", headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:harvester:problem:invalid"), (method, path)
        assert [each["pointer"] for each in answer.json()["errors"]] == ["/query/no_such_thing"]


async def test_an_upload_for_a_site_that_is_no_parameter_makes_no_job(control: Controller) -> None:
    answer = await control.post("/jobs/upload?spider=parcels&site=us-oh-elm", "a key", content=b"1\n2\n")
    assert answer.status_code == 422
    assert "/query/site" in answer.json()["detail"]
    assert (await control.get("/jobs")).json()["jobs"] == []


async def test_a_parameter_that_means_one_thing_is_given_once(control: Controller) -> None:
    assert (await control.get("/jobs?limit=1&limit=2")).status_code == 422
    assert (await control.get("/jobs?state=open&state=finished")).status_code == 200
    misspelt = await control.get("/jobs?limt=1")
    assert misspelt.json()["errors"][0]["detail"].endswith(" limit?")
