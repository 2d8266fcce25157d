"""A county behind a WebForms login, a disclaimer and a token API; it remembers who asked for what, and when."""

import asyncio
import json
import re
import time
from base64 import b64encode
from html import escape
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote
from uuid import uuid4

from aiohttp import web

USERS = {
    "ann": "correct-horse-1",
    "bob": "correct-horse-2",
    "cyd": "correct-horse-3",
    "o'neil@county": 'correct/horse & "4"',
}
FORM = """<html><body><form id="search"><input name="q"></form>
<form id="main" method="post" action="./{action}">
<input type="hidden" name="__VIEWSTATE" value="{state}"><input type="hidden" name="__EVENTVALIDATION" value="{state}e">
{inputs}</form></body></html>"""
LOGIN = """<input name="ctl00$user"><input name="ctl00$pass" type="password">
<input type="checkbox" name="keep" value="1">
<input type="submit" name="ctl00$go" value="Log in"><input type="submit" name="ctl00$forgot" value="Forgot">"""
AGREE = '<input type="submit" name="btAgree" value="Agree">'


class Seen(NamedTuple):
    """A request that came."""

    began: float
    """Monotonic time."""
    ended: float
    method: str
    path: str
    jar: str
    """The cookie that tells who asked; empty without one."""


class County:
    """`async with County() as county: ...county.url...`"""

    def __init__(self) -> None:
        self.url = self.name = ""
        self.seen: list[Seen] = []
        self.secrets: set[str] = {*USERS.values()}
        """Passwords, cookies and tokens that were given out."""
        self.logins: list[tuple[str, bool]] = []
        """User, and whether it was let in."""
        self.agreements = 0
        self.refreshes = 0
        self.down = 0
        """So many logins are answered 503."""
        self.storm = 0
        """So many pages are held until all are asked for; then all sessions end."""
        self.blocks: set[str] = set()
        """Users who are answered 403."""
        self.expires_in = 3600.0
        self.slow_s = 0.0
        """How long each page takes."""
        self.login_s = 0.0
        self.checks = 0
        self.pages = 0
        """That were answered 200."""
        self.expire_after = 0
        """After so many answered pages all sessions end, again and again."""
        self.logins_began = asyncio.Event()
        self.ends_after = ""
        """After the answer to this path all sessions end."""
        self.elsewhere = ""
        """Where /away redirects to."""
        self.carried: list[str] = []
        """The headers of requests to /cookie."""
        self.echoes: list[str] = []
        """Paths of answers that repeat secrets."""
        self.echoed: set[str] = set()
        self._states: set[str] = set()
        self._auth: dict[str, str] = {}
        """Cookie or token -> user."""
        self._refresh: dict[str, str] = {}
        self._agreed: dict[str, str] = {}
        """Cookie -> what it searched for last."""
        self._over = asyncio.Event()

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._remember])
        route = app.router.add_route
        route("GET", "/Login.aspx", self._login_page)
        route("POST", "/Login.aspx", self._login)
        route("GET", "/Disclaimer.aspx", self._disclaimer_page)
        route("POST", "/Disclaimer.aspx", self._disclaimer)
        route("GET", "/page/{number}", self._page)
        route("GET", "/search", self._search)
        route("GET", "/detail", self._detail)
        route("POST", "/token", self._token)
        route("POST", "/refresh", self._refreshed)
        route("GET", "/api/{number}", self._api)
        route("GET", "/who", self._who)
        route("GET", "/cookie", self._cookie)
        route("GET", "/away", self._away)
        route("GET", "/Open.aspx", self._open_form)
        route("GET", "/echo/{how}", self._echo)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=2000)
        await site.start()
        self.name = f"127.0.0.1:{self._runner.addresses[0][1]}"
        self.url = f"http://{self.name}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def expire(self) -> None:
        """Ends all sessions."""
        self._auth.clear()
        self._agreed.clear()

    def forget_refresh_tokens(self) -> None:
        self._refresh.clear()

    def count(self, path: str) -> int:
        return sum(seen.path.partition("?")[0] == path for seen in self.seen)

    def count_of(self, path_qs: str) -> int:
        return sum(seen.path == path_qs for seen in self.seen)

    def by_jar(self, prefix: str) -> dict[str, list[Seen]]:
        """The requests of each cookie jar to paths that begin so, in order."""
        jars: dict[str, list[Seen]] = {}
        for seen in sorted(self.seen, key=lambda each: each.began):
            if seen.path.startswith(prefix) and seen.jar:
                jars.setdefault(seen.jar, []).append(seen)
        return jars

    @web.middleware
    async def _remember(self, request: web.Request, handler: Any) -> web.StreamResponse:
        began = time.monotonic()
        jar = request.cookies.get("auth") or request.cookies.get("ASP.NET_SessionId") or ""
        try:
            return await handler(request)  # type: ignore[no-any-return]
        finally:
            if request.path_qs == self.ends_after:
                self.ends_after = ""
                self.expire()
            self.seen.append(Seen(began, time.monotonic(), request.method, request.path_qs, jar))

    # The login ---------------------------------------------------------------------------------------------

    def _page_with(self, inputs: str, action: str) -> web.Response:
        state = uuid4().hex
        self._states.add(state)
        text = FORM.format(action=action, state=state, inputs=inputs)
        return web.Response(text=text, content_type="text/html")

    async def _login_page(self, request: web.Request) -> web.Response:
        return self._page_with(LOGIN, "Login.aspx")

    async def _login(self, request: web.Request) -> web.StreamResponse:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.logins_began.set()
        await asyncio.sleep(self.login_s)
        if self.down:
            self.down -= 1
            return web.Response(status=503, text="down")
        state = form.get("__VIEWSTATE", "")
        if state not in self._states or form.get("__EVENTVALIDATION") != f"{state}e" or "ctl00$forgot" in form:
            return web.Response(status=500, text="Validation of viewstate MAC failed")
        self._states.discard(state)
        user = form.get("ctl00$user", "")
        good = USERS.get(user) == form.get("ctl00$pass")
        self.logins.append((user, good))
        if not good:
            return self._page_with(LOGIN, "Login.aspx")
        response = web.Response(status=302, headers={"Location": "/home/welcome"})
        response.set_cookie("auth", self._given(user), httponly=True, samesite="Lax")
        return response

    def _given(self, user: str) -> str:
        secret = uuid4().hex
        self._auth[secret] = user
        self.secrets.add(secret)
        return secret

    async def _page(self, request: web.Request) -> web.StreamResponse:
        await self._storm()
        await asyncio.sleep(self.slow_s)
        user = self._auth.get(request.cookies.get("auth", ""))
        if user is None:
            return web.Response(status=302, headers={"Location": f"/Login.aspx?ReturnUrl={request.path}"})
        if user in self.blocks:
            return web.Response(status=403, text="no")
        self.pages += 1
        if self.expire_after and self.pages % self.expire_after == 0:
            self.expire()
        return web.json_response({"user": user, "number": request.match_info["number"]})

    async def _storm(self) -> None:
        if self.storm:
            self.storm -= 1
            if not self.storm:
                self.expire()
                self._over.set()
            await self._over.wait()

    async def _who(self, request: web.Request) -> web.Response:
        self.checks += 1
        return web.json_response({"in": request.cookies.get("auth", "") in self._auth})

    async def _away(self, request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": self.elsewhere})

    async def _open_form(self, request: web.Request) -> web.Response:
        """A form that sends what is filled in as a part of its address."""
        text = f'<form id="main" action="/Login.aspx">{LOGIN}</form>'
        return web.Response(text=text, content_type="text/html")

    async def _echo(self, request: web.Request) -> web.Response:
        """All that it knows of who asks, in many forms."""
        given = [*request.cookies.values(), *request.headers.get("Authorization", "").split()[1:]]
        user = next((self._auth[each] for each in given if each in self._auth), None)
        if user is None:
            return web.json_response({"error": "who are you?"}, status=401)
        self.echoes.append(request.path)
        self.echoed.update(known := [user, USERS[user], *given])
        plain, percent = " ".join(known), quote(" ".join(known), safe="")
        based = b64encode(f"{user}:{USERS[user]}".encode()).decode()
        everything = f"{plain} {percent} {escape(plain)} {json.dumps(plain)} {based}"
        match request.match_info["how"]:
            case "away":
                return web.Response(status=302, headers={"Location": f"/echo/refused?said={percent}"})
            case "nowhere":
                return web.Response(status=302, headers={"Location": f"http://[a/?said={percent}"})
            case "json":
                return web.json_response({"error": "BadRequest", "message": everything}, status=400)
            case "read":
                return web.Response(text=everything)
        page = f"<html><title>{escape(plain)}</title><p>{everything}</p></html>"
        return web.Response(status=403, text=page, content_type="text/html")

    async def _cookie(self, request: web.Request) -> web.Response:
        self.carried.append(str(request.headers).lower())
        return web.json_response({"cookie": request.headers.get("Cookie", "")})

    # The disclaimer ----------------------------------------------------------------------------------------

    async def _disclaimer_page(self, request: web.Request) -> web.Response:
        return self._page_with(AGREE, "Disclaimer.aspx")

    async def _disclaimer(self, request: web.Request) -> web.StreamResponse:
        form = {name: str(value) for name, value in (await request.post()).items()}
        if form.get("__VIEWSTATE") not in self._states or form.get("btAgree") != "Agree":
            return web.Response(status=500, text="Validation of viewstate MAC failed")
        self.agreements += 1
        secret = uuid4().hex
        self._agreed[secret] = ""
        self.secrets.add(secret)
        response = web.Response(status=302, headers={"Location": "/home/welcome"})
        response.set_cookie("ASP.NET_SessionId", secret, httponly=True)
        return response

    async def _search(self, request: web.Request) -> web.StreamResponse:
        """Its result lies in the session, as WebForms do it."""
        await asyncio.sleep(self.slow_s)
        jar = request.cookies.get("ASP.NET_SessionId", "")
        if jar not in self._agreed:
            return web.Response(status=302, headers={"Location": "/Disclaimer.aspx?FromUrl=search"})
        self._agreed[jar] = request.query["q"]
        response = web.json_response({"q": request.query["q"], "found": 3})
        rolling = uuid4().hex
        self.secrets.add(rolling)
        response.set_cookie("rolling", rolling)
        return response

    async def _detail(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.slow_s)
        jar = request.cookies.get("ASP.NET_SessionId", "")
        if jar not in self._agreed:
            return web.Response(status=302, headers={"Location": "/Disclaimer.aspx?FromUrl=detail"})
        return web.json_response({"q": self._agreed[jar], "index": request.query["index"]})

    # The API -----------------------------------------------------------------------------------------------

    async def _token(self, request: web.Request) -> web.Response:
        body = json.loads(await request.text())
        good = USERS.get(body["name"]) == body["word"]
        self.logins.append((body["name"], good))
        return self._tokens(body["name"]) if good else web.json_response({"error": "bad"}, status=401)

    async def _refreshed(self, request: web.Request) -> web.Response:
        self.refreshes += 1
        user = self._refresh.pop(json.loads(await request.text())["refresh"], None)
        return self._tokens(user) if user else web.json_response({"error": "bad"}, status=400)

    def _tokens(self, user: str) -> web.Response:
        refresh = uuid4().hex
        self._refresh[refresh] = user
        self.secrets.add(refresh)
        tokens = {"access": self._given(user), "refresh": refresh, "life": self.expires_in}
        return web.json_response({"data": tokens})

    async def _api(self, request: web.Request) -> web.Response:
        await self._storm()
        token = re.sub("^Bearer ", "", request.headers.get("Authorization", ""))
        if token not in self._auth:
            return web.json_response({"error": "who are you?"}, status=401)
        return web.json_response({"number": request.match_info["number"], "user": self._auth[token]})
