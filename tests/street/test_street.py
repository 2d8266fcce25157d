"""The street does what its plans say, so that a crawl of it means something."""

import asyncio
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from aiohttp import ClientOSError, ClientSession, CookieJar, ServerDisconnectedError

from harvester.outcomes import POLICIES, Outcome
from tests.sandbox.street_house import Asked, FlappingHouse
from tests.sandbox.street_plan import DIALECTS, PASSWORD, USER, HousePlan, Page, page_of, whole_street
from tests.sandbox.street_process import Street
from tests.sandbox.street_webforms import SEARCH

LIMIT = 5


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    plans = [
        HousePlan("well"),
        HousePlan("tls", scheme="https"),
        HousePlan("blocking", "blocking", refusal="403", after=3),
        HousePlan("down", "down", refusal="refuse", after=3),
        HousePlan("flapping", "flapping", refusal="reset", for_s=0.2),
        HousePlan("form", "form", lives=2),
        HousePlan("token", "token", lives=2),
        HousePlan("webforms", "webforms", delay_s=0.05),
        *(HousePlan(f"limited-{name}", "limited", dialect=name, limit=LIMIT, window_s=10_000_000) for name in DIALECTS),
    ]
    with Street(plans, tmp_path_factory.mktemp("street")) as street:
        yield street


@pytest.fixture
async def client() -> Any:
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as client:
        yield client


def test_fifty_sites_are_what_they_are_said_to_be() -> None:
    kinds = [plan.kind for plan in whole_street()]
    assert len({plan.name for plan in whole_street()}) == 50
    counts = {kind: kinds.count(kind) for kind in ("limited", "blocking", "down", "flapping", "well")}
    assert counts == {"limited": 10, "blocking": 5, "down": 5, "flapping": 5, "well": 20}
    assert kinds.count("form") + kinds.count("token") == 5


@pytest.mark.parametrize("name", ["well", "tls"])
async def test_a_page_tells_what_is_known_of_it(street: Street, client: ClientSession, name: str) -> None:
    async with client.get(street.url(name, "/page/7"), ssl=False) as answer:
        told = msgspec.json.decode(await answer.read(), type=Page)
    assert told == page_of(street.plans[name], 7)
    assert street.log(name)[-1].path == "/page/7"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_limited_site_refuses_what_is_over_its_limit_and_says_when_to_come_again(
    street: Street, client: ClientSession, dialect: str
) -> None:
    statuses = []
    for number in range(LIMIT + 2):
        async with client.get(street.url(f"limited-{dialect}", f"/page/{number}")) as answer:
            statuses.append(answer.status)
            told = {name.lower() for name in answer.headers}
    refused = 503 if dialect == "unavailable" else 429
    assert statuses == [200] * LIMIT + [refused] * 2
    hints = {name for name in told if "ratelimit" in name or name == "retry-after"}
    assert bool(hints) == (dialect != "bare")
    assert street.counts()[f"limited-{dialect}"]["over"] == 2


async def test_a_site_in_trouble_refuses_and_comes_back_when_told(street: Street, client: ClientSession) -> None:
    async def status(name: str, page: int = 1) -> int | str:
        try:
            async with client.get(street.url(name, f"/page/{page}")) as answer:
                return answer.status
        except (ServerDisconnectedError, ClientOSError) as error:
            return type(error).__name__

    assert [await status("blocking") for _ in range(5)] == [200, 200, 200, 403, 403]
    street.switch("blocking", "well")
    assert await status("blocking") == 200
    assert [await status("down") for _ in range(3)] == [200] * 3
    async with asyncio.timeout(240):
        while await status("down") != "ClientConnectorError":
            pass
    street.switch("down", "well")
    async with asyncio.timeout(240):
        while await status("down") != 200:
            pass
    flaps: list[bool] = []
    async with asyncio.timeout(240):
        while sum(before != after for before, after in pairwise(flaps)) < 4:
            flaps.append(await status("flapping", page=len(flaps)) in (200, 404))
            await asyncio.sleep(0.02)


def test_a_flapping_site_refuses_no_page_at_each_of_its_tries() -> None:
    house = FlappingHouse(HousePlan("flapping", "flapping", refusal="503", for_s=1.0))
    statuses = [house.answer(Asked("GET", "/page/1", {}), tenth / 10).status for tenth in range(1, 1_000)]
    tries = 1 + min(POLICIES[outcome].retries for outcome in (Outcome.SERVER_ERROR, Outcome.NETWORK))
    assert 0 < statuses.count(503) < tries


async def test_a_form_login_is_good_for_some_pages(street: Street, client: ClientSession) -> None:
    async def read(path: str) -> str:
        async with client.get(street.url("form", path)) as answer:
            return answer.url.path

    assert await read("/page/1") == "/login"
    for password, leads_to in (("wrong", "/login"), (PASSWORD, "/page/1")):
        async with client.get(street.url("form", "/login?next=/page/1")) as answer:
            csrf = _value(await answer.text(), "csrf")
        given = {"username": USER, "password": password, "csrf": csrf, "next": "/page/1"}
        async with client.post(street.url("form", "/login"), data=given) as answer:
            assert answer.url.path == leads_to
    assert [await read("/page/2"), await read("/page/3")] == ["/page/2", "/login"]
    counts = street.counts()["form"]
    assert (counts["login"], counts["wrong login"], counts["expired"]) == (1, 1, 1)


async def test_a_token_is_good_for_some_pages(street: Street, client: ClientSession) -> None:
    async with client.post(street.url("token", "/token"), json={"username": USER, "password": "no"}) as answer:
        assert answer.status == 401
    async with client.post(street.url("token", "/token"), json={"username": USER, "password": PASSWORD}) as answer:
        headers = {"Authorization": f"Bearer {(await answer.json())['access_token']}"}
    statuses = []
    for number in range(3):
        async with client.get(street.url("token", f"/page/{number}"), headers=headers) as answer:
            statuses.append(answer.status)
    assert statuses == [200, 200, 401]


async def test_webforms_want_the_disclaimer_the_latest_state_and_one_request_at_a_time(
    street: Street, client: ClientSession
) -> None:
    async def form(path: str) -> dict[str, str]:
        async with client.get(street.url("webforms", path)) as answer:
            return {name: _value(await answer.text(), name) for name in ("__VIEWSTATE", "__EVENTVALIDATION")}

    first = await form(SEARCH)
    disclaimer = f"/search/Disclaimer.aspx?FromUrl=..{SEARCH}"
    async with client.post(street.url("webforms", disclaimer), data=first | {"btAgree": "Agree"}) as answer:
        state = _value(await answer.text(), "__VIEWSTATE")
        assert "inpParid" in await answer.text()
    async with client.post(street.url("webforms", SEARCH), data={"__VIEWSTATE": state, "inpParid": "7"}) as answer:
        assert "idx=1" in await answer.text()
    async with client.get(street.url("webforms", "/Datalets/Datalet.aspx?sIndex=0&idx=2")) as answer:
        told = await answer.text()
    assert "PARID: 8" in told
    assert all(str(record.value) in told for record in page_of(street.plans["webforms"], 8).records)
    async with client.post(street.url("webforms", SEARCH), data={"__VIEWSTATE": state, "inpParid": "7"}) as answer:
        assert answer.status == 500
    await asyncio.gather(*(form(SEARCH) for _ in range(3)), return_exceptions=True)
    counts = street.counts()["webforms"]
    assert counts["stale"] == 1
    assert counts["overlap"] >= 1


def _value(page: str, name: str) -> str:
    found = re.search(f'name="{name}" value="([^"]*)"', page)
    return found[1] if found else ""
