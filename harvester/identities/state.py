"""A session, and the state of an identity that is saved between runs and processes."""

import logging
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from harvester.download.addresses import origin_of
from harvester.identities.cookies import Jar
from harvester.identities.secret_file import SecretFile
from harvester.masking import mask

logger = logging.getLogger(__name__)


class Session:
    """The state of an identity from one login to the next. Its repr shows no secret."""

    def __init__(
        self,
        jar: Jar,
        headers: dict[str, str],
        *,
        refresh_token: str = "",
        renew_at: float = 0.0,
        generation: str = "",
        origin: str = "",
    ) -> None:
        mask.add_passing(refresh_token, *(value.rpartition(" ")[2] for value in headers.values()))
        self.jar = jar
        self.headers = headers
        self.refresh_token = refresh_token
        self.renew_at = renew_at
        """Epoch seconds of the planned replacement; 0 if only a refusal ends the session."""
        self.generation = generation or secrets.token_hex(6)
        """A random name that distinguishes the session from the next one."""
        self.origin = origin
        """Scheme, host and port of the only server that may see it; empty for all hosts of the site."""
        self.let_in_at = 0.0
        """Time of the last request that the site accepted, in epoch seconds."""

    def __repr__(self) -> str:
        return f"<Session {self.generation}>"

    def at_origin(self, url: str) -> str:
        """Returns the address at the session's own server, if it has one."""
        return self.origin + urlunsplit(("", "", *urlsplit(url)[2:])) if self.origin else url

    def may_go_to(self, url: str) -> bool:
        """Returns True if the address belongs to the session's own server, or it has none."""
        return self.origin in ("", origin_of(url))


class IdentityState(msgspec.Struct, omit_defaults=True):
    """The content of an identity's file."""

    proxy_session: str
    generation: str = ""
    """Empty without a session."""
    cookies: list[dict[str, Any]] = []
    headers: dict[str, str] = {}
    refresh_token: str = ""
    renew_at: float = 0.0
    origin: str = ""
    logins: list[float] = []
    """Times of the logins in the last hour, in epoch seconds."""
    try_at: float = 0.0
    """Time of the next login after one that failed by the network."""
    failures: int = 0
    """Logins in a row that failed by the network."""
    barred: tuple[str, str] = ("", "")
    """Outcome and reason of the page that refused the last login, if one did."""
    refused: str = ""
    """The message when the credentials `refused_digest` were refused."""
    refused_digest: str = ""
    refused_at: float = 0.0
    health: tuple[float, float, int, float] = (1.0, 0.0, 0, 0.0)
    chain: str = ""
    """The chain of requests that owns the cookie jar (serial sites)."""
    chain_at: float = 0.0

    def __repr__(self) -> str:
        return f"<State {self.generation}>"

    def session(self) -> Session | None:
        if not self.generation:
            return None
        return Session(
            Jar(self.cookies),
            self.headers,
            refresh_token=self.refresh_token,
            renew_at=self.renew_at,
            generation=self.generation,
            origin=self.origin,
        )

    def take(self, session: Session) -> None:
        """Stores the session."""
        self.generation, self.cookies, self.headers = session.generation, session.jar.kept(), session.headers
        self.refresh_token, self.renew_at, self.origin = session.refresh_token, session.renew_at, session.origin


class StateFile:
    """The file of an identity. Callers that read and write it hold `kept.alone`."""

    def __init__(self, path: Path) -> None:
        self.kept = SecretFile(path)
        self._name = str(path)
        self._seen: tuple[int, int] | None = None

    def changed(self) -> bool:
        """Returns True if another process has written the file since this one read or wrote it. Cheap."""
        return self._mark() != self._seen

    def read(self) -> IdentityState:
        """Reads the state. Returns a new one without a usable file."""
        self._seen = self._mark()
        text = self.kept.read()
        if text is not None:
            try:
                state = msgspec.json.decode(text, type=IdentityState)
                if all(cookie.keys() >= {"name", "value", "domain"} for cookie in state.cookies):
                    return state
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass
            logger.warning("%s holds no session; it is ignored and will be replaced", self.kept.path)
        return IdentityState(proxy_session=secrets.token_hex(6))

    def write(self, state: IdentityState, *, synced: bool = True) -> None:
        self.kept.write(msgspec.json.encode(state).decode(), synced=synced)
        self._seen = self._mark()

    def _mark(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self._name)
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns
