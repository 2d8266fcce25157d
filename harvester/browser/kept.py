"""Cookies and local storage of a browser that are kept for the next page and the next run, readable by nobody else."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from harvester.config import Config
from harvester.exceptions import StorageError

State = dict[str, Any]
"""As Playwright's storage_state: `cookies` and `origins`."""


def path_of(config: Config, name: str) -> Path:
    """The file of a session."""
    return config.state_dir / "sessions" / f"browser-{name}.json"


def load(path: Path) -> State | None:
    """What was kept, or None. A file that cannot be read is as none."""
    try:
        state = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and isinstance(state.get("cookies"), list) else None


def save(path: Path, state: State) -> None:
    """Keeps it, with mode 0600 from the first byte on. Raises StorageError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # its mode is 0600
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.replace(temporary, path)
    except OSError as error:
        raise StorageError(f"The browser's session cannot be kept in {path}: {error.strerror or error}.") from None
