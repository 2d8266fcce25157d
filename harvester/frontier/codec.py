"""Requests as bytes, without pickle: what comes back from Redis is data, never code.

MessagePack of the request's attributes. Callbacks travel as names of the spider's methods, of those that take an
answer or a failure. `meta` and `cb_kwargs` may hold what MessagePack knows and tuples; anything else is refused, with
the place where it stands. Marks that let a request past a check are put on by the process that fetches it, and do not
travel.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from types import MethodType
from typing import Any

import msgspec
from msgspec import Struct
from scrapy import Request, Spider

from harvester.exceptions import HarvesterError
from harvester.frontier.callbacks import is_callback
from harvester.masking import mask
from harvester.meta import FETCHING_PROCESS_ONLY, ITEMS

_SCALARS = frozenset({str, int, float, bool, bytes, type(None), datetime})
_TUPLE, _DATETIME = 1, 2
"""MessagePack extension types: of a tuple, and of a point in time that is not of UTC, which it would change."""
MOST_SHOWN = 200
"""Characters of an address in a message."""
MOST_FAULT = 500
"""Characters of what is wrong with a request."""
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding raises."""


class UnserialisableRequestError(HarvesterError):
    """A request that cannot be kept in the frontier. Raised to the callback that yielded it."""


class TooLargeError(UnserialisableRequestError):
    """A request that is larger than may be kept. It is refused, and what yielded it goes on."""


class _Wire(Struct, omit_defaults=True, gc=False):
    """A request; one letter each, since millions may wait."""

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
    cb: str | None = None
    eb: str | None = None


def _load_extension(code: int, data: memoryview) -> Any:
    if code == _TUPLE:
        return tuple(_values.decode(data))
    if code == _DATETIME:
        return datetime.fromisoformat(bytes(data).decode())
    raise ValueError(f"an extension of type {code} is unknown")


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Wire, ext_hook=_load_extension)
_values = msgspec.msgpack.Decoder(ext_hook=_load_extension)


def encode(request: Request, spider: Spider, *, most_url: int = 2**31, most_bytes: int = 2**31) -> bytes:
    """The request as bytes. Raises UnserialisableRequestError that names what cannot be kept."""
    if len(request.url) > most_url:
        raise TooLargeError(f"its address has {len(request.url):,} bytes; HARVESTER_MAX_URL_BYTES allows {most_url:,}")
    try:
        encoded = _encoder.encode(
            _Wire(
                request.url,
                None if request.method == "GET" else request.method,
                list(request.headers.items()),
                request.body,
                _plain(request.cookies, "cookies") or None,
                _plain(request.meta, "meta"),
                None if request.encoding == "utf-8" else request.encoding,
                request.priority,
                request.dont_filter,
                list(request.flags),
                _plain(request.cb_kwargs, "cb_kwargs"),
                _method_name(request.callback, spider, "callback"),
                _method_name(request.errback, spider, "errback"),
            )
        )
    except (_UnknownError, TypeError, ValueError, OverflowError, RecursionError) as error:
        shown = mask(request.url, MOST_SHOWN)
        raise UnserialisableRequestError(
            f"<{request.method} {shown}> cannot be kept in the frontier: {str(error)[:MOST_FAULT]}"
        ) from None
    if len(encoded) > most_bytes:
        raise TooLargeError(
            f"with its body and meta it has {len(encoded):,} bytes; HARVESTER_MAX_REQUEST_KB allows {most_bytes:,}"
        )
    return encoded


def decode(data: bytes, spider: Spider) -> Request:
    """The request that was encoded. Raises UnserialisableRequestError when this spider cannot run it."""
    try:
        wire = _decoder.decode(data)
    except _UNREADABLE as error:
        raise UnserialisableRequestError(f"A request in the frontier cannot be read: {error}.") from None
    callback, errback = _method(wire.cb, spider, wire.u), _method(wire.eb, spider, wire.u)
    try:
        request = Request(
            wire.u,
            callback=callback,
            errback=errback,
            method=wire.m or "GET",
            headers=wire.h,
            body=wire.b,
            cookies=wire.c,
            meta={"verbatim_url": True},  # it was made safe before; to do it again takes half of the time
            encoding=wire.e or "utf-8",
            priority=wire.p,
            dont_filter=wire.d,
            flags=wire.f,
            cb_kwargs=wire.k,
        )
    except (ValueError, TypeError, LookupError) as error:
        raise UnserialisableRequestError(f"A request in the frontier is none: {error}.") from None
    request.meta.clear()
    request.meta.update(wire.t)
    if not FETCHING_PROCESS_ONLY.isdisjoint(wire.t):
        for mark in FETCHING_PROCESS_ONLY:
            request.meta.pop(mark, None)
    return request


def has_items(data: bytes) -> bool:
    """Whether the request that was encoded belongs to job items."""
    try:
        return ITEMS in _decoder.decode(data).t
    except _UNREADABLE:
        return False


def address_of(data: bytes) -> tuple[str, int]:
    """URL and priority of the request that was encoded."""
    try:
        wire = _decoder.decode(data)
    except _UNREADABLE:
        return "", 0
    return wire.u, wire.p


class _UnknownError(Exception):
    """What cannot be kept, and where it stands."""


def _plain(value: Any, where: str) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        if kind is int and not _SMALLEST <= value <= _LARGEST:
            raise _UnknownError(f"{where} is an integer of more than 64 bits")
        if kind is datetime and value.tzinfo is not UTC:
            return msgspec.msgpack.Ext(_DATETIME, value.isoformat().encode())
        return value
    if isinstance(value, str):
        return str(value)  # of a class of its own, like the texts of links
    if isinstance(value, dict) and kind.__getitem__ is dict.__getitem__:  # others look keys up otherwise, as headers do
        for key in value:
            if not isinstance(key, (str, int, bytes)):
                raise _UnknownError(f"{where} has the key {key!r}; keys are texts, numbers or bytes")
        return {key: _plain(each, f"{where}[{key!r}]") for key, each in value.items()}
    if kind is list:
        return [_plain(each, f"{where}[{index}]") for index, each in enumerate(value)]
    if kind is tuple:
        items = [_plain(each, f"{where}[{index}]") for index, each in enumerate(value)]
        return msgspec.msgpack.Ext(_TUPLE, _encoder.encode(items))
    raise _UnknownError(
        f"{where} is {_article(kind.__name__)}, which cannot be written to Redis."
        " Put texts, numbers, lists and dicts there, and build the object in the callback"
    )


def _method_name(function: Callable[..., Any] | None, spider: Spider, role: str) -> str | None:
    if function is None:
        return None
    if isinstance(function, MethodType) and function.__self__ is spider:
        own = function.__func__.__name__
        private = (f"_{kind.__name__.lstrip('_')}{own}" for kind in type(spider).__mro__)  # of `__parse` in a class
        name = next((each for each in (own, *private) if getattr(spider, each, None) == function), None)
        if name is not None:
            if is_callback(type(spider), name):
                return name
            raise _UnknownError(
                f"its {role}, {name}, does not say that it is one. Call its first argument `response`, or `failure`"
            )
    raise _UnknownError(
        f"its {role}, {function!r}, is no method of the spider {spider.name}."
        " Give a method, and what it needs to know in cb_kwargs"
    )


def _method(name: str | None, spider: Spider, url: str) -> Callable[..., Any] | None:
    if name is None:
        return None
    if not is_callback(type(spider), name):
        raise UnserialisableRequestError(
            f"{url} in the frontier wants the method {name!r}, which {spider.name} has not as a callback."
            " Was the spider changed?"
        )
    return getattr(spider, name)  # type: ignore[no-any-return]


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
