"""Faults of a website, on demand.

A fault is JSON: `match` (regular expression on path and query), `kind`, and how often it strikes: `after` n matching
requests, `every` k-th, `times` in all. Further keys are the parameters of its kind.
"""

import asyncio
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from typing import Any

import msgspec
from aiohttp import web

from harvester.sandbox import images
from harvester.sandbox.responses import (
    HTML_TYPE,
    JSON_TYPE,
    SandboxAnswer,
    error_answer,
    forbidden_page,
    html_page,
    json_answer,
)

Params = dict[str, Any]


@dataclass(slots=True)
class SandboxFault:
    """A fault, with counts of the requests that it has met."""

    number: int
    match: re.Pattern[str]
    kind: str
    times: int | None
    every: int
    after: int
    params: Params
    seen: int = 0
    struck: int = 0
    silent_until: float = 0.0
    breaches: list[float] = field(default_factory=list)
    memory: str | None = None

    def strikes(self, now: float) -> bool:
        """Counts a matching request. Returns True if the fault strikes it."""
        if now < self.silent_until:
            self.breaches.append(round(self.params.get("seconds", 2) - (self.silent_until - now), 4))
            return True
        self.seen += 1
        if self.seen <= self.after or (self.seen - self.after - 1) % self.every:
            return False
        if self.times is not None and self.struck >= self.times:
            return False
        self.struck += 1
        return True

    def report(self) -> Params:
        return {
            "id": self.number,
            "kind": self.kind,
            "match": self.match.pattern,
            "seen": self.seen,
            "struck": self.struck,
            "breaches": self.breaches,
        }


class Faults:
    """The active faults. A request gets the first fault that strikes it, and no other."""

    def __init__(self) -> None:
        self.active: list[SandboxFault] = []
        self._serial = 0

    def add(self, wish: Params) -> SandboxFault:
        wish = dict(wish)
        kind = wish.pop("kind", None)
        if kind not in KINDS:
            raise ValueError(f"no fault of the kind {kind!r}; there are {', '.join(sorted(KINDS))}")
        for name, least in (("times", 0), ("every", 1), ("after", 0), ("seconds", 0)):
            if (given := wish.get(name)) is not None and (not isinstance(given, (int, float)) or given < least):
                raise ValueError(f"{name} is {given!r}, and must be a number from {least} on")
        self._serial += 1
        fault = SandboxFault(
            number=self._serial,
            match=re.compile(wish.pop("match", ".*")),
            kind=kind,
            times=wish.pop("times", None),
            every=wish.pop("every", 1),
            after=wish.pop("after", 0),
            params=wish.pop("params", {}) | wish,
        )
        self.active.append(fault)
        return fault

    def remove(self, numbers: Collection[int]) -> None:
        """Removes the faults with these numbers, or all when no numbers are given."""
        self.active = [fault for fault in self.active if numbers and fault.number not in numbers]

    def pick(self, target: str) -> SandboxFault | None:
        now = time.monotonic()
        for fault in self.active:
            if fault.match.search(target) and fault.strikes(now):
                return fault
        return None


# Faults that replace the response


def _status(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    params = fault.params
    status = params.get("status", 500)
    answer = error_answer(params.get("error", "InternalServerError"), params.get("message", "Injected"), status)
    answer.headers.update(params.get("headers", {}))
    return answer


def _server_error(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    status = fault.params.get("status", 502)
    names = {502: "UpstreamFailure", 503: "ServiceUnavailable", 504: "UpstreamTimeout"}
    return error_answer(names.get(status, "InternalServerError"), "Upstream Failure", status)


def _html_403(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    return forbidden_page()


def _html_429(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    return html_page("429 Too Many Requests", "You have sent too many requests in a given amount of time.", 429)


def _rate_limit(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    seconds = fault.params.get("seconds", 2)
    now = time.monotonic()
    if now >= fault.silent_until:
        fault.silent_until = now + seconds
    answer = error_answer("RateLimitExceeded", "Rate Limit Exceeded", fault.params.get("status", 429))
    left = max(1, round(fault.silent_until - now))
    if fault.params.get("retry_after", True):
        answer.headers["retry-after"] = str(left)
    answer.headers |= {
        "ratelimit-limit": "3000",
        "ratelimit-remaining": "0",
        "ratelimit-reset": str(int(time.time()) + left),
        "ratelimit-policy": "3000;w=300",
    }
    return answer


def _http_date(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    answer = _rate_limit(fault, request)
    until = time.time() + (fault.silent_until - time.monotonic())
    answer.headers = {"retry-after": formatdate(int(until) + 1, usegmt=True)}
    return answer


def _html_instead(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    return html_page("We will be back soon", "Maintenance.")


def _empty_body(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    return SandboxAnswer(b"", 200, JSON_TYPE)


def _cursor_500(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer | None:
    if "cursor=" not in request.raw_path:
        return None
    return error_answer("InternalServerError", "Internal Server Error", 500)


def _image_bomb(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    kind = fault.params.get("format", "png")
    return SandboxAnswer(images.bomb(kind, fault.params.get("side", 30_000)), 200, images.MIME[kind])


def _image_wrong_type(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    return SandboxAnswer(b"<html><body>No picture here</body></html>", 200, "image/jpeg")


def _redirect_loop(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    path, _, query = request.raw_path.partition("?")
    rest = [part for part in query.split("&") if part and not part.startswith("_hop=")]
    target = "&".join([*rest, f"_hop={fault.struck}"])
    return SandboxAnswer(b"", 302, HTML_TYPE, {"location": f"{path}?{target}"})


def _gzip_bomb(fault: SandboxFault, request: web.BaseRequest) -> SandboxAnswer:
    body = _squeezed(fault.params.get("megabytes", 100))
    return SandboxAnswer(body, 200, JSON_TYPE, {"content-encoding": "gzip"})


@lru_cache(4)
def _squeezed(megabytes: int) -> bytes:
    press = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b" " * 1_000_000
    return b"".join([*(press.compress(block) for _ in range(megabytes)), press.compress(b"{}"), press.flush()])


# Faults that change the response


def _truncated(fault: SandboxFault, answer: SandboxAnswer) -> SandboxAnswer:
    answer.body = answer.body[: len(answer.body) // 2]
    return answer


def _not_utf8(fault: SandboxFault, answer: SandboxAnswer) -> SandboxAnswer:
    answer.body = answer.body.replace(b'":"', b'":"\xff\xfe', 1)
    return answer


def _repeat_cursor(fault: SandboxFault, answer: SandboxAnswer) -> SandboxAnswer:
    value = msgspec.json.decode(answer.body)
    if isinstance(value, dict) and answer.status == 200:
        fault.memory = fault.memory or value.get("cursor")
        if fault.memory is not None:
            value["cursor"] = fault.memory
        answer.body = msgspec.json.encode(value)
    return answer


def _drop_field(fault: SandboxFault, answer: SandboxAnswer) -> SandboxAnswer:
    if answer.status == 200 and answer.content_type == JSON_TYPE:
        answer.body = msgspec.json.encode(_without(msgspec.json.decode(answer.body), fault.params["field"]))
    return answer


def _without(value: object, name: str) -> object:
    if isinstance(value, dict):
        return {key: _without(part, name) for key, part in value.items() if key != name}
    return [_without(part, name) for part in value] if isinstance(value, list) else value


def _replace(fault: SandboxFault, answer: SandboxAnswer) -> SandboxAnswer:
    """Replaces the text `old` by `new` everywhere in the body."""
    answer.body = answer.body.replace(fault.params["old"].encode(), fault.params["new"].encode())
    return answer


def _without_rows(fault: SandboxFault, answer: SandboxAnswer) -> SandboxAnswer:
    """Removes rows of lists that contain one of the `texts`."""
    value = msgspec.json.decode(answer.body)
    if isinstance(value, dict) and answer.status == 200:
        texts = [text.encode() for text in fault.params["texts"]]
        left = {
            key: [row for row in part if not any(text in msgspec.json.encode(row) for text in texts)]
            if isinstance(part, list)
            else part
            for key, part in value.items()
        }
        answer = json_answer(left)
    return answer


def _half(fault: SandboxFault, answer: SandboxAnswer) -> SandboxAnswer:
    value = msgspec.json.decode(answer.body)
    if isinstance(value, dict) and answer.status == 200:
        halved = {key: part[: len(part) // 2] if isinstance(part, list) else part for key, part in value.items()}
        answer = json_answer(halved)
    return answer


# Faults in sending the response


async def _slow(fault: SandboxFault, request: web.BaseRequest, answer: SandboxAnswer) -> web.StreamResponse | None:
    await asyncio.sleep(fault.params.get("seconds", 1))
    return None


async def _hang(fault: SandboxFault, request: web.BaseRequest, answer: SandboxAnswer) -> web.StreamResponse | None:
    until = time.monotonic() + fault.params.get("seconds", 3_600)
    while time.monotonic() < until and request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # aiohttp has no event for a client that leaves
    return None


async def _reset(fault: SandboxFault, request: web.BaseRequest, answer: SandboxAnswer) -> web.StreamResponse | None:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


async def _drip(fault: SandboxFault, request: web.BaseRequest, answer: SandboxAnswer) -> web.StreamResponse | None:
    """Sends the body in `pieces`, with a pause of `seconds` between them."""
    response = _stream(answer)
    response.content_length = len(answer.body)
    await response.prepare(request)
    size = -(-len(answer.body) // fault.params.get("pieces", 10)) or 1
    for start in range(0, len(answer.body), size):
        if start:  # a pause after the last would let the client go on before the request is in the journal
            await asyncio.sleep(fault.params.get("seconds", 0.2))
        await response.write(answer.body[start : start + size])
    return response


async def _huge(fault: SandboxFault, request: web.BaseRequest, answer: SandboxAnswer) -> web.StreamResponse | None:
    """Sends valid JSON that does not end before `megabytes`."""
    response = _stream(SandboxAnswer(b""))
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(b'{"feed":[],"padding":"')
    block = b"x" * 250_000
    for _ in range(4 * fault.params.get("megabytes", 64)):
        await response.write(block)
    await response.write(b'"}')
    return response


async def _wrong_length(
    fault: SandboxFault, request: web.BaseRequest, answer: SandboxAnswer
) -> web.StreamResponse | None:
    """Promises `extra` bytes in the header that never come."""
    response = _stream(answer)
    response.content_length = len(answer.body) + fault.params.get("extra", 1_000)
    await response.prepare(request)
    await response.write(answer.body)
    if request.transport is not None:
        request.transport.close()
    return response


def _stream(answer: SandboxAnswer) -> web.StreamResponse:
    return web.StreamResponse(status=answer.status, headers={"content-type": answer.content_type} | answer.headers)


INSTEAD: dict[str, Callable[[SandboxFault, web.BaseRequest], SandboxAnswer | None]] = {
    "status": _status,
    "server_error": _server_error,
    "html_403": _html_403,
    "block_all": _html_403,
    "html_429": _html_429,
    "rate_limit": _rate_limit,
    "http_date": _http_date,
    "html_instead_of_json": _html_instead,
    "empty_body": _empty_body,
    "cursor_500": _cursor_500,
    "image_bomb": _image_bomb,
    "image_wrong_type": _image_wrong_type,
    "redirect_loop": _redirect_loop,
    "gzip_bomb": _gzip_bomb,
}
"""Kinds of faults that replace the endpoint's response."""

SPOILED: dict[str, Callable[[SandboxFault, SandboxAnswer], SandboxAnswer]] = {
    "truncated_json": _truncated,
    "image_truncated": _truncated,
    "not_utf8": _not_utf8,
    "repeat_cursor": _repeat_cursor,
    "drop_field": _drop_field,
    "replace": _replace,
    "half": _half,
    "without_rows": _without_rows,
}
"""Kinds of faults that change the endpoint's response."""

WIRE: dict[str, Callable[[SandboxFault, web.BaseRequest, SandboxAnswer], Awaitable[web.StreamResponse | None]]] = {
    "slow": _slow,
    "hang": _hang,
    "reset": _reset,
    "drip": _drip,
    "huge": _huge,
    "wrong_content_length": _wrong_length,
}
"""Kinds of faults that break the sending. A handler that returns None leaves the response to be sent normally."""

KINDS = frozenset((*INSTEAD, *SPOILED, *WIRE))
