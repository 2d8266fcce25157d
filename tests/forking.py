"""Crawls in processes of their own that need not load Scrapy and all it needs first: they are forked from one that has.

`await fork("tests.crawling", plan, ...)` does what `python -m tests.crawling plan` would do, in a tenth of the time.
What is started as a person starts it (`harvester`, `scrapy`) is not forked, for then it is the start that is tested.
"""

import asyncio
import atexit
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from tests.root import ROOT

LOADED = [f"harvester.{name}" for name in ("download", "frontier", "middlewares", "pipelines", "proxies", "sessions")]
"""Packages whose modules are loaded before a fork. None of them reads the environment then, or starts a thread."""


class Forked:
    """A process, used like asyncio's. Killed or not, it is waited for by its parent, which is none of ours."""

    def __init__(self, pid: int, told: asyncio.StreamReader, out: asyncio.StreamReader, log: asyncio.StreamReader):
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr = out, log
        self._end = asyncio.ensure_future(self._ended(told))

    async def _ended(self, told: asyncio.StreamReader) -> int:
        self.returncode = int(await told.read())
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def communicate(self) -> tuple[bytes, bytes]:
        """What it wrote to stdout and stderr, when it has ended."""
        out, log = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, log

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def fork(module: str, *arguments: str, cwd: Path, env: Mapping[str, str]) -> Forked:
    """Runs the module as the main one of a new process."""
    (told, told_end), (out, out_end), (log, log_end) = os.pipe(), os.pipe(), os.pipe()
    with TemporaryFile() as request:
        request.write(json.dumps([module, arguments, str(cwd), dict(env)]).encode())
        request.seek(0)
        socket.send_fds(_parent(), [b"!"], [request.fileno(), told_end, out_end, log_end])
    for end in (told_end, out_end, log_end):
        os.close(end)
    telling = await _reader(told)
    return Forked(int(await telling.readline()), telling, await _reader(out), await _reader(log))


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0)
    )
    return reader


@cache
def _parent() -> socket.socket:
    """Leads to the process that forks. It ends with this one."""
    ours, its = socket.socketpair()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forking", str(its.fileno())],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        pass_fds=[its.fileno()],
    )
    its.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; it ends when the tests do
    for name in ("scrapy.crawler", *LOADED):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(getattr(package, "__path__", []), f"{name}."):
            importlib.import_module(module.name)
    asked = socket.socket(fileno=int(sys.argv[1]))
    while fds := socket.recv_fds(asked, 1, 4)[1]:
        if os.fork() == 0:
            asked.close()
            _begin(*fds)
            return  # as the main process of its own
        for fd in fds:
            os.close(fd)
        while _reaped():
            pass


def _reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _begin(request: int, told: int, out: int, log: int) -> None:
    """Returns when the module has run, in a process whose end is told by this one."""
    pid = os.fork()
    if pid:
        os.close(out)
        os.close(log)
        os.write(told, b"%d\n" % pid)
        os.write(told, b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.close(told)
    for fd, number in ((out, 1), (log, 2)):
        os.dup2(fd, number)
        os.close(fd)
    with open(request, "rb") as file:
        module, arguments, cwd, environment = json.load(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path[0] = cwd
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
