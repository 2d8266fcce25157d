"""A TCP proxy that stands for a distant Redis: it delays what passes, and counts the round trips.

    python -m tests.bench.proxy <port of Redis>

Prints its port. Then each line on stdin is a question: a number sets the delay of a round trip in milliseconds, an
empty line changes nothing. The answer is one line of JSON, the counts since the last question. It ends with stdin.

Half of the delay lies on each way. Chunks keep their distance in time, so that the delay costs no throughput.
A round trip is a chunk from a client that follows an answer on the same connection: a pipeline is one round trip.
"""

import asyncio
import json
import selectors
import sys
from collections import deque
from dataclasses import asdict, dataclass
from typing import cast


@dataclass
class Counts:
    """What passed."""

    round_trips: int = 0
    bytes_to_redis: int = 0
    bytes_from_redis: int = 0


class Delay:
    """The delay of one way, and the counts; all connections share it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.counts = Counts()


class Way(asyncio.Protocol):
    """One direction of a connection: what is received here is written to `other` after the delay."""

    def __init__(self, delay: Delay, *, from_client: bool) -> None:
        self._delay = delay
        self._from_client = from_client
        self._queue: deque[tuple[float, bytes]] = deque()
        self._answered = True
        self.transport: asyncio.Transport
        self.other: Way | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        counts = self._delay.counts
        if self._from_client:
            counts.round_trips += self._answered
            counts.bytes_to_redis += len(data)
            self._answered = False
        else:
            counts.bytes_from_redis += len(data)
            assert self.other
            self.other._answered = True
        self._queue.append((asyncio.get_running_loop().time() + self._delay.seconds, data))
        if len(self._queue) == 1:
            self.pass_on()

    def pass_on(self) -> None:
        """Writes what has waited long enough, and comes back for the rest."""
        if self.other is None:
            return
        loop = asyncio.get_running_loop()
        while self._queue and self._queue[0][0] <= loop.time():
            self.other.transport.write(self._queue.popleft()[1])
        if self._queue:
            loop.call_at(self._queue[0][0], self.pass_on)

    def connection_lost(self, exc: Exception | None) -> None:
        self._queue.clear()
        if self.other:
            self.other.transport.close()


class Client(Way):
    """A connection from a client; what it says waits until Redis is there too."""

    def __init__(self, delay: Delay, port: int) -> None:
        super().__init__(delay, from_client=True)
        self._port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._joining = asyncio.ensure_future(self._join())

    async def _join(self) -> None:
        redis = Way(self._delay, from_client=False)
        redis.other = self
        await asyncio.get_running_loop().create_connection(lambda: redis, "127.0.0.1", self._port)
        self.other = redis
        self.pass_on()


async def serve(port: int) -> None:
    delay = Delay()
    server = await asyncio.get_running_loop().create_server(lambda: Client(delay, port), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    questions = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    while line := await questions.readline():
        if text := line.strip():
            delay.seconds = float(text) / 2000
        print(json.dumps(asdict(delay.counts)), flush=True)
        delay.counts = Counts()


if __name__ == "__main__":
    # select() waits to the microsecond; epoll and uvloop round a delay to milliseconds.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(serve(int(sys.argv[1])))
