"""Tokens of the API. MongoDB stores only their digests, so a reader of the database cannot use a token."""

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.jobs.ledger import now
from harvester.stores.private_files import is_closed, make_closed, open_closed

Document = dict[str, Any]

TOKENS = "tokens"
"""Name of the collection."""
FILE = "token"
"""Name of the file in the state folder with the token that `harvester up` makes."""
MOST_NAME = 100
"""Maximum number of characters of a token's name."""
_read = re.compile(r"harvester_([0-9a-f]{12})_([0-9a-f]{64})", re.ASCII).fullmatch
_NOBODY = hashlib.sha256(b"nobody").hexdigest()
"""The digest to compare with when the token is unknown, so that the check takes equally long."""


class Scope(StrEnum):
    """The rights of a token. Each scope includes the ones before it."""

    READ = "read"
    OPERATE = "operate"
    """Permits submitting, pausing, resuming, cancelling, retrying and holding."""
    ADMIN = "admin"
    """Permits changing automatic work, and reading the audit."""

    def allows(self, wanted: "Scope") -> bool:
        order = list(Scope)
        return order.index(self) >= order.index(wanted)


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token without its secret. Times in UTC."""

    id: str
    name: str
    """The name of the token's owner, for people."""
    scope: Scope
    created_at: datetime
    expires_at: datetime | None = None
    """None: the token never expires."""


class Tokens:
    """The tokens of a database."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._tokens = database[TOKENS]

    async def add(self, name: str, scope: Scope, lasts: timedelta | None = None) -> tuple[ApiToken, str]:
        """Creates a token. Returns it with its secret text, which cannot be read again later. Raises UsageError."""
        if not 0 < len(name) <= MOST_NAME or not name.isprintable():
            raise UsageError(f"The name of a token has 1 to {MOST_NAME} characters, each of them printable.")
        created = now()
        token = ApiToken(secrets.token_hex(6), name, scope, created, created + lasts if lasts else None)
        text = f"harvester_{token.id}_{secrets.token_hex(32)}"
        document = {
            "_id": token.id,
            "digest": _digest(text),
            "name": name,
            "scope": scope.value,
            "created_at": created,
            "expires_at": token.expires_at,
        }
        await self._tokens.insert_one(document)
        return token, text

    async def list(self) -> list[ApiToken]:
        """Returns all tokens that were not revoked, the oldest first."""
        return [_token(row) for row in await self._tokens.find(sort=[("created_at", 1), ("_id", 1)]).to_list()]

    async def revoke(self, which: str) -> ApiToken:
        """Revokes a token by id or by a unique name. It is refused from the next request on. Raises UsageError."""
        found = await self._tokens.find({"$or": [{"_id": which}, {"name": which}]}).to_list()
        if len(found) != 1:
            why = "is the name of several: give an id" if found else "is neither the id nor the name of one"
            raise UsageError(f"{which!r} {why}; `harvester tokens list` shows them.")
        await self._tokens.delete_one({"_id": found[0]["_id"]})
        return _token(found[0])

    async def holder(self, text: str) -> ApiToken | None:
        """Returns the token with this secret text, or None if it is unknown or expired."""
        parts = _read(text)
        row = await self._tokens.find_one({"_id": parts[1]}) if parts else None
        is_same = hmac.compare_digest(_digest(text), row["digest"] if row else _NOBODY)
        return _current(row) if row and is_same else None

    async def known(self, token: str) -> ApiToken | None:
        """Returns the token with this id, or None if it was revoked or has expired."""
        return _current(await self._tokens.find_one({"_id": token}))


async def kept_token(config: Config, tokens: Tokens) -> tuple[str, bool]:
    """Returns the text of this machine's own token (scope admin), and True if it was created just now.

    A file that only its owner can read saves it. Raises UsageError when others can read the file.
    """
    path = config.state_dir / FILE
    if path.exists():
        if not is_closed(path):
            raise UsageError(f"{path} can be read by others: remove it, and revoke its token (harvester tokens).")
        text = path.read_text("ascii", errors="replace").strip()
        if await tokens.holder(text):
            return text, False
    _, text = await tokens.add("harvester up", Scope.ADMIN)
    _keep(path, text)
    return text, True


def _keep(path: Path, text: str) -> None:
    make_closed(path.parent)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(open_closed(beside, os.O_WRONLY | os.O_TRUNC), "w") as file:
        file.write(f"{text}\n")
    beside.replace(path)


def _current(row: Document | None) -> ApiToken | None:
    token = _token(row) if row else None
    return None if token is None or (token.expires_at and token.expires_at <= now()) else token


def _token(row: Document) -> ApiToken:
    return ApiToken(row["_id"], row["name"], Scope(row["scope"]), row["created_at"], row["expires_at"])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
