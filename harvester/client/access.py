"""The address and token of a controller: from options, from settings, or the own token of this machine."""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from harvester.config import Config
from harvester.download.addresses import is_of_others, unusable
from harvester.exceptions import UsageError
from harvester.formatting import without_userinfo
from harvester.masking import mask
from harvester.stores.private_files import is_closed

API = "/api/v1"
"""Path prefix of the API. Users often include it in the controller's address."""
OWN_TOKEN = "token"
"""Name of a file in the state folder, with the token that a controller of this machine made for itself."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_is_token = re.compile(r"[\x21-\x7e]{8,500}").fullmatch


class ControllerAccess(NamedTuple):
    """The address of a controller, and the token for it."""

    url: str
    """The address, without a slash at its end."""
    token: str

    def __repr__(self) -> str:
        return f"ControllerAccess(url={self.url!r})"


def access_of(config: Config, url: str = "", token_file: Path | None = None) -> ControllerAccess | None:
    """Returns the controller to call, or None when no controller is named.

    Arguments take precedence over HARVESTER_URL and the token of the settings. Raises UsageError for a bad address, for
    one that would show the token in plain text to others, and when there is no token.
    """
    address = (url or config.url).rstrip("/").removesuffix(API).rstrip("/")
    if not address:
        return None
    if fault := unusable(address):
        raise UsageError(f"The controller's address {without_userinfo(address)[:200]!r} cannot be used: {fault}.")
    parts = urlsplit(address)
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError("The controller's address holds more than a place: give it as https://harvester.example.org.")
    if parts.scheme != "https" and is_of_others(address, config):
        raise UsageError(
            f"{address} would show the token to whoever is on the way: use https://, or name a host of your own network"
            " in HARVESTER_PRIVATE_HOSTS."
        )
    token = _token(config, token_file, is_here=parts.hostname in _LOOPBACK)
    if not _is_token(token):
        raise UsageError("The token of the controller is none: it is one line, as `harvester tokens add` prints it.")
    mask.add(token)
    return ControllerAccess(address, token)


def _token(config: Config, given: Path | None, *, is_here: bool) -> str:
    """Returns the token from a file, from the settings, or from this machine's own controller, in this order."""
    if given is None and config.token:
        return config.token.get_secret_value().strip()
    own = config.state_dir / OWN_TOKEN
    path = given or config.token_file or (own if is_here and own.exists() else None)
    if path is None:
        raise UsageError(
            "The controller wants a token: set HARVESTER_TOKEN, or give --token-file FILE. `harvester tokens add` makes"
            " one where the controller runs."
        )
    try:
        if not is_closed(path):
            raise UsageError(f"{path} can be read by others, and holds a token: chmod 600 it.")
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it holds no token"
        raise UsageError(f"The file of the token, {path}, cannot be read: {said}.") from None
