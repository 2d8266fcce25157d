"""Asks a controller over HTTP. What it says of errors comes back as the exception that it was there.

A request that may be repeated is, while the controller is away: once it has answered, it is waited for as long as a
restart takes. Redirects are not followed, so the token goes nowhere else, and no line of a log shows it.
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
"""How long a controller is waited for that has answered before."""
FIRST_PAUSE_S, MOST_PAUSE_S = 0.2, 5.0
"""Between two tries; the pause is doubled each time."""
CONNECT_S = 10.0
ANSWER_S = 120.0
"""How long an answer may take, and each further part of it."""
MOST_SAID = 2000
"""Characters of what a controller says of an error."""
_AWAY = frozenset({429, 502, 503, 504})

for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # below it, every request with its headers


class _Problem(msgspec.Struct):
    """RFC 9457, as far as it is used."""

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
"""By the last word of a problem's type."""


_LATER = frozenset({"too_many", "under_way"})
"""Words of problems that pass while one waits."""


class Body(NamedTuple):
    """What is sent as it is."""

    content: bytes
    media_type: str


class _Failure(NamedTuple):
    """What an answer means."""

    error: HarvesterError
    again: bool = False
    """Whether it passes."""


class ControllerConnection:
    """To one controller. `async with`."""

    def __init__(
        self, access: ControllerAccess, config: Config, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        """`transport`: in place of the network. Raises UsageError for certificates or a proxy that are none."""
        self.access = access
        self._has_answered = False
        try:
            self._client = httpx2.AsyncClient(
                base_url=f"{access.url}{API}/",
                headers={"Authorization": f"Bearer {access.token}", "User-Agent": config.user_agent},
                timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
                follow_redirects=False,
                trust_env=access.url.startswith("https:"),  # else a proxy of the environment would read the token
                transport=transport,
            )
        except OSError as error:
            raise UsageError(
                f"SSL_CERT_FILE or SSL_CERT_DIR holds no certificates: {error.strerror or error}."
            ) from None
        except (ImportError, ValueError):  # their words may hold a password
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
        """The answer, read as `kind`. `path`: below /api/v1/. `body`: a Body, or what msgspec can write as JSON.

        It is asked again while the controller is away: done twice it must be as done once, or `key`, an idempotency
        key, says that it is the same. Raises what was raised there, UsageError for a token that is refused,
        ServiceError when the controller cannot be reached.
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
        """An answer of any length, to be read as it comes. Raises as `ask`, also when it breaks off."""
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
        """The answer, if it is one of success."""
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
        """What an answer means that is none of success."""
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
        if status == 413:  # the controller says why
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
