"""The ways to sign in. Each makes a new session, or says why there is none."""

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
"""Sends a request in a session, follows redirects within the site, and puts the cookies that are set into its jar."""

REFUSALS = (400, 401, 403, 422)
"""Statuses by which a server says that it does not know the password."""
_is_password = re.compile(rb"<input[^<>]*type=[\"']?password", re.IGNORECASE).search


class LoginRefused(SessionError):
    """The site says no to the credentials. Raised by login methods; nobody may try again with the same."""


class LoginFailed(Exception):
    """There was no answer, or none that says yes or no. Raised by login methods; it may be tried again later."""

    def __init__(self, said: str, wait_s: float | None = None, answer: Response | None = None) -> None:
        super().__init__(said)
        self.wait_s = wait_s
        """What the server asked for."""
        self.answer = answer
        """The page with which the site let nobody in: it says why. None: it was no answer, or one to a password."""


class LoginMethod(Protocol):
    """One site's way to sign in, for one identity."""

    async def sign_in(self, old: Session | None) -> Session:
        """A new session; `old` is the one before, which may serve to get it. Raises LoginRefused, LoginFailed."""


class Anonymous:
    """No login at all: the server gives cookies to whom it likes."""

    async def sign_in(self, old: Session | None) -> Session:
        return Session(Jar(), {})


def shows(sign: Sign, response: Response, jar: Jar | None) -> bool:
    """Whether an answer bears a sign. Raises LoginFailed for a pattern that takes too long."""
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
    """Raises LoginFailed for answers that say nothing of the credentials."""
    if response.status in (408, 425, 429) or response.status >= 500:
        wait_s = retry_after(response.headers)
        if wait_s is None and response.status == 429:
            wait_s = reset_in(response.headers)
        raise LoginFailed(f"HTTP {response.status}", wait_s)


def refuses(sign: Sign, response: Response) -> bool:
    """Whether an answer that does not say yes says no."""
    if sign:
        return shows(sign, response, None)
    return response.status in REFUSALS or _is_password(response.body) is not None


def fill(template: str, credentials: Credentials | None) -> str:
    return credentials.fill(template) if credentials else template
