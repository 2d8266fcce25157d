"""A worker's conversation with its frontier: what it has to tell goes out in batches, work comes in ahead of need.

One exchange is under way at a time, so what was told first is done first: the requests that a page led to are in
the frontier before the page counts as done. The reactor never waits for Redis.
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
"""Requests held ready for the engine."""
PER_SITE = 64
"""Requests of one site that a worker may hold, so that a slow site cannot fill it. Spiders may say fewer: MOST_HELD."""
MOST_OPERATIONS = 500
"""In one exchange."""
MOST_WAITING = 2000
"""Operations that wait to go out; whoever yields more requests waits too."""
MOST_WAITING_BYTES = 16 * 1024 * 1024
"""Of their payloads, likewise."""
MOST_EXCHANGE_BYTES = 8 * 1024 * 1024
"""Of the payloads in one exchange, unless a single one is larger: Redis takes no message of 512 MB."""
LINGER_S = 0.02
"""How long an operation waits for others to travel with, at least."""
LINGER_SHARE = 0.05
"""Of the time that a request is held: so long an operation may wait, since it delays what follows by no more."""
PLENTY = 32
"""A worker that holds more, while more is ready for others, makes nobody wait by lingering longer."""
LONG_LINGER_S = 0.5
BATCH = 64
"""Operations that are enough to go at once."""
ENDS_SMOOTHED = 16
"""Ends of leases by which the time between two of them is told."""
POLL_S = 0.5
"""How often a worker that got less than it wanted asks again."""


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
        """Whether a ledger has that fed again which Redis forgets."""
        self._per_site = per_site
        self._has_work = False
        """Whether the frontier was not empty when it last answered."""
        self._recording: asyncio.Task[None] | None = None
        self._on_change = on_change
        self._on_breakers = on_breakers
        self.on_ended: Callable[[list[ItemEnded]], None] | None = None
        """Hears of items that have ended, to write that down. Others hear of them when this is not set."""
        self._feeds: deque[asyncio.Future[None]] = deque()
        """One for each outgoing Feed: done when the frontier has heard of it."""
        self._outgoing: deque[Operation] = deque()
        self._outgoing_bytes = 0
        self._oldest_at = 0.0
        """When the first of the outgoing operations was told."""
        self._ended_at, self._between_s = monotonic(), 0.0
        """When the last lease came to its end, and the time between two ends, smoothed."""
        self._ready: deque[Leased] = deque()
        self._held: dict[str, Leased] = {}
        """All that is leased to this worker, ready or being worked on, by id."""
        self._ending: dict[str, Leased] = {}
        """Leases whose end was not told yet."""
        self._afterwards: dict[str, Callable[[], None]] = {}
        """By lease, what is to be called when its end was told."""
        self.epoch = ""
        """Of the frontier, once it is known that jobs may be worked at with it."""
        self.last: Exchange | None = None
        self.last_at = 0.0
        self._more = True
        """Whether the frontier probably has more for this worker than it gave last."""
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
        """Whether other workers, or an earlier run, have a part in the crawl."""
        self.empty_since: float | None = None
        """On the monotonic clock, since when nothing is left in the whole frontier."""

    def start(self, on_failure: Callable[[BaseException], None]) -> None:
        """Begins the conversation. `on_failure` hears of the exception that ends it."""

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
        """Tells what is left to be told, and gives back what is held."""
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
        """How many other workers were heard of within the time of a lease."""
        number: int = await self._patiently(lambda: self._frontier.others(self.worker))
        return number

    async def hold(self) -> None:
        """Keeps another Redis from being used for the same jobs. Raises UsageError when one is."""
        if self._holder and self.epoch:
            await self._holder.holds(self._frontier.epoch, self.last_at)

    async def dead(self) -> dict[str, int]:
        """The dead letters that are left, by outcome."""
        return {} if self._failed else await self._patiently(self._frontier.dead_by_outcome)

    # The scheduler's side ---------------------------------------------------------------------------------

    def push(self, operation: Operation) -> None:
        """Has a new request, or a lease's new state, told in its turn."""
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
        """Has attempts at items begun in their turn. What is returned is done when the frontier has heard of it."""
        heard = asyncio.get_running_loop().create_future()
        if self._task and self._task.done():
            heard.set_result(None)
        else:
            self._feeds.append(heard)
            self.push(feed)
        return heard

    def finish(self, operation: Operation, lease: str, afterwards: Callable[[], None] | None = None) -> None:
        """Has the end of a lease told in its turn. `afterwards` is called when that is safe, if it ended well."""
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
        """A request to be worked on, if one is ready."""
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
        """Whether it holds a request of the job; None: of any."""
        return any(job in (None, leased.job) for leased in self._held.values())

    def is_done(self) -> bool:
        """Whether nothing is left to do, for any worker."""
        return self.empty_since is not None and not self._outgoing and not self._held

    @property
    def left(self) -> int:
        """How many requests are left in the frontier, for any worker, as it was when it last answered."""
        last = self.last
        return 0 if last is None else last.ready + last.parked + last.waiting + last.leased_total

    def all_parked(self) -> AllParked | None:
        """Parked requests, when nothing else is left to do for any worker."""
        return None if self.last is None or self._outgoing or self._held else self.last.all_parked

    # The frontier's side ----------------------------------------------------------------------------------

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
        """Returns when no other Redis is used for the same jobs. Raises UsageError when one is."""
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
        """Takes back what workers have that will not be heard of again."""
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
        """When the next exchange is due, on the monotonic clock."""
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
        """A request is held for as long as it takes until as many have ended as are held."""
        held_s = len(self._held) * self._between_s
        return min(max(LINGER_S, LINGER_SHARE * held_s), LONG_LINGER_S)

    async def _exchange(self, joining: bool = False) -> None:
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
        """Leaves word in MongoDB that the frontier has work."""
        if before:
            await before
        await record.begin(self._frontier.epoch)

    async def _write_end(self) -> None:
        """Leaves word in MongoDB whether the frontier has work. Work that came meanwhile is not missed."""
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
        """Goes on with what is left. What this worker had of items is fed again; it tells of it in vain."""
        logger.warning("%s", lost)
        await self._patiently(self._frontier.begin_anew)
        for leases in (self._ready, self._held, self._ending, self._afterwards):
            leases.clear()
        self.empty_since = None
        await asyncio.sleep(POLL_S)

    async def _put_back(self, error: FrontierLost) -> FrontierLost:
        """Gives Redis the requests that this worker has, except those of items; what is to be said of the rest."""
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
        """As many as may travel together."""
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
        """Requests that were held ready for a site that is left alone now."""
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
    """Of what it carries, in bytes."""
    if isinstance(operation, FeedItems):
        return sum(len(request.payload) for request in operation.requests)
    return len(operation.payload) if isinstance(operation, (Push, Requeue)) else 0


def _end(feed: asyncio.Future[None]) -> None:
    if not feed.done():  # whoever waited was cancelled
        feed.set_result(None)


def _held(leased: Leased) -> Held:
    url, priority = address_of(leased.payload)
    where = (leased.job, leased.site, leased.attempts, leased.deliveries)
    return Held(leased.id, leased.payload, "", url, priority, *where)


def _said_of_loss(error: FrontierLost, spider: str | None, last: Exchange | None, last_at: float, number: int) -> str:
    """For the person at the terminal: what was lost, what was saved, what to do. No spider: nothing is to be done."""
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
