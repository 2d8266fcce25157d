"""A worker's connection to its frontier: sends operations in batches, and fetches work before it is needed.

Only one exchange runs at a time, so operations are applied in their order: the requests that a page yields are in the
frontier before the page counts as done. The reactor never waits for Redis.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator
from datetime import datetime, timedelta
from itertools import islice
from time import monotonic, time
from typing import Any

from scrapy.statscollectors import StatsCollector

from harvester.breaker.breakers import Breakers
from harvester.breaker.states import BreakerChange
from harvester.exceptions import FrontierLost
from harvester.frontier.codec import address_of, has_items
from harvester.frontier.frontier_record import FrontierRecord
from harvester.frontier.keys import entry_id
from harvester.frontier.messages import (
    AllParked,
    Dead,
    Done,
    Ending,
    Exchange,
    FeedItems,
    Held,
    ItemEnded,
    Leased,
    Operation,
    Push,
    Release,
    Requeue,
    Skip,
)
from harvester.frontier.owner import FrontierOwner
from harvester.frontier.store import MOST_ENDED, Frontier
from harvester.frontier.workers import is_gone
from harvester.outcomes import Outcome

logger = logging.getLogger(__name__)

PREFETCH = 128
"""Number of leased requests to keep ready for the engine."""
PER_SITE = 64
"""Maximum number of requests for one site in a worker: a slow site must not fill it. Spiders may set MOST_HELD."""
MOST_OPERATIONS = 500
"""Maximum number of operations in one exchange."""
MOST_WAITING = 2000
"""Maximum number of operations that wait to be sent; a callback that yields more requests has to wait."""
MOST_WAITING_BYTES = 16 * 1024 * 1024
"""Maximum number of payload bytes that wait to be sent."""
MOST_EXCHANGE_BYTES = 8 * 1024 * 1024
"""Maximum number of payload bytes in one exchange, or a single larger payload: Redis refuses messages of 512 MB."""
LINGER_S = 0.02
"""Minimum number of seconds that an operation waits for others to be sent with."""
LINGER_SHARE = 0.05
"""Share of a request's time in this worker that an operation may wait: so waiting delays the crawl by no more."""
PLENTY = 32
"""A worker with more leases may wait longer, while requests are ready for others: that delays nobody."""
LONG_LINGER_S = 0.5
BATCH = 64
"""Number of waiting operations that are sent at once."""
ENDS_SMOOTHED = 16
"""Number of ended leases that smooth the time between two ends."""
POLL_S = 0.5
"""Seconds until a worker that received less than it wanted tries again."""


class FrontierClient:
    """Sends operations in order, and keeps leased requests ready."""

    def __init__(
        self,
        frontier: Frontier,
        worker: str,
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        stats: StatsCollector,
        *,
        lease_seconds: float,
        record: FrontierRecord | None,
        holder: FrontierOwner | None = None,
        heals: bool = False,
        per_site: int = PER_SITE,
        on_change: Callable[[], None],
        before_exchange: Callable[[], None] | None = None,
        on_breakers: Callable[[list[BreakerChange]], None],
    ) -> None:
        self._frontier = frontier
        self.worker = worker
        self._patiently = patiently
        self._stats = stats
        self._heartbeat_s = lease_seconds / 3
        self._record = record
        self._holder = holder
        self._heals = heals
        """True if a ledger feeds again the items that Redis forgets."""
        self._per_site = per_site
        self._has_work = False
        """True if the frontier was not empty at its last reply."""
        self._recording: asyncio.Task[None] | None = None
        self._on_change = on_change
        self._before_exchange = before_exchange
        self._on_breakers = on_breakers
        self.on_ended: Callable[[list[ItemEnded]], None] | None = None
        """Receives the items that have ended, to save their results. Without it, other workers receive them."""
        self._feeds: deque[asyncio.Future[None]] = deque()
        """A future for each outgoing FeedItems: done when the frontier has it."""
        self._outgoing: deque[Operation] = deque()
        self._outgoing_bytes = 0
        self._oldest_at = 0.0
        """Time since the oldest outgoing operation waits."""
        self._ended_at, self._between_s = monotonic(), 0.0
        """Time of the last end of a lease, and the smoothed seconds between two ends."""
        self._ready: deque[Leased] = deque()
        self._held: dict[str, Leased] = {}
        """All leases of this worker by id, both ready and in progress."""
        self._ending: dict[str, Leased] = {}
        """Ended leases whose end was not sent yet."""
        self._afterwards: dict[str, Callable[[], None]] = {}
        """Callbacks by lease, called when its end was sent."""
        self.epoch = ""
        """The epoch of the frontier, once this worker may work on its jobs; empty before."""
        self.last: Exchange | None = None
        self.last_at = 0.0
        self._more = True
        """True if the frontier probably has more for this worker than it returned last."""
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing = False
        self.breakers = Breakers()
        self.breakers.on_urgent = self._wake.set
        self.breakers.ask_redis = lambda breaker: patiently(lambda: frontier.take_probe(breaker))
        self._task: asyncio.Task[None] | None = None
        self._failed = False
        self.shared = False
        """True if other workers, or an earlier run, take part in the crawl."""
        self.empty_since: float | None = None
        """Monotonic time since which the whole frontier is empty."""

    def start(self, on_failure: Callable[[BaseException], None]) -> None:
        """Starts the exchanges. `on_failure` receives the exception that ends them."""

        def ended(task: asyncio.Task[None]) -> None:
            self._room.set()
            self.breakers.end()
            for feed in self._feeds:
                _end(feed)
            if not task.cancelled() and (error := task.exception()):
                self._failed = True
                on_failure(error)

        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(ended)

    async def close(self) -> None:
        """Sends the remaining operations, and releases the leases that are held."""
        self._closing = True
        self._wake.set()
        if self._task:
            await asyncio.wait([self._task])
        if not self._failed:
            try:
                await self._write_end()
            except FrontierLost as error:
                raise await self._put_back(error) from None
            await self._patiently(lambda: self._frontier.leave(self.worker))
            if self._holder and self.epoch and not await self.others():
                await self._holder.leave()

    async def others(self) -> int:
        """Returns how many other workers sent a heartbeat within the time of a lease."""
        number: int = await self._patiently(lambda: self._frontier.others(self.worker))
        return number

    async def hold(self) -> None:
        """Prevents the use of another Redis for the same jobs. Raises UsageError when one is in use."""
        if self._holder and self.epoch:
            await self._holder.holds(self._frontier.epoch, self.last_at)

    async def dead(self) -> dict[str, int]:
        """Returns the number of remaining dead letters by outcome."""
        return {} if self._failed else await self._patiently(self._frontier.dead_by_outcome)

    # For the scheduler ------------------------------------------------------------------------------------

    def push(self, operation: Operation) -> None:
        """Queues a new request, or the new state of a lease, to be sent in its order."""
        if self._failed:
            return
        self._outgoing.append(operation)
        self._outgoing_bytes += _size(operation)
        waiting = len(self._outgoing)
        if waiting == 1:
            self._oldest_at = monotonic()
            self.empty_since = None
        if waiting in (1, BATCH):
            self._wake.set()
        if self._is_full():
            self._room.clear()

    def feed(self, feed: FeedItems) -> asyncio.Future[None]:
        """Queues the start of attempts at items. Returns a future that is done when the frontier has it."""
        heard = asyncio.get_running_loop().create_future()
        if self._task and self._task.done():
            heard.set_result(None)
        else:
            self._feeds.append(heard)
            self.push(feed)
        return heard

    def finish(self, operation: Operation, lease: str, afterwards: Callable[[], None] | None = None) -> None:
        """Queues the end of a lease. `afterwards` is called when the end is safe, if the outcome is ok."""
        if leased := self._held.pop(lease, None):
            self._ending[lease] = leased
        now = monotonic()
        self._between_s += (now - self._ended_at - self._between_s) / ENDS_SMOOTHED
        self._ended_at = now
        if leased and afterwards and isinstance(operation, Done) and operation.outcome == Outcome.OK:
            self._afterwards[lease] = afterwards
        self.push(operation)
        if len(self._held) == PLENTY:
            self._wake.set()

    def take(self) -> Leased | None:
        """Returns a leased request to work on, if one is ready."""
        if not self._ready:
            return None
        leased = self._ready.popleft()
        if self._more and len(self._ready) == PREFETCH // 2:
            self._wake.set()
        return leased

    async def room(self) -> None:
        """Returns when few enough operations wait."""
        await self._room.wait()

    def is_at(self, job: str | None) -> bool:
        """Returns True if this worker holds a request of the job; None: of any job."""
        return any(job in (None, leased.job) for leased in self._held.values())

    def is_done(self) -> bool:
        """Returns True if no work is left for any worker."""
        return self.empty_since is not None and not self._outgoing and not self._held

    @property
    def left(self) -> int:
        """The number of requests left in the frontier for all workers, at its last reply."""
        last = self.last
        return 0 if last is None else last.ready + last.parked + last.waiting + last.leased_total

    def all_parked(self) -> AllParked | None:
        """Returns the parked requests, when no other work is left for any worker."""
        return None if self.last is None or self._outgoing or self._held else self.last.all_parked

    # For the frontier -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._exchange(joining=True)
                if self._record:
                    await self._record.check(self._frontier.epoch)
                await self._take_hold()
                await self._converse()
            except FrontierLost as error:
                lost = await self._put_back(error)
                if not self._heals:
                    raise lost from None
                await self._begin_anew(lost)
            else:
                return

    async def _take_hold(self) -> None:
        """Returns when no other Redis is in use for the same jobs. Raises UsageError when one is."""
        while self._holder and not await self._holder.holds(self._frontier.epoch, self.last_at):
            if self._closing:
                return
            await asyncio.sleep(POLL_S)
            await self._exchange(joining=True)
        self.epoch = self._frontier.epoch

    async def _converse(self) -> None:
        reap_at = 0.0
        while not self._closing or self._outgoing:
            if not self._closing:
                await self._until_due()
            await self._exchange()
            self._on_change()
            if monotonic() >= reap_at:
                await self._reap()
                reap_at = monotonic() + self._heartbeat_s

    async def _reap(self) -> None:
        """Takes back the leases of silent workers and of workers whose process has ended."""
        ended = [name for name in await self._patiently(self._frontier.workers) if is_gone(name)]
        reaped = await self._patiently(lambda: self._frontier.reap(self.worker, ended))
        self._stats.inc_value("harvester/frontier/reaped", reaped)

    async def _until_due(self) -> None:
        while not self._closing and (wait := self._due_at() - monotonic()) > 0:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    def _due_at(self) -> float:
        """Returns the monotonic time when the next exchange is due."""
        if self.last is None:
            return 0.0
        due = self.last_at + self._heartbeat_s
        plenty = len(self._held) > PLENTY and self.last.ready > 0
        if self._outgoing:
            hurry = len(self._outgoing) >= BATCH or len(self._held) <= 1
            due = min(due, 0.0 if hurry else self._oldest_at + (LONG_LINGER_S if plenty else self._linger_s()))
        if self.breakers.urgent_since is not None:
            due = min(due, self.breakers.urgent_since + LINGER_S)
        if len(self._ready) <= PREFETCH // 2:
            if self._more:
                return 0.0
            if not plenty:
                due = min(due, self.last_at + POLL_S)
            if self.last.next_due is not None:
                due = min(due, max(monotonic() + self.last.next_due - time(), self.last_at + LINGER_S))
        return due

    def _linger_s(self) -> float:
        """Returns the seconds to wait for more operations. A lease is held while as many leases end as are held."""
        held_s = len(self._held) * self._between_s
        return min(max(LINGER_S, LINGER_SHARE * held_s), LONG_LINGER_S)

    async def _exchange(self, joining: bool = False) -> None:
        if self._before_exchange:
            self._before_exchange()
        operations = [] if joining else self._next_operations()
        is_working = not (self._closing or joining)
        wanted = PREFETCH - len(self._ready) if is_working else 0
        most_ended = MOST_ENDED if is_working and self.on_ended else 0
        reports = self.breakers.take()
        told: Exchange = await self._patiently(
            lambda: self._frontier.exchange(self.worker, operations, wanted, self._per_site, reports, most_ended)
        )
        for operation in operations:
            self._outgoing_bytes -= _size(self._outgoing.popleft())
            if isinstance(operation, Ending):
                self._ending.pop(operation.id, None)
            elif isinstance(operation, FeedItems):
                _end(self._feeds.popleft())
        if self._afterwards:
            self._call_afterwards(operations, told.done_again)
        self._oldest_at = monotonic()
        if not self._is_full():
            self._room.set()
        self._ready.extend(told.leased)
        self._held.update((leased.id, leased) for leased in told.leased)
        if self.breakers.hear(told.shut, anew=told.anew):
            self._give_back_parked()
        if told.changes:
            self._on_breakers(told.changes)
        if told.ended and self.on_ended:
            self.on_ended(told.ended)
        begun = self.last is None and told.ready + told.parked + told.waiting > 0
        self.shared = self.shared or begun or told.leased_total > told.held
        self.last, self.last_at = told, monotonic()
        self._more = joining or (bool(wanted) and len(told.leased) == wanted)
        empty = not (told.ready or told.parked or told.waiting or told.leased_total or self._outgoing)
        self.empty_since = (self.empty_since or monotonic()) if empty else None
        self._count(told)
        if empty:
            self._has_work = False  # another worker may write that it is finished
        elif self._record and not self._has_work:
            self._has_work = True
            self._recording = asyncio.create_task(self._write_begin(self._record, self._recording))
        if told.went_back_s >= 1:
            logger.warning(
                "The clock of Redis's host was set back by %.0f seconds; the frontier counts time on", told.went_back_s
            )
        if told.lost or told.damaged:
            lost = f"{told.lost:,} requests" if told.lost else "a part"
            raise FrontierLost(f"Redis has forgotten {lost} of the frontier")

    async def _write_begin(self, record: FrontierRecord, before: asyncio.Task[None] | None) -> None:
        """Writes to MongoDB that the frontier has work."""
        if before:
            await before
        await record.begin(self._frontier.epoch)

    async def _write_end(self) -> None:
        """Writes to MongoDB how much work the frontier has left. Work that arrived meanwhile is not missed."""
        if self._record is None or self.last is None:
            return
        if self._recording:
            await self._recording
        starts = await self._record.starts()
        await self._exchange()
        if self._recording:
            await self._recording
        await self._record.end(self._frontier.epoch, starts, self.left)

    async def _begin_anew(self, lost: FrontierLost) -> None:
        """Continues with the remaining requests. The ledger feeds this worker's items again, so no ends are sent."""
        logger.warning("%s", lost)
        await self._patiently(self._frontier.begin_anew)
        for leases in (self._ready, self._held, self._ending, self._afterwards):
            leases.clear()
        self.empty_since = None
        await asyncio.sleep(POLL_S)

    async def _put_back(self, error: FrontierLost) -> FrontierLost:
        """Returns this worker's requests, except those for items, to Redis; the returned error describes the rest."""
        mine = list(self._mine())
        number = await self._patiently(lambda: self._frontier.put_back(mine))
        await self._patiently(lambda: self._frontier.leave(self.worker))
        self._stats.inc_value("harvester/frontier/put_back", number)
        self._stats.set_value("harvester/frontier/lost", 1)
        spider = None if self._heals else self._frontier.spider
        return FrontierLost(_said_of_loss(error, spider, self.last, self.last_at, number))

    def _mine(self) -> Iterator[Held]:
        yield from (_held(leased) for leased in self._held.values() if not has_items(leased.payload))
        for operation in self._outgoing:
            if isinstance(operation, Push) and not operation.items:
                name = entry_id(operation.fingerprint, operation.job, "" if operation.filtered else operation.token)
                where = (operation.job, operation.site)
                yield Held(name, operation.payload, operation.token, operation.url, operation.priority, *where)
            elif isinstance(operation, Skip | Dead | Requeue | Release) and (leased := self._ending.get(operation.id)):
                if has_items(leased.payload):
                    continue
                again = _held(leased)
                if isinstance(operation, Requeue):
                    again = again._replace(
                        payload=operation.payload,
                        url=operation.url,
                        priority=operation.priority,
                        site=operation.site,
                        attempts=again.attempts + operation.attempt,
                    )
                yield again

    def _next_operations(self) -> list[Operation]:
        """Returns the first outgoing operations, at most as many as fit one exchange."""
        operations: list[Operation] = []
        size = 0
        for operation in islice(self._outgoing, MOST_OPERATIONS):
            size += _size(operation)
            if operations and size > MOST_EXCHANGE_BYTES:
                break
            operations.append(operation)
        return operations

    def _is_full(self) -> bool:
        return len(self._outgoing) >= MOST_WAITING or self._outgoing_bytes >= MOST_WAITING_BYTES

    def _give_back_parked(self) -> None:
        """Releases the ready requests of sites whose breaker is open now."""
        ready, self._ready = self._ready, deque()
        for leased in ready:
            if self.breakers.holds_back(leased.site, leased.probe):
                self.finish(Release(leased.id), leased.id)
            else:
                self._ready.append(leased)

    def _call_afterwards(self, operations: list[Operation], done_again: Collection[str]) -> None:
        for lease in [operation.id for operation in operations if isinstance(operation, Done)]:
            afterwards = self._afterwards.pop(lease, None)
            if afterwards and lease not in done_again:
                afterwards()

    def _count(self, told: Exchange) -> None:
        self._stats.inc_value("harvester/frontier/exchanges")
        for name in ("accepted", "duplicates", "stale"):
            if number := getattr(told, name):
                self._stats.inc_value(f"harvester/frontier/{name}", number)
        if told.leased:
            self._stats.inc_value("harvester/frontier/leased", len(told.leased))
        redelivered = sum(1 for leased in told.leased if leased.deliveries)
        if redelivered:
            self._stats.inc_value("harvester/frontier/redelivered", redelivered)


def _size(operation: Operation) -> int:
    """Returns the bytes of the operation's payload."""
    if isinstance(operation, FeedItems):
        return sum(len(request.payload) for request in operation.requests)
    return len(operation.payload) if isinstance(operation, (Push, Requeue)) else 0


def _end(feed: asyncio.Future[None]) -> None:
    if not feed.done():  # its waiter may have been cancelled
        feed.set_result(None)


def _held(leased: Leased) -> Held:
    url, priority = address_of(leased.payload)
    where = (leased.job, leased.site, leased.attempts, leased.deliveries)
    return Held(leased.id, leased.payload, "", url, priority, *where)


def _said_of_loss(error: FrontierLost, spider: str | None, last: Exchange | None, last_at: float, number: int) -> str:
    """Describes for a person the loss, the saved requests and the remedy. Without a spider no remedy is needed."""
    said = [f"{error}."]
    if last:
        when = datetime.now() - timedelta(seconds=monotonic() - last_at)
        before = last.ready + last.parked + last.waiting + last.leased_total
        said.append(f"When it last answered as before, at {when:%H:%M:%S}, it held {before:,} requests to be fetched.")
    if number or spider:
        said.append(f"This worker had {number:,} that were missing, and put them back.")
    if spider is None:
        said.append("What belongs to job items is fed again.")
    elif error.heals:
        said.append("The same command asks once more for what it begins with, and continues.")
    else:
        said.append(
            "The others are lost, and those that they would have led to:"
            f" begin anew with `harvester frontier forget {spider} --all`, then the same command."
        )
    return " ".join(said)
