"""Authentication and authorization: a bearer token, or the cookie of a page that stands for a token.

The gate checks a request before its body is read. Each route declares the scope that it needs by `may`.
"""

import base64
import hashlib
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from bson import ObjectId
from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from pymongo.errors import PyMongoError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from harvester.control import problems
from harvester.control.context import ControllerContext, context_of
from harvester.control.limits import MOST_HEADERS, Failures, Hosts, bounded, most_bytes, origin_asked, origin_of
from harvester.control.problems import ApiProblem
from harvester.control.tokens import ApiToken, Scope

logger = logging.getLogger(__name__)

API = "/api/"
METRICS = "/metrics"
"""The path that Prometheus scrapes; it needs a token too."""
SOCKET = "/_nicegui_ws/"
"""The path of the pages' WebSocket. Its fallback is GET and POST, and NiceGUI lets any page read those responses."""
COOKIE = "harvester"
"""Name of the cookie. It must be set HttpOnly and SameSite=Strict, for the path /."""
COOKIE_S = 30 * 86_400
"""Seconds until a cookie expires."""
SAFE = ("GET", "HEAD", "OPTIONS")
MOST_KNOWN = 1000
"""Maximum number of remembered valid tokens. These are accepted even while others guess from the same address."""
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",  # keeps scripts and pictures out of pages on another port
}

_bearer = HTTPBearer(auto_error=False, description="A token that `harvester tokens add` has made.")


@dataclass(frozen=True, slots=True)
class Caller:
    """The token, its transport and the address of an authenticated request."""

    token: ApiToken
    by_cookie: bool
    address: str


def cookie_of(context: ControllerContext, token: ApiToken) -> str:
    """Returns the value of a cookie that stands for the token, while the token is valid and for at most COOKIE_S."""
    said = f"{token.id}.{int(time.time()) + COOKIE_S}"
    return f"{said}.{_signature(context.cookie_key, said)}"


async def token_of_cookie(context: ControllerContext, value: str) -> ApiToken | None:
    """Returns the token of a cookie, or None if this controller did not sign the cookie, or if it has expired."""
    said, _, signature = value.rpartition(".")
    token, _, until = said.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(context.cookie_key, said).encode()):
        return None
    return await context.tokens.known(token) if until.isdecimal() and int(until) > time.time() else None


async def caller_of(connection: HTTPConnection) -> Caller | None:
    """Returns the caller that a header or cookie identifies, or None. Meant for pages and routes outside the gate."""
    context, address = context_of(connection), _address(connection.scope)
    given = _given(connection.headers)
    token = await context.tokens.holder(given) if given else None
    if token:
        return Caller(token, by_cookie=False, address=address)
    cookie = connection.cookies.get(COOKIE)
    token = await token_of_cookie(context, cookie) if cookie and not given else None
    return Caller(token, by_cookie=True, address=address) if token else None


def scope_of(request: Request) -> Scope | None:
    """Returns the scope of the caller's token, or None if the request did not pass the gate."""
    caller = getattr(request.state, "caller", None)
    return caller.token.scope if isinstance(caller, Caller) else None


def may(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """Returns the dependency of a route: `Depends(may(Scope.OPERATE))`.

    Each action (all but GET) adds a line to the audit.
    """

    async def check(
        request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)] = None
    ) -> Caller:
        caller = getattr(request.state, "caller", None)
        if not isinstance(caller, Caller):
            raise _unauthorized("Give a token.")
        if not caller.token.scope.allows(scope):
            said = f"This needs a token with the scope {scope}; that of {caller.token.name!r} is {caller.token.scope}."
            raise ApiProblem(403, "forbidden", said)
        if request.method not in SAFE:
            action = getattr(request.scope.get("route"), "operation_id", None) or request.scope["route"].name
            audit = context_of(request).audit
            path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            line = await audit.begin(caller.token.id, caller.token.name, action, path, caller.address)
            request.state.audited = line
        return caller

    return check


READS = Depends(may(Scope.READ))
OPERATES = Depends(may(Scope.OPERATE))
ADMINISTERS = Depends(may(Scope.ADMIN))


class Gate:
    """Middleware that refuses requests with a wrong Host, from another origin, or without a valid token."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts
        self._failures = Failures()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._checked(HTTPConnection(scope))
        except (ApiProblem, PyMongoError) as error:
            await self._refuse(error, scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["caller"] = caller
        audit: list[int] = []

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith(API):
                    headers.setdefault("cache-control", "private, no-cache")
                audit.append(message["status"])
            await send(message)

        try:
            received = receive
            if scope["path"].startswith(API):
                received = bounded(receive, most_bytes(scope["method"], scope["path"]))
            await self._app(scope, received, send_on)
        finally:
            if isinstance(line := state.get("audited"), ObjectId):
                await self._end(HTTPConnection(scope), line, audit[0] if audit else 500)

    async def _end(self, connection: HTTPConnection, line: ObjectId, status: int) -> None:
        try:
            await context_of(connection).audit.end(line, status)
        except PyMongoError as error:
            logger.warning("How an action was answered (%s) could not be added to the audit: %s", status, error)

    async def _checked(self, connection: HTTPConnection) -> Caller | None:
        """Returns the caller, or None for pages and WebSockets, which check it later. Raises ApiProblem."""
        headers = connection.headers
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._hosts.take(hosts[0]):
            said = "This controller is not asked under this name: HARVESTER_CONTROL_HOSTS names those it has."
            raise ApiProblem(421, "unknown_host", said)
        scope = connection.scope
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
            raise ApiProblem(431, "too_large", f"The headers of a request are at most {MOST_HEADERS:,} bytes.")
        if scope["type"] == "websocket":
            self._check_origin(connection)
            return None
        if not scope["path"].startswith((API, METRICS)):
            if scope["method"] not in SAFE or scope["path"].startswith(SOCKET):
                self._check_origin(connection)
            return None
        caller = await self._caller(connection)
        if caller.by_cookie and scope["method"] not in SAFE:
            self._check_origin(connection, needed=True)
        return caller

    async def _caller(self, connection: HTTPConnection) -> Caller:
        address, headers = _address(connection.scope), connection.headers
        given = _given(headers)
        if not given and COOKIE not in connection.cookies:
            raise _unauthorized("Give a token, as `Authorization: Bearer ...`.")
        digest = hashlib.sha256((given or connection.cookies[COOKIE]).encode("utf-8", "replace")).digest()
        if digest not in self._known and (wait_s := self._failures.wait_s(address)):
            again = str(int(wait_s) + 1)
            said = "Too many wrong tokens came from this address."
            raise ApiProblem(429, "too_many", said, headers={"Retry-After": again})
        caller = await caller_of(connection)
        if caller is None:
            self._known.pop(digest, None)
            self._failures.note(address)
            raise _unauthorized("This token is none of this controller, was revoked, or its time is over.")
        self._known[digest] = None
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return caller

    def _check_origin(self, connection: HTTPConnection, *, needed: bool = False) -> None:
        """Raises ApiProblem for a request that a page of another origin made a browser send.

        Another port is another origin.
        """
        headers = connection.headers
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if (needed and site is None and origin is None) or site not in (None, "same-origin", "none"):
            raise ApiProblem(403, "forbidden", "This comes from a page of another site.")
        if origin is None:
            return
        page, asked = origin_of(origin), origin_asked(connection.scope["scheme"], headers["host"])
        if page is None or asked is None or page.host != asked.host:
            raise ApiProblem(403, "forbidden", "This comes from a page of another site.")
        if page != asked:
            said = "This comes from a page of this host with another scheme or port."
            if page.scheme == "https" and asked.scheme == "http":
                said += " If a proxy with TLS stands before it: HARVESTER_CONTROL_PROXIES names its address."
            raise ApiProblem(403, "forbidden", said)

    async def _refuse(self, error: Exception, scope: Connection, receive: Receive, send: Send) -> None:
        problem = problems.problem_of(error)
        assert problem
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": problem.word})
            return
        response = problems.answer(problem)
        response.headers.update(_HEADERS | {"cache-control": "no-store", "connection": "close"})
        await response(scope, receive, send)


def _given(headers: Headers) -> str:
    """Returns the bearer token, or an empty text without an Authorization header.

    A malformed or repeated header gives "none", which is never a token.
    """
    values = headers.getlist("authorization")
    if not values:
        return ""
    kind, _, token = values[0].partition(" ")
    return token.strip() if len(values) == 1 and kind.lower() == "bearer" and token.strip() else "none"


def _unauthorized(said: str) -> ApiProblem:
    return ApiProblem(401, "unauthorized", said, headers={"WWW-Authenticate": 'Bearer realm="harvester"'})


def _address(scope: Connection) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _signature(key: bytes, said: str) -> str:
    digest = hmac.digest(key, said.encode("utf-8", "replace"), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
