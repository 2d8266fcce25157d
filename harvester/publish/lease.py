"""The lease in MongoDB that lets one process at a time send. Another takes over when its owner dies."""

import os
import platform
import secrets
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from pymongo import ReturnDocument
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError

from harvester.publish.outbox import PUBLISHING

LEASE_S = 15.0
"""Seconds that an owner may be silent before another takes over."""
RENEW_S = 4.0
MARGIN_S = 3.0
"""Seconds before the lease ends when an owner stops to begin work."""
_ID = "relay"


class Lease:
    """A lease by the clock of MongoDB, so that the machines' clocks may differ."""

    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._documents = database[PUBLISHING]
        self._holder = f"{platform.node()} {os.getpid()} {secrets.token_hex(4)}"
        self._until = 0.0
        """Time on this process's monotonic clock."""

    @property
    def is_held(self) -> bool:
        return monotonic() < self._until - MARGIN_S

    async def take(self) -> bool:
        """Claims or renews the lease. Returns True if it is held now."""
        asked_at = monotonic()
        over = {"$lt": [{"$ifNull": ["$until", datetime(1970, 1, 1, tzinfo=UTC)]}, "$$NOW"]}
        free = {"$or": [over, {"$eq": ["$holder", self._holder]}]}
        until = {"$add": ["$$NOW", int(LEASE_S * 1000)]}
        change = {
            "holder": {"$cond": [free, {"$literal": self._holder}, "$holder"]},
            "until": {"$cond": [free, until, "$until"]},
        }
        try:
            known = await self._documents.find_one_and_update(
                {"_id": _ID}, [{"$set": change}], upsert=True, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError:  # another process created the first lease
            return False
        is_mine = known is not None and known["holder"] == self._holder
        self._until = asked_at + LEASE_S if is_mine else 0.0
        return is_mine

    async def release(self) -> None:
        """Releases the lease, so that another process can claim it at once."""
        self._until = 0.0
        await self._documents.delete_one({"_id": _ID, "holder": self._holder})


async def holder_of(database: AsyncDatabase[dict[str, Any]]) -> str:
    """Returns host and process of the sender; empty without one."""
    held = {"_id": _ID, "$expr": {"$gt": ["$until", "$$NOW"]}}
    known = await database[PUBLISHING].find_one(held)
    return " process ".join(known["holder"].split(" ")[:2]) if known else ""
