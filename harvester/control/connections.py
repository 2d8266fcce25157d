"""Connections of the controller's server, with the time limits that uvicorn lacks.

uvicorn waits forever for the rest of a head, for a first byte, for a body whose request was answered long ago, and for
a client that does not read its response. A few thousand such connections would use up all file descriptors.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from harvester.control import limits

HEAD_S = 60.0
"""Seconds within which a request's complete head must arrive, from the connection's start or the last response."""


class TimedConnection(H11Protocol):
    """A connection that aborts when its client keeps the controller waiting."""

    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._head_timer)
        _cancel(self._read_timer)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle and not self.cycle.response_complete:
            _cancel(self._head_timer)

    def handle_websocket_upgrade(self, event: Any) -> None:
        _cancel(self._head_timer)
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._await_head()
        super().on_response_complete()  # may begin with the next request at once

    def pause_writing(self) -> None:
        super().pause_writing()
        allowed_s = limits.STALL_S + self.transport.get_write_buffer_size() / limits.LEAST_RATE
        self._read_timer = self.loop.call_later(allowed_s, self.transport.abort)

    def resume_writing(self) -> None:
        _cancel(self._read_timer)
        super().resume_writing()

    def _await_head(self) -> None:
        _cancel(self._head_timer)
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer:
        timer.cancel()
