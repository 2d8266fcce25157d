"""A cookie jar that can be saved, in the form of Playwright's storage_state."""

from http.cookiejar import Cookie, DefaultCookiePolicy
from typing import Any

from scrapy import Request
from scrapy.http import Response
from scrapy.http.cookies import CookieJar

from harvester.masking import mask

MOST_COOKIES, MOST_BYTES = 180, 4096
"""Maximum cookies of a session, and bytes of a cookie with its attributes. Browsers have similar limits for a site."""
LOCAL = ".local"
"""Suffix that http.cookiejar adds to hosts without a dot."""


class Jar:
    """The cookies of a session. It uses no list of public suffixes, because cookies go to the site's own hosts only."""

    def __init__(self, cookies: list[dict[str, Any]] | None = None) -> None:
        self._jar = CookieJar(DefaultCookiePolicy())
        self.take_over(cookies or [])

    def put_on(self, request: Request) -> None:
        """Sets the header Cookie, unless the request has one."""
        self._jar.add_cookie_header(request)

    def take_in(self, response: Response, request: Request) -> bool:
        """Stores the cookies that the response sets. Returns True if it sets any."""
        set_by_it = [each for each in response.headers.getlist("Set-Cookie") if len(each) <= MOST_BYTES]
        if not set_by_it:
            return False
        response = response.replace(headers={"Set-Cookie": set_by_it})
        self._jar.extract_cookies(response, request)
        mask.add_passing(*(cookie.value or "" for cookie in self._jar))
        for cookie in list(self._jar)[: max(0, len(self._jar) - MOST_COOKIES)]:
            self._jar.clear(cookie.domain, cookie.path, cookie.name)
        return True

    def take_over(self, cookies: list[dict[str, Any]]) -> None:
        """Stores the cookies of a browser."""
        for cookie in cookies:
            self._jar.set_cookie(_cookie(cookie))
        mask.add_passing(*(cookie.value or "" for cookie in self._jar))

    def has(self, name: str) -> bool:
        """Returns True if there is a cookie with this name and a value."""
        return any(cookie.name == name and cookie.value for cookie in self._jar)

    def kept(self) -> list[dict[str, Any]]:
        """Returns the cookies in the form of Playwright's storage_state."""
        return [_as_browsers(cookie) for cookie in self._jar]

    def __len__(self) -> int:
        return len(self._jar)


def _as_browsers(cookie: Cookie) -> dict[str, Any]:
    bare = cookie.domain.removesuffix(LOCAL)
    rest: dict[str, Any] = getattr(cookie, "_rest", {})
    same_site = str(next((value for name, value in rest.items() if name.lower() == "samesite"), "")).capitalize()
    return {
        "name": cookie.name,
        "value": cookie.value or "",
        "domain": cookie.domain if "." in bare.lstrip(".") else bare,
        "path": cookie.path,
        "expires": float(cookie.expires) if cookie.expires is not None else -1,
        "httpOnly": any(name.lower() == "httponly" for name in rest),
        "secure": bool(cookie.secure),
        "sameSite": same_site if same_site in ("Strict", "None") else "Lax",
    }


def _cookie(kept: dict[str, Any]) -> Cookie:
    domain = str(kept["domain"])
    expires = kept.get("expires", -1)
    lasts = isinstance(expires, (int, float)) and expires >= 0
    rest = {"SameSite": str(kept.get("sameSite") or "Lax")} | ({"HttpOnly": ""} if kept.get("httpOnly") else {})
    return Cookie(
        version=0,
        name=str(kept["name"]),
        value=str(kept["value"]),
        port=None,
        port_specified=False,
        domain=domain if "." in domain.lstrip(".") else domain + LOCAL,
        domain_specified=domain.startswith("."),
        domain_initial_dot=domain.startswith("."),
        path=str(kept.get("path") or "/"),
        path_specified=True,
        secure=bool(kept.get("secure")),
        expires=int(expires) if lasts else None,
        discard=not lasts,
        comment=None,
        comment_url=None,
        rest=rest,
    )
