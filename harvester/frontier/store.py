"""The frontier: requests that are to be fetched, shared by all workers of a spider, in Redis.

A request is ready, parked (while its site is left alone), waiting (until a time), leased (to a worker) or dead, until
it is done or skipped. Lua scripts move it, so it is in exactly one of these whatever process dies when:
`queued = done + skipped + dead + waiting + leased + parked + ready`, always. A request may belong to job items: the
frontier counts those of each that are here, and tells a worker when an item has none any more. What workers do is here;
what people ask and do is in `desk`.
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
"""Leases that one script takes back, so that Redis is not kept from others for long."""
LOW_BITS = 0xFFFFFFFF
MOST_REASON = 500
"""Characters of a reason."""
FEED_S = 60.0
"""How long a feed may be under way: its deadline is so much after its items were claimed."""
MOST_ENDED = 500
"""Ended items of which one answer tells."""


class Frontier(FrontierAdmin):
    """The frontier of one spider."""

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
        """The number of the last answer that each worker got. Leases given later are unknown to it."""
        self._shut: defaultdict[str, int] = defaultdict(int)
        """The version of the breakers that each worker knows."""
        self._held: defaultdict[str, set[str]] = defaultdict(set)
        """Ids that each worker was told to hold, and has not ended."""
        self._void: defaultdict[str, set[str]] = defaultdict(set)
        """Of these such as Redis may have forgotten what followed from: they are not done, but done again."""
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pushed: defaultdict[str, int] = defaultdict(int)
        """The number of the last answer to new requests of each worker."""
        self._rooted: defaultdict[str, int] = defaultdict(int)
        """The same of requests that follow from no leased one."""
        self.epoch = ""
        """Known since the first exchange. A frontier that Redis forgot has another one afterwards, or none."""

    async def exchange(
        self,
        worker: str,
        operations: Sequence[Operation],
        wanted: int = 0,
        per_site: int = 64,
        reports: Reports | None = None,
        most_ended: int = MOST_ENDED,
    ) -> Exchange:
        """Takes in the reports, applies the operations in their order, then leases up to `wanted` requests.

        What was reported is judged at once; another round trip follows when a breaker is to be opened or closed.

        It is also the worker's heartbeat. A worker that will not write down how items ended gives 0 for `most_ended`.

        All of it happens, or nothing. When no answer came, send the same again: what was applied is not applied
        twice, and leases in an answer that was lost are given back first. A worker's first exchange through this
        object takes leases that are left under its name for those of a process that died.

        Raises FrontierLost, with nothing applied, when Redis has forgotten what no lease brings again.
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
                self._heard[worker] = heard or 1  # once sent, it is no longer a stranger whose leases died with it
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
        """Makes a request a probe of a tier's breaker: the number of the trial; 0: no further one is wanted now."""
        return int(await self._run("breaker_probe", breaker))

    async def workers(self) -> list[str]:
        """Names of those that are known."""
        return [name.decode() for name in await self._redis.zrange(self.prefix + "workers", 0, -1)]

    async def reap(self, worker: str, ended: Iterable[str] = ()) -> int:
        """Takes the leases of silent workers back, and of those that have ended; returns how many.

        Of silent ones only when Redis was heard by any worker for a whole lease timeout without a gap: after an outage
        every worker looks silent. Raises FrontierLost when keys of the frontier are missing.
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
        """Says what blocks a worker now, and for which of its requests it runs. To be repeated while it does."""
        await self._run("blocked", worker, request, what)

    async def reconcile(self, worker: str, held: Collection[str]) -> int:
        """Gives back the leases that the worker does not know of, unspent; returns how many."""
        async with self._turns[worker]:
            self._held[worker].intersection_update(held)
            return await self._in_chunks("give_back", worker, CHUNK, msgspec.msgpack.encode(list(held)))

    async def leave(self, worker: str) -> None:
        """Gives back all leases of the worker, unspent, and forgets it."""
        async with self._turns[worker]:
            await self._in_chunks("give_back", worker, CHUNK, "")
            for known in (self._held, self._void, self._shut):
                known.pop(worker, None)

    async def unknown_items(self, items: Sequence[ItemRef]) -> list[ItemRef]:
        """Of these attempts those of which the frontier has no request, and will not tell how they ended."""
        unknown: list[ItemRef] = []
        for first in range(0, len(items), CHUNK):
            chunk = items[first : first + CHUNK]
            places = await self._run("unknown_items", msgspec.msgpack.encode(chunk))
            unknown += (chunk[place - 1] for place in places)
        return unknown

    async def open_items(self, jobs: Sequence[str]) -> dict[str, int]:
        """Job -> how many of its items have requests in the frontier."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for job in jobs:
                pipeline.hget(f"{self.prefix}job:{job}", "items")
            numbers = await pipeline.execute() if jobs else []
        return {job: max(0, int(number or 0)) for job, number in zip(jobs, numbers, strict=True)}

    async def others(self, worker: str) -> int:
        """How many other workers were heard of within the lease timeout."""
        return int(await self._run("others", worker, self._lease_timeout_ms))

    async def put_back(self, requests: Sequence[Held] = ()) -> int:
        """After Redis forgot: mends what is left, and queues those of the requests that are not there; how many.

        Any number of workers may do it, each with what it has, and again when no answer came.
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
        """Has applied what their counts lead to; judges anew what another worker has changed meanwhile.

        The changes, these breakers as they are now, and the counts of requests if anything was decided.
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
        """Redis knows only of its answers to the worker up to this one. What was done since is leased or ready there.

        So it is done again, with what the worker has in its hands, and nothing is missing but requests that follow from
        no lease. Raises FrontierLost for them.
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
    """The operations as exchange.lua reads them, and all their payloads."""
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
    """Instead of the end of one of these leases."""
    return Release(operation.id) if isinstance(operation, Ending) and operation.id in leases else operation


def _delay_ms(not_before: float) -> int:
    """From now, so that only Redis's clock counts: those of workers may differ."""
    return max(0, int((not_before - time.time()) * 1000)) if not_before else 0


def _shut(state: str, trial: int, due_ms: float, now_ms: float) -> BreakerState:
    return BreakerState(state, trial, time.time() + (due_ms - now_ms) / 1000 if due_ms else None)


def _ended(row: list[Any]) -> ItemEnded:
    """From items.lua. An empty table of Lua comes as a list."""
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
