"""The lock of a cookie jar that processes use in turns. It is claimed for each request, so its file stays open."""

import os
from collections.abc import Callable
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from harvester.stores.private_files import open_closed


class TurnLock:
    """A lock for one process at a time, which may claim it several times. The lock of a killed process is free."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self._taken = 0

    def acquire(self) -> bool:
        """Claims the lock. Returns True if this process has it now."""
        if self._file < 0:
            self._file = open_closed(self._path, os.O_RDWR)
        if not self._taken and not lock_descriptor(self._file, blocking=False):
            return False
        self._taken += 1
        return True

    def release(self) -> None:
        self._taken -= 1
        if not self._taken:
            unlock_descriptor(self._file)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at the end of Python `os` may be gone
        if self._file >= 0:
            close(self._file)
