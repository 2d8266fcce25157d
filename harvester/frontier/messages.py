"""The words between a worker and the frontier: operations, leases, and what people are told about requests."""

from dataclasses import dataclass
from typing import NamedTuple

from harvester.breaker.states import BreakerChange, BreakerState


class ItemRef(NamedTuple):
    """One attempt at a job item."""

    id: str
    """It begins with the id of the item's job and a colon."""
    attempt: int
    """From 1. The larger is the later."""

    @property
    def job(self) -> str:
        """The id of the item's job."""
        return self.id.partition(":")[0]


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
    rooted: bool = True
    """Whether it follows from no leased request, whose lease would bring it again if Redis lost it."""
    items: tuple[ItemRef, ...] = ()
    """To which it belongs. When none of these attempts is under way (any more), it is not queued."""


class FeedItems(NamedTuple):
    """Begins attempts at items, all together. Sent twice, or after a later attempt, it begins them once."""

    items: tuple[ItemRef, ...]
    requests: tuple[Push, ...]
    """With which they begin. Each belongs to some of these items."""
    deadline: float
    """Epoch seconds of Redis's clock, as Exchange.now. Afterwards nothing of it is applied."""


class EndedAck(NamedTuple):
    """The ledger knows how these attempts at items ended."""

    items: tuple[ItemRef, ...]


class Done(NamedTuple):
    """The leased request was fetched and what it yielded is safe."""

    id: str
    outcome: str = "ok"
    rejected: int = 0
    """Records of the page that were rejected with a written reason."""
    records: int = 0
    """Records of the page that are stored."""
    reason: str = ""
    """Why the outcome is not ok."""
    new: int = 0
    """Of the records that are stored, those that were not known before."""


class Skip(NamedTuple):
    """The leased request is not fetched, on purpose."""

    id: str
    outcome: str
    reason: str


class Dead(NamedTuple):
    """The leased request is given up. People may replay it, unless it belongs to items: those are tried again."""

    id: str
    outcome: str
    reason: str


class Requeue(NamedTuple):
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
    target: int | None = None
    """The fingerprint of a redirect's target, which is fetched once. None: it may have been fetched before."""


class Release(NamedTuple):
    """The leased request is given back unspent."""

    id: str


class EventAck(NamedTuple):
    """People know of a breaker's change of state."""

    id: str
    """Of the event."""


Ending = Done | Skip | Dead | Requeue | Release
"""What ends a lease."""
Operation = Push | FeedItems | EventAck | EndedAck | Ending


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
    probe: int = 0
    """The trial in which it finds out whether its site must still be left alone; 0: it is no probe."""


class Held(NamedTuple):
    """A request that a worker has, and a Redis that forgot has not."""

    id: str
    payload: bytes
    token: str
    url: str
    priority: int
    job: str
    site: str
    attempts: int = 0
    deliveries: int = 0


class ParkedSite(NamedTuple):
    """Parked requests of a site."""

    site: str
    parked: int
    state: str
    """Of the site's breaker."""


class AllParked(NamedTuple):
    """Parked requests, when nothing else is left."""

    parked: int
    sites: list[ParkedSite]
    """Some of them."""
    alone_s: float
    """All that nobody holds have been left alone for so long at least."""


class ItemEnded(NamedTuple):
    """No request of an attempt at an item is in the frontier any more."""

    id: str
    attempt: int
    job: str
    requests: int
    """All that belonged to it."""
    records: int
    """Stored from their pages. Those of a page that belongs to several items count for each."""
    rejected: int
    outcomes: dict[str, int]
    """How its requests ended: outcome -> how many. Beside those of harvester.outcomes there are worker_lost and
    callback_blocked. Empty when none was queued."""
    reasons: dict[str, str]
    """Of each outcome that is no success, why one of the requests ended so."""
    at: float
    """Epoch seconds."""
    new: int = 0
    """Of the records, those that were not known before. Too few, when a worker died between storing and saying so."""

    @property
    def ref(self) -> ItemRef:
        """What is to be acknowledged."""
        return ItemRef(self.id, self.attempt)


class Exchange(NamedTuple):
    """What one round trip brought."""

    leased: list[Leased]
    accepted: int
    """Pushes that are queued, those sent a second time included."""
    duplicates: int
    """Pushes whose fingerprint was seen."""
    stale: int
    """Operations on leases that this worker does not hold (any more), and requests of attempts that are over."""
    ready: int
    waiting: int
    leased_total: int
    parked: int
    next_due: float | None
    """When the next waiting request becomes ready, in epoch seconds of this machine's clock."""
    held: int
    """Leases of this worker as Redis has them."""
    now: float
    """The time at Redis, in epoch seconds."""
    shut: dict[str, BreakerState]
    """Breakers that have changed since the worker was told of them; those that are closed, too. More may follow."""
    anew: bool
    """Whether what the worker knew of breakers before is to be forgotten."""
    all_parked: AllParked | None
    """None while anything is left that is not parked."""
    changes: list[BreakerChange]
    """Changes of breakers that this worker has to tell people of."""
    ended: list[ItemEnded]
    """Items that have ended, for the ledger. Until they are acknowledged they are told again, to any worker."""
    lost: int = 0
    """Requests that Redis lost, since the frontier was last begun anew."""
    damaged: bool = False
    """Whether keys are missing, so that what is counted is not what is there."""
    done_again: frozenset[str] = frozenset()
    """Leases that were given back in place of their ends: Redis may have forgotten what followed from them."""
    went_back_s: float = 0.0
    """By how much the clock of Redis's host was set back since the last exchange of any worker."""


class RequestEvent(NamedTuple):
    """A line in the history of a request."""

    at: float
    event: str
    """retry, redirect, redelivered, parked, dead or replayed."""
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
    history: list[RequestEvent]
    at: float
    """Epoch seconds."""


class RequestStatus(NamedTuple):
    """Where a request is. What is unknown is None: of a finished request only its fingerprint is kept."""

    state: str
    """ready, parked, waiting, leased, dead, skipped or done."""
    since: float | None = None
    until: float | None = None
    """When it becomes ready, if it waits."""
    worker: str | None = None
    attempts: int = 0
    deliveries: int = 0
    outcome: str = ""
    reason: str = ""
    history: tuple[RequestEvent, ...] = ()
    url: str = ""


class WorkerStatus(NamedTuple):
    """A worker as Redis knows it."""

    leased: int
    oldest_s: float
    """Age of its oldest lease."""
    silent_s: float
    """Since its last heartbeat."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How many requests of a spider are where."""

    queued: int
    """Ever."""
    ready: int
    parked: int
    waiting: int
    leased: int
    done: int
    skipped: int
    dead: int
    lost: int
    dead_by_outcome: dict[str, int]


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """A breaker that is not closed."""

    state: str
    """open, half_open or held."""
    cause: str
    """refusals, failures, ratio, drift, fields or person."""
    since: float
    """Epoch seconds; when it came into this state."""
    opened: float
    """When the site was last not left alone."""
    until: float | None
    """When it may change by itself."""
    times: int
    """How often in a row it was opened."""
    tried: int
    """In the window."""
    failed: int
    outcomes: dict[str, int]
    probes: tuple[int, int]
    """How many are out or have answered, and how many did well."""
    said: str
    """Why the last failure failed, or why a person wants it so."""


class FrontierStatus(NamedTuple):
    """The whole frontier of a spider, read at one moment."""

    queued: int
    ready: int
    parked: int
    waiting: int
    next_due: float | None
    leased: int
    done: int
    skipped: int
    dead: int
    lost: int
    """By a Redis that forgot a part of what it held."""
    workers: dict[str, WorkerStatus]
    done_by_outcome: dict[str, int]
    dead_by_outcome: dict[str, int]
    skipped_by_outcome: dict[str, int]
    items: int
    """Job items of which requests are here."""
    ended: int
    """Attempts at items that have ended, and of which the ledger does not know yet."""
    seen: int
    rejected: int
    """Records of what is done that were rejected, with a written reason."""
    redelivered: int
    retried: int
    duplicates: int
    exchanges: int
    memory_bytes: int
    jobs: dict[str, dict[str, int]]
    """Job to its counts: queued, ready, parked, waiting, leased, done, skipped, dead, lost, seen, rejected, items."""
    sites: dict[str, dict[str, int]]
    """Site to its counts: ready, parked, leased."""
    breakers: dict[str, BreakerStatus]
    """Breakers that are not closed. The name is that of the site; with a tier of proxies: site, zero byte, tier."""
    balanced: bool
    """Whether every request that was queued is found in exactly one place."""
