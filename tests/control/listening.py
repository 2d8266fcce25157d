"""Controllers on a loopback port, in a thread of the tests' process: one server for any number of them.

The first part of a path names the controller, as behind a proxy that serves several.
"""

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from threading import Thread
from typing import Any, NamedTuple
from uuid import uuid4

import uvicorn
from fastapi import FastAPI

from harvester.config import Config
from harvester.control.app import create_app
from harvester.control.tokens import Scope

WITHIN_S = 60.0
"""For what takes a moment on a machine that is not busy."""


class Listening(NamedTuple):
    """A controller."""

    url: str
    token: str
    """Of the scope `operate`."""


class Controllers:
    """`with Controllers().running() as controllers: with controllers.controller(config) as one: ...`."""

    def __init__(self) -> None:
        self._apps: dict[str, FastAPI] = {}
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server(("127.0.0.1", 0))

    @contextmanager
    def running(self) -> Iterator["Controllers"]:
        server = uvicorn.Server(uvicorn.Config(self._serve, interface="asgi3", log_level="warning", lifespan="off"))
        thread = Thread(target=self._loop.run_until_complete, args=[server.serve([self._socket])])
        thread.start()
        try:
            yield self
        finally:
            server.should_exit = True
            thread.join(WITHIN_S)
            self._loop.close()
            self._socket.close()

    @contextmanager
    def controller(self, config: Config) -> Iterator[Listening]:
        """One, until its test ends."""
        name, begun, end = uuid4().hex, asyncio.Event(), asyncio.Event()
        token = ""

        async def live() -> None:
            nonlocal token
            app = create_app(config)
            async with app.router.lifespan_context(app):
                _, token = await app.state.context.tokens.add("Ann", Scope.OPERATE)
                self._apps[name] = app
                begun.set()
                await end.wait()
                del self._apps[name]

        living = asyncio.run_coroutine_threadsafe(live(), self._loop)
        beginning = asyncio.run_coroutine_threadsafe(begun.wait(), self._loop)
        futures: list[Future[Any]] = [living, beginning]
        wait(futures, WITHIN_S, FIRST_COMPLETED)
        if living.done():
            living.result()
        try:
            yield Listening(f"http://127.0.0.1:{self._socket.getsockname()[1]}/{name}", token)
        finally:
            self._loop.call_soon_threadsafe(end.set)
            living.result(WITHIN_S)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        _, name, path = scope["path"].split("/", 2)
        inner = {**scope, "path": f"/{path}", "raw_path": f"/{path}".encode()}
        await self._apps[name](inner, receive, send)
