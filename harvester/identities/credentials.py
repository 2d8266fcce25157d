"""Names and passwords by which identities sign in: from the environment, `.env`, or a file for the owner only."""

import os
from pathlib import Path

from dotenv import dotenv_values
from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.masking import mask
from harvester.stores.private_files import OTHERS

FILE = "credentials.env"
"""In the state folder, with lines as in `.env`."""


class Credentials:
    """A user and a password. They are shown nowhere."""

    def __init__(self, name: str, user: str, password: SecretStr) -> None:
        self.name = name
        self._user = user
        self._password = password
        mask.add(user, password.get_secret_value())

    def fill(self, template: str) -> str:
        """`{user}` and `{password}` replaced."""
        return template.replace("{user}", self._user).replace("{password}", self._password.get_secret_value())

    def hide(self, text: str) -> str:
        """What a server says of a login, without what it repeats of the secrets."""
        return mask(text).replace(self._password.get_secret_value(), "***").replace(self._user, "***")

    def secret(self) -> bytes:
        """Both as one."""
        return f"{self._user}\0{self._password.get_secret_value()}".encode()


def variables(name: str) -> tuple[str, str]:
    """The names of the two variables of credentials."""
    return f"HARVESTER_SESSION_{name}_USER", f"HARVESTER_SESSION_{name}_PASSWORD"


def credentials_of(name: str, config: Config) -> Credentials:
    """Raises UsageError when there are none."""
    path = config.state_dir / FILE
    known: dict[str, str | None] = {**dotenv_values(path)} if _is_private(path) else {}
    env_file = Config.model_config.get("env_file")
    known |= dotenv_values(env_file) if isinstance(env_file, str) else {}
    known |= os.environ
    user, password = (known.get(variable) or "" for variable in variables(name))
    if not user or not password:
        wanted = " and ".join(variables(name))
        raise UsageError(f"The credentials {name} are missing. Set {wanted} in the environment, in .env or in {path}.")
    return Credentials(name, user, SecretStr(password))


def _is_private(path: Path) -> bool:
    """Whether it is there. Raises UsageError when others may read it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if os.name == "posix" and mode & OTHERS:
        raise UsageError(f"{path} holds passwords and can be read by others. Mend it: chmod 600 {path}")
    return True
