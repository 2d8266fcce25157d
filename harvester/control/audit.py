"""Who did what, and when: a line for each action, written before it is done, so that none is missing after a kill."""

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
"""How long a line is kept: more than a year."""
MOST = 500
"""Characters of what is said of an action."""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One action. Times in UTC."""

    id: str
    at: datetime
    token: str
    """Id of the token."""
    name: str
    """Of the token: who it was, for people."""
    action: str
    """Name of the operation, as OpenAPI has it."""
    target: str
    """What it was done to: the path that was asked for."""
    address: str
    """Where it came from."""
    status: int | None
    """Of the answer. None: the controller ended before it answered, and what it did may be done in part."""


class Audit:
    """The lines of a database."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._lines = database[AUDIT]

    async def make_indexes(self) -> None:
        await self._lines.create_indexes([IndexModel([("at", ASCENDING)], expireAfterSeconds=KEPT_S)])

    async def begin(self, token: str, name: str, action: str, target: str, address: str) -> ObjectId:
        """Writes a line, to be ended by its id."""
        line = {"at": now(), "token": token, "name": name, "action": action, "target": target, "address": address}
        said = {key: value[:MOST] if isinstance(value, str) else value for key, value in line.items()}
        return ObjectId((await self._lines.insert_one(said)).inserted_id)

    async def end(self, line: ObjectId, status: int) -> None:
        """Adds how the action was answered."""
        await self._lines.update_one({"_id": line}, {"$set": {"status": status}})

    async def latest(self, most: int, before: str = "") -> list[AuditLine]:
        """The latest first; those before the line with this id."""
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
