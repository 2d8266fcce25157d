"""Crawls in processes of their own that need not load Scrapy and all it needs first: they are forked from one that has.

`await fork("tests.crawling", plan, ...)` does what `python -m tests.crawling plan` would do, in a tenth of the time;
`begin` and `run` do so for tests that do not await. The program may be a script, too, like that of the command
`harvester`.
What only a start from nothing shows (how it imports, what interrupts it, limits of the process) is not forked, nor what
only shows when the interpreter takes itself down.
"""

import asyncio
import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib.util
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple, NoReturn

import scrapy.commands
from PIL import Image
from scrapy.settings import default_settings
from scrapy.utils.misc import load_object

from harvester.monitors.report import template
from harvester.outcomes.rules import common_book
from tests.root import ROOT

NOT_LOADED = ("harvester.settings", "harvester.commands", "harvester.control.pages")
"""Before a fork: they read the environment, begin with the crawl, or make an app when they are imported."""
OTHERS = [
    *("aiohttp.web", "ftfy", "http_sf", "httpx2", "jinja2", "lxml.html", "platformdirs", "playwright.async_api"),
    *("pymongo.asynchronous.auth", "pymongo.synchronous.auth", "redis.asyncio", "rich.live", "spidermon.contrib"),
    *("scrapy.cmdline", "scrapy.dupefilters", "scrapy.pqueues", "scrapy.squeues", "scrapy_playwright.handler"),
    *("sqlite3", "typer", "uvloop"),
]
"""What harvester imports only when it is needed, and what Scrapy finds by name."""
_SET_CHILD_SUBREAPER = 36
"""Of Linux's prctl."""


FORKED_FROM = "TESTS_FORKED_FROM"
"""Variable that names the process that forks, for what is started meanwhile."""
PIPES_S = 1.0
"""How long the pipes of a process that has ended may take to their own end."""
ABORT_S = 10.0
"""How long a process that hangs may take to write down where."""


class Forked:
    """A process, used like asyncio's. Killed or not, it is waited for by its parent, which is none of ours."""

    def __init__(self, pid: int, told: asyncio.StreamReader, out: asyncio.StreamReader, log: asyncio.StreamReader):
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr = out, log
        self._end = asyncio.ensure_future(self._ended(told))

    async def _ended(self, told: asyncio.StreamReader) -> int:
        self.returncode = int(await told.read())
        with contextlib.suppress(TimeoutError):  # one that it has started has them too, or nobody reads them
            async with asyncio.timeout(PIPES_S):
                while not (self.stdout._eof and self.stderr._eof):  # type: ignore[attr-defined] # noqa: ASYNC110
                    await asyncio.sleep(0.01)  # else the loop may end before, and leaves them open
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def communicate(self) -> tuple[bytes, bytes]:
        """What it wrote to stdout and stderr, when it has ended."""
        out, log = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, log

    async def end(self, within_s: float) -> tuple[str, str]:
        """What it wrote to stdout and stderr. Fails, and kills it, when it has not ended within so many seconds."""
        communicating = asyncio.ensure_future(self.communicate())
        try:
            await asyncio.wait([communicating], timeout=within_s)
            is_late = self.returncode is None
            if is_late:
                await self.abort()
        finally:
            self.kill()
            out, log = (written.decode(errors="replace") for written in await communicating)
        assert not is_late, f"it has not ended after {within_s} s:\n{log}"
        return out, log

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and that was not heard yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def abort(self) -> None:
        """Ends one that hangs. It writes to stderr where each of its threads is."""
        self.send_signal(signal.SIGABRT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ABORT_S):
                await self.wait()


async def fork(program: str, *arguments: str, cwd: Path, env: Mapping[str, str], log: int | None = None) -> Forked:
    """Runs a module as the main one of a new process. What it writes to stderr goes to `log`, a file, or is read."""
    (out, out_end), (read, log_end) = os.pipe(), os.pipe()
    told = _ask([program, *arguments], cwd, env, (None, out_end, log_end if log is None else log))
    os.close(out_end)
    os.close(log_end)
    telling = await _reader(told)
    return Forked(int(await telling.readline()), telling, await _reader(out), await _reader(read))


class Begun:
    """A process, used like one of subprocess."""

    def __init__(self, pid: int, told: int):
        self.pid = pid
        self.returncode: int | None = None
        self._told = told

    def poll(self) -> int | None:
        """The exit code (that of a signal is negative), or None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. One that has not ended in time is aborted: it writes to stderr where each thread is."""
        code = self._ended(timeout)
        if code is None:
            self.send_signal(signal.SIGABRT)
            self._ended(ABORT_S)
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            self.returncode = int(os.read(self._told, 16))
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def begin(
    program: str,
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str],
    files: Sequence[int | None] = (None, None, None),
) -> Begun:
    """The same for those who do not await. Its stdin, stdout and stderr are given as `files`; None: nothing."""
    told = _ask([program, *arguments], cwd, env, files)
    pid = b""
    while not pid.endswith(b"\n"):
        read = os.read(told, 1)
        assert read, "the process that forks has ended"
        pid += read
    return Begun(int(pid), told)


class Ran(NamedTuple):
    """What a program did."""

    returncode: int
    stdout: str
    stderr: str


def run(
    program: str, *arguments: str, cwd: Path, env: Mapping[str, str], stdin: bytes = b"", within_s: float = 240
) -> Ran:
    """To its end. Fails, and kills it, when that has not come within so many seconds."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as log:
        given.write(stdin)
        given.seek(0)
        process = begin(program, *arguments, cwd=cwd, env=env, files=[given.fileno(), out.fileno(), log.fileno()])
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended after {within_s} s:\n{_written_to(log)}") from None
        finally:
            process.kill()
            process.wait()
        return Ran(code, _written_to(out), _written_to(log))


def _written_to(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


class Child:
    """A process of `Children`, used like one of subprocess."""

    def __init__(self, pid: int, out: int, log: int | None):
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = os.fdopen(out, "rb")
        self.stderr = None if log is None else os.fdopen(log, "rb")

    def poll(self) -> int | None:
        if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Children:
    """For a program that starts others: they are forked from what it was when it made this, and are its children.

    It has no threads then. The one that forks leaves them to their grandparent, this process.
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
        self._asked, its = socket.socketpair()
        if os.fork() == 0:
            self._asked.close()
            while fds := socket.recv_fds(its, 1, 5)[1]:
                if os.fork() == 0:
                    its.close()
                    _adopted(*fds)
                    sys.exit()
                for fd in fds:
                    os.close(fd)
                os.wait()
            os._exit(0)
        its.close()

    def begin(self, program: str, *arguments: str, env: Mapping[str, str], log: bool) -> Child:
        """In a session of its own. What it writes to stdout is read, and to stderr when `log` says so."""
        (told, told_end), (out, out_end) = os.pipe(), os.pipe()
        read, log_end = os.pipe() if log else (None, 2)
        with TemporaryFile() as request, open(os.devnull, "rb", 0) as nothing:
            request.write(json.dumps([[program, *arguments], os.getcwd(), dict(env)]).encode())
            request.seek(0)
            fds = [request.fileno(), told_end, nothing.fileno(), out_end, log_end]
            socket.send_fds(self._asked, [b"!"], fds)
        for fd in (told_end, out_end, *([log_end] if log else [])):
            os.close(fd)
        with os.fdopen(told, "rb") as telling:
            return Child(int(telling.readline()), out, read)


def _ask(command: list[str], cwd: Path, env: Mapping[str, str], files: Sequence[int | None]) -> int:
    """What is told of the process is read here: its id, a line, and its exit code."""
    told, told_end = os.pipe()
    with TemporaryFile() as request, open(os.devnull, "r+b", 0) as nothing:
        request.write(json.dumps([command, str(cwd), dict(env)]).encode())
        request.seek(0)
        given = [nothing.fileno() if file is None else file for file in files]
        socket.send_fds(_parent(), [b"!"], [request.fileno(), told_end, *given])
    os.close(told_end)
    return told


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0)
    )
    return reader


@cache
def _parent() -> socket.socket:
    """Leads to the process that forks, which all processes of the tests share. It ends with the last of them."""
    own = f"harvester-tests-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    address = f"\0{os.environ.setdefault(FORKED_FROM, own)}"
    process = None
    while (ours := _connected(address)) is None:
        process = process or _begin_parent(address)
        time.sleep(0.01)

    def end() -> None:
        ours.close()
        if process:
            process.wait()

    atexit.register(end)
    return ours


def _connected(address: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address)
    except ConnectionRefusedError:  # nobody has begun it, or somebody is about to
        connection.close()
        return None
    return connection


def _begin_parent(address: str) -> subprocess.Popen[bytes] | None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(address)
        except OSError:  # another begins it
            return None
        listening.listen()
        return subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(listening.fileno())],
            cwd=ROOT,
            env=environment | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
        )


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; it ends when the tests do
    gc.disable()
    _load()
    gc.freeze()  # so that a collection does not copy what all share
    gc.enable()
    listening = socket.socket(fileno=int(sys.argv[1]))
    asking: dict[int, socket.socket] = {}
    """Who may ask, by descriptor."""
    running: dict[int, tuple[int, int]] = {}
    """Of each that has begun, by a descriptor of the process: its id, and where its end is told."""
    waited = select.poll()
    waited.register(listening, select.POLLIN)
    while True:
        for ready, _ in waited.poll():
            if ready == listening.fileno():
                asked = listening.accept()[0]
                asking[asked.fileno()] = asked
                waited.register(asked, select.POLLIN)
            elif ready in running:
                pid, told = running.pop(ready)
                _tell(told, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                waited.unregister(ready)
                for fd in (told, ready):
                    os.close(fd)
            elif fds := socket.recv_fds(asking[ready], 1, 5)[1]:
                request, told, *files = fds
                if (pid := os.fork()) == 0:
                    for fd in (listening.detach(), told, *asking, *running, *(other for _, other in running.values())):
                        os.close(fd)
                    for each in asking.values():
                        each.detach()
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    _become(request, *files)
                    return  # as the main process of its own
                for fd in (request, *files):
                    os.close(fd)
                process = os.pidfd_open(pid)
                running[process] = pid, told
                waited.register(process, select.POLLIN)
                _tell(told, pid)
            else:
                waited.unregister(ready)
                asking.pop(ready).close()
                if not asking and not select.select([listening], [], [], 0)[0]:
                    return


def _tell(told: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(told, b"%d\n" % number)


def _load() -> None:
    """All that a crawl imports, in one process for all. Nothing of it reads the environment, or starts a thread."""
    for name in OTHERS:
        importlib.import_module(name)
    for path in sorted((ROOT / "harvester").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if not name.startswith(NOT_LOADED):
            importlib.import_module(name)
    for module in pkgutil.iter_modules(scrapy.commands.__path__, "scrapy.commands."):
        importlib.import_module(module.name)
    for component in (*default_settings.DOWNLOADER_MIDDLEWARES_BASE, *default_settings.EXTENSIONS_BASE):
        load_object(component)
    Image.init()
    template()
    common_book()
    assert "twisted.internet.reactor" not in sys.modules


def _adopted(request: int, told: int, *files: int) -> None:
    """Returns when the program has run, in a process that its great-grandparent adopts before it begins."""
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:  # it is about to end
        time.sleep(0.001)
    os.write(told, b"%d\n" % os.getpid())
    os.close(told)
    os.setsid()
    _become(request, *files)


def _become(request: int, *files: int) -> None:
    """Runs a program as the main one of this process."""
    for number, fd in enumerate(files):
        os.dup2(fd, number)
        os.close(fd)
    with open(request, "rb") as file:
        (program, *arguments), cwd, environment = json.load(file)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = os.fdopen(0, encoding=encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding, "backslashreplace", closefd=False)
    faulthandler.enable(2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    code: object = None
    try:
        if os.sep in program:
            sys.argv, sys.orig_argv = [program, *arguments], [sys.executable, program, *arguments]
            sys.path[0] = os.path.dirname(program)
            runpy.run_path(program, run_name="__main__")
        else:
            sys.path[0] = cwd
            sys.orig_argv = [sys.executable, "-m", program, *arguments]
            sys.argv = [str(importlib.util.find_spec(program).origin), *arguments]  # type: ignore[union-attr]
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
    _leave(code)


def _leave(code: object) -> NoReturn:
    """Ends as Python does, but lets go of no module: to free what all processes share takes a tenth of a second."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # Python says what is wrong with a stream, and has a code for it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((code or 0) & 0xFF)
    sys.exit(code)


if __name__ == "__main__":
    main()
