"""A browser's cookies and local storage, saved for the next page and run, and readable by the owner only."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harvester.config import Config
from harvester.exceptions import StorageError
from harvester.identities.secret_file import SecretFile

State = dict[str, Any]
"""Playwright's storage_state: `cookies` and `origins`."""
Guard = Callable[[State, Callable[[], bool]], bool]
"""Saves a state with the given function and returns its result, or returns False without a call."""


def path_of(config: Config, name: str) -> Path:
    """Returns the file of a session."""
    return config.state_dir / "sessions" / f"browser-{name}.json"


class SavedSession:
    """The file of a session, as one context read it. Newer content from others is not overwritten."""

    def __init__(self, path: Path, guard: Guard | None = None) -> None:
        self._path = path
        self._guard = guard
        self._seen: tuple[int, int] | None = None
        self._state: State | None = None

    def load(self) -> State | None:
        """Returns the saved state, None without a readable one."""
        self._seen = self._mark()
        try:
            state = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return None
        self._state = state if isinstance(state, dict) and isinstance(state.get("cookies"), list) else None
        return self._state

    def save(self, state: State) -> bool:
        """Saves the state, with mode 0600 from the first byte on.

        Returns False if another context has saved a newer one, which must be loaded, or if the session has ended.
        Raises Timeout while another process uses the file, and StorageError.
        """
        if state == self._state:
            return self._mark() == self._seen
        return self._guard(state, lambda: self._write(state)) if self._guard else self._write(state)

    def _write(self, state: State) -> bool:
        file = SecretFile(self._path)
        try:
            with FileLock(file.lock_path, timeout=0, mode=0o600, thread_local=False):
                if self._mark() != self._seen:
                    return False
                file.write(json.dumps(state), synced=False)
                self._seen, self._state = self._mark(), state
        except Timeout:
            raise
        except OSError as error:
            raise StorageError(f"The browser's session cannot be kept in {self._path}: {error}.") from None
        return True

    def _mark(self) -> tuple[int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns
