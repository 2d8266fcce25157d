"""Valkey servers of a test's own: with a password, by TLS, behind a Sentinel."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from harvester.stores.servers.binaries import find_binary
from harvester.stores.servers.kinds import Redis
from tests.ports import free_port


@contextlib.contextmanager
def valkey(folder: Path, *options: str, port: int = 0, sentinel: bool = False) -> Iterator[int]:
    """Port of a server that runs meanwhile. Options as on its command line, without the port."""
    port = port or free_port()
    command = [find_binary(Redis())]
    if sentinel:
        (folder / "sentinel.conf").write_text("")
        command += [str(folder / "sentinel.conf"), "--sentinel"]
    else:
        command += ["--save", "", "--appendonly", "yes"]
    command += ["--bind", "127.0.0.1", "--dir", str(folder), "--port", str(port)]
    with (folder / f"valkey-{port}.log").open("ab") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log)
    try:
        _await_port(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def tls_in_front(plain: int, certificate: Path, key: Path) -> AsyncIterator[int]:
    """Port at which the server of that port is reached by TLS: the Valkey in the wheel is built without it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", plain)
        for pair in ((reader, back), (there, writer)):
            task = asyncio.create_task(copy(*pair))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield int(server.sockets[0].getsockname()[1])
        if tasks:
            await asyncio.wait(tasks)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server ended with {process.returncode}; see its log"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing listens on port {port}")
