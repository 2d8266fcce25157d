"""Runs bounded calls for an event loop, so that short calls do not wait behind long ones."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from harvester.bounded.process import BoundedProcess, Bounds
from harvester.exceptions import TooCostlyError

QUICK = Bounds(cpu_s=1.0, memory_mb=64, result_mb=16, silence_s=30.0)
"""Limits of the first try, which is enough for nearly all calls."""
SLOW = Bounds(cpu_s=20.0, memory_mb=256, result_mb=64, silence_s=120.0)
"""Limits of the second try."""
MAX_WAITING_BYTES = 96 << 20
"""Bytes that may wait to be parsed, or are being parsed, before fetching pauses."""
QUICK_BYTES = 2 << 20
"""Maximum number of bytes for the process with short calls. Larger arguments go to the other process at once."""

_END = object()


class BoundedReader:
    """Two processes: one for short calls, and one for large arguments and for calls that the first could not finish.

    Costly calls delay only other costly calls, and the total cost is limited.
    """

    def __init__(self, quick: Bounds = QUICK, slow: Bounds = SLOW) -> None:
        self._quick, self._slow = _Lane(), _Lane()
        self._quick_bounds, self._slow_bounds = quick, slow
        self._waiting_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._streams: set[BoundedProcess] = set()
        self._turn = asyncio.Lock()

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the result of the function; for a generator, a list.

        Raises the function's exceptions, and TooCostlyError.

        The function may be called twice, so it must have no side effects. See BoundedProcess for its requirements.
        """
        with self._counted(arguments) as size:
            if size <= QUICK_BYTES:
                with suppress(TooCostlyError):
                    return await self._quick.call(self._quick_bounds, function, *arguments)
            return await self._slow.call(self._slow_bounds, function, *arguments)

    async def call_within(self, bounds: Bounds, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the function once, within the given limits."""
        with self._counted(arguments) as size:
            lane = self._quick if size <= QUICK_BYTES else self._slow
            return await lane.call(bounds, function, *arguments)

    async def wait_for_room(self) -> None:
        """Waits while more than MAX_WAITING_BYTES wait to be read. Each call ends, so the wait ends too."""
        await self._has_room.wait()

    @contextmanager
    def _counted(self, arguments: tuple[Any, ...]) -> Iterator[int]:
        size = _size(arguments)
        self._count(size)
        try:
            yield size
        finally:
            self._count(-size)

    def _count(self, size: int) -> None:
        self._waiting_bytes += size
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._has_room.clear()
        else:
            self._has_room.set()

    async def items(self, bounds: Bounds, function: Callable[..., Any], *arguments: Any) -> AsyncGenerator[Any, None]:
        """Runs a generator in a new process, and yields its items as they arrive. Calls run one after the other."""
        async with self._turn:
            process, executor = BoundedProcess(), ThreadPoolExecutor(1, "bounded")
            self._streams.add(process)
            calling = process.items(bounds, function, *arguments)
            loop = asyncio.get_running_loop()
            try:
                while (item := await loop.run_in_executor(executor, next, calling, _END)) is not _END:
                    yield item
            finally:
                process.stop()  # so that the thread becomes free
                self._streams.discard(process)
                await loop.run_in_executor(executor, process.close)
                executor.shutdown(wait=False)

    async def close(self) -> None:
        """Ends all processes. Running calls raise TooCostlyError."""
        for process in self._streams:
            process.stop()
        await asyncio.gather(self._quick.close(), self._slow.close())


def _size(arguments: tuple[Any, ...]) -> int:
    return sum(len(each) for each in arguments if isinstance(each, bytes))


class _Lane:
    def __init__(self) -> None:
        self._process = BoundedProcess()
        self._executor = ThreadPoolExecutor(1, "bounded")
        self._turn = asyncio.Lock()

    async def call(self, bounds: Bounds, function: Callable[..., Any], *arguments: Any) -> Any:
        async with self._turn:
            called = asyncio.get_running_loop().run_in_executor(
                self._executor, self._process.call, bounds, function, *arguments
            )
            try:
                return await asyncio.shield(called)
            except asyncio.CancelledError:
                self._process.stop()  # so that the thread becomes free
                await asyncio.gather(called, return_exceptions=True)
                raise

    async def close(self) -> None:
        self._process.stop()
        await asyncio.get_running_loop().run_in_executor(self._executor, self._process.close)
        self._executor.shutdown(wait=False)
