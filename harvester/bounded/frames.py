"""Sends Python values between a process and its parent: each is a pickle in a frame that begins with its length.

Both processes run this program. Large bytes are sent beside their pickle, so that they are not copied. Long lists are
sent in parts, so that unpickling them never blocks the interpreter for long.
"""

import pickle
from collections.abc import Callable
from io import BytesIO
from typing import IO, Any

READY, PART, ITEM, RESULT, RAISED = "ready", "part", "item", "result", "raised"
"""Kinds of answers: the function was imported; a part of a long list; an item of a generator; the function's result;
its exception."""
LENGTH_BYTES = 8
PART_ITEMS = 500
"""Number of items of a long list that are sent together."""


def write_frame(stream: IO[bytes], value: Any) -> None:
    """Writes a value with its buffers. The caller flushes the stream."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, 5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    for part in (len(views), *(view.nbytes for view in views), len(pickled)):
        stream.write(part.to_bytes(LENGTH_BYTES))
    for view in views:
        stream.write(view)
    stream.write(pickled)


def read_frame(stream: IO[bytes]) -> tuple[Any, int]:
    """Returns the next value and its size in transit. Raises EOFError when the other end is closed."""
    number = _read_length(stream)
    sizes = [_read_length(stream) for _ in range(number + 1)]
    *buffers, pickled = [_read(stream, size) for size in sizes]
    return pickle.loads(pickled, buffers=buffers), sum(sizes)


def dumps_in_parts(value: Any, send_part: Callable[[list[Any]], None]) -> bytes:
    """Pickles a value without its long lists. Calls `send_part` with each part of a list."""
    return _InParts(BytesIO(), send_part).dumped(value)


def loads_in_parts(pickled: bytes, parts: list[Any]) -> Any:
    """Returns the value. `parts` holds the items of the long lists, in the order they were sent."""
    return _FromParts(BytesIO(pickled), parts).load()


class _InParts(pickle.Pickler):
    def __init__(self, file: BytesIO, send_part: Callable[[list[Any]], None]) -> None:
        super().__init__(file, 5)
        self._file = file
        self._send_part = send_part
        self._sent = 0
        self._known: dict[int, tuple[int, int]] = {}

    def dumped(self, value: Any) -> bytes:
        self.dump(value)
        return self._file.getvalue()

    def persistent_id(self, value: Any) -> tuple[int, int] | None:
        if type(value) is not list or len(value) <= PART_ITEMS:
            return None
        if id(value) not in self._known:
            for start in range(0, len(value), PART_ITEMS):
                self._send_part(value[start : start + PART_ITEMS])
            self._known[id(value)] = self._sent, len(value)
            self._sent += len(value)
        return self._known[id(value)]


class _FromParts(pickle.Unpickler):
    def __init__(self, file: BytesIO, parts: list[Any]) -> None:
        super().__init__(file)
        self._parts = parts

    def persistent_load(self, which: tuple[int, int]) -> list[Any]:
        start, length = which
        return self._parts[start : start + length]


def _read_length(stream: IO[bytes]) -> int:
    return int.from_bytes(_read(stream, LENGTH_BYTES))


def _read(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found
