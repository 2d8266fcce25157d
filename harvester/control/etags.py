"""ETags: a client that polls a summary receives it only when it has changed."""

import hashlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1 << 20
"""Maximum number of bytes of a response with an ETag, because it is held back until it is complete."""


class ETags:
    """Middleware that adds an ETag to complete JSON responses to GET, and answers 304 to clients that name it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        known = Headers(scope=scope).get("if-none-match", "")
        held: Message | None = None

        async def send_on(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _gets_one(message):
                held = message
                return
            if held and message["type"] == "http.response.body":
                start, held = held, None
                tag = f'W/"{hashlib.sha256(message["body"]).hexdigest()[:32]}"'
                headers = MutableHeaders(scope=start)
                headers["etag"] = tag
                if known.strip() == "*" or tag in (each.strip() for each in known.split(",")):
                    start["status"] = 304
                    del headers["content-length"]
                    del headers["content-type"]
                    message = {**message, "body": b""}
                await send(start)
            await send(message)

        await self._app(scope, receive, send_on)


def _gets_one(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    length = headers.get("content-length", "")
    is_json = headers.get("content-type", "") == "application/json"
    return start["status"] == 200 and is_json and length.isdecimal() and int(length) <= MOST_BYTES
