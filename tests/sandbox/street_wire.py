"""HTTP/1.1 as the street speaks it: asyncio's bare protocol, since it shares the machine with the crawlers."""

import asyncio
from http import HTTPStatus
from time import monotonic
from typing import Any, Protocol

from tests.sandbox.street_house import Answer, Asked

MOST_HEAD = 65_536
"""Bytes of a request's head."""
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Answerer(Protocol):
    """A site, or the street's control."""

    def answer(self, asked: Asked, now: float) -> Answer: ...

    def answered(self, asked: Asked) -> None: ...


class Connection(asyncio.Protocol):
    """One connection, kept open. Requests are answered one after the other."""

    def __init__(self, house: Answerer) -> None:
        self._house = house
        self._received = b""
        self._busy = False
        self._timers: set[asyncio.TimerHandle] = set()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        for timer in self._timers:
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > MOST_HEAD:
            self._transport.abort()
        self._next()

    def _next(self) -> None:
        while not self._busy and (asked := self._taken()):
            answer = self._house.answer(asked, monotonic())
            self._busy = bool(answer.delay_s or answer.drip_s)
            if answer.delay_s:
                self._later(answer.delay_s, asked, answer)
            else:
                self._send(asked, answer)

    def _taken(self) -> Asked | None:
        """The next request, when all of it is there."""
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return None
        self._received = rest[length:]
        method, path, _ = first.split(" ", 2)
        return Asked(method, path, headers, rest[:length])

    def _later(self, seconds: float, asked: Asked, answer: Answer) -> None:
        def send() -> None:
            self._timers.discard(timer)
            self._busy = False
            self._send(asked, answer)
            self._next()

        timer = asyncio.get_running_loop().call_later(seconds, send)
        self._timers.add(timer)

    def _send(self, asked: Asked, answer: Answer) -> None:
        self._house.answered(asked)
        if answer.abort:
            self._transport.abort()
        elif answer.raw:
            self._transport.write(answer.raw)
            self._transport.close()
        elif answer.drip_s:
            self._transport.write(_head(answer))
            self._drip(answer.body, answer.drip_s)
        else:
            self._transport.write(_head(answer) + answer.body)
            if answer.missing > 0:
                self._transport.close()

    def _drip(self, body: bytes, drip_s: float) -> None:
        self._transport.write(body[:1])
        if len(body) > 1 and not self._transport.is_closing():
            self._timers.add(asyncio.get_running_loop().call_later(drip_s, self._drip, body[1:], drip_s))


def _head(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}", f"Content-Type: {answer.kind}"]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    lines += [f"Content-Length: {len(answer.body) + answer.missing}", "", ""]
    return "\r\n".join(lines).encode("latin-1")
