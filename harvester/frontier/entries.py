"""The words between a worker and the frontier: operations, leases, and what people are told about requests."""

from typing import NamedTuple


class Push(NamedTuple):
    """A new request. Sent twice with the same token it is queued once."""

    fingerprint: int
    """Signed 64-bit, see `seen.fingerprint`."""
    payload: bytes
    token: str
    url: str
    priority: int = 0
    job: str = ""
    site: str = ""
    filtered: bool = True
    """False: queued though its fingerprint was seen (dont_filter)."""
    not_before: float = 0.0
    """Epoch seconds of this machine's clock. 0: ready at once."""


class Done(NamedTuple):
    """The leased request was fetched and what it yielded is safe."""

    id: str
    outcome: str = "ok"


class Skip(NamedTuple):
    """The leased request is not fetched, on purpose."""

    id: str
    outcome: str
    reason: str


class Dead(NamedTuple):
    """The leased request is given up; people may replay it."""

    id: str
    outcome: str
    reason: str


class Again(NamedTuple):
    """The leased request goes on as another (retry, redirect). It stays one entry."""

    id: str
    payload: bytes
    url: str
    site: str
    priority: int
    outcome: str
    reason: str
    not_before: float = 0.0
    attempt: bool = True
    """Whether an attempt was spent. False for redirects."""


class Release(NamedTuple):
    """The leased request is given back unspent."""

    id: str


Operation = Push | Done | Skip | Dead | Again | Release


class Leased(NamedTuple):
    """A request that this worker now holds."""

    id: str
    payload: bytes
    attempts: int
    """Spent before this one."""
    deliveries: int
    """How many workers were lost with it."""
    job: str
    site: str


class Exchange(NamedTuple):
    """What one round trip brought."""

    leased: list[Leased]
    accepted: int
    """Pushes that are queued, those sent a second time included."""
    duplicates: int
    """Pushes whose fingerprint was seen."""
    stale: int
    """Operations on leases that this worker does not hold (any more)."""
    ready: int
    waiting: int
    leased_total: int
    next_due: float | None
    """When the next waiting request becomes ready, in epoch seconds of this machine's clock."""
    held: int
    """Leases of this worker as Redis has them. When its own number differs, it should `reconcile`."""
    now: float
    """The time at Redis, in epoch seconds."""


class Event(NamedTuple):
    """A line in the history of a request."""

    at: float
    event: str
    """retry, redirect, redelivered, dead or replayed."""
    outcome: str
    reason: str


class DeadLetter(NamedTuple):
    """A request that was given up."""

    id: str
    url: str
    outcome: str
    reason: str
    attempts: int
    deliveries: int
    history: list[Event]
    at: float
    """Epoch seconds."""


class Fate(NamedTuple):
    """Where a request is. What is unknown is None: of a finished request only its fingerprint is kept."""

    state: str
    """ready, waiting, leased, dead, skipped or done."""
    since: float | None = None
    until: float | None = None
    """When it becomes ready, if it waits."""
    worker: str | None = None
    attempts: int = 0
    deliveries: int = 0
    outcome: str = ""
    reason: str = ""
    history: tuple[Event, ...] = ()
    url: str = ""


class WorkerStatus(NamedTuple):
    """A worker as Redis knows it."""

    leased: int
    oldest_s: float
    """Age of its oldest lease."""
    silent_s: float
    """Since its last heartbeat."""


class Status(NamedTuple):
    """The whole frontier of a spider, read at one moment."""

    queued: int
    ready: int
    waiting: int
    next_due: float | None
    leased: int
    done: int
    skipped: int
    dead: int
    workers: dict[str, WorkerStatus]
    done_by_outcome: dict[str, int]
    dead_by_outcome: dict[str, int]
    skipped_by_outcome: dict[str, int]
    seen: int
    redelivered: int
    retried: int
    duplicates: int
    exchanges: int
    memory_bytes: int
    jobs: dict[str, dict[str, int]]
    """Job to its counts: queued, ready, waiting, leased, done, skipped, dead, seen."""
    sites: dict[str, dict[str, int]]
    """Site to its counts: ready, leased."""
    balanced: bool
    """Whether every request that was queued is found in exactly one place."""
