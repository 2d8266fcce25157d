"""`harvester up`: servers, workers, the API and the page, from one process, until a signal."""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from filelock import FileLock, Timeout

from harvester import logs
from harvester.config import TOLD, Config
from harvester.control.app import create_app
from harvester.control.connections import TimedConnection
from harvester.control.tokens import FILE, kept_token
from harvester.exceptions import FAULT, INTERRUPTED, StorageError, UsageError
from harvester.formatting import counted, duration, size
from harvester.shutdown import stop
from harvester.stores.private_files import make_closed
from harvester.stores.servers.supervisor import die_with_parent
from harvester.worker.endings import Next, as_stopped, backoff_s, describe, next_step
from harvester.worker.interrupts import note
from harvester.worker.supervisor import check_services

HOST, PORT = "127.0.0.1", 8000
LOCK, ADDRESS, LOG = "up.lock", "up.address", "worker.log"
"""Files in the state folder. The log is emptied at each start of the workers."""
MOST_LOG_BYTES = 50_000_000
"""Maximum number of bytes of the log. Beyond it the log is copied to a single backup and emptied."""
LOG_LOOK_S = 60.0
CLOSE_S = 3
"""Seconds that open connections may take when the server stops."""
LOOK_S = 0.05
FIRST_REST_S, MOST_REST_S = 1.0, 60.0
"""Seconds to wait before workers that ended by themselves are restarted."""
LAST_LINES, LAST_BYTES = 3, 64 * 1024
"""Lines of the workers' log to show when they end, and bytes at its end to search for them."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of the command line."""

    host: str = HOST
    port: int = PORT
    """0: any free port."""
    workers: int = 1
    """0: no workers."""


async def up(config: Config, wanted: UpOptions, say: Say) -> int:
    """Runs until a signal and returns the exit code.

    Raises UsageError for a folder or port in use, StorageError, ServiceError.
    """
    with _only_one(config) as address, _listening(wanted) as listening:
        await asyncio.to_thread(check_services, config)
        url = _url(wanted.host, listening.getsockname()[1])
        app = create_app(config, hosts=[wanted.host])
        from harvester.control.pages.mount import mount  # takes a second, so wrong arguments fail before

        links = mount(app)
        server = _Server(
            uvicorn.Config(
                app,
                http=TimedConnection,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=CLOSE_S,
                proxy_headers=False,  # the app reads them, only from the configured proxies
            )
        )
        serving = asyncio.create_task(server.serve([listening]))
        try:
            while not server.started and not serving.done():  # noqa: ASYNC110  uvicorn has no event for it
                await asyncio.sleep(LOOK_S)
            if serving.done():
                await serving
            address.write_text(url, "ascii")
            token, is_new = await kept_token(config, app.state.context.tokens)
            greet = partial(
                _greet, config, wanted, url, f"{url}/login?link={links.add(token)}", token if is_new else "", say
            )
            return await _until_told(config, wanted, serving, say, greet)
        finally:
            address.unlink(missing_ok=True)
            server.should_exit = True
            await serving


async def _until_told(
    config: Config, wanted: UpOptions, serving: asyncio.Task[None], say: Say, greet: Callable[[], None]
) -> int:
    """Runs workers and page until a signal, and returns the workers' exit code.

    Signal handlers are installed before `greet`.
    """
    workers, told = WorkerSession(config, wanted.workers, say), asyncio.Event()

    def tell(number: int) -> None:
        note(number)
        if wanted.workers:
            at_once = "end at once" if told.is_set() else "finish what is in flight; Ctrl-C again ends them at once"
            say(f"The workers {at_once}.")
        told.set()
        workers.drain()

    loop = asyncio.get_running_loop()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    for number in numbers:
        loop.add_signal_handler(number, tell, number)
    greet()
    keeping, stopping = asyncio.create_task(workers.keep()), asyncio.create_task(told.wait())
    try:
        ends = [serving, stopping, *([keeping] if wanted.workers else [])]  # an exception in `keeping` ends everything
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not told.is_set():
            workers.drain()
        return await keeping
    finally:
        stopping.cancel()
        for number in numbers:
            loop.remove_signal_handler(number)


class WorkerSession:
    """Runs `harvester worker` beside the page, in its own session: Ctrl-C reaches only this process."""

    def __init__(self, config: Config, processes: int, say: Say) -> None:
        self._config = config
        self._processes = processes
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._draining = asyncio.Event()
        self.log = config.state_dir / LOG

    async def keep(self) -> int:
        """Starts the workers and restarts them when they end by themselves, until they are drained.

        Returns the last exit code.
        """
        code, times = 0, 0
        while self._processes and not self._draining.is_set():
            try:
                code = await self._live()
            except OSError as error:
                code, said = FAULT, f"The workers cannot be started: {error}."
            else:
                said = f"The workers ended ({describe(code)}): {self._last_words()}"
            if self._draining.is_set():
                break
            times += 1
            if next_step(code, drained=False) is Next.STOP:
                self._say(f"{said}\nNone are started any more; the page stays.")
                await self._draining.wait()
                break
            rest_s = backoff_s(times, FIRST_REST_S, MOST_REST_S)
            self._say(f"{said}\nThey are started again in {duration(rest_s)}.")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._draining.wait()
        return code if code >= 0 else INTERRUPTED

    async def _live(self) -> int:
        command = [sys.executable, "-m", "harvester"]
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:  # append mode: after a truncation the workers write at the new end
            process = self._process = await asyncio.create_subprocess_exec(
                *command,
                *("worker", "--processes", str(self._processes)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "HARVESTER_IDLE_SECONDS": "-1", TOLD: "1"},
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        if self._draining.is_set():  # the signal may have come during the start
            self.drain()
        bounding = asyncio.create_task(self._bound_log())
        try:
            return as_stopped(await process.wait())
        finally:
            self._process = None
            await stop(bounding)

    async def _bound_log(self) -> None:
        while True:
            await asyncio.sleep(LOG_LOOK_S)
            try:
                if self.log.stat().st_size > MOST_LOG_BYTES:
                    await asyncio.to_thread(shutil.copyfile, self.log, self.log.with_name(f"{LOG}.1"))
                    os.truncate(self.log, 0)
            except OSError as error:
                self._say(f"{self.log} grows beyond {size(MOST_LOG_BYTES)}, and cannot be begun anew: {error}.")

    def drain(self) -> None:
        """Lets the workers finish requests in flight; a second call ends them at once."""
        self._draining.set()
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def _last_words(self) -> str:
        lines: list[str] = []
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - LAST_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
        return "\n  ".join(["", *lines, f"All they said is in {self.log}."])


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to `up`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _only_one(config: Config) -> Iterator[Path]:
    """Allows one process per folder. Yields the path of the file for its address.

    Raises UsageError when another process runs.
    """
    folder = config.state_dir
    address = folder / ADDRESS
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        make_closed(folder)
        lock.acquire()
    except Timeout:
        where = address.read_text("ascii", "replace") if address.exists() else "it is being started"
        raise UsageError(f"harvester up runs in {folder.absolute()} already: {where}.") from None
    except OSError as error:
        remedy = "Go to another folder, or set HARVESTER_STATE_DIR and HARVESTER_DATA_DIR to folders you may write to."
        raise StorageError(f"{error.filename or folder} cannot be written: {error.strerror}. {remedy}") from None
    try:
        yield address
    finally:
        lock.release()


@contextmanager
def _listening(wanted: UpOptions) -> Iterator[socket.socket]:
    """Yields a listening socket. Raises UsageError when the port or address cannot be used."""
    try:
        found = socket.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        made = socket.create_server(found[0][4][:2], family=found[0][0])
    except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
        why = getattr(error, "strerror", None) or str(error)
        remedy = "Give an address of this machine with --host."
        if getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES):
            remedy = "Give another one with --port, or 0 for any that is free."
        raise UsageError(f"{wanted.host}:{wanted.port} cannot be used: {why}. {remedy}") from None
    with made:
        yield made


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _greet(config: Config, wanted: UpOptions, url: str, link: str, token: str, say: Say) -> None:
    say(f"The control room: {url}")
    if not logs.is_json():  # collected logs must not contain secrets
        say(f"To log one browser in, once, within ten minutes: {link}")
    path = config.state_dir / FILE
    if token and not logs.is_json():
        say(f"The token of this folder, which is shown this once and kept in {path}:\n  {token}")
    else:
        say(f"The token of this folder is kept in {path}.")
    workers = f"{counted(wanted.workers, 'worker')} for all open jobs, whose log is {config.state_dir / LOG}"
    say(f"{workers if wanted.workers else 'No workers'}. Ctrl-C ends it all in good order.")
