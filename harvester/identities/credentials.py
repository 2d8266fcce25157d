"""Names and passwords of identities: from the environment, `.env`, or a private file in the state folder."""

import os
from pathlib import Path
from typing import NamedTuple

from dotenv import dotenv_values
from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.masking import mask
from harvester.sites import Site
from harvester.stores.private_files import OTHERS

FILE = "credentials.env"
"""File in the state folder, with lines as in `.env`."""


class Credentials:
    """A user and a password. They are never shown."""

    def __init__(self, name: str, user: str, password: SecretStr, advice: str = "") -> None:
        self.name = name
        self.advice = advice or "Correct {} and {}, and start again.".format(*variables(name))
        """The advice for people when the credentials are refused."""
        self._user = user
        self._password = password
        mask.add(password.get_secret_value())

    def fill(self, template: str) -> str:
        """Returns the template with `{user}` and `{password}` replaced."""
        return template.replace("{user}", self._user).replace("{password}", self._password.get_secret_value())

    def hide(self, text: str) -> str:
        """Returns a server's message about a login, without the secrets that it repeats."""
        return mask(text).replace(self._password.get_secret_value(), "***").replace(self._user, "***")

    def secret(self) -> bytes:
        """Returns user and password as bytes."""
        return f"{self._user}\0{self._password.get_secret_value()}".encode()


class SpiderAccount(NamedTuple):
    """The account of requests with meta["authenticate"]; they go to the account's own server."""

    site: Site
    """A site whose table describes the login. No entry with identities may have its name."""
    credentials: Credentials


def variables(name: str) -> tuple[str, str]:
    """Returns the names of the two variables of credentials."""
    return f"HARVESTER_SESSION_{name}_USER", f"HARVESTER_SESSION_{name}_PASSWORD"


def credentials_of(name: str, config: Config, *, a_key: bool = False) -> Credentials:
    """Returns the credentials. Raises UsageError when they are missing. A key needs the password only."""
    path = config.state_dir / FILE
    known = _read(path) if _is_private(path) else {}
    env_file = Config.model_config.get("env_file")
    known |= dotenv_values(env_file) if isinstance(env_file, str) else {}
    known |= os.environ
    user, password = (known.get(variable) or "" for variable in variables(name))
    if not password or not (user or a_key):
        wanted = " and ".join(variables(name)[a_key:])
        raise UsageError(f"The credentials {name} are missing. Set {wanted} in the environment, in .env or in {path}.")
    mask.add(user)
    return Credentials(name, user, SecretStr(password))


def _read(path: Path) -> dict[str, str | None]:
    """Reads the variables of a file. Raises UsageError when it cannot be read."""
    try:
        return {**dotenv_values(path)}
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{path}, which holds passwords, cannot be read: {said}. Mend it, or remove it.") from None


def _is_private(path: Path) -> bool:
    """Returns True if the file exists. Raises UsageError when others may read it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if os.name == "posix" and mode & OTHERS:
        raise UsageError(f"{path} holds passwords and can be read by others. Mend it: chmod 600 {path}")
    return True
