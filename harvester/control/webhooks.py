"""Webhooks: addresses of others that are told when a job is paused, finished or cancelled.

Each has a secret of its own, made of a key of this installation and the webhook's id: what MongoDB holds signs nothing.
"""

import hmac
import os
import secrets
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError

from harvester.config import Config
from harvester.control.webhook_events import JobEvent, event_of, is_told
from harvester.exceptions import StorageError, UnknownWebhook, UsageError
from harvester.jobs.documents import Document
from harvester.jobs.service import JobService
from harvester.masking import mask
from harvester.publish.events import test_event
from harvester.publish.sinks import SECRET_PREFIX, check_webhook, secrets_in
from harvester.publish.webhook import Poster
from harvester.stores.private_files import is_closed, make_closed, open_closed

WEBHOOKS = "webhooks"
"""Name of the collection of webhooks."""
WEBHOOK_DELIVERIES = "webhook_deliveries"
"""Name of the collection of what is to be sent to them."""
MOST_WEBHOOKS = 1000
"""Each job that ends is told to so many at most."""
LEAST_KEY = 32
"""Characters of a key."""
TIMEOUT_S = 15.0
"""How long a receiver may take to answer."""
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""When a delivery is due that waits until somebody resumes its webhook."""

_INDEXES = [IndexModel([("url", ASCENDING), ("job", ASCENDING), ("spider", ASCENDING)], unique=True)]
_DELIVERY_INDEXES = [IndexModel([("due_at", ASCENDING)]), IndexModel([("webhook", ASCENDING), ("due_at", ASCENDING)])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A receiver, and how it stands. Times in UTC."""

    id: str
    url: str
    """Without what may be secret in it."""
    job: str
    """The only one that it is told of; empty: of all."""
    spider: str
    """Of whose jobs it is told; empty: of all."""
    created_at: datetime
    state: str
    """`sending`, `failing` or `set aside`."""
    waiting: int
    """Events that it has not confirmed."""
    dead: int
    """Those of these that are not tried any more."""
    delivered: int
    delivered_at: datetime | None
    failing_since: datetime | None
    next_at: datetime | None
    """When it is tried again; None: at once, or not before somebody resumes it."""
    said: str
    """Why it fails."""


@dataclass(frozen=True, slots=True)
class AddedWebhook:
    """A webhook, and the secret by which its receiver knows who sends."""

    webhook: Webhook
    secret: str
    """As Standard Webhooks writes it."""


class Webhooks:
    """What people do with webhooks. Raises UnknownWebhook for an id that is none."""

    def __init__(self, jobs: JobService) -> None:
        self._config = jobs.config
        self._jobs = jobs
        self._webhooks = jobs.database[WEBHOOKS]
        self._deliveries = jobs.database[WEBHOOK_DELIVERIES]
        self._source = source_of(jobs.config)

    async def add(self, url: str, job: str = "", spider: str = "") -> AddedWebhook:
        """Tells an address of a job, of a spider's jobs, or of all. One that is there already stays as it is.

        One job's webhook is told, too, what the job has come to before. Raises UsageError for an address that is
        refused, or a job of another spider; UnknownJob, StorageError when there is no key and none can be written.
        """
        if len(url) > self._config.max_url_bytes:
            raise UsageError(f"The webhook: its address is longer than {self._config.max_url_bytes:,} characters.")
        check_webhook(url, "The webhook", self._config)
        keys = keys_of(self._config)
        known = await self._jobs.job(job) if job else None
        if known and spider not in ("", known.spider):
            raise UsageError(
                f"{job} is of the spider {known.spider}, and not of {spider}: it would be told of nothing."
            )
        await make_indexes(self._jobs.database)
        which = {"url": url, "job": job, "spider": spider}
        row = await self._webhooks.find_one(which)
        if row is None:
            if await self._webhooks.estimated_document_count() >= MOST_WEBHOOKS:
                raise UsageError(f"There are {MOST_WEBHOOKS:,} webhooks already; remove some first.")
            new: Document = {
                "_id": f"hook-{secrets.token_hex(6)}",
                **which,
                "created_at": datetime.now(UTC),
                "delivered": 0,
            }
            with suppress(DuplicateKeyError):  # another adds the same
                await self._webhooks.insert_one(new)
            row = await self._webhooks.find_one(which) or new
        if known and is_told(known):
            document = await self._jobs.ledger.jobs.find_one({"_id": job}) or {}
            if event := await event_of(self._jobs, document, self._source):
                await self.insert(row, event)
        return AddedWebhook(await self._shown(row), _written(secrets_of(row["_id"], keys)[0]))

    async def all(self, job: str = "") -> list[Webhook]:
        """The oldest first; with a job, those that are told of this one only."""
        rows = self._webhooks.find({"job": job} if job else {}, sort=[("created_at", 1), ("_id", 1)])
        return [await self._shown(row) async for row in rows]

    async def secret(self, id: str) -> str:
        """By which its events are signed now."""
        row = await self._known(id)
        return _written(secrets_of(row["_id"], keys_of(self._config))[0])

    async def remove(self, id: str) -> None:
        """Nothing is sent to it any more, also not what waits."""
        await self._known(id)
        await self._webhooks.delete_one({"_id": id})
        await self._deliveries.delete_many({"webhook": id})

    async def resume(self, id: str) -> int:
        """Has all tried again at once that it has not confirmed; how many events."""
        await self._known(id)
        forgotten = dict.fromkeys(("failing_since", "set_aside_at", "said", "next_at"), "")
        await self._webhooks.update_one({"_id": id}, {"$unset": forgotten})
        again = {
            "$set": {"due_at": datetime.now(UTC), "tries": 0},
            "$unset": {"dead_at": "", "failed_at": "", "said": ""},
        }
        return (await self._deliveries.update_many({"webhook": id}, again)).matched_count

    async def test(self, id: str) -> str:
        """Sends an event that says it is a test, once: why the receiver did not confirm it, or empty.

        Raises UsageError for an address that is refused by now.
        """
        row = await self._known(id)
        check_webhook(row["url"], f"The webhook {id}", self._config)
        poster = Poster(self._config, 1, TIMEOUT_S)
        try:
            failure = await poster.post(row["url"], secrets_of(id, keys_of(self._config)), test_event(self._source))
        finally:
            await poster.close()
        return mask(failure.said) if failure else ""

    async def insert(self, row: Document, event: JobEvent) -> None:
        """Has a webhook told of an event, unless that is done already. One that is set aside gets it when resumed."""
        delivery = {
            "_id": f"{row['_id']} {event.id}",
            "webhook": row["_id"],
            "job": event.job,
            "event": event.id,
            "type": event.type,
            "body": event.body,
            "due_at": NEVER if row.get("set_aside_at") else datetime.now(UTC),
            "tries": 0,
        }
        await self._deliveries.update_one({"_id": delivery["_id"]}, {"$setOnInsert": delivery}, upsert=True)

    async def _known(self, id: str) -> Document:
        row = await self._webhooks.find_one({"_id": id})
        if row is None:
            raise UnknownWebhook(f"There is no webhook {id!r}; `harvester webhooks list` shows those there are.")
        return row

    async def _shown(self, row: Document) -> Webhook:
        of_it = {"webhook": row["_id"]}
        state = "set aside" if row.get("set_aside_at") else "failing" if row.get("failing_since") else "sending"
        return Webhook(
            id=row["_id"],
            url=_without_secrets(row, self._config),
            job=row["job"],
            spider=row["spider"],
            created_at=row["created_at"],
            state=state,
            waiting=await self._deliveries.count_documents(of_it),
            dead=await self._deliveries.count_documents(of_it | {"dead_at": {"$exists": True}}),
            delivered=row["delivered"],
            delivered_at=row.get("delivered_at"),
            failing_since=row.get("failing_since"),
            next_at=row.get("next_at"),
            said=row.get("said", ""),
        )


async def make_indexes(database: AsyncDatabase[Any]) -> None:
    """Of both collections."""
    await database[WEBHOOKS].create_indexes(_INDEXES)
    await database[WEBHOOK_DELIVERIES].create_indexes(_DELIVERY_INDEXES)


def source_of(config: Config) -> str:
    """CloudEvents' `source`: which harvest it is."""
    return f"/harvester/{config.database}"


def keys_of(config: Config) -> list[bytes]:
    """Of this installation, the newest first. Without HARVESTER_WEBHOOK_KEYS it is one that a file keeps.

    Raises UsageError for a key that is too short, StorageError when the file can be neither read nor written.
    """
    if config.webhook_keys:
        keys = config.webhook_keys.get_secret_value().split()
    else:
        keys = [_kept_key(config.state_dir / "webhooks.key")]
    mask.add(*keys)
    if not keys or min(map(len, keys)) < LEAST_KEY:
        raise UsageError(
            f"HARVESTER_WEBHOOK_KEYS: a key has at least {LEAST_KEY} characters; `openssl rand -hex 32` makes one."
        )
    return [key.encode() for key in keys]


def secrets_of(id: str, keys: Sequence[bytes]) -> list[bytes]:
    """By each of which the events of a webhook are signed."""
    return [hmac.digest(key, f"webhook {id}".encode(), sha256) for key in keys]


def names_of(row: Document, config: Config) -> list[str]:
    """Returns what is no secret where it stands in a webhook's address."""
    return [row["_id"], row["job"], row["spider"], config.database]


def _without_secrets(row: Document, config: Config) -> str:
    mask.add_passing(*secrets_in(row["url"], names_of(row, config)))
    return mask(str(row["url"]))


def _written(secret: bytes) -> str:
    return SECRET_PREFIX + b64encode(secret).decode()


def _kept_key(path: Path) -> str:
    try:
        if not path.exists():
            make_closed(path.parent)
            new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            with os.fdopen(open_closed(new, os.O_WRONLY | os.O_EXCL), "w") as file:
                file.write(secrets.token_hex(LEAST_KEY))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process has made one meanwhile
                os.link(new, path)
            new.unlink()
        if not is_closed(path):
            raise StorageError(f"{path} signs webhooks, and others can read it: chmod 600 it, and change its key.")
        return path.read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise StorageError(
            f"{path} is no text, as the key of webhooks is: put that back; or remove the file, and receivers get new"
            " secrets."
        ) from None
    except OSError as error:
        raise StorageError(f"The key of webhooks, {path}, cannot be kept: {error.strerror or error}.") from None
