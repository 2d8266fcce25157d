"""What the controller takes from a connection: its Host and Origin, a body that comes in time, few guesses."""

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
"""How long a client may keep the controller waiting, for a body or by not reading; a second more for so many bytes:"""
LEAST_RATE = 1000
MOST_FAILURES = 20
"""Wrong tokens of one address in so many seconds, before it has to wait:"""
FAILURES_S = 60.0
MOST_ADDRESSES = 10_000
"""That are remembered; then the oldest are forgotten."""
MOST_JSON = 1 << 20
"""Bytes of a body."""
MOST_HEADERS = 64 * 1024
"""Bytes of all headers of a request."""
_PORTS = {"http": 80, "https": 443}
_OF_SOCKETS = {"ws": "http", "wss": "https"}
_is_upload = re.compile(r"/api/v1/jobs/(upload|[^/]+/items/upload)").fullmatch
"""Of the paths whose bodies may be longer, by POST: `Uploads` bounds them."""


class Origin(NamedTuple):
    """What a browser holds apart: two pages of one host are strangers when their ports differ."""

    scheme: str
    host: str
    port: int


def origin_of(header: str) -> Origin | None:
    """Reads an Origin header: scheme, host and port. None: it names none."""
    parts = _split(header)
    if parts is None or not parts.hostname or parts.scheme not in _PORTS:
        return None
    return Origin(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])


def origin_asked(scheme: str, host: str) -> Origin | None:
    """Returns the origin of the controller as it was asked: by the scheme of the connection and the Host header."""
    return origin_of(f"{_OF_SOCKETS.get(scheme, scheme)}://{host}")


def proxies_of(names: str) -> list[str]:
    """Returns the proxies of HARVESTER_CONTROL_PROXIES."""
    return [name.strip() for name in names.split(",") if name.strip()]


def hostname_of(header: str) -> str:
    """Returns the name in a Host header, without port; empty when it is none."""
    parts = _split(f"//{header}")
    return (parts.hostname or "") if parts else ""


def _split(address: str) -> SplitResult | None:
    """None: it is no authority alone, with or without a scheme."""
    if any(sign in address for sign in " @\\\t,?#%") or not address.isascii():
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return None if parts.path else parts


class Hosts:
    """Names under which the controller may be asked: else a page elsewhere could reach it by a name of its own."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {*LOOPBACK, *(name.strip().lower().strip("[]") for name in names if name.strip())}

    def take(self, host: str) -> bool:
        """Whether a Host header names one of them."""
        return hostname_of(host) in self._names


class Failures:
    """Wrong tokens by the address they came from. Of this process."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def note(self, address: str) -> None:
        times = self._times.pop(address, deque(maxlen=MOST_FAILURES))
        times.append(time.monotonic())
        self._times[address] = times
        while len(self._times) > MOST_ADDRESSES:
            del self._times[next(iter(self._times))]

    def wait_s(self, address: str) -> float:
        """How long the address is to wait before it is listened to again; 0: not at all."""
        times = self._times.get(address)
        if not times or len(times) < MOST_FAILURES:
            return 0.0
        return max(0.0, times[0] + FAILURES_S - time.monotonic())


def most_bytes(method: str, path: str) -> int:
    """Of a body for the API."""
    return sys.maxsize if method == "POST" and _is_upload(path) else MOST_JSON


def bounded(receive: Receive, most: int) -> Receive:
    """The same, for a body that is not too long, and comes fast enough. Raises HTTPException (413, 408) for others."""
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
