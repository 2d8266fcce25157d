"""The login to Bluesky as it is kept between runs and between processes."""

import json
import logging
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from harvester.identities.secret_file import SecretFile
from harvester.masking import mask

logger = logging.getLogger(__name__)


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

    def model_post_init(self, context: object) -> None:
        mask.add_passing(self.access.get_secret_value(), self.refresh.get_secret_value())


class SessionFile:
    """Callers of `read` and `write` hold `kept.alone`."""

    def __init__(self, path: Path) -> None:
        self.kept = SecretFile(path)

    def read(self) -> Session | None:
        """None when there is no file, or none that can be used."""
        text = self.kept.read()
        try:
            return Session.model_validate_json(text) if text is not None else None
        except ValidationError:
            logger.warning("%s holds no login session; it is ignored and will be replaced", self.kept.path)
            return None

    def write(self, session: Session) -> None:
        tokens = {"access": session.access.get_secret_value(), "refresh": session.refresh.get_secret_value()}
        self.kept.write(json.dumps(session.model_dump() | tokens))
