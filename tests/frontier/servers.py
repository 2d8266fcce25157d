"""Valkey servers of a test's own: with a password, TLS, as a cluster, behind a Sentinel."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from harvester.services.binaries import find_binary
from harvester.services.servers import Redis


@contextlib.contextmanager
def valkey(folder: Path, *options: str, port: int = 0, sentinel: bool = False) -> Iterator[int]:
    """Port of a server that runs meanwhile. Options as on its command line, without the port."""
    port = port or free_ports(1)[0]
    command = [find_binary(Redis())]
    if sentinel:
        (folder / "sentinel.conf").write_text("")
        command += [str(folder / "sentinel.conf"), "--sentinel"]
    else:
        command += ["--save", "", "--appendonly", "no"]
    command += ["--bind", "127.0.0.1", "--dir", str(folder)]
    command += [] if "--tls-port" in options else ["--port", str(port)]
    with (folder / f"valkey-{port}.log").open("ab") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log)
    try:
        _await_port(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server ended with {process.returncode}; see its log"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing listens on port {port}")


def free_ports(count: int, below: int = 65_536) -> list[int]:
    """Ports on which nothing listens. A cluster node needs one that has another 10,000 above it."""
    ports: list[int] = []
    while len(ports) < count:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port < below and port not in ports:
            ports.append(port)
    return ports
