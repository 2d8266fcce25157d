"""The login to Bluesky: two tokens, kept in a file, shared by processes, renewed in time. No Scrapy here.

Servers are asked by a client of its own and not through the crawl, so that no password and no token can come
by Scrapy's log, queues, caches or archives. The calls are few: one at a time, however many processes there are.
"""

import asyncio
import json
import logging
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import SessionError, UsageError
from harvester.identities.bluesky_calls import Answer, LoginCalls
from harvester.identities.bluesky_file import Session, SessionFile
from harvester.identities.secret_file import Pause

logger = logging.getLogger(__name__)

MARGIN_S = 60.0
"""A token is renewed so long before it ends; a short-lived one a quarter of its life before."""
HEARTBEAT_S = 300.0
"""How often a session in use is checked."""
MOST_RENEWALS = 3
"""In a row, of tokens that are refused without having been accepted once."""

HOW_TO = (
    "Create an app password in Bluesky (Settings > Privacy and security > App passwords) and set "
    "HARVESTER_BLUESKY_IDENTIFIER and HARVESTER_BLUESKY_APP_PASSWORD, or unset both to go without a login."
)

_REASONS: Mapping[str, str] = {
    "AuthFactorTokenRequired": "it wants a code sent by e-mail; sign in with an app password instead",
    "AccountTakedown": "the account has been taken down",
}
_is_app_password = re.compile(r"[a-z0-9]{4}(-[a-z0-9]{4}){3}", re.IGNORECASE).fullmatch
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Login:
    """One account's login: ask `session()` before each use, `renew()` when a server refuses a token."""

    def __init__(self, config: Config, identifier: str, password: SecretStr, pause: Pause) -> None:
        self.service = _checked_service(config)
        self.identifier = identifier.strip().removeprefix("@")
        self._password = SecretStr(password.get_secret_value().strip())
        self._pause = pause
        self._calls = LoginCalls(config.user_agent, pause)
        name = quote(f"{self.identifier.lower()}@{urlsplit(self.service).netloc}", safe="@")
        self._file = SessionFile(config.state_dir / "sessions" / f"{name}.json")
        self._turn = asyncio.Lock()
        self._held: Session | None = None
        self._check_at = 0.0
        self._fruitless = 0
        self._failure: SessionError | None = None
        if not _is_app_password(self._password.get_secret_value()):
            logger.warning(
                "The password of %s does not look like an app password (xxxx-xxxx-xxxx-xxxx). "
                "One is safer: it can be revoked by itself and cannot change the account.",
                self.identifier,
            )

    @classmethod
    def from_config(cls, config: Config, pause: Pause | None = None) -> Self | None:
        """None when no login is configured. Raises UsageError when half of one is."""
        identifier, password = config.bluesky_identifier, config.bluesky_app_password
        if not identifier and not password:
            return None
        if not identifier or not password or not password.get_secret_value().strip():
            raise UsageError(f"A login needs an identifier and a password, and one is missing. {HOW_TO}")
        return cls(config, identifier, password, pause or _sleep)

    async def session(self) -> Session:
        """A session to use now. Raises SessionError when there can be none, and from then on always."""
        held = self._held
        if held is not None and time.time() < min(held.renew_at, self._check_at):
            return held
        async with self._next():
            held = self._held
            if held is None or time.time() >= held.renew_at:
                held = await self._renewed(held)
            while time.time() >= self._check_at:
                if not await self._alive(held):
                    held = await self._renewed(held)
            return held

    async def renew(self, refused: str) -> None:
        """Replace an access token that a server refused. Of many callers with the same one, the first does it."""
        async with self._next():
            held = self._held
            if held is not None and held.access.get_secret_value() != refused:
                return
            if self._fruitless == MOST_RENEWALS:
                raise SessionError(f"{self.service} gives {self.identifier} tokens that are refused at once.")
            await self._renewed(held)
            self._fruitless += 1

    def accepted(self) -> None:
        """To be called when a server accepted a token."""
        self._fruitless = 0

    @asynccontextmanager
    async def _next(self) -> AsyncIterator[None]:
        """One caller at a time. What failed is not tried again: logins are limited to 30 in 5 minutes."""
        async with self._turn:
            if self._failure is not None:
                raise SessionError(str(self._failure))
            await self._pause(0, "")  # gives up for those who were in the queue when the crawl was stopped
            try:
                yield
            except SessionError as error:
                self._failure, self._held = error, None
                raise

    async def _renewed(self, refused: Session | None) -> Session:
        """The session of another process when it has a newer one, else a refreshed one, else a new one."""
        # A refresh token serves once; the others use what the first one gets.
        async with self._file.kept.alone(self._pause, f"logging in as {self.identifier}"):
            stored = self._file.read()
            newer = stored is not None and (refused is None or stored.access != refused.access)
            if stored is not None and newer and time.time() < stored.renew_at:
                logger.info("Using the kept login of %s at %s", stored.handle, stored.pds)
                self._held, self._check_at = stored, 0.0
                return stored
            old = stored or refused
            session = (await self._refreshed(old) if old else None) or await self._created()
            self._held, self._check_at = session, time.time() + HEARTBEAT_S
            self._file.write(session)
            return session

    async def _refreshed(self, old: Session) -> Session | None:
        """None when the server refuses the refresh token, which serves once and ends after some months."""
        answer = await self._calls.call("POST", old.pds, "refreshSession", token=old.refresh)
        session = self._read(answer, old.pds)
        if session is None:
            said = f"HTTP {answer.status} {answer.body.get('error') or ''}"
            logger.info("%s does not refresh the login of %s: %s", old.pds, old.handle, said)
        else:
            logger.info("Refreshed the login of %s at %s", session.handle, session.pds)
        return session

    async def _created(self) -> Session:
        password = self._password.get_secret_value()
        body = {"identifier": self.identifier, "password": password}
        answer = await self._calls.call("POST", self.service, "createSession", body=body)
        session = self._read(answer, self.service)
        if session is None:
            name = str(answer.body.get("error") or "")
            message = str(answer.body.get("message") or "its answer holds no session")
            reason = _REASONS.get(name, message.replace(password, "***")[:200])
            said = f"HTTP {answer.status} {name}".rstrip()
            raise SessionError(f"{self.service} refused the login of {self.identifier}: {reason} ({said}). {HOW_TO}")
        logger.info("Logged in as %s at %s", session.handle, session.pds)
        return session

    async def _alive(self, session: Session) -> bool:
        """The heartbeat. False when the token is refused; a server that does not answer says nothing."""
        try:
            answer = await self._calls.call("GET", session.pds, "getSession", token=session.access, tries=1)
        except SessionError as error:
            logger.warning("The login could not be checked: %s", error)
        else:
            if is_refusal(answer.status, answer.body.get("error")):
                return False
            if answer.body.get("active") is False:
                logger.warning("The account %s is %s", session.handle, answer.body.get("status") or "inactive")
        self._check_at = time.time() + HEARTBEAT_S
        return True

    def _read(self, answer: Answer, pds: str) -> Session | None:
        """The session in an answer, at `pds` when the answer does not name the account's own."""
        body = answer.body
        parts = [body.get(key) for key in ("did", "accessJwt", "refreshJwt")]
        if answer.status != 200 or not all(isinstance(part, str) and part for part in parts):
            return None
        did, access, refresh = map(str, parts)
        return Session(
            did=did,
            handle=str(body.get("handle") or did),
            pds=_own_pds(body.get("didDoc"), self.service) or pds,
            access=SecretStr(access),
            refresh=SecretStr(refresh),
            renew_at=_renew_at(access),
        )


def is_refusal(status: int, error: object) -> bool:
    """Whether an answer refuses the access token: 400 from a PDS, 401 from the AppView."""
    return status in (400, 401) and error in ("ExpiredToken", "InvalidToken")


def origin(url: str) -> str:
    """Scheme, host and port of an address. One with a user name in it equals no plain origin."""
    parts = urlsplit(url)
    default = {"https": ":443", "http": ":80"}.get(parts.scheme, "")
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(default)}"


async def _sleep(seconds: float, host: str) -> None:
    await asyncio.sleep(seconds)


def _checked_service(config: Config) -> str:
    """The origin to log in at. Raises UsageError when it is none, or the password would travel in the clear."""
    address = config.bluesky_pds.strip()
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise UsageError(f"HARVESTER_BLUESKY_PDS is {address!r}, not an address like https://bsky.social")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not config.allow_private_hosts:
        raise UsageError(f"HARVESTER_BLUESKY_PDS is {address!r}: a password is sent over https only")
    return origin(address)


def _own_pds(did_document: object, service: str) -> str | None:
    """Origin of the account's own PDS; None when it is not named, or less protected than the login was."""
    services = did_document.get("service") if isinstance(did_document, dict) else None
    for entry in services if isinstance(services, list) else ():
        if isinstance(entry, dict) and str(entry.get("id")).endswith("#atproto_pds"):
            found = origin(str(entry.get("serviceEndpoint")))
            if found.startswith("https://") or (found.startswith("http://") and service.startswith("http://")):
                return found
    return None


def _renew_at(token: str) -> float:
    """Unix time from which a token (a JWT, not verified) is to be renewed; in an hour if it does not say.

    Only the length of its life is read from it, so that it does not matter when the clock here is wrong.
    """
    life = 3600.0
    try:
        payload = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        life = max(claims["exp"] - claims["iat"], 0.0) or life
    except (IndexError, KeyError, TypeError, ValueError):
        logger.debug("An access token does not say when it ends")
    return time.time() + life - min(MARGIN_S, life / 4)
