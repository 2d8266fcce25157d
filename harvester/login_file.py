"""The file in which a login session is kept between runs and between processes."""

import json
import logging
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from harvester.exceptions import StorageError

logger = logging.getLogger(__name__)

_OTHERS = 0o077


class Session(BaseModel):
    """An account's login. Its repr shows no token."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    did: str
    handle: str
    pds: str
    """Origin of the account's own PDS, the only host that may see the tokens."""
    access: SecretStr
    refresh: SecretStr
    """Serves once."""
    renew_at: float
    """Unix time from which `access` is to be renewed."""


class SessionFile:
    """Readable by its owner only, replaced as a whole. Callers of `read` and `write` hold `lock_path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lock_path = Path(f"{path}.lock")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _close_to_others(path.parent, 0o700)
        except OSError as error:
            raise StorageError(f"Login sessions cannot be kept in {path.parent}: {error}") from None

    def read(self) -> Session | None:
        """None when there is no file, or none that can be used."""
        try:
            text = self._path.read_bytes()
            _close_to_others(self._path, 0o600)
            return Session.model_validate_json(text)
        except FileNotFoundError:
            return None
        except ValidationError:
            logger.warning("%s holds no login session; it is ignored and will be replaced", self._path)
            return None
        except OSError as error:
            raise StorageError(f"The login session {self._path} cannot be read: {error}") from None

    def write(self, session: Session) -> None:
        tokens = {"access": session.access.get_secret_value(), "refresh": session.refresh.get_secret_value()}
        text = json.dumps(session.model_dump() | tokens)
        new = Path(f"{self._path}.new")
        try:
            new.unlink(missing_ok=True)  # left by a process that was killed
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise StorageError(f"The login session {self._path} cannot be written: {error}") from None


def _close_to_others(path: Path, mode: int) -> None:
    if os.name == "posix" and path.stat().st_mode & _OTHERS:  # elsewhere the folder's access list decides
        logger.warning("%s could be read by others; it no longer can", path)
        path.chmod(mode)
