"""Files for sessions, between runs and processes: readable by their owner only, and replaced as a whole."""

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from harvester.exceptions import StorageError
from harvester.stores.private_files import OTHERS, make_closed

logger = logging.getLogger(__name__)

Pause = Callable[[float, str], Awaitable[None]]
"""Waits this many seconds for a host, or for another process if the host is empty. May raise to give up."""

POLL_S = 0.1
"""Seconds between two checks whether another process has released a lock."""


class SecretFile:
    """One file of secrets. Callers that read it and then write it hold `alone`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock_path = Path(f"{path}.lock")
        self._name, self._new_path = str(path), f"{path}.new"  # strings, because some sites write it for each page
        try:
            make_closed(path.parent)
            close_to_others(path.parent, 0o700)
        except OSError as error:
            raise StorageError(f"Login sessions cannot be kept in {path.parent}: {error}") from None

    def read(self) -> bytes | None:
        """Returns the content, None without a file."""
        try:
            text = self.path.read_bytes()
            close_to_others(self.path, 0o600)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"The login session {self.path} cannot be read: {error}") from None
        return text

    def write(self, text: str, *, synced: bool = True) -> None:
        """Replaces the file. Pass synced=False for content that a power failure may take without harm."""
        try:
            with os.fdopen(self._open_new(), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                if synced:
                    os.fsync(file.fileno())
            os.replace(self._new_path, self._name)
        except OSError as error:
            raise StorageError(f"The login session {self.path} cannot be written: {error}") from None

    def _open_new(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            return os.open(self._new_path, flags, 0o600)
        except FileExistsError:  # a killed process left it
            os.unlink(self._new_path)
            return os.open(self._new_path, flags, 0o600)

    @asynccontextmanager
    async def alone(self, pause: Pause, waiting_for: str) -> AsyncIterator[None]:
        """Locks the file against other processes. The lock of a killed process is free."""
        lock = FileLock(self.lock_path, timeout=0, mode=0o600, thread_local=False)
        told = False
        while not lock.is_locked:
            try:
                lock.acquire()
            except Timeout:
                if not told:
                    logger.info("Another process is %s; waiting for it", waiting_for)
                told = True
                await pause(POLL_S, "")
            except OSError as error:
                raise StorageError(f"Login sessions cannot be kept in {lock.lock_file}: {error}") from None
        try:
            yield
        finally:
            lock.release()


def close_to_others(path: Path, mode: int) -> None:
    if os.name == "posix" and path.stat().st_mode & OTHERS:  # elsewhere the folder's access list decides
        logger.warning("%s could be read by others; it no longer can", path)
        path.chmod(mode)
