"""The login of browsers: by the link that `harvester up` prints, which is valid once, or with a token.

These pages contain no script.
"""

import html
import secrets
import time
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from harvester.control.auth import COOKIE, COOKIE_S, cookie_of
from harvester.control.limits import MOST_JSON, Failures, bounded
from harvester.control.pages.page_context import PageContext
from harvester.control.tokens import ApiToken

LINK_S = 600.0
"""Seconds that a link is valid."""
MOST_FORM = 4096
"""Maximum number of bytes of the form."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - harvester</title>{head}<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 30rem; margin: 12vh auto 0; padding: 0 1rem }}
input, button {{ font: inherit; padding: .4rem .7rem; width: 100%; box-sizing: border-box; margin: .3rem 0 .8rem }}
[role=alert] {{ font-weight: 600 }}
</style></head><body><main><h1>{title}</h1>{body}</main></body></html>
"""


class Links:
    """The login links of this process, each valid once."""

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[str, float]] = {}

    def add(self, token: str) -> str:
        """Returns the code of a link that logs a single browser in with this token's text."""
        word = secrets.token_urlsafe(24)
        self._tokens[word] = token, time.monotonic() + LINK_S
        return word

    def take(self, word: str) -> str:
        """Returns the token's text; empty if the link was used or has expired."""
        token, until = self._tokens.pop(word, ("", 0.0))
        return token if time.monotonic() < until else ""


def add_login(app: FastAPI, room: PageContext, links: Links) -> None:
    """Adds /login and /logout, outside the API."""
    failures = Failures()

    @app.get("/login", include_in_schema=False)
    async def show_form(request: Request, next: str = "/", link: str = "") -> Response:
        if not link:
            return _form(_own(next))
        token = await room.here.tokens.holder(links.take(link))
        if token is None:
            said = "This link was used already, or it is older than ten minutes: it logs in one browser, once."
            return _form(_own(next), said, 403)
        return _logged_in(room, request, token, _own(next))

    @app.post("/login", include_in_schema=False)
    async def log_in(request: Request, next: str = "/") -> Response:
        came_from = request.client.host if request.client else ""
        if failures.wait_s(came_from):
            return _form(_own(next), "Too many wrong tokens came from your address. Wait a minute.", 429)
        body = b""
        async for chunk in Request(request.scope, bounded(request.receive, MOST_JSON)).stream():
            body += chunk
            if len(body) > MOST_FORM:
                return _form(_own(next), "That is too long for a token.", 413)
        given = parse_qs(body.decode("ascii", "replace")).get("token", [""])[0].strip()
        token = await room.here.tokens.holder(given)
        if token is None:
            failures.note(came_from)
            return _form(_own(next), "This is no token, or it was revoked, or its time is over.", 403)
        return _logged_in(room, request, token, _own(next))

    @app.get("/logout", include_in_schema=False)
    async def ask_to_log_out() -> Response:
        return _page("Log out", '<form method="post" action="/logout"><button>Log out</button></form>')

    @app.post("/logout", include_in_schema=False)
    async def log_out() -> Response:  # POST only: a picture on a foreign page could send a GET
        response = _form("/", "You are logged out on this browser.")
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def _own(path: str) -> str:
    """Returns the path if it belongs to this controller, otherwise the overview."""
    is_own = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if is_own else "/"


def _logged_in(room: PageContext, request: Request, token: ApiToken, then: str) -> Response:
    """Returns a page that forwards: a redirect from a link in another program would arrive without the cookie."""
    body = f'<p><a href="{html.escape(then)}">To the control room</a></p>'
    head = f'<meta http-equiv="refresh" content="0;url={html.escape(then)}">'
    response = _page("Logged in", body, head=head)
    response.set_cookie(
        COOKIE,
        cookie_of(room.here, token),
        max_age=COOKIE_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


def _form(then: str, said: str = "", status: int = 200) -> HTMLResponse:
    alert = f'<p role="alert">{html.escape(said)}</p>' if said else ""
    body = (
        f'{alert}<form method="post" action="/login?next={quote(then, safe="")}">'
        '<label for="token">Token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>'
        "<button>Log in</button></form>"
        "<p>The token of `harvester up` lies in the file <code>.harvester/token</code> of the folder in which it runs; "
        "<code>harvester tokens add</code> makes others.</p>"
    )
    return _page("Log in", body, status)


def _page(title: str, body: str, status: int = 200, head: str = "") -> HTMLResponse:
    # The form must send its origin, which the gate checks.
    headers = {"content-security-policy": POLICY, "cache-control": "no-store", "referrer-policy": "same-origin"}
    return HTMLResponse(_PAGE.format(title=title, body=body, head=head), status, headers)
