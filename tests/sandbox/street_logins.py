"""Sites of the street that want a login, and forget it after some pages: by a form and a cookie, and by a token."""

import secrets
from urllib.parse import parse_qs, quote

import msgspec

from tests.sandbox.street_house import NOT_FOUND, Answer, Asked, House
from tests.sandbox.street_plan import PASSWORD, USER, HousePlan

_FORM = """<!DOCTYPE html><html><head><title>Sign in</title></head><body>{said}
<form id="login" method="post" action="/login">
<input type="hidden" name="csrf" value="{csrf}"><input type="hidden" name="next" value="{next}">
<input name="username"><input name="password" type="password"><button name="go" value="1">Sign in</button>
</form></body></html>"""


class _LoginHouse(House):
    """Counts `login` and `wrong login`, and `expired` for pages asked for with what has ended."""

    def __init__(self, plan: HousePlan) -> None:
        super().__init__(plan)
        self._lives: dict[str, int] = {}
        """Pages left, by session."""

    def _begin(self) -> str:
        session = secrets.token_hex(8)
        self._lives[session] = self.plan.lives
        return session

    def _spend(self, session: str) -> bool:
        """Whether the session is good for one more page."""
        left = self._lives.get(session, 0)
        if left:
            self._lives[session] = left - 1
        return left > 0

    def end_all(self) -> None:
        """Every session ends now."""
        self._lives.clear()


class FormHouse(_LoginHouse):
    """GET /login, POST /login (username, password, csrf, next) -> cookie `session`; without it a redirect to /login."""

    def __init__(self, plan: HousePlan) -> None:
        super().__init__(plan)
        self._csrf: set[str] = set()

    def _answer(self, asked: Asked, now: float) -> Answer:
        path, _, query = asked.path.partition("?")
        if path == "/login":
            return self._log_in(asked) if asked.method == "POST" else self._form(parse_qs(query).get("next", ["/"])[0])
        if path == "/":
            return Answer(200, b"<html><body><h1>Home</h1></body></html>", "text/html")
        return super()._answer(asked, now)

    def _page_answer(self, number: int, asked: Asked, now: float) -> Answer:
        session = asked.cookies.get("session", "")
        if self._spend(session):
            return super()._page_answer(number, asked, now)
        to = f"/login?next={quote(asked.path)}"
        return Answer(302, headers=(("Location", to),), note="expired" if session else "no login")

    def _form(self, to: str, said: str = "", note: str = "") -> Answer:
        csrf = secrets.token_hex(8)
        self._csrf.add(csrf)
        return Answer(200, _FORM.format(said=said, csrf=csrf, next=to).encode(), "text/html", note=note)

    def _log_in(self, asked: Asked) -> Answer:
        given = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        to = given.get("next", "/")
        if given.get("csrf") not in self._csrf:
            return Answer(400, b"<html><body>The form is stale.</body></html>", "text/html", note="wrong login")
        self._csrf.discard(given["csrf"])
        if (given.get("username"), given.get("password")) != (USER, PASSWORD):
            return self._form(to, "<p class=error>Invalid username or password.</p>", "wrong login")
        cookie = f"session={self._begin()}; Path=/; HttpOnly"
        return Answer(303, headers=(("Location", to), ("Set-Cookie", cookie)), note="login")


class TokenHouse(_LoginHouse):
    """POST /token with JSON (username, password) -> access_token; pages want it as Bearer, else 401."""

    def _answer(self, asked: Asked, now: float) -> Answer:
        if asked.path != "/token":
            return super()._answer(asked, now)
        if asked.method != "POST":
            return NOT_FOUND
        try:
            given = msgspec.json.decode(asked.body, type=dict[str, str])
        except msgspec.DecodeError:
            return Answer(400, b'{"error":"invalid_request"}', note="wrong login")
        if (given.get("username"), given.get("password")) != (USER, PASSWORD):
            return Answer(401, b'{"error":"invalid_grant","message":"Wrong user or password"}', note="wrong login")
        told = {"access_token": self._begin(), "token_type": "Bearer", "expires_in": 3600}
        return Answer(200, msgspec.json.encode(told), note="login")

    def _page_answer(self, number: int, asked: Asked, now: float) -> Answer:
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if scheme == "Bearer" and self._spend(token):
            return super()._page_answer(number, asked, now)
        said = (
            b'{"error":"invalid_token","message":"The access token expired"}' if token else b'{"error":"unauthorized"}'
        )
        challenge = ("WWW-Authenticate", 'Bearer error="invalid_token"' if token else "Bearer")
        return Answer(401, said, headers=(challenge,), note="expired" if token else "no login")
