"""The login methods: each makes a new session, or raises the reason why not."""

import re
from collections.abc import Awaitable, Callable
from typing import Protocol

from scrapy import Request
from scrapy.http import Response, TextResponse

from harvester.exceptions import SessionError, TooCostlyError
from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.state import Session
from harvester.patterns import bounded_pattern
from harvester.politeness.rate_limits import reset_in, retry_after
from harvester.sites.identities import Sign

Fetch = Callable[[Request, Session], Awaitable[Response]]
"""Sends a request in a session, follows redirects within the site, and stores the cookies in the session's jar."""

REFUSALS = (400, 401, 403, 422)
"""Statuses that a server sends for a wrong password."""
_is_password = re.compile(rb"<input[^<>]*type=[\"']?password", re.IGNORECASE).search


class LoginRefused(SessionError):
    """Raised by login methods when the site refuses the credentials. They must not be tried again."""


class LoginFailed(Exception):
    """Raised by login methods without a clear response. The login may be tried again later."""

    def __init__(self, said: str, wait_s: float | None = None, answer: Response | None = None) -> None:
        super().__init__(said)
        self.wait_s = wait_s
        """Seconds that the server asked to wait."""
        self.answer = answer
        """The page that refused the login and shows why. None without a response, or for a response to a password."""


class LoginMethod(Protocol):
    """The login for one identity at one site."""

    async def sign_in(self, old: Session | None) -> Session:
        """Returns a new session; `old` is the one before, which may help. Raises LoginRefused and LoginFailed."""


class Anonymous:
    """No login: the server sets cookies for anyone."""

    async def sign_in(self, old: Session | None) -> Session:
        return Session(Jar(), {})


def shows(sign: Sign, response: Response, jar: Jar | None) -> bool:
    """Returns True if the response shows the sign. Raises LoginFailed for a pattern that takes too long."""
    if not sign or (sign.status and response.status not in sign.status):
        return False
    if sign.cookie and not (jar is not None and jar.has(sign.cookie)):
        return False
    try:
        if sign.url and not bounded_pattern(sign.url).search(response.url):
            return False
        return not sign.text or bounded_pattern(sign.text).search(text_of(response)) is not None
    except TooCostlyError as error:
        raise LoginFailed(str(error)) from None


def text_of(response: Response) -> str:
    return response.text if isinstance(response, TextResponse) else ""


def check_answered(response: Response) -> None:
    """Raises LoginFailed for a response that proves nothing about the credentials."""
    if response.status in (408, 425, 429) or response.status >= 500:
        wait_s = retry_after(response.headers)
        if wait_s is None and response.status == 429:
            wait_s = reset_in(response.headers)
        raise LoginFailed(f"HTTP {response.status}", wait_s)


def refuses(sign: Sign, response: Response) -> bool:
    """Returns True if a response without the sign of success refuses the credentials."""
    if sign:
        return shows(sign, response, None)
    return response.status in REFUSALS or _is_password(response.body) is not None


def fill(template: str, credentials: Credentials | None) -> str:
    return credentials.fill(template) if credentials else template
