"""A controller of the test's own, asked without a network, and tokens of each scope for it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx2
import uvicorn
from fastapi import FastAPI

from harvester.config import Config
from harvester.control.app import create_app
from harvester.control.context import ControllerContext
from harvester.control.tokens import Scope

BASE = "http://127.0.0.1"


class Controller(NamedTuple):
    """It runs as long as its test."""

    app: FastAPI
    context: ControllerContext
    tokens: dict[Scope, str]
    http: httpx2.AsyncClient
    """Without a token."""

    def headers(self, scope: Scope = Scope.ADMIN) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[scope]}"}

    async def get(self, path: str, scope: Scope = Scope.READ, **options: object) -> httpx2.Response:
        """Below /api/v1, with a token of this scope."""
        return await self.http.get(f"/api/v1{path}", headers=self.headers(scope), **options)  # type: ignore[arg-type]

    async def post(
        self,
        path: str,
        key: str | None,
        scope: Scope = Scope.OPERATE,
        headers: Mapping[str, str] = {},
        **options: object,
    ) -> httpx2.Response:
        """The same, with an Idempotency-Key."""
        given = self.headers(scope) | dict(headers) | ({} if key is None else {"Idempotency-Key": key})
        return await self.http.post(f"/api/v1{path}", headers=given, **options)  # type: ignore[arg-type]


@asynccontextmanager
async def controller(config: Config) -> AsyncIterator[Controller]:
    app = create_app(config)
    async with app.router.lifespan_context(app):
        context: ControllerContext = app.state.context
        tokens = {scope: (await context.tokens.add(f"a {scope}er", scope))[1] for scope in Scope}
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
            yield Controller(app, context, tokens, http)


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncIterator[str]:
    """Its address on loopback, in this process, while it runs already."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(app, lifespan="off", http="h11", log_level="warning", timeout_graceful_shutdown=1)
        )
        serving = asyncio.create_task(server.serve([bound]))
        while not server.started:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        server.should_exit = True
        await serving
