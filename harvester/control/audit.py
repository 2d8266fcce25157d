"""The audit: a line for each action, with its token and time. It is written before the action, so a kill loses none."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.database import AsyncDatabase

from harvester.jobs.ledger import now

Document = dict[str, Any]

AUDIT = "audit"
"""Name of the collection."""
KEPT_S = 400 * 86_400
"""Seconds to keep a line: more than a year."""
MOST = 500
"""Maximum number of characters of a text in a line."""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One action. Times in UTC."""

    id: str
    at: datetime
    token: str
    """Id of the token."""
    name: str
    """The name of the token, for people."""
    action: str
    """Name of the operation, as OpenAPI has it."""
    target: str
    """The path and query of the request."""
    address: str
    """The network address of the client."""
    status: int | None
    """The HTTP status of the response. None: the controller ended before it answered; the action may be done in part.
    """


class Audit:
    """The lines of a database."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._lines = database[AUDIT]

    async def make_indexes(self) -> None:
        await self._lines.create_indexes([IndexModel([("at", ASCENDING)], expireAfterSeconds=KEPT_S)])

    async def begin(self, token: str, name: str, action: str, target: str, address: str) -> ObjectId:
        """Writes a line for an action that begins, and returns its id for `end`."""
        line = {"at": now(), "token": token, "name": name, "action": action, "target": target, "address": address}
        said = {key: value[:MOST] if isinstance(value, str) else value for key, value in line.items()}
        return ObjectId((await self._lines.insert_one(said)).inserted_id)

    async def end(self, line: ObjectId, status: int) -> None:
        """Adds the HTTP status of the response to a line."""
        await self._lines.update_one({"_id": line}, {"$set": {"status": status}})

    async def latest(self, most: int, before: str = "") -> list[AuditLine]:
        """Returns the latest lines, the newest first; with `before`, only lines older than that id."""
        query = {"_id": {"$lt": ObjectId(before)}} if before else {}
        rows = await self._lines.find(query, sort=[("_id", -1)], limit=most).to_list()
        return [
            AuditLine(
                id=str(row["_id"]),
                status=row.get("status"),
                **{name: row[name] for name in ("at", "token", "name", "action", "target", "address")},
            )
            for row in rows
        ]
