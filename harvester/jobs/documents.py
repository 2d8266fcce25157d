"""The documents of the collections `jobs` and `job_items`, their ids and their indexes."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from bson.int64 import Int64
from msgspec import Struct
from pymongo import ASCENDING, DESCENDING, IndexModel

from harvester.recheck import Budget, Look, Threshold, VisitPolicy, read_policy
from harvester.wire import OnTheWire

Document = dict[str, Any]

JOBS = "jobs"
"""Name of the collection of jobs."""
ITEMS = "job_items"
"""Name of the collection of their items."""
MOST_KEY_BYTES = 500
"""Of a key in an item's id. A longer one is replaced there by its hash."""
SMALL = 20_000
"""Items of a job that is counted whenever somebody looks."""
MOST_PACES = 100
"""Counts of a job that are remembered: those of the last minutes."""
STOPPED_AT = "stopped_at"
"""Field of a job: when it was paused or ended last."""
UNTOLD = "untold"
"""Field of a job that was paused or ended, until webhooks are told: it is written together with the state."""
LISTINGS = "listings"
"""Field of a job: how often its arguments were read."""
NOT_GIVEN = "not all its items were given: the command that began it gives the others when it is run again"
"""Of an incomplete job, for people."""
MOST_ATTEMPTS_SHOWN = 10
"""Attempts that an item's history keeps, the latest."""


class JobState(StrEnum):
    """Of a job. A standing job, whose items are looked at again and again, is never finished."""

    OPEN = "open"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    FINISHED = "finished"


class ItemState(StrEnum):
    """Of an item: waiting -> active -> done, failed or skipped; or waiting again, for its next attempt."""

    WAITING = "waiting"
    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


UNFINISHED = (ItemState.WAITING, ItemState.ACTIVE)
"""States from which an item still goes on by itself."""


class SavedResult(Struct, OnTheWire, frozen=True):
    """What a callback said of an item in one attempt: it goes before what came of the attempt's requests."""

    attempt: int
    state: ItemState
    """done, failed or skipped; or waiting."""
    outcome: str
    reason: str = ""
    until: datetime | None = None
    """Of one that waits."""


class LookedAt(Struct, OnTheWire, frozen=True):
    """What a callback said that a look at an item of a standing job found, in one attempt."""

    attempt: int
    found: int
    changed: bool | None = None
    cost: float = 1.0
    left: dict[str, Any] | None = None
    not_before: datetime | None = None


class EndedAttempt(Struct, OnTheWire, frozen=True):
    """A line in the history of an item."""

    attempt: int
    at: datetime
    state: ItemState
    """Into which the item came by it."""
    outcome: str
    reason: str = ""
    requests: int = 0
    records: int = 0


class Item(Struct, OnTheWire, frozen=True, kw_only=True):
    """A job item as MongoDB holds it. What is not known yet is absent there. Times in UTC."""

    id: str
    """See `item_id`."""
    job: str
    kind: str
    """What it is: account, thread, parcel, feed."""
    key: str
    """Its natural key: the same kind and key is added to a job once."""
    input: dict[str, Any] = {}
    """What the spider needs to begin with it."""
    line: int | None = None
    """Of the input that it came from."""
    depth: int = 0
    """Steps from what the job began with. The nearest are fed first."""
    priority: int = 0
    """The larger is fed first, among those of one depth."""
    site: str = ""
    """Name of the site it is fetched from, as far as that is known before."""
    state: ItemState = ItemState.WAITING
    stage: str = ""
    """How far it has come, in the spider's own word."""
    stage_rank: int | None = None
    """Of the stage in its latest attempt: the larger comes later."""
    attempts: int = 0
    """How often it was fed: the number of its latest attempt. It never goes down."""
    failures: int = 0
    """Failed attempts since somebody asked for it last, held against the job's `attempts`."""
    outcome: str = ""
    """Of its latest attempt, while none is under way."""
    reason: str = ""
    said: SavedResult | None = None
    looked: LookedAt | None = None
    looks: tuple[Look, ...] = ()
    """Of a standing job: the last ones, the latest last."""
    often: float | None = None
    """How many times as often it is looked at as its policy says. None: as often."""
    recheck: str = ""
    """Its own policy. Empty: that of its job."""
    left: dict[str, Any] = {}
    """What the last look that ended well has left for the next one."""
    history: tuple[EndedAttempt, ...] = ()
    due_at: datetime | None = None
    """Before then it is not fed. None: it is due."""
    why: str = ""
    """Why the next look is due then."""
    not_before: datetime | None = None
    """Until when the site wants no look, as the last one has found."""
    slots: tuple[str, ...] = ()
    """Of budgets, that its looks have taken: see `budgets`."""
    listed: str = ""
    """The word of the latest reading of its job's arguments that named it; a later one's is larger. Empty: it came in
    another way."""
    removed_at: datetime | None = None
    """When somebody took it out of the job, while the attempt goes on that was under way then."""
    fed_at: datetime | None = None
    fed_depth: int | None = None
    """Its depth when it was fed last."""
    feeder: str = ""
    """Who feeds it, while it is active."""
    number: int | None = None
    """From 1 to the job's limit of its kind; no two items of a kind have the same."""
    counts: dict[str, int] = {}
    """Sums over its ended attempts: requests, records, new (records that were not known before), rejected."""
    created_at: datetime
    updated_at: datetime


class RetryPolicy(NamedTuple):
    """What a job says of attempts that fail."""

    attempts: int = 3
    """Failures after which an item is failed; of a standing job, after which a look has failed."""
    backoff_s: float = 600.0
    """Before the attempt after the first failure; doubled for each further one."""
    recheck: VisitPolicy | None = None
    """When its items are looked at again, in a standing job."""
    cancelled: bool = False
    """Whether nothing of it is to be fed any more."""


class Counted(Struct, OnTheWire, frozen=True):
    """So many items of a job have these in common."""

    kind: str
    state: ItemState
    stage: str
    outcome: str
    items: int
    records: int = 0
    """That came of them."""
    later: int = 0
    """Of these items, such as wait for a time."""


class JobPace(Struct, OnTheWire, frozen=True):
    """How far a job was when it was counted."""

    at: datetime
    ended: int
    """Items that were done, failed or skipped."""


class Job(Struct, OnTheWire, frozen=True, kw_only=True):
    """What somebody asked for. Times in UTC."""

    HIDDEN = frozenset({"pace", "counted_end", "count_due_at", "counting_s"})

    id: str
    """See `new_job_id`."""
    spider: str
    scope: str
    """Hash of the arguments. One job of a scope is unfinished at a time."""
    number: int
    """Of the job among those of its scope, from 1."""
    arguments: dict[str, Any] = {}
    """As the spider's model takes them."""
    state: JobState = JobState.OPEN
    recheck: str = ""
    """Of a standing job: by which policy its items are looked at again, as `read_policy` reads it."""
    looks_a_day: int | None = None
    """The most looks a day at its items. None: as many as are due."""
    threshold: Threshold | None = None
    """Of the policy `budget`: by which its items take the budget. None: it was not found yet."""
    priority: int = 0
    """Jobs with a larger one are fed first."""
    limits: dict[str, int] = {}
    """Kind -> the most items of it that are ever fed."""
    attempts: int = RetryPolicy().attempts
    backoff_s: float = RetryPolicy().backoff_s
    name: str = ""
    idempotency_key: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    """When an item of it was fed first."""
    ended_at: datetime | None = None
    fed: int = 0
    """How often items were added. Whoever finishes the job compares it, so that none is missed."""
    counts: tuple[Counted, ...] = ()
    """As they were at `counted_at`."""
    counted_at: datetime | None = None
    counted_end: datetime | None = None
    """Its `ended_at` when they began to be counted."""
    count_due_at: datetime | None = None
    """When one of those that work at it may count again. While somebody counts: until when that one is waited for."""
    counting_s: float | None = None
    """How long MongoDB took to count last, in seconds."""
    pace: tuple[JobPace, ...] = ()
    """What the last counts said, the latest last."""
    pause_reason: str = ""
    incomplete: bool = False
    """Whether its arguments name items that it was not given yet. Until then it is not finished."""

    @property
    def is_counted(self) -> bool:
        """Whether nothing is added to its counts any more."""
        return self.state is JobState.FINISHED and self.ended_at is not None and self.counted_end == self.ended_at

    @property
    def is_large(self) -> bool:
        """Whether to count its items takes so long that it is not done whenever somebody looks."""
        return sum(row.items for row in self.counts) > SMALL

    @property
    def standing(self) -> bool:
        """Whether its items are looked at again and again, so that it is never finished."""
        return bool(self.recheck)

    @property
    def policy(self) -> RetryPolicy:
        """What follows when an attempt at one of its items ends."""
        recheck = read_policy(self.recheck) if self.recheck else None
        if isinstance(recheck, Budget) and self.threshold:
            recheck = recheck.under(self.threshold)
        return RetryPolicy(self.attempts, self.backoff_s, recheck, self.state is JobState.CANCELLED)


class JobItem(NamedTuple):
    """One attempt at an item, as the spider is given it."""

    id: str
    job: str
    kind: str
    key: str
    input: Mapping[str, Any]
    depth: int
    attempt: int
    stage: str
    """That an earlier attempt has reached; empty in the beginning."""
    looked: datetime | None = None
    """When it was looked at last, without a failure. Of a standing job."""
    left: Mapping[str, Any] = {}
    """What that look has left."""
    was_missing: bool = False
    """Whether an attempt since that look found that it is not there."""


def new_job_id(spider: str) -> str:
    """One that no other job has, not even in another database: a Redis may have known that, too."""
    return f"{spider}-{secrets.token_hex(4)}"


def looked_at(looks: Sequence[Look]) -> datetime | None:
    """When something was looked at last, without a failure."""
    at = next((look.at for look in reversed(looks) if not look.failed), None)
    return None if at is None else datetime.fromtimestamp(at, UTC)


def item_id(job: str, kind: str, key: str) -> str:
    """The same for the same item of a job, whoever adds it."""
    encoded = key.encode()
    short = key if len(encoded) <= MOST_KEY_BYTES else hashlib.sha256(encoded).hexdigest()
    return f"{job}:{kind}:{short}"


_ABSENT: tuple[Any, ...] = (None, "", (), [], {})


def read_job(document: Mapping[str, Any]) -> Job:
    """From MongoDB. The client must be one with tz_aware=True."""
    arguments = _plain(document.get("arguments", {}))
    return msgspec.convert({**document, "id": document["_id"], "arguments": arguments}, Job)


def read_item(document: Mapping[str, Any]) -> Item:
    """From MongoDB. The client must be one with tz_aware=True."""
    plain = {name: _plain(document[name]) for name in ("input", "left") if name in document}
    return msgspec.convert({**document, "id": document["_id"], **plain}, Item)


def _plain(value: Any) -> Any:
    """With numbers of Python: a large one comes from MongoDB as one that neither msgspec nor the frontier knows."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, Int64) else value


def to_document(of: Job | Item) -> Document:
    """For MongoDB, without what is not known. Numbers are always there, so that they can be sorted and compared."""
    document: Document = msgspec.to_builtins(of, builtin_types=(datetime,))
    document = {"_id": document.pop("id"), **document}
    return {name: value for name, value in document.items() if value not in _ABSENT}


JOB_INDEXES = (
    IndexModel([("spider", ASCENDING), ("scope", ASCENDING), ("number", DESCENDING)], unique=True),
    IndexModel([("spider", ASCENDING), ("state", ASCENDING)]),
    IndexModel([("created_at", DESCENDING), ("_id", DESCENDING)]),
    IndexModel(
        [("idempotency_key", ASCENDING)],
        unique=True,
        partialFilterExpression={"idempotency_key": {"$exists": True}},
    ),
    IndexModel([(UNTOLD, ASCENDING)], partialFilterExpression={UNTOLD: {"$exists": True}}),
)

BY_OUTCOME = "by_outcome"
"""Name of the index in which items of one outcome and one state are in the order of their ids. Those that have none are
not in it: so a million of them are added sooner."""
BY_STATE = [
    ("job", ASCENDING),
    ("state", ASCENDING),
    ("due_at", ASCENDING),
    ("depth", ASCENDING),
    ("priority", DESCENDING),
    ("_id", ASCENDING),
    ("site", ASCENDING),  # so that items of sites that are left alone are passed over unread
]
"""Index in which items are found that are due."""
BY_KEY = [("job", ASCENDING), ("kind", ASCENDING), ("key", ASCENDING)]
"""Index that holds every item of a job once, and in which none moves."""
ITEM_INDEXES = (
    IndexModel(BY_STATE),
    IndexModel(BY_KEY),
    IndexModel(
        [("job", ASCENDING), ("outcome", ASCENDING), ("state", ASCENDING), ("_id", ASCENDING)],
        name=BY_OUTCOME,
        partialFilterExpression={"outcome": {"$exists": True}},
    ),
    IndexModel([("slots", ASCENDING)], unique=True, partialFilterExpression={"slots": {"$exists": True}}),
    IndexModel(
        [("job", ASCENDING), ("kind", ASCENDING), ("number", ASCENDING)],
        unique=True,
        partialFilterExpression={"number": {"$exists": True}},
    ),
)
