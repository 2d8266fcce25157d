"""The messages between a worker and the frontier: operations, leases, and the state of requests as shown to people."""

from dataclasses import dataclass
from typing import NamedTuple

from harvester.breaker.states import BreakerChange, BreakerState


class ItemRef(NamedTuple):
    """One attempt at a job item."""

    id: str
    """Begins with the id of the item's job and a colon."""
    attempt: int
    """Counts from 1; a larger number is a later attempt."""

    @property
    def job(self) -> str:
        """The id of the item's job."""
        return self.id.partition(":")[0]


class Push(NamedTuple):
    """A new request. Sent twice with the same token, it is queued once."""

    fingerprint: int
    """Signed 64-bit integer, see `fingerprints.fingerprint`."""
    payload: bytes
    token: str
    url: str
    priority: int = 0
    job: str = ""
    site: str = ""
    filtered: bool = True
    """False: queued even if its fingerprint was seen (dont_filter)."""
    not_before: float = 0.0
    """Epoch seconds of this machine's clock. 0: ready at once."""
    rooted: bool = True
    """True if no leased request led to it, whose lease would bring it back if Redis lost it."""
    items: tuple[ItemRef, ...] = ()
    """The attempts that the request belongs to. When all have ended, the request is not queued."""


class FeedItems(NamedTuple):
    """Starts attempts at items, all together. Sent twice, or after a later attempt, it starts them only once."""

    items: tuple[ItemRef, ...]
    requests: tuple[Push, ...]
    """The first requests. Each belongs to one or more items of the feed."""
    deadline: float
    """Epoch seconds of Redis's clock, as in Exchange.now. After it the feed is not applied at all."""


class EndedAck(NamedTuple):
    """Acknowledges that the ledger has the results for these attempts at items."""

    items: tuple[ItemRef, ...]


class Done(NamedTuple):
    """The leased request was fetched, and its output is safe."""

    id: str
    outcome: str = "ok"
    rejected: int = 0
    """Number of the page's records that were rejected with a saved reason."""
    records: int = 0
    """Number of the page's records that are stored."""
    reason: str = ""
    """The reason of an outcome that is not ok."""
    new: int = 0
    """Number of stored records that were not known before."""


class Skip(NamedTuple):
    """The leased request is skipped on purpose."""

    id: str
    outcome: str
    reason: str


class Dead(NamedTuple):
    """The leased request is given up. People may replay it, unless it belongs to items: those are retried."""

    id: str
    outcome: str
    reason: str


class Requeue(NamedTuple):
    """The leased request continues as another request (retry, redirect). It stays one entry."""

    id: str
    payload: bytes
    url: str
    site: str
    priority: int
    outcome: str
    reason: str
    not_before: float = 0.0
    attempt: bool = True
    """True if an attempt was spent. False for redirects."""
    target: int | None = None
    """Fingerprint of a redirect's target, which is fetched only once. None: it may be fetched again."""


class Release(NamedTuple):
    """The leased request is returned unspent."""

    id: str


class EventAck(NamedTuple):
    """Acknowledges that a breaker's change of state was reported to people."""

    id: str
    """Id of the event."""


Ending = Done | Skip | Dead | Requeue | Release
"""The operations that end a lease."""
Operation = Push | FeedItems | EventAck | EndedAck | Ending


class Leased(NamedTuple):
    """A request that this worker now holds."""

    id: str
    payload: bytes
    attempts: int
    """Number of attempts spent before this one."""
    deliveries: int
    """Number of workers that were lost while they held it."""
    job: str
    site: str
    probe: int = 0
    """Number of the half-open trial whose probe it is; 0: it is not a probe."""


class Held(NamedTuple):
    """A request that a worker holds, and that Redis may have forgotten."""

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
    """State of the site's breaker."""


class AllParked(NamedTuple):
    """Parked requests, when no other work is left."""

    parked: int
    sites: list[ParkedSite]
    """Some of the sites."""
    alone_s: float
    """Minimum number of seconds that all breakers, except held ones, have been open."""


class ItemEnded(NamedTuple):
    """An attempt at an item that has no request in the frontier any more."""

    id: str
    attempt: int
    job: str
    requests: int
    """Number of all requests that belonged to the attempt."""
    records: int
    """Number of records stored from their pages. A page that belongs to several items counts for each."""
    rejected: int
    outcomes: dict[str, int]
    """Number of requests by outcome, with worker_lost and callback_blocked beside harvester.outcomes. May be empty."""
    reasons: dict[str, str]
    """The reason of one request by outcome, for outcomes without success."""
    at: float
    """Epoch seconds."""
    new: int = 0
    """Number of records that were not known before. Too low when a worker died between storing and reporting."""

    @property
    def ref(self) -> ItemRef:
        """The reference to acknowledge."""
        return ItemRef(self.id, self.attempt)


class Exchange(NamedTuple):
    """The reply to an exchange."""

    leased: list[Leased]
    accepted: int
    """Number of pushes that are queued, with those sent a second time."""
    duplicates: int
    """Number of pushes whose fingerprint was seen."""
    stale: int
    """Number of operations on leases that this worker does not hold, and of requests whose attempts are over."""
    ready: int
    waiting: int
    leased_total: int
    parked: int
    next_due: float | None
    """Time when the next waiting request becomes ready, in epoch seconds of this machine's clock."""
    held: int
    """Number of this worker's leases in Redis."""
    now: float
    """The time at Redis, in epoch seconds."""
    shut: dict[str, BreakerState]
    """Breakers that changed since the worker last received them, also if closed now. More may follow."""
    anew: bool
    """True if the worker has to forget the breakers that it knew."""
    all_parked: AllParked | None
    """None while work is left that is not parked."""
    changes: list[BreakerChange]
    """Changes of breakers that this worker has to report to people."""
    ended: list[ItemEnded]
    """Items that have ended, for the ledger. Sent to any worker until they are acknowledged."""
    lost: int = 0
    """Number of requests that Redis has lost since a user last accepted a loss (`harvester frontier`)."""
    damaged: bool = False
    """True if keys are missing, so that the counts do not match the requests."""
    done_again: frozenset[str] = frozenset()
    """Leases that were released instead of ended: Redis may have forgotten the requests that they led to."""
    went_back_s: float = 0.0
    """Seconds that the clock of Redis's host was set back since any worker's last exchange."""


class RequestEvent(NamedTuple):
    """An entry in the history of a request."""

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
    """The state of a request. Unknown values stay None: only the fingerprint of a finished request is saved."""

    state: str
    """ready, parked, waiting, leased, dead, skipped or done."""
    since: float | None = None
    until: float | None = None
    """Time when a waiting request becomes ready."""
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
    """Seconds since its oldest lease."""
    silent_s: float
    """Seconds since its last heartbeat."""


@dataclass(frozen=True, slots=True)
class Depth:
    """The number of a spider's requests in each state."""

    queued: int
    """Number of all requests that were ever queued."""
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
    """Epoch seconds of the change to this state."""
    opened: float
    """Epoch seconds when the breaker was last closed."""
    until: float | None
    """Epoch seconds when it may change without a person."""
    times: int
    """Number of times that it opened in a row."""
    tried: int
    """Number of attempts in the window."""
    failed: int
    outcomes: dict[str, int]
    probes: tuple[int, int]
    """Number of probes that are granted or have ended, and number of successful ones."""
    said: str
    """The reason of the last failure, or of a person's decision."""


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
    """Number of requests that Redis lost."""
    workers: dict[str, WorkerStatus]
    done_by_outcome: dict[str, int]
    dead_by_outcome: dict[str, int]
    skipped_by_outcome: dict[str, int]
    items: int
    """Number of job items that have requests in the frontier."""
    ended: int
    """Number of ended attempts at items that the ledger has not acknowledged."""
    seen: int
    rejected: int
    """Number of records, from pages that are done, that were rejected with a saved reason."""
    redelivered: int
    retried: int
    duplicates: int
    exchanges: int
    memory_bytes: int
    jobs: dict[str, dict[str, int]]
    """Counts by job: queued, ready, parked, waiting, leased, done, skipped, dead, lost, seen, rejected, items."""
    sites: dict[str, dict[str, int]]
    """Counts by site: ready, parked, leased."""
    breakers: dict[str, BreakerStatus]
    """Breakers that are not closed. The name is the site's; with a tier of proxies: site, zero byte, tier."""
    balanced: bool
    """True if every queued request is found in exactly one state."""
