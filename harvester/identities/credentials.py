"""Names and passwords by which identities sign in: from the environment, `.env`, or a file for the owner only."""

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
"""In the state folder, with lines as in `.env`."""


class Credentials:
    """A user and a password. They are shown nowhere."""

    def __init__(self, name: str, user: str, password: SecretStr, advice: str = "") -> None:
        self.name = name
        self.advice = advice or "Correct {} and {}, and start again.".format(*variables(name))
        """What to do when they are refused."""
        self._user = user
        self._password = password
        mask.add(password.get_secret_value())

    def fill(self, template: str) -> str:
        """`{user}` and `{password}` replaced."""
        return template.replace("{user}", self._user).replace("{password}", self._password.get_secret_value())

    def hide(self, text: str) -> str:
        """What a server says of a login, without what it repeats of the secrets."""
        return mask(text).replace(self._password.get_secret_value(), "***").replace(self._user, "***")

    def secret(self) -> bytes:
        """Both as one."""
        return f"{self._user}\0{self._password.get_secret_value()}".encode()


class SpiderAccount(NamedTuple):
    """In whose name requests with meta["authenticate"] go out, to the account's own server."""

    site: Site
    """Its table says how to sign in. No entry with identities may have its name."""
    credentials: Credentials


def variables(name: str) -> tuple[str, str]:
    """The names of the two variables of credentials."""
    return f"HARVESTER_SESSION_{name}_USER", f"HARVESTER_SESSION_{name}_PASSWORD"


def credentials_of(name: str, config: Config, *, a_key: bool = False) -> Credentials:
    """Raises UsageError when there are none. Of a key the password is all."""
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
    """Its variables. Raises UsageError when it cannot be read."""
    try:
        return {**dotenv_values(path)}
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{path}, which holds passwords, cannot be read: {said}. Mend it, or remove it.") from None


def _is_private(path: Path) -> bool:
    """Whether it is there. Raises UsageError when others may read it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if os.name == "posix" and mode & OTHERS:
        raise UsageError(f"{path} holds passwords and can be read by others. Mend it: chmod 600 {path}")
    return True
