"""The contents of a private server's folder: process ids and ports, the secret, the sockets, and the server's log."""

import contextlib
import json
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from harvester.masking import mask
from harvester.stores.private_files import is_closed, open_closed
from harvester.stores.servers.kinds import PrivateServer

LOG_LIMIT_BYTES = 8 * 1024 * 1024
"""Maximum number of bytes of the log. A larger log replaces `server.log.1`."""


class ServerState(NamedTuple):
    """The contents of `state.json` in the server's folder.

    A pid of 0 means no process. A port of 0 means a socket in `sockets`.
    """

    supervisor_pid: int = 0
    supervisor_port: int = 0
    server_pid: int = 0
    server_port: int = 0
    sockets: str = ""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Returns the last written state; an empty state if the file is missing or unreadable."""
        try:
            values: dict[str, Any] = json.loads((folder / "state.json").read_text())
            return cls(**values)
        except (OSError, ValueError, TypeError):
            return cls()

    def write(self, folder: Path) -> None:
        """Replaces the file atomically."""
        draft = folder / "state.json.new"
        with os.fdopen(open_closed(draft, os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(json.dumps(self._asdict()))
        draft.replace(folder / "state.json")


def gone(server: PrivateServer, folder: Path) -> str:
    """Returns the message for a server whose folder was removed or replaced while it ran."""
    return (
        f"The folder {folder}, in which the private {server.title} kept its data, was removed while it was in use."
        " What was in it is lost, unless it was moved: then put it back. Otherwise the same command begins anew."
    )


def secret_path(folder: Path) -> Path:
    """Returns the path of the secret that the server and its supervisor require."""
    return folder / "secret"


def make_secret(folder: Path) -> None:
    """Makes the secret unless a file exists that only this user can have read."""
    path = secret_path(folder)
    with contextlib.suppress(FileNotFoundError):
        if is_closed(path) and path.stat().st_size:
            return
    draft = path.with_name("secret.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(open_closed(draft, os.O_WRONLY | os.O_EXCL), "w") as file:
        file.write(secrets.token_hex(32))  # letters and digits, which need no escapes
    draft.replace(path)


def read_secret(folder: Path) -> str:
    """Returns the secret. Raises OSError if it is missing."""
    secret = secret_path(folder).read_text().strip()
    mask.add(secret)
    return secret


_MISREAD = frozenset(",:[]")
"""Characters that mongod misreads in a socket's path, as a separator of several paths or as part of a host."""
SERVER_SOCKET, SUPERVISOR_SOCKET = "server.sock", "supervisor.sock"


def sockets_folder(folder: Path) -> Path | None:
    """Returns a folder for the sockets that is closed to others; None on platforms without Unix sockets.

    The server's own folder is preferred. If its path is too long for a socket, or misread by servers, or if its file
    system has no sockets, a short folder is made, and used again the next time.
    """
    if not has_unix_sockets():
        return None
    if _holds_sockets(folder):
        return folder
    if (before := ServerState.read(folder).sockets) and _holds_sockets(Path(before)):
        return Path(before)
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir()):
        with contextlib.suppress(OSError):
            short = Path(tempfile.mkdtemp(prefix="harvester-", dir=base or None))  # mode 0700
            if _holds_sockets(short):
                return short
            short.rmdir()
    return None


def has_unix_sockets() -> bool:
    """True if servers and clients can communicate through a Unix socket here."""
    return os.name == "posix"


def _holds_sockets(folder: Path) -> bool:
    name = str(folder)
    if _MISREAD.intersection(name) or not name.isprintable():  # bytes that are not UTF-8 are not printable either
        return False
    trial = folder / "supervisor.try!"  # as long as the longest name
    try:
        found = folder.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(trial))
        trial.unlink()
    except OSError:
        return False
    return True


def running_in(folder: Path, pid: int) -> psutil.Process | None:
    """Returns the process if its working directory is this folder, since the pid may belong to another process now.

    Start times are unreliable, since they shift when the clock is set.
    """
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder:
            return process
    except psutil.Error:
        pass
    return None


def log_path(folder: Path) -> Path:
    """Returns the log file of the server and its supervisor."""
    return folder / "server.log"


def log_size(folder: Path) -> int:
    """Returns the size of the log in bytes; 0 if it is missing."""
    try:
        return log_path(folder).stat().st_size
    except FileNotFoundError:
        return 0


def bound_log(folder: Path) -> None:
    """Keeps the log below its limit. The server appends to the file, so it continues at the new end."""
    if log_size(folder) > LOG_LIMIT_BYTES:
        log = log_path(folder)
        with contextlib.suppress(OSError):  # on a full disk the older lines are lost
            shutil.copyfile(log, log.with_name("server.log.1"))
        os.truncate(log, 0)


def last_log_lines(folder: Path, offset: int = 0, count: int = 8) -> str:
    """Returns the lines about errors since the byte `offset`, indented and shortened for a person."""
    try:
        with log_path(folder).open("rb") as log:
            log.seek(max(offset, log_size(folder) - 100_000) if offset <= log_size(folder) else 0)
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return "  (no log)"
    errors = [line for line in lines if '"s":"E"' in line or '"s":"F"' in line]
    return "\n".join(f"  {_readable(line)[:400]}" for line in (errors or lines)[-count:])


def _readable(line: str) -> str:
    """Returns message and attributes from mongod's JSON lines; other lines unchanged."""
    try:
        entry = json.loads(line)
        return f"{entry['msg']} {json.dumps(entry['attr']) if 'attr' in entry else ''}".strip()
    except (ValueError, KeyError, TypeError):
        return line
