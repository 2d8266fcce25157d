"""The documents of the collections `jobs` and `job_items`, with their ids and indexes."""

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
"""Name of the collection of job items."""
SCHEDULES = "schedules"
"""Name of the collection of schedules."""
MOST_KEY_BYTES = 500
"""Bytes of a key that fit into an item's id. A longer key is replaced there by its hash."""
SMALL = 20_000
"""Items of a small job: its counts are refreshed at every request for them."""
MOST_PACES = 100
"""Maximum number of past counts in a job's document: they cover the last minutes."""
STOPPED_AT = "stopped_at"
"""Field of a job: the time when it was last paused or ended."""
UNTOLD = "untold"
"""Field of a job that was paused or ended: set together with the state, removed when webhooks have reported it."""
LISTINGS = "listings"
"""Field of a job: number of times its arguments were read."""
NOT_GIVEN = "not all its items were given: the command that began it gives the others when it is run again"
"""The explanation of an incomplete job, shown to users."""
MOST_ATTEMPTS_SHOWN = 10
"""Maximum number of attempts in an item's history. The latest are kept."""


class JobState(StrEnum):
    """The state of a job. A recurring job, with items that are visited again and again, never finishes."""

    OPEN = "open"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    FINISHED = "finished"


class ItemState(StrEnum):
    """The state of an item: waiting -> active -> done, failed or skipped; or waiting again for its next attempt."""

    WAITING = "waiting"
    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


UNFINISHED = (ItemState.WAITING, ItemState.ACTIVE)
"""The states of an item that still goes on by itself."""


class SavedResult(Struct, OnTheWire, frozen=True):
    """The result that a callback reported for an item in one attempt. It outranks the outcomes of the attempt's
    requests."""

    attempt: int
    state: ItemState
    """The state done, failed, skipped or waiting."""
    outcome: str
    reason: str = ""
    until: datetime | None = None
    """Time until which a waiting item waits."""


class LookedAt(Struct, OnTheWire, frozen=True):
    """The result that a callback reported for one visit to an item of a recurring job."""

    attempt: int
    found: int
    changed: bool | None = None
    cost: float = 1.0
    left: dict[str, Any] | None = None
    not_before: datetime | None = None


class EndedAttempt(Struct, OnTheWire, frozen=True):
    """A line in the history of an item: one attempt that has ended."""

    attempt: int
    at: datetime
    state: ItemState
    """The state of the item after the attempt."""
    outcome: str
    reason: str = ""
    requests: int = 0
    records: int = 0


class Item(Struct, OnTheWire, frozen=True, kw_only=True):
    """A job item as MongoDB stores it. Unknown values are absent there. Times are in UTC."""

    id: str
    """The id, made by `item_id`."""
    job: str
    kind: str
    """The kind of the item: account, thread, parcel, feed."""
    key: str
    """The natural key. A job holds each pair of kind and key once."""
    input: dict[str, Any] = {}
    """The values that the spider needs to start the item."""
    line: int | None = None
    """Number of the input line that the item came from."""
    depth: int = 0
    """Steps from the first items of the job. Items with the smallest depth are fed first."""
    priority: int = 0
    """The priority within one depth. The largest is fed first."""
    site: str = ""
    """Name of the site that serves the item. Empty: not known in advance."""
    state: ItemState = ItemState.WAITING
    stage: str = ""
    """The stage that the item has reached, named by the spider."""
    stage_rank: int | None = None
    """Rank of the stage in the latest attempt. A later stage has a larger rank."""
    attempts: int = 0
    """Number of the latest attempt. It never goes down."""
    failures: int = 0
    """Failed attempts since the last retry by a user, or the last successful visit. The job's `attempts` limits them.
    """
    outcome: str = ""
    """The outcome of the latest attempt. Empty while an attempt is under way."""
    reason: str = ""
    said: SavedResult | None = None
    looked: LookedAt | None = None
    looks: tuple[Look, ...] = ()
    """The recent visits to an item of a recurring job, the latest last."""
    often: float | None = None
    """Factor on the visit frequency of the policy: 2 visits the item twice as often. None: unchanged."""
    recheck: str = ""
    """The item's own visit policy. Empty: the job's policy applies."""
    left: dict[str, Any] = {}
    """The values that the last successful visit left for the next one."""
    history: tuple[EndedAttempt, ...] = ()
    due_at: datetime | None = None
    """Time until the item is not fed. None: it is due now."""
    why: str = ""
    """The reason for the time of the next visit."""
    not_before: datetime | None = None
    """Time until the site wants no visit, as the last visit reported."""
    slots: tuple[str, ...] = ()
    """The slots of daily budgets that the item's visits have taken: see `budgets`."""
    listed: str = ""
    """The reading of the job's arguments that last listed the item. A later reading has a larger value. Empty: the
    item came in another way."""
    removed_at: datetime | None = None
    """Time when a user removed the item from the job while an attempt was under way. The attempt still goes on."""
    fed_at: datetime | None = None
    fed_depth: int | None = None
    """The depth of the item when it was last fed."""
    feeder: str = ""
    """The feeder that feeds the item while it is active."""
    number: int | None = None
    """Number from 1 to the job's limit of the kind, unique within the kind."""
    counts: dict[str, int] = {}
    """Sums over the ended attempts: requests, records, new (records that were not known before), rejected."""
    created_at: datetime
    updated_at: datetime


class RetryPolicy(NamedTuple):
    """The rules of a job for attempts that fail or end."""

    attempts: int = 3
    """Maximum number of failures: after them an item, or a visit of a recurring job, counts as failed."""
    backoff_s: float = 600.0
    """Seconds to wait before the attempt after the first failure. Each further failure doubles them."""
    recheck: VisitPolicy | None = None
    """The visit policy of a recurring job."""
    cancelled: bool = False
    """True if nothing of the job is fed any more."""


class Counted(Struct, OnTheWire, frozen=True):
    """The number of items of a job with the same kind, state, stage and outcome."""

    kind: str
    state: ItemState
    stage: str
    outcome: str
    items: int
    records: int = 0
    """Number of their records."""
    later: int = 0
    """Number of items among them that wait for a time."""


class JobPace(Struct, OnTheWire, frozen=True):
    """The progress of a job at one count."""

    at: datetime
    ended: int
    """Number of items that were done, failed or skipped."""


class Job(Struct, OnTheWire, frozen=True, kw_only=True):
    """A job as MongoDB stores it. Times are in UTC."""

    HIDDEN = frozenset({"pace", "counted_end", "count_due_at", "counting_s"})

    id: str
    """The id, made by `new_job_id`."""
    spider: str
    scope: str
    """Hash of the arguments. Only one job of a scope is unfinished at a time."""
    number: int
    """Number of the job within its scope, from 1."""
    arguments: dict[str, Any] = {}
    """The arguments in the form that the spider's model accepts."""
    state: JobState = JobState.OPEN
    recheck: str = ""
    """The visit policy of a recurring job, in the form that `read_policy` reads. Empty: the job is not recurring."""
    looks_a_day: int | None = None
    """Maximum number of visits a day to items of the job. None: no limit."""
    threshold: Threshold | None = None
    """The threshold that makes the items of a job with the policy `budget` use up its budget. None: not computed yet.
    """
    priority: int = 0
    """The priority. Jobs with a larger one get a larger share of the window."""
    limits: dict[str, int] = {}
    """Kind -> maximum number of items that are ever fed."""
    attempts: int = RetryPolicy().attempts
    backoff_s: float = RetryPolicy().backoff_s
    name: str = ""
    idempotency_key: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    """Time when an item of the job was first fed."""
    ended_at: datetime | None = None
    fed: int = 0
    """Number of times items were added. A process that finishes the job compares it, so that no new item is missed."""
    counts: tuple[Counted, ...] = ()
    """The counts of the items at `counted_at`."""
    counted_at: datetime | None = None
    counted_end: datetime | None = None
    """The value of `ended_at` when the last count began."""
    count_due_at: datetime | None = None
    """Time when a process may count again. While one process counts: the time until which the others wait for it."""
    counting_s: float | None = None
    """Seconds that MongoDB took for the last count."""
    pace: tuple[JobPace, ...] = ()
    """The progress at the last counts, the latest last."""
    pause_reason: str = ""
    incomplete: bool = False
    """True if the arguments list items that were not added yet. Until then the job does not finish."""

    @property
    def is_counted(self) -> bool:
        """True if the counts of the job are final."""
        return self.state is JobState.FINISHED and self.ended_at is not None and self.counted_end == self.ended_at

    @property
    def is_large(self) -> bool:
        """True if counting takes too long to be done at every request."""
        return sum(row.items for row in self.counts) > SMALL

    @property
    def standing(self) -> bool:
        """True for a recurring job: its items are visited again and again, so it never finishes."""
        return bool(self.recheck)

    @property
    def policy(self) -> RetryPolicy:
        """The rules for the end of an attempt at one of the job's items."""
        recheck = read_policy(self.recheck) if self.recheck else None
        if isinstance(recheck, Budget) and self.threshold:
            recheck = recheck.under(self.threshold)
        return RetryPolicy(self.attempts, self.backoff_s, recheck, self.state is JobState.CANCELLED)


class JobItem(NamedTuple):
    """One attempt at an item, in the form that the spider receives."""

    id: str
    job: str
    kind: str
    key: str
    input: Mapping[str, Any]
    depth: int
    attempt: int
    stage: str
    """The stage that an earlier attempt has reached. Empty at first."""
    looked: datetime | None = None
    """Time of the last successful visit, in a recurring job."""
    left: Mapping[str, Any] = {}
    """The values that the last successful visit left."""
    was_missing: bool = False
    """True if an attempt since the last successful visit found the item missing."""


def new_job_id(spider: str) -> str:
    """Returns a job id that is unique across databases: one Redis may have served several."""
    return f"{spider}-{secrets.token_hex(4)}"


def looked_at(looks: Sequence[Look]) -> datetime | None:
    """Returns the time of the last successful visit."""
    at = next((look.at for look in reversed(looks) if not look.failed), None)
    return None if at is None else datetime.fromtimestamp(at, UTC)


def item_id(job: str, kind: str, key: str) -> str:
    """Returns the id of an item: always the same for the same job, kind and key."""
    encoded = key.encode()
    short = key if len(encoded) <= MOST_KEY_BYTES else hashlib.sha256(encoded).hexdigest()
    return f"{job}:{kind}:{short}"


_ABSENT: tuple[Any, ...] = (None, "", (), [], {})


def read_job(document: Mapping[str, Any]) -> Job:
    """Reads a job from its MongoDB document. The client must be created with tz_aware=True."""
    arguments = _plain(document.get("arguments", {}))
    return msgspec.convert({**document, "id": document["_id"], "arguments": arguments}, Job)


def read_item(document: Mapping[str, Any]) -> Item:
    """Reads an item from its MongoDB document. The client must be created with tz_aware=True."""
    plain = {name: _plain(document[name]) for name in ("input", "left") if name in document}
    return msgspec.convert({**document, "id": document["_id"], **plain}, Item)


def _plain(value: Any) -> Any:
    """Converts Int64 into int. MongoDB returns it for large numbers; msgspec and the frontier do not know it."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, Int64) else value


def to_document(of: Job | Item) -> Document:
    """Returns the MongoDB document, without unknown values. Numbers are always there, for sorting and comparing."""
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
"""Name of the index that lists the items of one outcome and one state in the order of their ids. Items without an
outcome are not in it, so adding a million of them is faster."""
BY_STATE = [
    ("job", ASCENDING),
    ("state", ASCENDING),
    ("due_at", ASCENDING),
    ("depth", ASCENDING),
    ("priority", DESCENDING),
    ("_id", ASCENDING),
    ("site", ASCENDING),  # lets a claim pass over the items of sites with an open breaker without reading them
]
"""The index that finds the items that are due."""
BY_KEY = [("job", ASCENDING), ("kind", ASCENDING), ("key", ASCENDING)]
"""The index that holds every item of a job once. Items never move within it."""
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
