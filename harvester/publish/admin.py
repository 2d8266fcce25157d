"""The commands of a person for publishing: status, another try for a receiver, sending again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from harvester.exceptions import JobConflict
from harvester.items.base import OUTBOX
from harvester.publish.distribution import DELIVERIES, Delivery, insert
from harvester.publish.lease import holder_of
from harvester.publish.outbox import DUE, INDEX, PUBLISHING, outboxes
from harvester.publish.sinks import AnySink, Sinks

Document = dict[str, Any]

BATCH = 1000
"""Records in one batch of a replay."""


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """The status of a sink."""

    name: str
    kind: str
    """Empty if the file no longer names it."""
    state: str
    """`sending`, `failing`, `set aside`, or `left alone`: it takes events, and has asked for a pause."""
    waiting: int
    """Deliveries without a confirmation: the backlog."""
    dead: int
    """Dead letters."""
    oldest: datetime | None
    """Time when the oldest waiting delivery was due."""
    delivered: int
    delivered_at: datetime | None
    failing_since: datetime | None
    left_alone_since: datetime | None
    next_at: datetime | None
    """Time of the next try. None for at once, or not before a person resumes it."""
    said: str
    """The reason why it fails or pauses."""


@dataclass(frozen=True, slots=True)
class PublishStatus:
    """The status of publishing."""

    sender: str
    """Host and process; empty without a sender."""
    marked: int
    """Records without deliveries so far."""
    sinks: list[SinkStatus]


async def status(database: AsyncDatabase[Document], sinks: Sinks) -> PublishStatus:
    """Returns the status of all sinks in the file, and of sinks that have deliveries but are no longer in the file."""
    marked = 0
    for outbox in await outboxes(database):
        due = {DUE: {"$exists": True}}
        marked += await database[outbox["collection"]].count_documents(due, hint=INDEX)
    known = {row["_id"].removeprefix("sink "): row async for row in database[PUBLISHING].find({"what": "sink"})}
    with_deliveries = await database[DELIVERIES].distinct("sink")
    names = [*sinks.by_name, *sorted({*with_deliveries} - {*sinks.by_name})]
    each = [await _status_of(database, name, sinks, known.get(name, {})) for name in names]
    return PublishStatus(await holder_of(database), marked, each)


async def _status_of(database: AsyncDatabase[Document], name: str, sinks: Sinks, known: Document) -> SinkStatus:
    deliveries = database[DELIVERIES]
    waiting = {"sink": name, "due_at": {"$gt": datetime(1970, 1, 1, tzinfo=UTC)}}
    oldest = await deliveries.find_one(waiting, sort=[("due_at", 1)])
    sink = sinks.by_name.get(name)
    state, next_at = _state_of(known)
    return SinkStatus(
        name,
        sink.kind if sink else "",
        state,
        await deliveries.count_documents(waiting),
        await deliveries.count_documents({"sink": name, "due_at": None}),
        oldest["due_at"] if oldest else None,
        known.get("delivered", 0),
        known.get("delivered_at"),
        known.get("failing_since"),
        known.get("waiting_since") if state == "left alone" else None,
        next_at,
        known.get("said", "") if state != "sending" else "",
    )


def _state_of(known: Document) -> tuple[str, datetime | None]:
    """Returns the state, and the time of the next try."""
    next_at = known.get("next_at")
    if known.get("set_aside_at"):
        return "set aside", None
    if known.get("failing_since"):
        return "failing", next_at
    if next_at and next_at > datetime.now(UTC):
        return "left alone", next_at
    return "sending", None


async def resume(database: AsyncDatabase[Document], sink: AnySink) -> int:
    """Makes a sink be tried again at once, even one that is set aside. Returns the number of waiting deliveries."""
    forgotten = ("failing_since", "failures", "waiting_since", "next_at", "said", "told_at", "set_aside_at")
    await database[PUBLISHING].update_one({"_id": f"sink {sink.name}"}, {"$unset": dict.fromkeys(forgotten, "")})
    return await database[DELIVERIES].count_documents({"sink": sink.name, "due_at": {"$ne": None}})


async def replay_dead(database: AsyncDatabase[Document], sink: AnySink, expect: int | None = None) -> int:
    """Requeues its dead letters. Returns their number. Raises JobConflict when there are more than expected."""
    again = {"$set": {"due_at": datetime.now(UTC), "tries": 0}, "$unset": {"dead_at": "", "said": ""}}
    dead: Document = {"sink": sink.name, "due_at": None}
    if expect is None:
        return (await database[DELIVERIES].update_many(dead, again)).modified_count
    rows = await database[DELIVERIES].find(dead, {"_id": 1}, limit=expect + 1).to_list()
    if len(rows) > expect:
        raise JobConflict(f"More than {expect:,} events for {sink.name} are dead by now: look again.")
    done = 0
    for first in range(0, len(rows), BATCH):
        named = {"_id": {"$in": [row["_id"] for row in rows[first : first + BATCH]]}}
        done += (await database[DELIVERIES].update_many(dead | named, again)).modified_count
    return done


async def replay(
    database: AsyncDatabase[Document],
    sink: AnySink,
    kinds: Sequence[tuple[str, str]],
    since: datetime | None,
    keys: Sequence[str],
) -> int:
    """Sends stored records again that the sink wants: with the given kinds, keys and minimum time. Returns the
    number."""
    query: Document = {"provenance.fetched_at": {"$gte": since}} if since else {}
    if keys:
        query["_id"] = {"$in": list(keys)}
    done = 0
    for collection, kind in kinds:
        batch: list[Delivery] = []
        async for row in database[collection].find(query, {OUTBOX: 1, "provenance.spider": 1}, batch_size=BATCH):
            if not sink.wants(kind, row["provenance"]["spider"]):
                continue
            version = row.get(OUTBOX, {}).get("version", 0)
            change = "updated" if version > 1 else "created"
            batch.append(Delivery(sink.name, collection, kind, row["_id"], version, change, datetime.now(UTC)))
            if len(batch) == BATCH:
                done += await _send_again(database, batch)
                batch = []
        done += await _send_again(database, batch)
    return done


async def _send_again(database: AsyncDatabase[Document], batch: Sequence[Delivery]) -> int:
    if updates := await insert(database, batch):
        await database[DELIVERIES].bulk_write(updates, ordered=False)
    return len(batch)
