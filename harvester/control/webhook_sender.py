"""Sends events to webhooks until they confirm. Any number of processes may run a sender.

A sender claims a delivery for a minute; if it dies meanwhile, another sends the same delivery. Each receiver gets a
single event at a time, so a slow receiver delays no other.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from harvester.alerts.channels import Alert, send
from harvester.control.webhook_events import JobEvent, event_of
from harvester.control.webhooks import (
    NEVER,
    TIMEOUT_S,
    WEBHOOK_DELIVERIES,
    WEBHOOKS,
    Webhooks,
    keys_of,
    make_indexes,
    names_of,
    secrets_of,
    source_of,
)
from harvester.exceptions import HarvesterError, UsageError
from harvester.formatting import duration
from harvester.jobs.documents import STOPPED_AT, UNTOLD, Document
from harvester.jobs.service import JobService
from harvester.masking import mask
from harvester.publish.delivering import AGAIN_S, FIRST_PAUSE_S, MOST_PAUSE_S
from harvester.publish.sending import LONGEST_PAUSE_S, SendFailure
from harvester.publish.sinks import check_webhook, secrets_in
from harvester.publish.webhook import Poster
from harvester.shutdown import stop
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Maximum number of receivers to send to at the same time."""
TAKEN_S = 60.0
"""Seconds that a delivery stays claimed: longer than a receiver may take to answer."""
IDLE_S = 0.5
"""Seconds between two polls when nothing was due."""
AWAY_S = 5.0
"""Seconds to wait after MongoDB was unreachable."""
GIVE_UP = timedelta(hours=75)
"""Time that a receiver may fail before sending stops until a person resumes it.

An event is given up after the same time.
"""
BATCH = 100
"""Maximum number of jobs per round of deliveries."""
_WELL = {"failing_since": "", "said": "", "next_at": ""}
"""Fields to delete when a receiver works again."""


@asynccontextmanager
async def sending(jobs: JobService) -> AsyncIterator["JobWebhookSender"]:
    """Runs a sender during the `with` block."""
    sender = JobWebhookSender(jobs)
    running = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        await stop(running)


class JobWebhookSender:
    """A sender. Several may run at the same time."""

    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs
        self._config = jobs.config
        self._webhooks = jobs.database[WEBHOOKS]
        self._deliveries = jobs.database[WEBHOOK_DELIVERIES]
        self._registry = Webhooks(jobs)
        self._busy: dict[str, asyncio.Task[None]] = {}
        """Webhook -> the task that sends to it."""
        self._said = ""
        """The last error that stopped the sender, to log it only once."""
        self.delivered = 0
        """Number of events that receivers confirmed to this process."""

    async def run(self) -> None:
        """Sends until it is cancelled. The next sender repeats deliveries in progress."""
        poster = Poster(self._config, AT_ONCE, TIMEOUT_S)
        try:
            while True:
                try:
                    await make_indexes(self._jobs.database)
                    await self._work(poster)
                except (PyMongoError, HarvesterError) as error:
                    if self._said != mongodb.said(error):
                        self._said = mongodb.said(error)
                        logger.warning("No webhook is told anything until this is mended: %s", self._said)
                except Exception as error:
                    if self._said != repr(error):
                        self._said = repr(error)
                        logger.exception("No webhook is told anything because of a fault of this program")
                await asyncio.sleep(AWAY_S)
        finally:
            await stop(*self._busy.values())
            await poster.close()

    async def _work(self, poster: Poster) -> None:
        """Sends until an exception."""
        while True:
            did = await self.distribute()
            did += await self._begin(poster)
            for name, task in list(self._busy.items()):
                if task.done():
                    del self._busy[name]
                    task.result()
                    self._said = ""
            if not did:
                await asyncio.sleep(IDLE_S)

    async def distribute(self) -> int:
        """Creates the deliveries of jobs that were paused or have ended. Returns the number of jobs."""
        jobs = self._jobs.ledger.jobs
        rows = await jobs.find({UNTOLD: {"$exists": True}}, sort=[(UNTOLD, 1)], limit=BATCH).to_list()
        for row in rows:
            which: Document = {"job": {"$in": ["", row["_id"]]}, "spider": {"$in": ["", row["spider"]]}}
            receivers = await self._webhooks.find(which).to_list()
            wanted = [each for each in receivers if each["job"] or each["created_at"] <= row[STOPPED_AT]]
            if wanted and (event := await event_of(self._jobs, row, source_of(self._config))):
                for each in wanted:
                    await self._registry.insert(each, event)
            same = {"_id": row["_id"], STOPPED_AT: row[STOPPED_AT]}
            await jobs.update_one(same, {"$unset": {UNTOLD: ""}})
        return len(rows)

    async def _begin(self, poster: Poster) -> int:
        """Claims a due delivery and sends it in a task. Returns 0 if no delivery is due."""
        if len(self._busy) >= AT_ONCE:
            await asyncio.wait(self._busy.values(), return_when=asyncio.FIRST_COMPLETED)
            return 1
        now = datetime.now(UTC)
        row = await self._deliveries.find_one_and_update(
            {"due_at": {"$lte": now}, "webhook": {"$nin": list(self._busy)}},
            {"$set": {"due_at": now + timedelta(seconds=TAKEN_S)}},
            sort=[("due_at", 1)],
            return_document=ReturnDocument.AFTER,
        )
        if row is None:
            return 0
        self._busy[row["webhook"]] = asyncio.create_task(self._deliver(poster, row))
        return 1

    async def _deliver(self, poster: Poster, row: Document) -> None:
        webhook = await self._webhooks.find_one({"_id": row["webhook"]})
        if webhook is None:  # removed while the delivery was created
            await self._deliveries.delete_one({"_id": row["_id"]})
            return
        failure = await self._post(poster, webhook, row)
        if failure is None:
            told: Document = {"$set": {"delivered_at": datetime.now(UTC)}, "$inc": {"delivered": 1}}
            await self._webhooks.update_one({"_id": webhook["_id"]}, told | {"$unset": _WELL})
            self.delivered += 1
            await self._deliveries.delete_one({"_id": row["_id"]})
        else:
            await self._failed(webhook, row, failure)

    async def _post(self, poster: Poster, webhook: Document, row: Document) -> SendFailure | None:
        mask.add_passing(*secrets_in(webhook["url"], names_of(webhook, self._config)))
        try:  # the settings may have changed since it was added
            check_webhook(webhook["url"], f"The webhook {webhook['_id']}", self._config)
        except UsageError as error:
            return SendFailure(str(error))
        event = JobEvent(row["event"], row["type"], row["job"], row["body"]).event
        return await poster.post(webhook["url"], secrets_of(webhook["_id"], keys_of(self._config)), event)

    async def _failed(self, webhook: Document, row: Document, failure: SendFailure) -> None:
        """Schedules a retry of a delivery, for up to three days.

        A faulty receiver delays its other deliveries too; a faulty event does not. A faulty receiver recovers for all
        its events at once, so it is retried every few minutes at least.
        """
        now, said = datetime.now(UTC), mask(failure.said)
        tries, failing_since = row["tries"], webhook.get("failing_since") or now
        usual_s = AGAIN_S[min(tries, len(AGAIN_S) - 1)] if failure.is_of_event else FIRST_PAUSE_S * 2 ** min(tries, 20)
        pause_s = min(usual_s, MOST_PAUSE_S if not failure.is_of_event else LONGEST_PAUSE_S) * random.uniform(0.9, 1.1)
        later = now + timedelta(seconds=max(pause_s, failure.pause_s or 0))
        failed_at = row.get("failed_at") or now
        change: Document = {"tries": tries + 1, "said": said, "failed_at": failed_at, "due_at": later}
        if now - failed_at >= GIVE_UP:
            change |= {"due_at": NEVER, "dead_at": now}
        await self._deliveries.update_one({"_id": row["_id"]}, {"$set": change})
        if failure.is_of_event:  # the receiver itself works
            await self._webhooks.update_one({"_id": webhook["_id"]}, {"$unset": _WELL})
            return
        is_over = failure.is_final or now - failing_since >= GIVE_UP
        state: Document = {"failing_since": failing_since, "said": said, "next_at": later}
        if is_over:
            later = NEVER
            del state["next_at"]
            state["set_aside_at"] = now
        await self._webhooks.update_one({"_id": webhook["_id"]}, {"$set": state})
        others = {"webhook": webhook["_id"], "due_at": {"$lt": later}}
        await self._deliveries.update_many(others, {"$set": {"due_at": later}})
        if "failing_since" not in webhook:
            logger.warning("The webhook %s takes no events: %s. They wait, and it is tried again", webhook["_id"], said)
        if is_over:
            await self._tell(webhook["_id"], failing_since, said)

    async def _tell(self, webhook: str, since: datetime, said: str) -> None:
        backlog = await self._deliveries.count_documents({"webhook": webhook})
        took = duration((datetime.now(UTC) - since).total_seconds())
        title = f"harvester: the webhook {webhook} is set aside, since it takes no events"
        lines = [
            f"For {took} nothing could be sent to it: {said}.",
            f"{backlog:,} events wait. Nothing is sent any more until you type: harvester webhooks resume {webhook}",
        ]
        logger.error("%s. %s", title, " ".join(lines))
        payload = {"event": "webhook", "webhook": webhook, "said": said, "backlog": backlog}
        await asyncio.to_thread(send, self._config, Alert(title, lines, None, payload))
