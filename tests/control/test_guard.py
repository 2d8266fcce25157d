"""What pages send to the controller: nobody sends a file who may not submit one, and none is too long or too slow."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harvester.control import limits
from harvester.control.pages import guard
from harvester.control.pages.guard import Guard
from harvester.control.pages.login import Links, add_login
from harvester.control.pages.page_context import PageContext
from harvester.control.tokens import Scope
from tests.control.serving import BASE, Controller

UPLOAD = "/_nicegui/client/a-page/upload/7"


@pytest.fixture
async def http(control: Controller) -> AsyncIterator[httpx2.AsyncClient]:
    """An app that takes a body of any length, behind the guard."""

    async def take(request: Request) -> Response:
        return Response(str(len(await request.body())))

    app = Starlette(routes=[Route(UPLOAD, take, methods=["GET", "POST"])])
    transport = httpx2.ASGITransport(Guard(app, PageContext(control.app)))
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as http:
        yield http


async def test_a_page_s_file_is_taken_only_from_who_may_submit_it(
    control: Controller, http: httpx2.AsyncClient
) -> None:
    for headers, status in (
        ({}, 401),
        (control.headers(Scope.READ), 403),
        (control.headers(Scope.OPERATE), 200),
        (control.headers(Scope.ADMIN), 200),
    ):
        assert (await http.post(UPLOAD, content=b"a file", headers=headers)).status_code == status
    assert (await http.get(UPLOAD)).status_code == 200, "what is only read is code of the package"


async def test_a_page_s_file_is_bounded(
    control: Controller, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_UPLOAD", 1000)
    headers = control.headers(Scope.OPERATE)
    for size, status in ((1000, 200), (1001, 413)):
        assert (await http.post(UPLOAD, content=b"x" * size, headers=headers)).status_code == status


async def test_a_login_that_comes_too_slowly_is_not_waited_for(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STALL_S", 0.1)
    app = FastAPI()
    add_login(app, PageContext(control.app), Links())

    async def never() -> AsyncIterator[bytes]:
        yield b"token="
        await asyncio.Event().wait()

    async with asyncio.timeout(30), httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE) as http:
        assert (await http.post("/login", content=never())).status_code == 408
