"""Requests as bytes, without pickle: Redis returns data, never code.

A request is written as MessagePack. Callbacks are stored as names (callbacks.py). `meta` and `cb_kwargs` may hold the
types that values.py knows; other values are refused, with their place. Meta keys that let a request pass a check are
set by the process that fetches it, and are not stored.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from scrapy import Request, Spider

from harvester.exceptions import HarvesterError
from harvester.frontier.callbacks import Name, UnknownCallbackError, callback_of, name_of, packages_of
from harvester.frontier.held import HeldParts, NotHeldError
from harvester.frontier.values import UnknownValueError, decoder, to_plain
from harvester.internal_meta import FETCHING_PROCESS_ONLY, ITEMS
from harvester.masking import mask

MOST_SHOWN = 200
"""Maximum number of characters of a URL in a message."""
MOST_FAULT = 500
"""Maximum number of characters in the description of an invalid request."""
_UNREADABLE = (msgspec.DecodeError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""The exceptions that decoding raises."""


class UnserialisableRequestError(HarvesterError):
    """A request that cannot be stored in the frontier. Raised to the callback that yielded it."""


class TooLargeError(UnserialisableRequestError):
    """A request that is larger than allowed. It is refused, and the callback that yielded it continues."""


class _Wire(Struct, omit_defaults=True, gc=False):
    """A stored request; field names have one or two letters, since millions of requests may wait."""

    u: str
    m: str | None = None
    h: list[tuple[bytes, list[bytes]]] = []
    b: bytes = b""
    c: Any = None
    t: dict[Any, Any] = {}
    e: str | None = None
    p: int = 0
    d: bool = False
    f: list[str] = []
    k: dict[str, Any] = {}
    cb: Name | None = None
    eb: Name | None = None
    at: tuple[str, int] | None = None
    """Process and number of the parts that HeldParts holds, in one process only."""


_encoder = msgspec.msgpack.Encoder()
_outline = msgspec.msgpack.Decoder(_Wire, ext_hook=lambda _code, _data: None)
"""Reads a request without the values of types that MessagePack does not know."""


def encode(
    request: Request, spider: Spider, *, most_url: int = 2**31, most_bytes: int = 2**31, held: HeldParts | None = None
) -> bytes:
    """Returns the request as bytes. Raises UnserialisableRequestError that names the part that cannot be written.

    `held` takes the callbacks and values that cannot be written; without it they are refused.
    """
    if len(request.url) > most_url:
        raise TooLargeError(f"its address has {len(request.url):,} bytes; HARVESTER_MAX_URL_BYTES allows {most_url:,}")
    parts = _Parts(spider, held)
    try:
        wire = _Wire(
            request.url,
            None if request.method == "GET" else request.method,
            list(request.headers.items()),
            request.body,
            to_plain(request.cookies, "cookies") or None,
            parts.written("meta", request.meta),
            None if request.encoding == "utf-8" else request.encoding,
            request.priority,
            request.dont_filter,
            list(request.flags),
            parts.written("cb_kwargs", request.cb_kwargs),
            parts.named("callback", request.callback),
            parts.named("errback", request.errback),
        )
        if held and parts.unwritten:
            wire.at = held.put(parts.unwritten)
        encoded = _encoder.encode(wire)
    except (UnknownValueError, UnknownCallbackError, TypeError, ValueError, OverflowError, RecursionError) as error:
        shown = mask(request.url, MOST_SHOWN)
        raise UnserialisableRequestError(
            f"<{request.method} {shown}> cannot be kept in the frontier: {str(error)[:MOST_FAULT]}"
        ) from None
    if len(encoded) > most_bytes:
        raise TooLargeError(
            f"with its body and meta it has {len(encoded):,} bytes; HARVESTER_MAX_REQUEST_KB allows {most_bytes:,}"
        )
    return encoded


class _Parts:
    """Writes the parts of a request that spiders fill, and collects the parts that cannot be written."""

    def __init__(self, spider: Spider, held: HeldParts | None) -> None:
        self._spider = spider
        self._held = held
        self.unwritten: dict[str, Any] = {}

    def written(self, name: str, values: dict[Any, Any]) -> dict[Any, Any]:
        """Returns a dict that MessagePack can encode, without the values that are held."""
        if self._held is None:
            return to_plain(values, name)  # type: ignore[no-any-return]
        try:
            return to_plain(values, name)  # type: ignore[no-any-return]
        except (UnknownValueError, RecursionError):
            self.unwritten[name] = dict(values)
        written = {}
        for key, value in values.items():
            with suppress(UnknownValueError, RecursionError):
                written[key] = to_plain(value, name)
        return written

    def named(self, role: str, function: Callable[..., Any] | None) -> Name | None:
        """Returns the name of a function; None if the function is held."""
        try:
            return name_of(function, self._spider, role)
        except (UnknownValueError, UnknownCallbackError, RecursionError):
            if self._held is None:
                raise
            self.unwritten[role] = function
            return None


def decode(data: bytes, spider: Spider, held: HeldParts | None = None) -> Request:
    """Returns the encoded request. Raises UnserialisableRequestError when this spider cannot run it.

    `held`: the parts held by the process that encoded the request.
    """
    try:
        wire = decoder(_Wire, packages_of(spider)).decode(data)
    except (*_UNREADABLE, ImportError) as error:
        raise UnserialisableRequestError(f"A request in the frontier cannot be read: {error}.") from None
    try:
        parts = (held or HeldParts()).get(wire.at) if wire.at else {}
    except NotHeldError as error:
        raise UnserialisableRequestError(f"{wire.u} cannot be asked for: {error}.") from None
    try:
        callback = parts.get("callback") or callback_of(wire.cb, spider)
        errback = parts.get("errback") or callback_of(wire.eb, spider)
    except (UnknownCallbackError, *_UNREADABLE) as error:
        raise UnserialisableRequestError(f"{wire.u} in the frontier wants {error}. Was the spider changed?") from None
    try:
        request = Request(
            wire.u,
            callback=callback,
            errback=errback,
            method=wire.m or "GET",
            headers=wire.h,
            body=wire.b,
            cookies=wire.c,
            meta={"verbatim_url": True},  # it was made safe before; escaping it twice costs half of the time
            encoding=wire.e or "utf-8",
            priority=wire.p,
            dont_filter=wire.d,
            flags=wire.f,
            cb_kwargs=parts.get("cb_kwargs", wire.k),
        )
    except (ValueError, TypeError, LookupError) as error:
        raise UnserialisableRequestError(f"A request in the frontier is none: {error}.") from None
    request.meta.clear()
    request.meta.update(wire.t | parts.get("meta", {}))
    if not FETCHING_PROCESS_ONLY.isdisjoint(wire.t):
        for mark in FETCHING_PROCESS_ONLY:
            request.meta.pop(mark, None)
    return request


def has_items(data: bytes) -> bool:
    """Returns True if the encoded request belongs to job items."""
    try:
        return ITEMS in _outline.decode(data).t
    except _UNREADABLE:
        return False


def address_of(data: bytes) -> tuple[str, int]:
    """Returns URL and priority of the encoded request."""
    try:
        wire = _outline.decode(data)
    except _UNREADABLE:
        return "", 0
    return wire.u, wire.p
