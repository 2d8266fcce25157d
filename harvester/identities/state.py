"""A session, and all that is kept of an identity between runs and between processes."""

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
    """What an identity has from one login to the next. Its repr shows no secret."""

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
        """Seconds of the epoch from which it is to be replaced. 0: when it is refused."""
        self.generation = generation or secrets.token_hex(6)
        """Of no use to anyone but to tell this session from the next one."""
        self.origin = origin
        """Scheme, host and port of the only server that may see it. Empty: all hosts of the site."""
        self.let_in_at = 0.0
        """When the last request was sent that the site let in, in seconds of the epoch."""

    def __repr__(self) -> str:
        return f"<Session {self.generation}>"

    def at_origin(self, url: str) -> str:
        """The same address at the session's own server, if it has one."""
        return self.origin + urlunsplit(("", "", *urlsplit(url)[2:])) if self.origin else url

    def may_go_to(self, url: str) -> bool:
        """Whether its own server, if it has one, is asked there."""
        return self.origin in ("", origin_of(url))


class IdentityState(msgspec.Struct, omit_defaults=True):
    """The content of an identity's file."""

    proxy_session: str
    generation: str = ""
    """Empty: there is no session."""
    cookies: list[dict[str, Any]] = []
    headers: dict[str, str] = {}
    refresh_token: str = ""
    renew_at: float = 0.0
    origin: str = ""
    logins: list[float] = []
    """When logins were tried in the last hour, in seconds of the epoch."""
    try_at: float = 0.0
    """After logins that failed by the network: when the next one may be tried."""
    failures: int = 0
    """Of such logins, in a row."""
    barred: tuple[str, str] = ("", "")
    """Outcome and reason of the page with which the site let nobody in, if that is why the last login failed."""
    refused: str = ""
    """What was said of the credentials `refused_digest`."""
    refused_digest: str = ""
    refused_at: float = 0.0
    health: tuple[float, float, int, float] = (1.0, 0.0, 0, 0.0)
    chain: str = ""
    """The chain of requests that has this cookie jar for itself (serial sites)."""
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
        """It becomes the session that is kept."""
        self.generation, self.cookies, self.headers = session.generation, session.jar.kept(), session.headers
        self.refresh_token, self.renew_at, self.origin = session.refresh_token, session.renew_at, session.origin


class StateFile:
    """Callers that read and write hold `kept.alone`."""

    def __init__(self, path: Path) -> None:
        self.kept = SecretFile(path)
        self._name = str(path)
        self._seen: tuple[int, int] | None = None

    def changed(self) -> bool:
        """Whether another process has written it since it was read or written here. Cheap."""
        return self._mark() != self._seen

    def read(self) -> IdentityState:
        """A fresh one when there is no file, or none that can be used."""
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
