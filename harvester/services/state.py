"""What a supervisor leaves for others to read: a file that says who runs where, and the server's log."""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

LOG_LIMIT_BYTES = 8 * 1024 * 1024
"""A log that has grown beyond becomes `server.log.1`, in place of the one before."""


class State(NamedTuple):
    """Contents of `state.json` in the server's folder. A pid of 0: none."""

    supervisor_pid: int = 0
    supervisor_port: int = 0
    server_pid: int = 0
    server_port: int = 0

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The state last written; an empty one when there is none that can be read."""
        try:
            values: dict[str, Any] = json.loads((folder / "state.json").read_text())
            return cls(**values)
        except (OSError, ValueError, TypeError):
            return cls()

    def write(self, folder: Path) -> None:
        """Replaces the file as a whole."""
        draft = folder / "state.json.new"
        draft.write_text(json.dumps(self._asdict()))
        draft.replace(folder / "state.json")


def running_in(folder: Path, pid: int) -> psutil.Process | None:
    """The process, if its working directory is this folder: a pid may belong to another one by now.

    Start times would not do: they shift when the clock is set.
    """
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder:
            return process
    except psutil.Error:
        pass
    return None


def log_path(folder: Path) -> Path:
    """Where the server and its supervisor write."""
    return folder / "server.log"


def log_size(folder: Path) -> int:
    """In bytes; 0 when there is none."""
    try:
        return log_path(folder).stat().st_size
    except FileNotFoundError:
        return 0


def bound_log(folder: Path) -> None:
    """Keeps the log below its limit. The server appends to the file, so it goes on at the new end."""
    if log_size(folder) > LOG_LIMIT_BYTES:
        log = log_path(folder)
        with contextlib.suppress(OSError):  # on a full disk the older lines are given up
            shutil.copyfile(log, log.with_name("server.log.1"))
        os.truncate(log, 0)


def last_log_lines(folder: Path, offset: int = 0, count: int = 8) -> str:
    """The lines that say what went wrong since the byte `offset`, for a person: indented, shortened."""
    try:
        with log_path(folder).open("rb") as log:
            log.seek(max(offset, log_size(folder) - 100_000) if offset <= log_size(folder) else 0)
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return "  (no log)"
    errors = [line for line in lines if '"s":"E"' in line or '"s":"F"' in line]
    return "\n".join(f"  {_readable(line)[:400]}" for line in (errors or lines)[-count:])


def _readable(line: str) -> str:
    """Message and attributes of one of mongod's JSON lines; other lines as they are."""
    try:
        entry = json.loads(line)
        return f"{entry['msg']} {json.dumps(entry['attr']) if 'attr' in entry else ''}".strip()
    except (ValueError, KeyError, TypeError):
        return line
