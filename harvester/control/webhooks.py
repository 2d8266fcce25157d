"""Webhooks: URLs that receive an event when a job is paused, finished or cancelled.

Each webhook has its own secret, derived from a key of this installation and the webhook's id, so the database alone
cannot sign events.
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
"""Name of the collection of their unsent events."""
MOST_WEBHOOKS = 1000
"""Maximum number of webhooks, because each job that ends may be sent to all."""
LEAST_KEY = 32
"""Minimum number of characters of a key."""
TIMEOUT_S = 15.0
"""Seconds that a receiver may take to answer."""
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""Due time of deliveries that wait until a person resumes their webhook."""

_INDEXES = [IndexModel([("url", ASCENDING), ("job", ASCENDING), ("spider", ASCENDING)], unique=True)]
_DELIVERY_INDEXES = [IndexModel([("due_at", ASCENDING)]), IndexModel([("webhook", ASCENDING), ("due_at", ASCENDING)])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A receiver, and how it stands. Times in UTC."""

    id: str
    url: str
    """The URL with secrets masked."""
    job: str
    """The only job to report; empty: all jobs."""
    spider: str
    """The spider to report jobs of; empty: all spiders."""
    created_at: datetime
    state: str
    """`sending`, `failing` or `set aside`."""
    waiting: int
    """Number of events that it has not confirmed."""
    dead: int
    """Number of unconfirmed events that are no longer retried."""
    delivered: int
    delivered_at: datetime | None
    failing_since: datetime | None
    next_at: datetime | None
    """Time of the next attempt. None: at once, or only after a person resumes it."""
    said: str
    """The last error."""


@dataclass(frozen=True, slots=True)
class AddedWebhook:
    """A webhook, and the secret by which its receiver knows who sends."""

    webhook: Webhook
    secret: str
    """The secret in the form of Standard Webhooks."""


class Webhooks:
    """The actions on webhooks. Methods raise UnknownWebhook for an unknown id."""

    def __init__(self, jobs: JobService) -> None:
        self._config = jobs.config
        self._jobs = jobs
        self._webhooks = jobs.database[WEBHOOKS]
        self._deliveries = jobs.database[WEBHOOK_DELIVERIES]
        self._source = source_of(jobs.config)

    async def add(self, url: str, job: str = "", spider: str = "") -> AddedWebhook:
        """Adds a webhook for a job, for a spider's jobs, or for all jobs. An existing webhook stays unchanged.

        A webhook for a single job also receives the state that the job already has. Raises UsageError for a refused URL
        or a job of another spider; UnknownJob; StorageError when the key is missing and cannot be written.
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
            with suppress(DuplicateKeyError):  # another process adds the same webhook
                await self._webhooks.insert_one(new)
            row = await self._webhooks.find_one(which) or new
        if known and is_told(known):
            document = await self._jobs.ledger.jobs.find_one({"_id": job}) or {}
            if event := await event_of(self._jobs, document, self._source):
                await self.insert(row, event)
        return AddedWebhook(await self._shown(row), _written(secrets_of(row["_id"], keys)[0]))

    async def all(self, job: str = "") -> list[Webhook]:
        """Returns the webhooks, the oldest first; with a job, only the webhooks for this job alone."""
        rows = self._webhooks.find({"job": job} if job else {}, sort=[("created_at", 1), ("_id", 1)])
        return [await self._shown(row) async for row in rows]

    async def secret(self, id: str) -> str:
        """Returns the secret that currently signs its events."""
        row = await self._known(id)
        return _written(secrets_of(row["_id"], keys_of(self._config))[0])

    async def remove(self, id: str) -> None:
        """Removes a webhook with its waiting events."""
        await self._known(id)
        await self._webhooks.delete_one({"_id": id})
        await self._deliveries.delete_many({"webhook": id})

    async def resume(self, id: str) -> int:
        """Retries all its unconfirmed events at once. Returns their number."""
        await self._known(id)
        forgotten = dict.fromkeys(("failing_since", "set_aside_at", "said", "next_at"), "")
        await self._webhooks.update_one({"_id": id}, {"$unset": forgotten})
        again = {
            "$set": {"due_at": datetime.now(UTC), "tries": 0},
            "$unset": {"dead_at": "", "failed_at": "", "said": ""},
        }
        return (await self._deliveries.update_many({"webhook": id}, again)).matched_count

    async def test(self, id: str) -> str:
        """Sends a test event once. Returns the error, or an empty text if the receiver confirmed it.

        Raises UsageError if the URL is refused by now.
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
        """Adds an event to a webhook's deliveries, unless it is there already.

        A webhook that was set aside receives it after a resume.
        """
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
    """Creates the indexes of both collections."""
    await database[WEBHOOKS].create_indexes(_INDEXES)
    await database[WEBHOOK_DELIVERIES].create_indexes(_DELIVERY_INDEXES)


def source_of(config: Config) -> str:
    """Returns CloudEvents' `source`, which identifies the harvest."""
    return f"/harvester/{config.database}"


def keys_of(config: Config) -> list[bytes]:
    """Returns the keys of this installation, the newest first. Without HARVESTER_WEBHOOK_KEYS the key is in a file.

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
    """Returns the secrets that sign the events of a webhook, one per key."""
    return [hmac.digest(key, f"webhook {id}".encode(), sha256) for key in keys]


def names_of(row: Document, config: Config) -> list[str]:
    """Returns the words in a webhook's URL that need no masking."""
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
            with suppress(FileExistsError):  # another process has created it meanwhile
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
