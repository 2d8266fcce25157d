"""A webhook's receiver on loopback that checks signatures and answers as it is told, also as a process of its own.

`python -m tests.publish.receiver PORT FILE` appends each event that it has confirmed to the file, a line each.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from aiohttp import web

Document = dict[str, Any]
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(32, 64))).decode()


class Receiver:
    """`async with Receiver() as receiver: ...receiver.url...`. `answer` gives the status for an event."""

    def __init__(self, port: int = 0, secret: str = SECRET) -> None:
        self.port = port
        self.secret = secret
        self.events: list[Document] = []
        """Those that were answered with 2xx."""
        self.heads: list[dict[str, str]] = []
        """Headers of all that came, in lower case."""
        self.answer: Callable[[Document], web.Response] = lambda event: web.Response()
        self.keep: Callable[[bytes], object] = lambda body: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/hook", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        head = {name.lower(): value for name, value in request.headers.items()}
        self.heads.append(head)
        if not is_signed(head, body, self.secret):
            return web.Response(status=401)
        event = json.loads(body)
        response = self.answer(event)
        if 200 <= response.status < 300:
            self.keep(body)
            self.events.append(event)
        return response


def is_signed(head: Document, body: bytes, secret: str) -> bool:
    """By the specification: HMAC-SHA256 of id, time and body by the secret's bytes, one of the signatures named v1."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{head['webhook-id']}.{head['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return f"v1,{wanted}" in head["webhook-signature"].split(" ")


async def main(port: int, file: Path) -> None:
    with file.open("ab", buffering=0) as kept:
        receiver = Receiver(port)
        receiver.keep = lambda body: kept.write(body + b"\n")
        async with receiver:
            print("ready", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
