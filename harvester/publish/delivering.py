"""Sends the deliveries for a sink until they are confirmed, and decides what happens to failed ones.

If no delivery arrives, the receiver is at fault. It is tried with a few deliveries now and then, and set aside after a
long time; the deliveries wait and are counted. If others arrive, the event is at fault. It is retried for three days,
and then becomes a dead letter.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import DeleteOne, UpdateOne, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase

from harvester.alerts.channels import Alert, send
from harvester.config import Config
from harvester.formatting import duration
from harvester.items.base import OUTBOX
from harvester.masking import mask
from harvester.publish.distribution import DELIVERIES
from harvester.publish.events import Event, event_of
from harvester.publish.outbox import PUBLISHING
from harvester.publish.sending import Sender, SendFailure
from harvester.publish.sinks import AnySink

logger = logging.getLogger(__name__)

Document = dict[str, Any]

AGAIN_S = (5, 300, 1800, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600)
"""Seconds before each retry of a delivery that failed while others arrived (Standard Webhooks). Then it is a dead
letter."""
FIRST_PAUSE_S = 1.0
"""Seconds before the first retry of a receiver that got nothing; doubled each time."""
MOST_PAUSE_S = 300.0
PROBES = 4
"""Deliveries in a retry of a receiver: different ones each time, because one may be the cause."""
TELL_AFTER_S = 3600.0
"""Seconds that a receiver may fail before it is reported, ahead of being set aside. A pause that it asks for counts."""


class SinkDeliveries:
    """The deliveries for a sink."""

    def __init__(
        self, database: AsyncDatabase[Document], config: Config, sink: AnySink, source: str, sender: Sender
    ) -> None:
        self.sink = sink
        self._config = config
        self._source = source
        self._sender = sender
        self._database = database
        self._deliveries = database[DELIVERIES]
        self._quick = self._deliveries.with_options(write_concern=WriteConcern(w=1))
        """Not journalled: a lost write only causes a second sending."""
        self._state = {"_id": f"sink {sink.name}"}
        self.delivered = 0
        """Events that this process delivered."""

    async def close(self) -> None:
        await self._sender.close()

    async def send_some(self) -> bool:
        """Sends a batch. Returns True if another call at once is useful."""
        state = await self._database[PUBLISHING].find_one(self._state) or {}
        now = datetime.now(UTC)
        if state.get("set_aside_at") or (state.get("next_at") or now) > now:
            return False
        is_failing = bool(state.get("failing_since"))
        due = {"sink": self.sink.name, "due_at": {"$lte": now}}
        most = PROBES if is_failing else self._sender.BATCH
        rows = await self._deliveries.find(due, sort=[("due_at", 1)], limit=most).to_list()
        pairs, removed = await self._with_events(rows)
        if not pairs:
            return removed > 0
        results = await self._sender.send([event for _, event in pairs])
        failed = [(row, failure) for (row, _), failure in zip(pairs, results, strict=True) if failure]
        confirmed = [row for (row, _), failure in zip(pairs, results, strict=True) if not failure]
        if confirmed:
            await self._quick.bulk_write([_removal(row) for row in confirmed], ordered=False)
            self.delivered += len(confirmed)
        if failed and not confirmed and not all(failure.is_of_event for _, failure in failed):
            await self._receiver_failed(state, failed)
            return False
        await self._receiver_answered(state, len(confirmed), failed)
        if failed:
            await self._deliveries.bulk_write([_later(row, failure) for row, failure in failed], ordered=False)
        return True

    async def _with_events(self, rows: Sequence[Document]) -> tuple[list[tuple[Document, Event]], int]:
        """Returns the deliveries that can be sent now with their events, and the number of removed ones.

        A delivery is removed if its record is missing, or no longer wanted.
        """
        by_collection: dict[str, list[str]] = {}
        for row in rows:
            by_collection.setdefault(row["collection"], []).append(row["key"])
        records = {
            (name, record["_id"]): record
            for name, keys in by_collection.items()
            for record in await self._database[name].find({"_id": {"$in": keys}}).to_list()
        }
        pairs, unwanted = [], []
        for row in rows:
            record = records.get((row["collection"], row["key"]))
            if record is None or not self._wants(row["kind"], record):
                unwanted.append(row)
            elif record.get(OUTBOX, row)["version"] == row["version"]:  # else the delivery will soon have that version
                pairs.append((row, event_of(row["kind"], record, row["change"], self._source)))
        if unwanted:
            await self._quick.bulk_write([_removal(row) for row in unwanted], ordered=False)
        return pairs, len(unwanted)

    def _wants(self, kind: str, record: Document) -> bool:
        return self.sink.wants(kind, record["provenance"]["spider"]) and self.sink.takes(record)

    async def _receiver_answered(
        self, state: Document, confirmed: int, failed: Sequence[tuple[Document, SendFailure]]
    ) -> None:
        """Records a success. The receiver may have taken only some, and ask for a pause for the others."""
        now = datetime.now(UTC)
        fields: Document = {"what": "sink", "delivered_at": now}
        if not confirmed:  # all failed because of their content
            del fields["delivered_at"]
        forgotten = ["failing_since", "failures", "told_at"]
        if pause_s := _asked_pause_s(failed):
            said = mask(next(failure.said for _, failure in failed if failure.pause_s == pause_s))
            fields |= {"next_at": now + timedelta(seconds=pause_s), "waiting_since": now, "said": said}
            logger.warning("%s: %s", self.sink.name, said)
        else:
            forgotten += ["next_at", "waiting_since", "said"]
        if state.get("failing_since"):
            logger.info("%s takes events again", self.sink.name)
        change: Document = {"$set": fields, "$unset": dict.fromkeys(forgotten, ""), "$inc": {"delivered": confirmed}}
        await self._database[PUBLISHING].update_one(self._state, change, upsert=True)

    async def _receiver_failed(self, state: Document, failed: Sequence[tuple[Document, SendFailure]]) -> None:
        now = datetime.now(UTC)
        failures, since = state.get("failures", 0) + 1, state.get("failing_since") or now
        said = mask(next(failure.said for _, failure in failed if not failure.is_of_event))
        pause_s = min(MOST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - 1, 20)) * random.uniform(0.8, 1.2)
        pause_s = max(pause_s, _asked_pause_s(failed))
        fields: Document = {"what": "sink", "failures": failures, "failing_since": since, "said": said}
        fields["next_at"] = now + timedelta(seconds=pause_s)
        failing = now - since
        is_over = failing >= timedelta(hours=self.sink.set_aside_hours) or any(each.is_final for _, each in failed)
        is_long = failing + timedelta(seconds=_asked_pause_s(failed)) >= timedelta(seconds=TELL_AFTER_S)
        tells = is_over or (is_long and "told_at" not in state)
        if is_over:
            fields["set_aside_at"] = now
        if tells:
            fields["told_at"] = now
        tried = [UpdateOne({"_id": row["_id"]}, {"$set": {"due_at": now}}) for row, _ in failed]
        await self._deliveries.bulk_write(tried, ordered=False)
        await self._database[PUBLISHING].update_one(self._state, {"$set": fields}, upsert=True)
        if failures == 1:
            logger.warning("%s takes no events: %s. They wait, and it is tried again", self.sink.name, said)
        if tells:
            await self._tell(fields)

    async def _tell(self, state: Document) -> None:
        name, since = self.sink.name, state["failing_since"]
        backlog = await self._deliveries.count_documents({"sink": name})
        took = duration((datetime.now(UTC) - since).total_seconds())
        title = f"harvester: {name} takes no events"
        lines = [f"For {took} nothing could be sent to the sink {name}: {state['said']}.", f"{backlog:,} events wait."]
        if "set_aside_at" not in state:
            lines.append(f"The next try is at {state['next_at']:%Y-%m-%d %H:%M:%S} UTC.")
        if "set_aside_at" in state:
            title = f"harvester: {name} is set aside, since it takes no events"
            lines.append(f"Nothing is sent to it any more until you type: harvester publish resume {name}")
        logger.error("%s. %s", title, " ".join(lines))
        payload = {
            "event": "publish",
            "sink": name,
            "set_aside": "set_aside_at" in state,
            "failing_since": since.isoformat(),
            "said": state["said"],
            "backlog": backlog,
        }
        await asyncio.to_thread(send, self._config, Alert(title, lines, None, payload))


def _asked_pause_s(failed: Sequence[tuple[Document, SendFailure]]) -> float:
    """Returns the longest pause that the receiver asks for; 0 for none."""
    return max((failure.pause_s or 0.0 for _, failure in failed), default=0.0)


def _removal(row: Document) -> DeleteOne:
    """Returns the removal of a delivery, unless it has a newer version by then."""
    return DeleteOne({"_id": row["_id"], "version": row["version"]})


def _later(row: Document, failure: SendFailure) -> UpdateOne:
    now = datetime.now(UTC)
    fields: Document = {"said": mask(failure.said), "tries": row["tries"] + 1}
    if row["tries"] < len(AGAIN_S):
        pause_s = max(AGAIN_S[row["tries"]] * random.uniform(0.9, 1.1), failure.pause_s or 0)
        fields["due_at"] = now + timedelta(seconds=pause_s)
    else:
        fields |= {"due_at": None, "dead_at": now}
    return UpdateOne({"_id": row["_id"], "version": row["version"]}, {"$set": fields})
