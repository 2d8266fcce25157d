"""Makes a delivery for each sink from each marked record, so that a slow sink delays no other.

A delivery names a record and holds no content, so that a record that was removed from MongoDB is never sent. There is
at most one delivery for a record and a sink, so a record that changes twice before it is sent is sent once.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError

from harvester.items.base import OUTBOX
from harvester.publish.outbox import DUE, INDEX, outboxes
from harvester.publish.sinks import Sinks

Document = dict[str, Any]

DELIVERIES = "deliveries"
BATCH = 1000
"""Records in one batch."""
_DUPLICATE_KEY = 11000
_INDEXES = [
    IndexModel([("sink", ASCENDING), ("due_at", ASCENDING)]),
    IndexModel([("sink", ASCENDING), ("dead_at", ASCENDING)], sparse=True),
]


class Delivery(NamedTuple):
    """A stored delivery to a sink. Its `_id` is made from sink, kind and key."""

    sink: str
    collection: str
    kind: str
    key: str
    version: int
    """Version of the record. It is sent when the record has this version."""
    change: str
    """`created` until the first sending, even if the record changes before."""
    due_at: datetime | None
    """Time when it may be sent; None for a dead letter."""
    tries: int = 0
    """Failed tries while other deliveries arrived."""

    @property
    def id(self) -> str:
        return f"{self.sink} {self.kind} {self.key}"

    def document(self) -> Document:
        return {"_id": self.id, **self._asdict()}


async def prepare(database: AsyncDatabase[Document]) -> None:
    """Creates the indexes."""
    await database[DELIVERIES].create_indexes(_INDEXES)


async def distribute(database: AsyncDatabase[Document], sinks: Sinks) -> int:
    """Makes the deliveries for a batch of marked records, and removes the marks. Returns the number of records."""
    done = 0
    for outbox in await outboxes(database):
        collection = database[outbox["collection"]]
        fields = {OUTBOX: 1, "provenance.spider": 1}
        marked = collection.find({DUE: {"$exists": True}}, fields, sort=[(DUE, 1)], limit=BATCH, hint=INDEX)
        rows = await marked.to_list()
        if not rows:
            continue
        await _deliver(database, _deliveries(outbox, rows, sinks))
        taken = [
            UpdateOne(
                {"_id": row["_id"], f"{OUTBOX}.version": row[OUTBOX]["version"]},
                {"$unset": {DUE: ""}, "$set": {f"{OUTBOX}.told": row[OUTBOX]["version"]}},
            )
            for row in rows
        ]
        await collection.bulk_write(taken, ordered=False)
        done += len(rows)
    return done


def _deliveries(outbox: Document, rows: Sequence[Document], sinks: Sinks) -> dict[bool, list[Delivery]]:
    """Returns the deliveries by True if the sink wants this change, else False. The latter only update a waiting
    delivery."""
    found: defaultdict[bool, list[Delivery]] = defaultdict(list)
    now = datetime.now(UTC)
    for row in rows:
        mark = row[OUTBOX]
        change = "updated" if "told" in mark else "created"
        for sink in sinks.wanting(outbox["kind"], row["provenance"]["spider"]):
            one = Delivery(sink.name, outbox["collection"], outbox["kind"], row["_id"], mark["version"], change, now)
            found[change in sink.changes].append(one)
    return found


async def _deliver(database: AsyncDatabase[Document], found: dict[bool, list[Delivery]]) -> None:
    updates = [UpdateOne({"_id": one.id}, [{"$set": {"version": one.version}}]) for one in found.get(False, ())]
    updates += await insert(database, found.get(True, ()))
    if updates:
        await database[DELIVERIES].bulk_write(updates, ordered=False)


async def insert(database: AsyncDatabase[Document], deliveries: Sequence[Delivery]) -> list[UpdateOne]:
    """Inserts new deliveries. Returns updates for existing ones; a dead letter gets another try."""
    if not deliveries:
        return []
    try:
        await database[DELIVERIES].insert_many([one.document() for one in deliveries], ordered=False)
    except BulkWriteError as error:
        failures = error.details["writeErrors"]
        if error.details["writeConcernErrors"] or any(each["code"] != _DUPLICATE_KEY for each in failures):
            raise
        return [_again(deliveries[each["index"]]) for each in failures]
    return []


def _again(one: Delivery) -> UpdateOne:
    """Returns the update of an existing delivery, which may be confirmed and removed by then."""
    new = one.document()
    is_dead = {"$eq": [{"$ifNull": ["$due_at", None]}, None]}
    fields: Document = {name: {"$ifNull": [f"${name}", {"$literal": value}]} for name, value in new.items()}
    fields |= {"version": one.version, "tries": {"$cond": [is_dead, 0, "$tries"]}}
    return UpdateOne({"_id": one.id}, [{"$set": fields}, {"$unset": ["dead_at", "said"]}], upsert=True)
