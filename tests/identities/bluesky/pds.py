"""A PDS of one account whose tokens end on demand, and which remembers the Authorization of every request.

The sandbox's tokens end by time, and its log holds no headers: this one is for what depends on either.
"""

import asyncio
import json
from base64 import urlsafe_b64encode
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import uuid4

from aiohttp import web

HANDLE = "ann.example"
PASSWORD = "abcd-efgh-ijkl-mnop"


class Seen(NamedTuple):
    """A request that came."""

    path: str
    authorization: str | None


class Pds:
    """`async with Pds() as pds: ...pds.url...`"""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self.secrets: list[str] = [PASSWORD]
        """Every token that was given out, and the password."""
        self.expired = (400, "ExpiredToken")
        """How an ended token is refused."""
        self.refreshes = True
        self.logins = 1_000
        """How many logins are let in."""
        self.accepts = True
        """Whether any token is."""
        self.storm = 0
        """So many requests are held until all of them are there; then the token ends, and they are refused."""
        self.busy = ""
        """The method that is answered 429."""
        self.busy_s = 290
        """For how long it says that it is."""
        self.moved = ""
        """Where logins are redirected to."""
        self._over = asyncio.Event()
        self._came = asyncio.Condition()
        self._access = self._refresh = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def count(self, name: str) -> int:
        return sum(seen.path.partition("?")[0].endswith(name) for seen in self.seen)

    async def called(self, name: str) -> None:
        """Wait until a method has been called."""
        async with asyncio.timeout(240), self._came:
            await self._came.wait_for(lambda: self.count(name) > 0)

    def expire(self) -> None:
        """End the access token."""
        self._access = ""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization")
        self.seen.append(Seen(request.path_qs, authorization))
        async with self._came:
            self._came.notify_all()
        name = request.path.rpartition(".")[2]
        if name == self.busy:
            return self._answer({"error": "RateLimitExceeded"}, 429, {"Retry-After": f"{self.busy_s}"})
        if name == "createSession" and self.moved:
            return web.Response(status=307, headers={"Location": self.moved})
        if name == "createSession":
            self.logins -= 1
            if (await request.json())["password"] != PASSWORD or self.logins < 0:
                return self._answer({"error": "AuthenticationRequired", "message": "Invalid password"}, 401)
            return self._answer(self._session())
        if name == "refreshSession":
            if request.can_read_body or request.content_type != "application/octet-stream":  # as a PDS does
                return self._answer({"error": "InvalidRequest", "message": "A request body was provided"}, 400)
            if authorization != f"Bearer {self._refresh}" or not self.refreshes:
                return self._answer({"error": "ExpiredToken", "message": "Token has been revoked"}, 400)
            return self._answer(self._session())
        if request.path == "/redirect":
            return web.Response(status=302, headers={"Location": request.query["to"]})
        return await self._resource(authorization, "refused" in request.query_string)

    async def _resource(self, authorization: str | None, refused: bool) -> web.Response:
        if self.storm:
            self.storm -= 1
            if not self.storm:
                self.expire()
                self._over.set()
            await self._over.wait()
        if authorization is None:
            return self._answer({"error": "AuthMissing", "message": "Authentication Required"}, 401)
        if refused or not self.accepts or authorization != f"Bearer {self._access}":
            status, name = self.expired
            return self._answer({"error": name, "message": "Token has expired"}, status)
        return self._answer({"handle": HANDLE})

    def _session(self) -> dict[str, Any]:
        self._access, self._refresh = _token("access"), _token("refresh")
        self.secrets += [self._access, self._refresh]
        service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": self.url}
        return {
            "did": "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa",
            "handle": HANDLE,
            "didDoc": {"service": [service]},
            "accessJwt": self._access,
            "refreshJwt": self._refresh,
            "active": True,
        }

    def _answer(self, body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
        """Compressed, as servers do with what is longer."""
        answer = web.json_response(body, status=status, headers=headers)
        answer.enable_compression(web.ContentCoding.gzip)
        return answer


def _token(kind: str) -> str:
    claims = {"scope": kind, "iat": 1_700_000_000, "exp": 1_700_007_200, "jti": uuid4().hex}
    return f"{_packed({'alg': 'ES256K'})}.{_packed(claims)}.{uuid4().hex}"


def _packed(value: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
