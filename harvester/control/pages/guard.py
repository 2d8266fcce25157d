"""Middleware before all pages: shows them only after a login, and restricts the sources that a browser may load.

The policy is as strict as NiceGUI allows: Vue compiles its templates in the browser ('unsafe-eval'), and elements have
inline styles. Scripts come only from this controller; inline scripts run only with the response's nonce.
"""

import re
import secrets
from urllib.parse import quote

from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harvester.control.auth import API, SAFE, SOCKET
from harvester.control.limits import bounded
from harvester.control.pages.page_context import PageContext
from harvester.control.pages.submit import MOST_FILE_BYTES
from harvester.control.problems import ApiProblem, answer
from harvester.control.tokens import Scope as Rights

OPEN = ("/_nicegui/", "/static/", "/favicon.ico")
"""Paths that need no login: code, styles and fonts of the package."""
MOST_UPLOAD = MOST_FILE_BYTES + (1 << 20)
"""Maximum number of bytes of an upload from a page: a file with its surrounding form."""
POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; object-src 'none'"
)
_scripts = re.compile(rb"<script(?=[\s>])")


class Guard:
    """The outermost middleware of NiceGUI's app."""

    def __init__(self, app: ASGIApp, room: PageContext) -> None:
        self._app = app
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_open = path.startswith(OPEN)
        if scope["type"] not in ("http", "websocket") or (is_open and scope.get("method", "GET") in SAFE):
            await self._app(scope, receive, send)
        elif is_open:
            await self._take_upload(scope, receive, send)
        elif path.startswith(API):  # existing paths of the API were routed before
            await answer(ApiProblem(404, "unknown", f"The API has no {path}."))(scope, receive, send)
        elif await self._room.caller(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4401, "reason": "log in"})
        elif scope["path"].startswith(SOCKET) or scope["method"] != "GET":
            await PlainTextResponse("Log in first.", 401)(scope, receive, send)
        else:
            query = f"?{scope['query_string'].decode('ascii', 'replace')}" if scope["query_string"] else ""
            then = quote(scope["path"] + query, safe="")
            await RedirectResponse(f"/login?next={then}", 303)(scope, receive, send)

    async def _take_upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = await self._room.caller(scope)
        if caller is None:
            await PlainTextResponse("Log in first.", 401)(scope, receive, send)
        elif not caller.token.scope.allows(Rights.OPERATE):
            said = f"This needs a token with the scope {Rights.OPERATE}; yours has the scope {caller.token.scope}."
            await PlainTextResponse(said, 403)(scope, receive, send)
        else:
            await self._app(scope, bounded(receive, MOST_UPLOAD), send)


class ContentSecurityPolicy:
    """Adds the policy to pages, and its nonce to their scripts. Safe, because NiceGUI escapes the `<` of any text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        start: Message | None = None
        page = b""

        async def send_on(message: Message) -> None:
            nonlocal start, page
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers["content-security-policy"] = POLICY.format(nonce=nonce)
                    start = message
                    return
            if start is None:
                await send(message)
                return
            page += message.get("body", b"")
            if not message.get("more_body"):
                page = _scripts.sub(b'<script nonce="%s"' % nonce.encode(), page)
                MutableHeaders(scope=start)["content-length"] = str(len(page))
                await send(start)
                await send({"type": "http.response.body", "body": page})

        await self._app(scope, receive, send_on)
