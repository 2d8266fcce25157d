"""Sends requests to a controller over HTTP, and raises its errors as the exceptions that were raised there.

Repeatable requests are retried: a controller that has already answered may be away for as long as a restart takes.
Redirects are not followed, so that the token reaches no other host, and no log shows the token.
"""

import asyncio
import logging
import random
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import httpx2
import msgspec

from harvester.client.access import API, ControllerAccess
from harvester.config import Config
from harvester.exceptions import (
    HarvesterError,
    JobConflict,
    ServiceError,
    StorageError,
    UnknownJob,
    UsageError,
)
from harvester.wire import reader

T = TypeVar("T")
Parameters = Mapping[str, str | int | float | Sequence[str]]

PATIENCE_S = 300.0
"""Seconds to retry a controller that has answered before and is away now."""
FIRST_PAUSE_S, MOST_PAUSE_S = 0.2, 5.0
"""Minimum and maximum number of seconds between two tries; the pause doubles each time."""
CONNECT_S = 10.0
ANSWER_S = 120.0
"""Seconds to wait for an answer to begin, and between its parts."""
MOST_SAID = 2000
"""Maximum number of characters of an error message of a controller."""
_AWAY = frozenset({429, 502, 503, 504})

for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # at lower levels they log every request with its headers


class _Problem(msgspec.Struct):
    """A problem document of RFC 9457, with the fields in use."""

    type: str = ""
    detail: str = ""


_ERRORS: Mapping[str, type[HarvesterError]] = {
    "unknown": UnknownJob,
    "conflict": JobConflict,
    "invalid": UsageError,
    "bad_request": UsageError,
    "too_large": UsageError,
    "no_room": StorageError,
    "server_away": ServiceError,
}
"""Maps the last word of a problem type to the exception it stands for."""


_LATER = frozenset({"too_many", "under_way"})
"""Last words of problem types that pass after a while, so that a retry helps."""


class Body(NamedTuple):
    """A request body that is sent unchanged."""

    content: bytes
    media_type: str


class _Failure(NamedTuple):
    """The error behind an answer without success."""

    error: HarvesterError
    again: bool = False
    """True if a retry may succeed."""


class ControllerConnection:
    """A connection to one controller, closed with `close`."""

    def __init__(
        self, access: ControllerAccess, config: Config, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        """Raises UsageError for unusable certificates or proxies. `transport` replaces the network."""
        self.access = access
        self._has_answered = False
        try:
            self._client = httpx2.AsyncClient(
                base_url=f"{access.url}{API}/",
                headers={"Authorization": f"Bearer {access.token}", "User-Agent": config.user_agent},
                timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
                follow_redirects=False,
                trust_env=access.url.startswith("https:"),  # otherwise a proxy of the environment would read the token
                transport=transport,
            )
        except OSError as error:
            raise UsageError(
                f"SSL_CERT_FILE or SSL_CERT_DIR holds no certificates: {error.strerror or error}."
            ) from None
        except (ImportError, ValueError):  # their messages may hold a password
            raise UsageError(
                "HTTPS_PROXY or ALL_PROXY cannot be used: give http://HOST:PORT, or name the controller in NO_PROXY."
            ) from None

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        query: Parameters | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> T:
        """Returns the answer of the controller, read as `kind`.

        `path` is below /api/v1/. `body` is a Body, or anything that msgspec can write as JSON. The request is retried
        while the controller is away. So it must be idempotent, or have a `key` (an idempotency key) by which the
        controller recognises a repetition.

        Raises the exception that was raised by the controller, UsageError for a refused token, and ServiceError when
        the controller cannot be reached.
        """
        headers = {"Idempotency-Key": f'"{key}"'} if key else {}
        content = None
        if body is not None:
            content, media_type = body if isinstance(body, Body) else (msgspec.json.encode(body), "application/json")
            headers["Content-Type"] = media_type
        request = self._request(method, path, query, headers=headers, content=content)
        response = await self._patiently(request)
        try:
            return reader(kind)(response.content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._is_none(f"its answer cannot be read: {error}") from None

    @asynccontextmanager
    async def stream(self, path: str, query: Parameters | None = None) -> AsyncIterator[httpx2.Response]:
        """Returns an answer of any length, to be read in parts. Raises like `ask`, also when the answer breaks off."""
        request = self._request("GET", path, query)
        response = await self._patiently(request, streamed=True)
        try:
            yield response
        except httpx2.HTTPError as error:
            raise self._away(error) from None
        finally:
            await response.aclose()

    def _request(self, method: str, path: str, query: Parameters | None, **rest: Any) -> httpx2.Request:
        try:
            return self._client.build_request(method, path, params=dict(query or {}), **rest)
        except httpx2.InvalidURL as error:
            raise UsageError(
                f"A controller is asked by an address, which does not hold that ({error}): give shorter arguments, and"
                " items in the file of --input."
            ) from None

    async def _patiently(self, request: httpx2.Request, *, streamed: bool = False) -> httpx2.Response:
        """Returns the first successful answer. Retries while the failure may pass, then raises its error."""
        until = time.monotonic() + PATIENCE_S
        pause_s = FIRST_PAUSE_S
        while True:
            asked_s: float | None = None
            try:
                response = await self._client.send(request, stream=streamed)
                if response.is_success:
                    self._has_answered = True
                    return response
                failure = await self._failure(response)
                asked_s = _retry_after(response)
                again = failure.again or (response.status_code in _AWAY and self._has_answered)
            except httpx2.HTTPError as error:
                failure, again = _Failure(self._away(error)), self._has_answered
            wait_s = max(pause_s * random.uniform(0.5, 1), asked_s or 0)
            pause_s = min(MOST_PAUSE_S, 2 * pause_s)
            if not again or time.monotonic() + wait_s > until:
                raise failure.error
            await asyncio.sleep(wait_s)

    async def _failure(self, response: httpx2.Response) -> "_Failure":
        """Reads the error of an answer without success."""
        status, problem = response.status_code, _Problem()
        try:
            if response.headers.get("content-type", "").startswith("application/problem+json"):
                problem = msgspec.json.decode(await response.aread(), type=_Problem)
        except (msgspec.MsgspecError, UnicodeDecodeError, httpx2.HTTPError):
            pass
        finally:
            await response.aclose()
        word, said = problem.type.rpartition(":")[2], problem.detail[:MOST_SAID]
        return _Failure(self._error(status, word, said), word in _LATER)

    def _error(self, status: int, word: str, said: str) -> HarvesterError:
        if status == 401:
            return UsageError(f"The controller at {self.access.url} refuses the token: {said or 'it is none there.'}")
        if status == 403:
            return UsageError(f"The controller at {self.access.url} does not let this token do that: {said}")
        if said and word in _ERRORS:
            return _ERRORS[word](said)
        if said:
            return ServiceError(f"The controller at {self.access.url} answers HTTP {status}: {said}")
        if 300 <= status < 400:
            return self._is_none("it redirects, and the token goes nowhere else: give the address that it redirects to")
        if status == 413:  # a 413 of the controller itself has a message and was handled above
            return ServiceError(
                f"What stands before the controller at {self.access.url} takes no body that long (HTTP 413): have it"
                " take any, as by client_max_body_size 0 of nginx."
            )
        return self._is_none(f"it answers HTTP {status}")

    def _is_none(self, said: str) -> ServiceError:
        return ServiceError(f"At {self.access.url} is no controller of harvester, or one of another version: {said}.")

    def _away(self, error: Exception) -> ServiceError:
        said = str(error) or type(error).__name__
        if isinstance(error.__cause__, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in said:
            said += " (SSL_CERT_FILE names the certificates that are trusted)"
        return ServiceError(f"The controller at {self.access.url} cannot be reached: {said}.")


def _retry_after(response: httpx2.Response) -> float | None:
    given = response.headers.get("retry-after", "")
    return float(given) if given.isdecimal() and len(given) < 6 else None
