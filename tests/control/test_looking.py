"""What is asked and done beside jobs over HTTP: each route answers what its service says."""

import re
from typing import Any, NamedTuple

from pymongo.database import Database

from harvester.control.app import PREFIX
from harvester.control.services.records import RecordsPage
from harvester.control.services.sites import SiteChanged, SitesPage
from harvester.control.tokens import Scope
from harvester.jobs.ledger import now
from harvester.wire import reader
from tests.cli.test_runs import document
from tests.control.serving import Controller
from tests.pipelines.records import PAGE

Document = dict[str, Any]


class Asked(NamedTuple):
    """One request, and what is answered to whoever may ask it in an installation where there is nothing."""

    method: str
    path: str
    scope: Scope
    body: Document | None = None
    status: int = 200


READ, OPERATE, ADMIN = Scope.READ, Scope.OPERATE, Scope.ADMIN
NIGHTLY = {"name": "nightly", "spider": "parcels", "arguments": {"county": "elm"}, "cron": "@daily"}
ROUTES = [
    Asked("GET", "/sites", READ),
    Asked("GET", "/sites?spider=nothing", READ, status=404),
    Asked("GET", "/sites?limit=0", READ, status=422),
    Asked("PUT", "/sites/parcels/elm.test/breaker", OPERATE, {"state": "closed"}),
    Asked("PUT", "/sites/nothing/elm.test/breaker", OPERATE, {"state": "closed"}, 404),
    Asked("PUT", "/sites/parcels/elm.test/breaker", OPERATE, {"state": "ajar"}, 422),
    Asked("PUT", "/sites/parcels/elm.test/breaker", OPERATE, {"state": "held", "tier": "odd"}, 422),
    Asked("GET", "/queues", READ),
    Asked("GET", "/workers", READ),
    Asked("GET", "/servers", READ),
    Asked("GET", "/settings", ADMIN),
    Asked("GET", "/runs", READ),
    Asked("GET", "/runs?state=odd", READ, status=422),
    Asked("GET", "/runs/nothing", READ, status=404),
    Asked("GET", "/runs/nothing/log", READ, status=404),
    Asked("GET", "/records", READ),
    Asked("GET", "/records/users", READ, status=404),
    Asked("GET", "/records/posts?after=odd", READ, status=400),
    Asked("GET", "/records/posts/newest", READ),
    Asked("GET", "/records/posts/record?key=a", READ, status=404),
    Asked("GET", "/records/posts/file?key=a&slot=0", READ, status=404),
    Asked("GET", "/schedules", READ),
    Asked("POST", "/schedules", OPERATE, NIGHTLY, 201),
    Asked("POST", "/schedules", OPERATE, NIGHTLY | {"cron": "odd"}, 422),
    Asked("POST", "/schedules", OPERATE, NIGHTLY | {"spider": "", "job": "nobody", "arguments": {}}, 404),
    Asked("GET", "/schedules/nothing", READ, status=404),
    Asked("PATCH", "/schedules/nothing", OPERATE, {"cron": "@daily"}, 404),
    Asked("DELETE", "/schedules/nothing", OPERATE, status=404),
    Asked("POST", "/schedules/nothing/pause", OPERATE, status=404),
    Asked("POST", "/schedules/nothing/resume", OPERATE, status=404),
    Asked("GET", "/coming", READ),
    Asked("GET", "/coming?hours=nan", READ, status=422),
    Asked("GET", "/watched", READ),
    Asked("GET", "/watched?text=%00", READ),
    Asked("POST", "/watched", OPERATE, {"spider": "feeds", "items": [{"key": "https://a.test/"}]}, 404),
    Asked("PATCH", "/watched", OPERATE, {"job": "nothing", "items": ["a"], "often": 2}, 404),
    Asked("POST", "/watched/remove", OPERATE, {"job": "nothing", "items": ["a"]}, 404),
    Asked("POST", "/watched/restart", OPERATE, {"expect": 0}),
    Asked("GET", "/dead-letters", READ),
    Asked("GET", "/dead-letters/nothing", READ, status=404),
    Asked("POST", "/dead-letters/parcels/requeue", OPERATE, {"ids": ["1"]}),
    Asked("POST", "/dead-letters/parcels/requeue", OPERATE, {}, 422),
    Asked("GET", "/deliveries", READ),
    Asked("POST", "/deliveries/posts/resume", OPERATE, status=422),
    Asked("POST", "/deliveries/posts/replay", OPERATE, {"expect": 1}, 422),
]


async def ask(control: Controller, asked: Asked, scope: Scope | None) -> int:
    headers = control.headers(scope) if scope else {}
    answer = await control.http.request(asked.method, f"{PREFIX}{asked.path}", headers=headers, json=asked.body)
    if answer.is_error:
        assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code


async def test_each_route_is_open_to_its_scope_and_to_no_smaller_one(control: Controller) -> None:
    order = [READ, OPERATE, ADMIN]
    for asked in ROUTES:
        assert await ask(control, asked, None) == 401, asked
        for scope in order[: order.index(asked.scope)]:
            assert await ask(control, asked, scope) == 403, asked
        assert await ask(control, asked, asked.scope) == asked.status, asked


async def test_no_route_is_left_untried(control: Controller) -> None:
    paths = control.app.openapi()["paths"]
    tags = {"sites and workers", "settings", "runs", "records", "schedules", "feeds and endpoints"}
    tags |= {"dead letters", "deliveries"}
    known = {
        (method.upper(), path.removeprefix(PREFIX))
        for path, methods in paths.items()
        for method, of in methods.items()
        if tags & set(of.get("tags", ()))
    }
    tried = {(asked.method, asked.path.partition("?")[0]) for asked in ROUTES}
    for method, path in known:
        pattern = re.compile(re.sub(r"\{[^}]*\}", "[^/]+", path)).fullmatch
        assert any(method == of and pattern(each) for of, each in tried), f"{method} {path}"


async def test_a_site_is_held_and_the_answer_says_what_undoes_that(control: Controller) -> None:
    path, headers = f"{PREFIX}/sites/parcels/elm.test/breaker", control.headers(OPERATE)
    answer = await control.http.put(path, headers=headers, json={"state": "held", "seconds": 3600, "reason": "a visit"})
    changed = reader(SiteChanged)(answer.content)
    assert (changed.changed, changed.before, changed.state) == (True, "closed", "held")
    page = reader(SitesPage)((await control.get("/sites?left_alone=true")).content)
    assert [(each.site, each.state, each.said) for each in page.sites] == [("elm.test", "held", "a visit")]
    undo = answer.json()["undo"]
    assert (await control.http.put(path, headers=headers, json=undo)).json()["state"] == "closed"
    assert (await control.get("/sites?left_alone=true")).json() == {"sites": [], "more": False}


async def test_whoever_may_read_records_reads_neither_tokens_nor_the_audit(control: Controller) -> None:
    assert (await control.post("/jobs/none/pause", "a key")).status_code == 404
    assert {"audit", "tokens"} <= {*await control.context.database.list_collection_names()}
    assert {each["name"] for each in (await control.get("/records")).json()}.isdisjoint({"audit", "tokens"})
    for name in ("audit", "tokens"):
        assert (await control.get(f"/records/{name}")).status_code == 404


async def test_records_come_page_by_page_and_a_picture_runs_nothing(
    control: Controller, mongodb: Database[Document]
) -> None:
    provenance = {"url": PAGE.url, "fetched_at": PAGE.fetched_at, "spider": "bluesky"}
    rows = [{"_id": f"at://x/{number}", "text": "<script>", "provenance": provenance} for number in range(5)]
    mongodb["posts"].insert_many([*rows, {"_id": "p", "provenance": provenance, "media_paths": {"0": "a/b.jpg"}}])
    keys, after = list[str](), ""
    while True:
        answer = await control.get("/records/posts", params={"key": "at://", "limit": 2, "after": after})
        page = reader(RecordsPage)(answer.content)
        keys += [each.key for each in page.records]
        if page.next is None:
            break
        after = page.next
    assert keys == [row["_id"] for row in rows]
    assert (await control.get("/records/posts", params={"key": "at:", "after": after})).status_code == 400
    folder = control.context.config.data_dir / "images" / "a"
    folder.mkdir(parents=True)
    (folder / "b.jpg").write_bytes(b"<html>" * 100_000)
    answer = await control.get("/records/posts/file", params={"key": "p", "slot": "0"})
    assert (answer.status_code, answer.headers["content-type"], len(answer.content)) == (200, "image/jpeg", 600_000)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


async def test_records_whose_keys_are_long_addresses_are_shown_and_listed_to_their_end(
    control: Controller, mongodb: Database[Document]
) -> None:
    provenance = {"url": PAGE.url, "fetched_at": PAGE.fetched_at, "spider": "bluesky"}
    keys = [f"https://elm.test/{n}?{'ä' * 4000}" for n in range(3)]
    mongodb["posts"].insert_many([{"_id": key, "provenance": provenance} for key in keys])
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        answer = await control.get("/records/posts", params={"limit": 1, "after": after})
        page = reader(RecordsPage)(answer.content)
        found += [each.key for each in page.records]
        after = page.next
    assert found == keys
    assert (await control.get("/records/posts/record", params={"key": keys[0]})).json()["key"] == keys[0]


async def test_a_run_shows_its_log_line_by_line(control: Controller, mongodb: Database[Document]) -> None:
    log = control.context.config.data_dir.parent / "crawl.log"
    log.write_text("one\ntwo\n")
    mongodb["runs"].insert_one(document("20260131-a", log=str(log), started_at=now(), heartbeat_at=now()))
    first = (await control.get("/runs/20260131-a/log")).json()
    assert first == {"lines": ["one", "two"], "end": 8, "cut": False}
    with log.open("a") as file:
        file.write("three\n")
    assert (await control.get("/runs/2026/log?after=8")).json()["lines"] == ["three"]


async def test_a_schedule_is_added_once_changed_and_removed(control: Controller) -> None:
    headers = control.headers(OPERATE)
    first, again = [await control.http.post(f"{PREFIX}/schedules", headers=headers, json=NIGHTLY) for _ in range(2)]
    assert (first.status_code, again.json()) == (201, first.json())
    other = await control.http.post(f"{PREFIX}/schedules", headers=headers, json=NIGHTLY | {"priority": 1})
    assert other.status_code == 409
    changed = await control.http.patch(f"{PREFIX}/schedules/nightly", headers=headers, json={"every": "6h"})
    assert changed.json()["when"] == "every 6h"
    paused = await control.http.post(f"{PREFIX}/schedules/nightly/pause", headers=headers)
    assert (paused.json()["number"], "nightly" in paused.json()["said"]) == (1, True)
    removed = await control.http.delete(f"{PREFIX}/schedules/nightly", headers=headers)
    added = await control.http.post(f"{PREFIX}/schedules", headers=headers, json=removed.json()["undo"])
    assert (added.status_code, added.json()["when"]) == (201, "every 6h")
