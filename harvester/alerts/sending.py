"""Sends small messages with three tries and short timeouts. Never raises, and never logs a secret."""

import json
import logging
import smtplib
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage
from typing import IO, Any

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0
"""Seconds that each step of a try may take."""
TRIES = 3
PAUSE_SECONDS = 1.0
"""Seconds to wait before the second try; twice as long before the third."""
LONGEST_PAUSE_SECONDS = 10.0
"""Maximum number of seconds to wait for a receiver. One that wants a longer pause gets no further try."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a redirected POST would arrive as a GET without its body, and look like a success."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def send_with_retries(channel: str, send: Callable[[], None]) -> bool:
    """Calls `send` until it succeeds, at most TRIES times. Returns True on success; failures are logged."""
    for attempt in range(1, TRIES + 1):
        try:
            send()
        except (OSError, HTTPException, ValueError) as error:
            problem = _describe(error)
            pause = _pause(error, attempt)
            if pause is None or attempt == TRIES:
                logger.warning("The alert could not be sent by %s (try %d): %s", channel, attempt, problem)
                return False
            time.sleep(pause)
        else:
            logger.info("An alert was sent by %s", channel)
            return True
    return False


def post_json(url: str, body: dict[str, Any], user_agent: str) -> None:
    """Sends one POST. Raises HTTPError (no success), other OSErrors, HTTPException, and ValueError (bad address)."""
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    request.add_header("User-Agent", user_agent)
    try:
        _opener.open(request, timeout=TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise


def _pause(error: Exception, attempt: int) -> float | None:
    """Returns the seconds to wait before the next try, or None when another try is pointless."""
    if isinstance(error, urllib.error.HTTPError):
        if error.code != 429 and error.code < 500:
            return None
        asked = error.headers.get("Retry-After", "")
        if asked.isdecimal():  # str.isdigit would accept ²
            return float(asked) if float(asked) <= LONGEST_PAUSE_SECONDS else None
    elif isinstance(error, smtplib.SMTPResponseException):
        if error.smtp_code >= 500:
            return None
    elif isinstance(error, ValueError):
        return None
    return PAUSE_SECONDS * attempt


def _describe(error: Exception) -> str:
    """Describes the error without the address: webhook addresses are secrets, and some exceptions quote them."""
    if isinstance(error, urllib.error.HTTPError):
        return f"it answered HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    if isinstance(error, (ValueError, HTTPException)) and not isinstance(error, ssl.SSLError):
        return f"{type(error).__name__}; is its address in the settings right?"
    return str(error) or type(error).__name__
