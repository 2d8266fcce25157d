"""A process for functions, which is ended from outside when a call exceeds its limits."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

import psutil

from harvester.bounded.frames import ITEM, PART, RAISED, loads_in_parts, read_frame, write_frame
from harvester.exceptions import NoProcessError, TooCostlyError

LOOK_S = 0.02
"""Seconds between two checks of the process."""
MAX_START_S = 120.0
"""Seconds to wait for the imports of a function. On a busy machine they take long."""
_MB = 1 << 20


class Bounds(NamedTuple):
    """Limits for one call."""

    cpu_s: float
    """Seconds of CPU time. Waiting for the CPU does not count."""
    memory_mb: int
    """Megabytes beyond what the process has before the call."""
    result_mb: int
    """Megabytes of the result."""
    silence_s: float
    """Seconds without an answer, for a function that waits rather than computes."""


class BoundedProcess:
    """Calls functions in a separate process, one after the other. The process starts with the first call.

    A function is sent by name, so it must stand at the top level of a module. Its arguments, results and exceptions
    must be picklable. All methods block; only `stop` may be called from another thread.
    """

    def __init__(self, files: Sequence[int] = ()) -> None:
        """Takes descriptors of open files. The process has them under the same numbers (not on Windows)."""
        self._files = files
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, bounds: Bounds, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the result of the function; for a generator, a list.

        Raises the function's exceptions, and TooCostlyError.
        """
        items = []
        calling = self.items(bounds, function, *arguments)
        while True:
            try:
                items.append(next(calling))
            except StopIteration as end:
                return items or end.value

    def items(self, bounds: Bounds, function: Callable[..., Any], *arguments: Any) -> Generator[Any, None, Any]:
        """Yields the values of a generator as they arrive, and returns the result.

        The process waits while the consumer does not take the next value.
        """
        process = self._started()
        assert process.stdin
        assert process.stdout
        watch = _Watch(process, bounds)
        watch.start()
        is_done = False
        try:
            write_frame(process.stdin, (function.__module__, function.__qualname__, bounds.cpu_s))
            process.stdin.flush()
            watch.wait_for(MAX_START_S)
            read_frame(process.stdout)
            watch.begin()
            write_frame(process.stdin, tuple(map(_uncopied, arguments)))
            process.stdin.flush()
            parts: list[Any] = []
            while True:
                watch.wait_for(bounds.silence_s)
                (kind, value), size = read_frame(process.stdout)
                watch.note_answer(size)
                if kind == PART:
                    parts += value
                elif kind == ITEM:
                    yield value
                else:
                    is_done = True
                    if kind == RAISED:
                        raise _raised(*value)
                    return loads_in_parts(value, parts)
        except (OSError, EOFError, pickle.UnpicklingError):
            if is_done:  # raised by the function itself
                raise
            raise TooCostlyError(watch.reason or _death_of(process)) from None
        finally:
            watch.end()
            if not is_done:  # it is dead, or busy with a call that was given up
                self.close()

    def stop(self) -> None:
        """Ends the process in any state. A call that waits for it raises TooCostlyError."""
        if process := self._process:
            process.kill()

    def close(self) -> None:
        """Ends the process. The next call starts another one."""
        process, self._process = self._process, None
        if process:
            process.kill()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):
                    stream.close()  # type: ignore[union-attr]
            process.wait()

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process and self._process.poll() is not None:  # killed, for example by a machine out of memory
            self.close()
        if self._process is None:
            try:
                self._process = _start_child(self._files)
            except OSError as error:
                raise NoProcessError(f"no process to read it can be started here: {error.strerror}") from None
        return self._process


class _Watch:
    """Checks the cost of a call from a thread, and ends the process when a limit is exceeded."""

    def __init__(self, process: "subprocess.Popen[bytes]", bounds: Bounds) -> None:
        self.reason = ""
        """Reason why the process was ended; empty if it was not."""
        self._process = process
        self._bounds = bounds
        self._ended = Event()
        self._thread = Thread(target=self._look, name="bounded", daemon=True)
        self._started_with: tuple[float, int] | None = None
        """CPU seconds and bytes of memory that the process had used before the call."""
        self._until: float | None = None
        self._received = 0

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def begin(self) -> None:
        """Starts to measure the call. The function is imported, so its imports do not count."""
        with suppress(psutil.Error):
            self._started_with = self._taken()

    def wait_for(self, seconds: float) -> None:
        """Sets the time limit for the next answer."""
        self._until = monotonic() + seconds

    def note_answer(self, size: int) -> None:
        """Counts an answer. Raises TooCostlyError when the answers exceed the limit in bytes."""
        self._until = None
        self._received += size
        if self._received > self._bounds.result_mb * _MB:
            raise TooCostlyError(f"what is read of it has more than {self._bounds.result_mb:,} MB")

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            with suppress(psutil.Error):
                if reason := self._excess():
                    self.reason = reason
                    self._process.kill()
                    return

    def _excess(self) -> str:
        bounds = self._bounds
        if (until := self._until) and monotonic() > until:
            return "nothing comes of it for too long"
        if self._started_with is None:
            return ""
        cpu_s, memory = (now - then for now, then in zip(self._taken(), self._started_with, strict=True))
        if memory > bounds.memory_mb * _MB:
            return f"it takes more than {bounds.memory_mb:,} MB of memory to read"
        return f"it takes more than {bounds.cpu_s:g} seconds of computing to read" if cpu_s > bounds.cpu_s else ""

    def _taken(self) -> tuple[float, int]:
        process = psutil.Process(self._process.pid)
        times = process.cpu_times()
        return times.user + times.system, process.memory_info().rss


def _uncopied(argument: Any) -> Any:
    """Wraps bytes so that the pickle does not copy them. The process receives bytes."""
    return pickle.PickleBuffer(argument) if isinstance(argument, bytes) else argument


def _raised(kind: type[Exception], arguments: tuple[Any, ...], values: dict[str, Any], trace: str) -> Exception:
    """Rebuilds the exception of the function without its constructor, which may need other arguments."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(values)
    error.add_note(f"In the process that has bounds:\n{trace}")
    return error


def _death_of(process: "subprocess.Popen[bytes]") -> str:
    with suppress(subprocess.TimeoutExpired):
        return f"the process that reads it dies of it (exit code {process.wait(1.0)})"
    return "the process that reads it says nothing that can be understood"


def _start_child(files: Sequence[int]) -> "subprocess.Popen[bytes]":
    """Starts the process with pipes to its standard input and output. Raises OSError."""
    environment = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}  # without our secrets
    if os.name == "nt":
        environment["SYSTEMROOT"] = os.environ["SYSTEMROOT"]  # Python does not start without it
    return subprocess.Popen(
        [sys.executable, "-m", "harvester.bounded.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # messages of libraries about damaged input
        env=environment,
        pass_fds=files,
        start_new_session=True,  # Ctrl-C at the terminal must only reach the crawl
    )
