"""Administration of a frontier: status, state of single requests, dead letters, forgetting, dropping."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Any, TypeVar

import msgspec
from redis.asyncio import Redis

from harvester.breaker.judgement import Breaker, BreakerRules, Decision, by_hand
from harvester.breaker.states import BreakerChange
from harvester.config import DATABASE
from harvester.frontier import scripts
from harvester.frontier.keys import entry_id, prefix_of
from harvester.frontier.messages import (
    BreakerStatus,
    DeadLetter,
    Depth,
    FrontierStatus,
    RequestEvent,
    RequestStatus,
    WorkerStatus,
)
from harvester.frontier.workers import is_gone

CHUNK = 1000
"""Maximum number of requests, fingerprints or shards in one script, so that workers do not wait long for Redis."""
LOW_BITS = 0xFFFFFFFF
SILENT_S = 60
"""Seconds without a heartbeat until a worker without leases no longer counts as working."""
MOVING = ("exchanges", "ready", "parked")
"""Counts that change when requests move, so they may differ between two reads of the frontier."""
PLACES = (
    *("queued", "ready", "parked", "waiting", "leased", "done", "skipped", "dead"),
    *("lost", "seen", "rejected", "items"),
)

T = TypeVar("T")


class FrontierAdmin:
    """The part of the frontier that people use: workers use `Frontier`."""

    def __init__(self, redis: Redis, spider: str, database: str = DATABASE) -> None:
        self._redis: Any = redis  # redis-py's annotations mix bytes and str, awaited and not
        self.spider = spider
        self.prefix = prefix_of(spider, database)

    async def status(self) -> FrontierStatus:
        """Returns all counts, read at one moment; then, in chunks since there may be many, reads sites and breakers."""
        *tables, lines, places, ended, due_ms, seen, memory = msgspec.msgpack.decode(await self._run("status"))
        counts, workers, jobs = map(dict, tables)  # an empty table of Lua comes as a list
        waiting, leased, dead, entries, payloads = places
        queued, done, skipped, lost = (counts.get(name, 0) for name in ("queued", "done", "skipped", "lost"))
        _, ready, parked = before = [counts.get(name, 0) for name in MOVING]
        found = {"ready": ready, "parked": parked, "waiting": waiting, "leased": leased, "dead": dead}
        here = sum(found.values())
        more, size = await self._lines()
        lines, memory = lines + more, memory + size
        after = [int(number or 0) for number in await self._redis.hmget(self.prefix + "counts", MOVING)]
        sites = _by_site(lines)
        in_lines = [sum(site[place] for site in sites.values()) for place in ("ready", "parked")]
        return FrontierStatus(
            queued=queued,
            done=done,
            skipped=skipped,
            lost=lost,
            **found,
            next_due=due_ms / 1000 if due_ms else None,
            workers={name: WorkerStatus(n, age / 1000, ms / 1000) for name, (n, age, ms) in workers.items()},
            done_by_outcome=_by_outcome(counts, "done"),
            dead_by_outcome=_by_outcome(counts, "dead"),
            skipped_by_outcome=_by_outcome(counts, "skipped"),
            items=counts.get("items", 0),
            ended=ended,
            seen=seen,
            **{name: counts.get(name, 0) for name in ("rejected", "redelivered", "retried", "duplicates", "exchanges")},
            memory_bytes=memory,
            jobs={job: {name: dict(numbers).get(name, 0) for name in PLACES} for job, numbers in jobs.items()},
            sites=sites,
            breakers=await self.breakers(),
            balanced=queued == done + skipped + lost + here
            and entries == payloads == here
            and all(counts.get(name, 0) == number for name, number in found.items())
            and (in_lines == [ready, parked] or after != before),
        )

    async def depth(self) -> Depth:
        """Returns how many requests are in each state, with one command that is fast for any number of requests."""
        counts = await self._redis.hgetall(self.prefix + "counts")
        known = {name.decode(): int(number) for name, number in counts.items() if name != b"epoch"}
        places = {name: known.get(name, 0) for name in Depth.__slots__ if name != "dead_by_outcome"}
        return Depth(**places, dead_by_outcome=_by_outcome(known, "dead"))

    async def who_works(self) -> dict[str, WorkerStatus]:
        """Returns the workers that hold a request, or sent a heartbeat since silent workers were last removed."""
        found = msgspec.msgpack.decode(await self._run("workers"))
        return {name: WorkerStatus(n, age / 1000, ms / 1000) for name, (n, age, ms) in dict(found).items()}

    async def sites(self) -> dict[str, dict[str, int]]:
        """Returns the counts by site: ready, parked. Sites without requests are left out."""
        lines, _ = await self._lines()
        return {site: {place: of[place] for place in ("ready", "parked")} for site, of in _by_site(lines).items()}

    async def breakers(self) -> dict[str, BreakerStatus]:
        """Returns the breakers that are not closed; names as in FrontierStatus."""
        return dict(sorted([pair async for pair in self._shut_breakers()]))

    async def _lines(self) -> tuple[list[tuple[str, str, int]], int]:
        """Returns state, name and number of requests for the queues of sites, and the bytes that the queues use."""
        lines, memory = list[tuple[str, str, int]](), 0
        parked_lines = await self._redis.smembers(self.prefix + "parked")
        for place, keys in (("ready", await self._ready_lines()), ("parked", parked_lines)):
            for chunk in _chunks(keys):
                numbers, size = await self._run("lines", *chunk)
                memory += size
                lines += [(place, key.rpartition(b"\0")[2].decode(), n) for key, n in zip(chunk, numbers, strict=True)]
        return lines, memory

    async def _ready_lines(self) -> list[bytes]:
        jobs = await self._redis.zrange(self.prefix + "jobs", 0, -1)
        start = f"{self.prefix}sites:".encode()
        return [job + b"\0" + line for job in jobs for line in await self._redis.zrange(start + job, 0, -1)]

    async def _shut_breakers(self) -> AsyncIterator[tuple[str, BreakerStatus]]:
        for first in count(0, CHUNK):
            names = await self._redis.zrange(self.prefix + "shut", first, first + CHUNK - 1)
            if not names:
                return
            for name, packed in zip(names, await self._redis.hmget(self.prefix + "breakers", names), strict=True):
                if packed:
                    breaker = _breaker_status(packed)
                    if breaker.state != "closed":  # another worker may have closed it since
                        yield name.decode(), breaker

    async def dead_by_outcome(self) -> dict[str, int]:
        """Returns the number of dead letters by outcome."""
        counts = await self._redis.hgetall(self.prefix + "counts")
        return _by_outcome({name.decode(): int(n) for name, n in counts.items() if name.startswith(b"dead:")}, "dead")

    async def dead(self, outcome: str | None = None, most: int = 100) -> list[DeadLetter]:
        """Returns dead letters, the latest first."""
        letters: list[DeadLetter] = []
        async for letter in self.letters():
            if outcome in (None, letter.outcome):
                letters.append(letter)
            if len(letters) == most:
                break
        return letters

    async def letters(self) -> AsyncIterator[DeadLetter]:
        """Yields all dead letters, the latest first, read from Redis in chunks."""
        async for name, at_ms, entry in self._graves():
            yield DeadLetter(
                id=name,
                url=entry.url,
                outcome=entry.outcome,
                reason=entry.reason,
                attempts=entry.attempts,
                deliveries=entry.deliveries,
                history=entry.events(),
                at=at_ms / 1000,
            )

    async def replay(self, ids: Iterable[str] | None = None, outcome: str | None = None) -> int:
        """Makes dead letters ready again, with attempts and deliveries reset to 0; returns their number.

        Selects the letters with these ids, or with this outcome; all letters when neither is given.
        """
        if ids is None:
            ids = [name async for name, _, entry in self._graves() if outcome in (None, entry.outcome)]
        return sum([await self._run("replay", msgspec.msgpack.encode(chunk)) for chunk in _chunks(ids)])

    async def look_up(self, fingerprint: int, job: str = "") -> RequestStatus | None:
        """Returns the state of a request; None if it was never queued, or was forgotten."""
        name = entry_id(fingerprint, job)
        fate = await self._fate(name, fingerprint, job)
        if fate is None and (unfiltered := await self._unfiltered(name)):
            fate = await self._fate(unfiltered, fingerprint, job)
        return fate

    async def forget(self, fingerprints: Iterable[int], job: str = "") -> int:
        """Lets these fingerprints be queued again once they left the frontier; returns how many were known."""
        total = 0
        for chunk in _chunks(fingerprints):
            rows = [(entry_id(number, job), str(number), number & LOW_BITS) for number in chunk]
            total += await self._run("forget", job, msgspec.msgpack.encode(rows))
        return total

    async def jobs(self) -> list[str]:
        """Returns the names of the jobs; the empty name stands for requests without a job."""
        return [job.decode() for job in await self._redis.smembers(self.prefix + "scopes")]

    async def forget_all(self, job: str = "") -> int:
        """Forgets every fingerprint of the job; returns their number."""
        total, more = 0, 1
        while more:
            number, more = await self._run("forget_all", job, CHUNK)
            total += number
        return total

    async def left(self) -> tuple[int, bool]:
        """Returns how many requests are left, and True if a worker is active."""
        status = await self.status()
        left = status.ready + status.parked + status.waiting + status.leased + status.lost
        return left, any(each.silent_s < SILENT_S and not is_gone(name) for name, each in status.workers.items())

    async def begin_anew(self) -> None:
        """Accepts the loss of the lost requests, so that workers continue with the rest."""
        await self._run("begin_anew")

    async def set_breaker(
        self,
        name: str,
        rules: Sequence[float],
        state: str,
        who: str,
        why: str = "",
        for_s: float | None = None,
    ) -> tuple[int, BreakerChange | None]:
        """Opens, closes or holds a breaker for a person; returns the number of parked requests, and the change if
        any.

        `for_s`: seconds until an open or held breaker sends probes. None: as in the site's entry; held: for ever.
        """
        breaker = Breaker(
            name, msgspec.convert(rules, BreakerRules), version=-1
        )  # no breaker has this version, so the first call only reads
        decision: Decision | None = Decision(state)
        changes: list[BreakerChange] = []
        while decision:
            now_ms, _, (breaker,), changes = await self._apply([(breaker, decision)])
            decision = None if changes else by_hand(breaker, state, who, now_ms, why, for_s and for_s * 1000)
        return breaker.parked, next(iter(changes), None)

    async def told(self, change: BreakerChange) -> None:
        """Acknowledges that the change was reported to people."""
        await self._run("told", change.id)

    async def addresses(self, job: str = "") -> AsyncIterator[tuple[int, str]]:
        """Yields fingerprint and URL of the filtered requests of the job that are in the frontier or were skipped."""
        match = _literal(job + ":" if job else "") + "*"
        for key in ("entries", "skipped"):
            async for name, packed in self._redis.hscan_iter(self.prefix + key, match=match, count=CHUNK):
                owner, _, number = name.decode().rpartition(":")
                if owner == job and "#" not in number:
                    url = _decode(packed).url if key == "entries" else msgspec.msgpack.decode(packed)[3]
                    yield int(number), url

    async def drop(self) -> int:
        """Removes the whole frontier of the spider with its seen fingerprints; returns how many requests it held.

        The start list stays, with the entries that workers have taken from it.
        """
        dropped: int = await self._redis.hlen(self.prefix + "entries")
        await self._redis.unlink(self.prefix + "counts")  # without its epoch no exchange is applied
        taken = tuple(f"{self.prefix}start:{name}".encode() for name in ("taken:", "workers"))
        found = self._redis.scan_iter(match=_literal(self.prefix) + "*", count=CHUNK)
        keys = [key async for key in found if not key.startswith(taken)]
        for chunk in _chunks(keys):
            await self._redis.unlink(*chunk)
        return dropped

    async def _apply(
        self, decisions: Sequence[tuple[Breaker, Decision]]
    ) -> tuple[float, list[int], list[Breaker], list[BreakerChange]]:
        """Applies each decision whose breaker still has the version that was judged.

        Returns Redis's time in ms, the numbers of ready, waiting, leased and parked requests, the breakers as they
        are now, and the changes.
        """
        rows = [(breaker.name, breaker.version, breaker.rules, decision) for breaker, decision in decisions]
        answer = msgspec.msgpack.decode(await self._run("breaker_set", msgspec.msgpack.encode(rows)))
        now_ms, counts, breakers, events = answer
        return now_ms, [int(n or 0) for n in counts], list(map(Breaker.read, breakers)), list(map(change_of, events))

    async def _run(self, name: str, *arguments: str | bytes | float) -> Any:
        return await scripts.run(self._redis, name, self.prefix, *arguments)

    async def _graves(self) -> AsyncIterator[tuple[str, float, "_Entry"]]:
        """Yields id, time of death and entry of the dead letters, the latest first."""
        for first in count(0, CHUNK):
            rows = await self._redis.zrange(self.prefix + "dead", first, first + CHUNK - 1, desc=True, withscores=True)
            if not rows:
                return
            entries = await self._redis.hmget(self.prefix + "entries", [name for name, _ in rows])
            for (name, at_ms), packed in zip(rows, entries, strict=True):
                if packed:  # it may have been replayed since
                    yield name.decode(), at_ms, _decode(packed)

    async def _fate(self, name: str, fingerprint: int, job: str) -> RequestStatus | None:
        found = await self._run("look_up", name, job, fingerprint, fingerprint & LOW_BITS)
        if not found:
            return None
        state, at, worker, packed = found[0].decode(), float(found[1]) / 1000, found[2].decode(), found[3]
        if state == "done":
            return RequestStatus(state)
        if state == "skipped":
            at_ms, outcome, reason, url = msgspec.msgpack.decode(packed)
            return RequestStatus(state, since=at_ms / 1000, outcome=outcome, reason=reason, url=url)
        entry = _decode(packed)
        history = entry.events()
        last = history[-1] if history else RequestEvent(entry.queued_ms / 1000, "", "", "")
        if state == "parked":
            reason = "its site is left alone"
            if found[4]:
                breaker = _breaker_status(found[4])
                at = max(breaker.opened, last.at)
                reason += f" ({breaker.state}, because of {breaker.cause})"
            last = last._replace(reason=reason)
        return RequestStatus(
            state=state,
            since=last.at if state == "waiting" else at,
            until=at if state == "waiting" else None,
            worker=worker or None,
            attempts=entry.attempts,
            deliveries=entry.deliveries,
            outcome=last.outcome,
            reason=last.reason,
            history=tuple(history),
            url=entry.url,
        )

    async def _unfiltered(self, name: str) -> str | None:
        """Returns the id of an unfiltered request with this fingerprint, queued though the fingerprint was seen."""
        for key in ("entries", "skipped"):
            async for found, _ in self._redis.hscan_iter(self.prefix + key, match=_literal(name) + "#*", count=CHUNK):
                return str(found.decode())
        return None


class _Entry(msgspec.Struct, array_like=True):
    """An entry of a request, as common.lua describes it."""

    job: str
    site: str
    priority: int
    seq: int
    attempts: int
    deliveries: int
    token: str
    url: str
    queued_ms: int
    history: list[tuple[int, str, str, str]] = []
    outcome: str = ""
    reason: str = ""
    targets: list[str] = []

    def events(self) -> list[RequestEvent]:
        return [RequestEvent(at_ms / 1000, event, outcome, reason) for at_ms, event, outcome, reason in self.history]


_decode = msgspec.msgpack.Decoder(_Entry).decode


def _breaker_status(packed: bytes) -> BreakerStatus:
    breaker = Breaker.read(msgspec.msgpack.decode(packed))
    outcomes: Counter[str] = Counter()
    for _, _, _, counts in breaker.window:
        outcomes.update(dict(counts))
    tried, failed = breaker.tries()
    return BreakerStatus(
        state=breaker.state,
        cause=breaker.cause,
        since=breaker.since / 1000,
        opened=breaker.opened / 1000,
        until=breaker.due / 1000 if breaker.due else None,
        times=breaker.opens,
        tried=tried,
        failed=failed,
        outcomes=dict(outcomes),
        probes=(breaker.granted, breaker.good),
        said=breaker.said,
    )


def change_of(row: Sequence[Any]) -> BreakerChange:
    """Decodes a change from breaker.lua, where an empty table comes as a list."""
    return msgspec.convert([*row[:-1], dict(row[-1])], BreakerChange)


def _by_site(lines: Iterable[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    """Returns the counts by site, from rows of state, queue name and number of requests."""
    sites: dict[str, dict[str, int]] = {}
    for place, line, number in lines:
        if number or place == "parked":
            site = sites.setdefault(line.removeprefix("\1"), {"ready": 0, "parked": 0, "leased": 0})
            site[place] += number
    return sites


def _by_outcome(counts: dict[str, int], place: str) -> dict[str, int]:
    start = place + ":"
    return {name.removeprefix(start): n for name, n in counts.items() if name.startswith(start) and n}


def _literal(text: str) -> str:
    """Returns a Redis pattern that matches exactly this text."""
    return re.sub(r"([\\*?\[\]^-])", r"\\\1", text)


def _chunks(values: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(values)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
