"""HTTP/2 as the street speaks it, over TLS."""

import asyncio
from time import monotonic
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection as State
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded, WindowUpdated
from h2.exceptions import ProtocolError

from tests.sandbox.street_house import Answer, Asked, House


class H2Connection(asyncio.Protocol):
    """One connection; its streams are answered as they end. What a site breaks off, it breaks off with GOAWAY."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._state = State(H2Configuration(client_side=False, header_encoding="latin-1"))
        self._asked: dict[int, Asked] = {}
        self._unsent: dict[int, bytes] = {}
        """Bodies that the flow control holds back, by stream."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._state.initiate_connection()
        self._transport.write(self._state.data_to_send())

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._state.receive_data(data):
                self._on(event)
        except ProtocolError:
            self._transport.write(self._state.data_to_send())
            self._transport.close()
            return
        self._transport.write(self._state.data_to_send())

    def _on(self, event: object) -> None:
        if isinstance(event, RequestReceived):
            headers = {str(name): str(value) for name, value in event.headers}
            method, path = headers.pop(":method"), headers.pop(":path")
            self._asked[event.stream_id] = Asked(method, path, headers)
        elif isinstance(event, DataReceived):
            asked = self._asked[event.stream_id]
            self._asked[event.stream_id] = asked._replace(body=asked.body + event.data)
            self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self._answer(event.stream_id)
        elif isinstance(event, WindowUpdated):
            for stream in list(self._unsent):
                self._push(stream)

    def _answer(self, stream: int) -> None:
        asked = self._asked.pop(stream)
        answer = self._house.answer(asked, monotonic())
        answer = answer._replace(note=answer.note or "h2")
        if answer.delay_s:
            asyncio.get_running_loop().call_later(answer.delay_s, self._send_later, stream, asked, answer)
        else:
            self._send(stream, asked, answer)

    def _send_later(self, stream: int, asked: Asked, answer: Answer) -> None:
        if not self._transport.is_closing():
            self._send(stream, asked, answer)
            self._transport.write(self._state.data_to_send())

    def _send(self, stream: int, asked: Asked, answer: Answer) -> None:
        self._house.answered(asked)
        if answer.abort or answer.raw:
            self._state.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._transport.write(self._state.data_to_send())
            self._transport.close()
            return
        headers = [(name.lower(), value) for name, value in answer.headers]
        length = ("content-length", str(len(answer.body) + answer.missing))
        self._state.send_headers(
            stream, [(":status", str(answer.status)), ("content-type", answer.kind), length, *headers]
        )
        if answer.missing > 0:
            self._state.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)
            return
        self._unsent[stream] = answer.body
        self._push(stream)

    def _push(self, stream: int) -> None:
        """Sends as much of the body as the client takes now."""
        body = self._unsent[stream]
        while body and (room := self._state.local_flow_control_window(stream)) > 0:
            size = min(room, self._state.max_outbound_frame_size)
            self._state.send_data(stream, body[:size])
            body = body[size:]
        if body:
            self._unsent[stream] = body
        else:
            del self._unsent[stream]
            self._state.end_stream(stream)
