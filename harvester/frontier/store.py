"""The frontier in Redis: the requests that all workers of a spider share.

A request is ready, parked (while its site's breaker is open), waiting (until a time), leased (to a worker) or dead,
until it is done or skipped. Lua scripts move it, so it has exactly one of these states whichever process dies:
`queued = done + skipped + dead + waiting + leased + parked + ready`, always. A request may belong to job items: the
frontier counts the requests of each item, and reports an item that has none left to a worker. This module is for
workers; `admin` is for people.
"""

import asyncio
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from redis.asyncio import Redis

from harvester.breaker.judgement import Breaker, judge
from harvester.breaker.states import BreakerChange, BreakerState, Reports
from harvester.config import DATABASE
from harvester.exceptions import FrontierLost
from harvester.frontier.admin import FrontierAdmin, change_of
from harvester.frontier.fingerprints import token_fingerprint
from harvester.frontier.keys import entry_id, parts_of
from harvester.frontier.messages import (
    AllParked,
    Done,
    EndedAck,
    Ending,
    EventAck,
    Exchange,
    FeedItems,
    Held,
    ItemEnded,
    ItemRef,
    Leased,
    Operation,
    ParkedSite,
    Push,
    Release,
    Requeue,
    Skip,
)
from harvester.hosts import without_user
from harvester.masking import mask

__all__ = ["Exchange", "Frontier"]

logger = logging.getLogger(__name__)

CHUNK = 1000
"""Maximum number of leases that one script takes back, so that Redis does not block others for long."""
LOW_BITS = 0xFFFFFFFF
MOST_REASON = 500
"""Maximum number of characters of a reason."""
FEED_S = 60.0
"""Seconds that a feed may take, from the claim to its deadline."""
MOST_ENDED = 500
"""Maximum number of ended items in one reply."""


class Frontier(FrontierAdmin):
    """The frontier of a spider."""

    def __init__(
        self,
        redis: Redis,
        spider: str,
        database: str = DATABASE,
        *,
        lease_timeout_s: float = 30.0,
        max_deliveries: int = 5,
    ) -> None:
        super().__init__(redis, spider, database)
        self._lease_timeout_ms = int(lease_timeout_s * 1000)
        self._max_deliveries = max_deliveries
        self._heard: dict[str, int] = {}
        """Number of the last reply, by worker. The worker does not know leases given later."""
        self._shut: defaultdict[str, int] = defaultdict(int)
        """Version of the breakers that each worker knows."""
        self._held: defaultdict[str, set[str]] = defaultdict(set)
        """Ids that each worker received as leases, and has not ended."""
        self._void: defaultdict[str, set[str]] = defaultdict(set)
        """Held ids whose yielded requests Redis may have forgotten: they are released and done again."""
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pushed: defaultdict[str, int] = defaultdict(int)
        """Number of the last reply to new requests, by worker."""
        self._rooted: defaultdict[str, int] = defaultdict(int)
        """Number of the last reply to new requests without a parent lease, by worker."""
        self.epoch = ""
        """Known after the first exchange. A frontier that Redis forgot gets another epoch, or none."""

    async def exchange(
        self,
        worker: str,
        operations: Sequence[Operation],
        wanted: int = 0,
        per_site: int = 64,
        reports: Reports | None = None,
        most_ended: int = MOST_ENDED,
    ) -> Exchange:
        """Applies reports and operations in their order, then leases up to `wanted` requests.

        Reports are judged at once; another round trip follows when a breaker has to open or close.

        The exchange is also the worker's heartbeat. A worker that does not save the results of items passes 0 for
        `most_ended`.

        An exchange is applied as a whole or not at all. Without a reply, send the same again: applied operations are
        not applied twice, and leases in a lost reply are released first. A worker's first exchange through this
        object treats leases under its name as those of a process that died.

        Raises FrontierLost, with nothing applied, when Redis has forgotten requests that no lease brings back.
        """
        seen = msgspec.msgpack.encode(reports) if reports else b""
        is_back = False
        async with self._turns[worker]:
            while True:
                void = self._void[worker]
                if void:
                    operations = [_released(each, void) for each in operations]
                told = (self._lease_timeout_ms, self._max_deliveries, *_wire(operations), seen)
                heard = self._heard.get(worker, 0)
                self._heard[worker] = heard or 1  # once sent, its leases do not belong to a dead process
                known = (self._shut[worker], self.epoch, _new_epoch(), most_ended)
                head, payloads = await self._run("exchange", worker, heard, wanted, per_site, *told, *known)
                answer = msgspec.msgpack.decode(head)
                if answer[0] == "forgot":
                    raise FrontierLost("Redis has forgotten the frontier, or somebody has dropped it")
                if answer[0] != "back":
                    break
                is_back = True
                self._go_back(worker, answer[1])
            now_ms, accepted, duplicates, stale, *counts, due_ms = answer[1:10]
            version, shut, anew, all_parked, alone_ms, events, *rest, judged, held, _ = answer[10:]
            changes, decided, counts_then = await self._judge(list(map(Breaker.read, judged)), now_ms)
            leases = _leases(answer[-1], payloads)
            ended_leases = {each.id for each in operations if isinstance(each, Ending)}
            mine = (self._held[worker] - ended_leases) | {lease.id for lease in leases}
            if is_back or held != len(mine):  # a Redis that was killed may have lost its last second
                await self._in_chunks("give_back", worker, CHUNK, msgspec.msgpack.encode(list(mine)))
            self._heard[worker], self._held[worker] = answer[0], mine
            done_again = frozenset(void & ended_leases)
            void -= ended_leases
            pushes = [each for each in operations if isinstance(each, Push)]
            if pushes:
                self._pushed[worker] = answer[0]
            if any(each.rooted for each in pushes):
                self._rooted[worker] = answer[0]
            self._shut[worker], (self.epoch, lost, damaged, went_back, ended) = version, rest
        ready, waiting, leased_total, parked = counts_then or counts
        return Exchange(
            leased=leases,
            accepted=accepted,
            duplicates=duplicates,
            stale=stale,
            ready=ready,
            waiting=waiting,
            leased_total=leased_total,
            parked=parked,
            next_due=time.time() + (due_ms - now_ms) / 1000 if due_ms else None,
            held=held,
            now=now_ms / 1000,
            shut={name: _shut(state, trial, end_ms, now_ms) for name, state, trial, end_ms in shut} | decided,
            anew=anew,
            all_parked=AllParked(parked, [ParkedSite(*each) for each in all_parked], alone_ms / 1000)
            if all_parked and not decided
            else None,
            changes=[*map(change_of, events), *changes],
            ended=[_ended(each) for each in ended],
            lost=lost,
            damaged=damaged,
            done_again=done_again,
            went_back_s=went_back / 1000,
        )

    async def take_probe(self, breaker: str) -> int:
        """Claims a probe of a tier's breaker for a request; returns the trial's number, or 0 if no probe is wanted."""
        return int(await self._run("breaker_probe", breaker))

    async def workers(self) -> list[str]:
        """Returns the names of the known workers."""
        return [name.decode() for name in await self._redis.zrange(self.prefix + "workers", 0, -1)]

    async def reap(self, worker: str, ended: Iterable[str] = ()) -> int:
        """Takes back the leases of silent workers and of ended ones; returns their number.

        Takes them from silent workers only when any worker reached Redis for a whole lease timeout without a gap:
        after an outage every worker looks silent. Raises FrontierLost when keys of the frontier are missing.
        """
        total, more, damaged = 0, 1, 0
        packed = msgspec.msgpack.encode(list(ended))
        while more:
            arguments = (worker, self._lease_timeout_ms, self._max_deliveries, CHUNK, packed)
            number, more, damaged = await self._run("reap", *arguments)
            total += number
        if damaged:
            raise FrontierLost("Redis has forgotten a part of the frontier")
        return total

    async def note_blocked(self, worker: str, request: str, what: str) -> None:
        """Saves the callback that blocks a worker, and its request. To be repeated while it blocks."""
        await self._run("blocked", worker, request, what)

    async def reconcile(self, worker: str, held: Collection[str]) -> int:
        """Releases the leases that the worker does not know, unspent; returns their number."""
        async with self._turns[worker]:
            self._held[worker].intersection_update(held)
            return await self._in_chunks("give_back", worker, CHUNK, msgspec.msgpack.encode(list(held)))

    async def leave(self, worker: str) -> None:
        """Releases all leases of the worker, unspent, and forgets the worker."""
        async with self._turns[worker]:
            await self._in_chunks("give_back", worker, CHUNK, "")
            for known in (self._held, self._void, self._shut):
                known.pop(worker, None)

    async def unknown_items(self, items: Sequence[ItemRef]) -> list[ItemRef]:
        """Returns the attempts that have no request in the frontier, and whose end it will not report."""
        unknown: list[ItemRef] = []
        for first in range(0, len(items), CHUNK):
            chunk = items[first : first + CHUNK]
            places = await self._run("unknown_items", msgspec.msgpack.encode(chunk))
            unknown += (chunk[place - 1] for place in places)
        return unknown

    async def open_items(self, jobs: Sequence[str]) -> dict[str, int]:
        """Returns by job how many items have requests in the frontier."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for job in jobs:
                pipeline.hget(f"{self.prefix}job:{job}", "items")
            numbers = await pipeline.execute() if jobs else []
        return {job: max(0, int(number or 0)) for job, number in zip(jobs, numbers, strict=True)}

    async def others(self, worker: str) -> int:
        """Returns how many other workers sent a heartbeat within the lease timeout."""
        return int(await self._run("others", worker, self._lease_timeout_ms))

    async def put_back(self, requests: Sequence[Held] = ()) -> int:
        """Repairs the frontier after Redis lost data, and queues the missing requests; returns their number.

        All workers may do it, each with its own requests, and again without a reply.
        """
        total = 0
        for first in range(0, max(1, len(requests)), CHUNK):
            rows: list[tuple[Any, ...]] = []
            at = 1
            for each in requests[first : first + CHUNK]:
                number, token = parts_of(each.id)
                if token:
                    number = token_fingerprint(number, token)
                place = (at, at + len(each.payload) - 1)
                at += len(each.payload)
                rows.append(
                    (
                        each.id,
                        str(number),
                        number & LOW_BITS,
                        *place,
                        each.token,
                        mask(without_user(each.url)),
                        *each[4:],
                    )
                )
            payloads = b"".join(each.payload for each in requests[first : first + CHUNK])
            missing, epoch = await self._run("put_back", _new_epoch(), msgspec.msgpack.encode(rows), payloads)
            total += missing
            self.epoch = epoch.decode()
        return total

    async def drop(self) -> int:
        dropped = await super().drop()
        self.epoch = ""
        self._heard.clear()
        return dropped

    async def _judge(
        self, breakers: list[Breaker], now_ms: float
    ) -> tuple[list[BreakerChange], dict[str, BreakerState], list[int]]:
        """Applies the decisions on breakers; judges again when another worker has changed one meanwhile.

        Returns the changes, the current states, and the counts of requests if a decision was made.
        """
        changes: list[BreakerChange] = []
        states: dict[str, BreakerState] = {}
        counts: list[int] = []
        while decisions := [(each, decision) for each in breakers if (decision := judge(each, now_ms))]:
            now_ms, counts, breakers, made = await self._apply(decisions)
            changes += made
            states |= {each.name: _shut(each.state, each.trial, each.due or 0, now_ms) for each in breakers}
        return changes, states, counts

    def _go_back(self, worker: str, number: int) -> None:
        """Goes back to an earlier reply when Redis lost later ones. Requests done since are leased or ready there.

        So they are done again, with those that the worker holds; only requests without a parent lease are missing.
        Raises FrontierLost for these.
        """
        self._heard[worker] = max(1, number)
        if self._pushed[worker] > number:
            self._void[worker] |= self._held[worker]
        if self._rooted[worker] > number:
            raise FrontierLost("Redis has gone back to an earlier state", heals=True)
        logger.warning("Redis has gone back to an earlier state; what it forgot is done again")

    async def _in_chunks(self, name: str, *arguments: str | bytes | float) -> int:
        total, more = 0, 1
        while more:
            number, more = await self._run(name, *arguments)
            total += number
        return total


def _new_epoch() -> str:
    return f"epoch-{secrets.token_hex(8)}"


def _wire(operations: Sequence[Operation]) -> tuple[bytes, bytes]:
    """Returns the operations as exchange.lua reads them, and all their payloads."""
    rows: list[tuple[Any, ...]] = []
    payloads: list[bytes] = []
    first, last = 1, 0

    def row_of(push: Push) -> tuple[Any, ...]:
        nonlocal first, last
        number = push.fingerprint
        name = entry_id(number, push.job, "" if push.filtered else push.token)
        if not push.filtered:
            number = token_fingerprint(number, push.token)
        payloads.append(push.payload)
        first, last = last + 1, last + len(push.payload)
        what = ("push", name, str(number), number & LOW_BITS, first, last, push.token, mask(without_user(push.url)))
        where = (push.priority, push.job, push.site, _delay_ms(push.not_before), push.filtered)
        return (*what, *where, push.items) if push.items else (*what, *where)

    for op in operations:
        if isinstance(op, Push):
            rows.append(row_of(op))
        elif isinstance(op, FeedItems):
            rows.append(("feed", int(op.deadline * 1000), op.items, [row_of(each) for each in op.requests]))
        elif isinstance(op, EndedAck):
            rows.append(("ended_ack", op.items))
        elif isinstance(op, Done):
            said = (op.records, _bounded(op.reason), op.new) if op.reason or op.new else (op.records,)
            rows.append(("done", op.id, op.outcome, op.rejected, *said))
        elif isinstance(op, Requeue):
            payloads.append(op.payload)
            first, last = last + 1, last + len(op.payload)
            why = (op.outcome, _bounded(op.reason), _delay_ms(op.not_before), op.attempt)
            target = () if op.target is None else (str(op.target), op.target & LOW_BITS)
            rows.append(("again", op.id, first, last, mask(without_user(op.url)), op.site, op.priority, *why, *target))
        elif isinstance(op, (Release, EventAck)):
            rows.append(("release" if isinstance(op, Release) else "told", op.id))
        else:
            rows.append(("skip" if isinstance(op, Skip) else "dead", op.id, op.outcome, _bounded(op.reason)))
    return msgspec.msgpack.encode(rows), b"".join(payloads)


def _released(operation: Operation, leases: Collection[str]) -> Operation:
    """Returns a release if the operation ends a lease in `leases`, else the operation."""
    return Release(operation.id) if isinstance(operation, Ending) and operation.id in leases else operation


def _delay_ms(not_before: float) -> int:
    """Returns the delay from now, since clocks of workers may differ and only Redis's counts."""
    return max(0, int((not_before - time.time()) * 1000)) if not_before else 0


def _shut(state: str, trial: int, due_ms: float, now_ms: float) -> BreakerState:
    return BreakerState(state, trial, time.time() + (due_ms - now_ms) / 1000 if due_ms else None)


def _ended(row: list[Any]) -> ItemEnded:
    """Decodes an ended item from items.lua, where an empty table comes as a list."""
    name, attempt, job, requests, records, rejected, outcomes, reasons, at_ms, new = row
    return ItemEnded(name, attempt, job, requests, records, rejected, dict(outcomes), dict(reasons), at_ms / 1000, new)


def _bounded(reason: str) -> str:
    return mask(reason, MOST_REASON).encode("utf-8", "replace").decode()


def _leases(rows: list[tuple[str, int, int, int, str, str, int]], payloads: bytes) -> list[Leased]:
    leases, at = [], 0
    for name, size, attempts, deliveries, job, site, probe in rows:
        leases.append(Leased(name, payloads[at : at + size], attempts, deliveries, job, site, probe))
        at += size
    return leases
