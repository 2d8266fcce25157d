"""Limits for connections: allowed Hosts and Origins, bodies that arrive in time, few failed logins."""

import asyncio
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

LOOPBACK = ("localhost", "127.0.0.1", "::1")
STALL_S = 30.0
"""Seconds that a client may stall by a slow body or by not reading; each LEAST_RATE bytes allow a second more."""
LEAST_RATE = 1000
MOST_FAILURES = 20
"""Maximum number of wrong tokens from one address within FAILURES_S; then that address has to wait."""
FAILURES_S = 60.0
MOST_ADDRESSES = 10_000
"""Maximum number of addresses to remember; beyond it the oldest are dropped."""
MOST_JSON = 1 << 20
"""Maximum number of bytes of a JSON body."""
MOST_HEADERS = 64 * 1024
"""Maximum number of bytes of all headers of a request."""
_PORTS = {"http": 80, "https": 443}
_OF_SOCKETS = {"ws": "http", "wss": "https"}
_is_upload = re.compile(r"/api/v1/jobs/(upload|[^/]+/items/upload)").fullmatch
"""Matches the paths that accept longer bodies by POST; `Uploads` limits those bodies."""


class Origin(NamedTuple):
    """An origin as browsers compare it: two pages of the same host with different ports are strangers."""

    scheme: str
    host: str
    port: int


def origin_of(header: str) -> Origin | None:
    """Reads an Origin header: scheme, host and port. Returns None for a header without an origin."""
    parts = _split(header)
    if parts is None or not parts.hostname or parts.scheme not in _PORTS:
        return None
    return Origin(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])


def origin_asked(scheme: str, host: str) -> Origin | None:
    """Returns the controller's origin from the client's view: the scheme of the connection and the Host header."""
    return origin_of(f"{_OF_SOCKETS.get(scheme, scheme)}://{host}")


def proxies_of(names: str) -> list[str]:
    """Returns the proxies of HARVESTER_CONTROL_PROXIES."""
    return [name.strip() for name in names.split(",") if name.strip()]


def hostname_of(header: str) -> str:
    """Returns the name in a Host header, without port; empty for an invalid header."""
    parts = _split(f"//{header}")
    return (parts.hostname or "") if parts else ""


def _split(address: str) -> SplitResult | None:
    """Splits an authority with or without a scheme. Returns None for anything else."""
    if any(sign in address for sign in " @\\\t,?#%") or not address.isascii():
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return None if parts.path else parts


class Hosts:
    """Host names that requests may use.

    Other names are refused, so a foreign page cannot reach the controller by its own name.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {*LOOPBACK, *(name.strip().lower().strip("[]") for name in names if name.strip())}

    def take(self, host: str) -> bool:
        """Returns True if a Host header has an allowed name."""
        return hostname_of(host) in self._names


class Failures:
    """Counts wrong tokens by client address, in this process."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def note(self, address: str) -> None:
        times = self._times.pop(address, deque(maxlen=MOST_FAILURES))
        times.append(time.monotonic())
        self._times[address] = times
        while len(self._times) > MOST_ADDRESSES:
            del self._times[next(iter(self._times))]

    def wait_s(self, address: str) -> float:
        """Returns the seconds until the address may try again; 0 if it need not wait."""
        times = self._times.get(address)
        if not times or len(times) < MOST_FAILURES:
            return 0.0
        return max(0.0, times[0] + FAILURES_S - time.monotonic())


def most_bytes(method: str, path: str) -> int:
    """Returns the maximum number of bytes of an API body."""
    return sys.maxsize if method == "POST" and _is_upload(path) else MOST_JSON


def bounded(receive: Receive, most: int) -> Receive:
    """Wraps `receive` with limits on size and speed of the body.

    Raises HTTPException (413 or 408) when a limit is exceeded.
    """
    waited, taken, whole = 0.0, 0, False

    async def receive_in_time() -> Message:
        nonlocal waited, taken, whole
        if whole:
            return await receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, STALL_S + taken / LEAST_RATE - waited)):
                message: MutableMapping[str, Any] = await receive()
        except TimeoutError:
            raise HTTPException(408, "The body came too slowly.", {"Connection": "close"}) from None
        waited += time.monotonic() - began
        taken += len(message.get("body", b""))
        if taken > most:
            raise HTTPException(413, f"A body is at most {most:,} bytes here.", {"Connection": "close"})
        whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    return receive_in_time
