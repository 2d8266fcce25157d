"""Kills workers and servers while they crawl the tree, and tells what came of it."""

import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.chaos.servers import Valkey
from tests.chaos.workers import Worker, Workers
from tests.crash.mongod import Mongod
from tests.sandbox.tree_process import TreeSite

STALLED_S = 240
"""Without a new page: the crawl hangs."""
POLL_S = 0.03


class Plan(NamedTuple):
    """How large a crawl, and how often each is killed."""

    pages: int
    workers: int
    worker_kills: int
    redis_kills: int = 0
    mongodb_kills: int = 0
    seed: int = 1


class Servers(NamedTuple):
    """Those below the crawl."""

    redis: Valkey
    mongodb: Mongod


class Killed(NamedTuple):
    """What struck."""

    times: dict[str, int]
    in_flight: int
    """Requests that the killed workers held, all in all."""


class Killing:
    """Each kill is due at a number of pages answered, drawn at random; a worker must be at work to be struck.

    `pending` tells how many requests are not done; `held_by` how many a worker holds. Both are asked while Redis runs.
    """

    def __init__(
        self,
        plan: Plan,
        site: TreeSite,
        servers: Servers,
        workers: Workers,
        pending: Callable[[], int],
        held_by: Callable[[Worker], int],
    ) -> None:
        self._plan, self._site, self._servers, self._workers = plan, site, servers, workers
        self._pending, self._held_by = pending, held_by
        self._dice = random.Random(plan.seed)
        self._rounds = 0
        self._in_flight = 0
        self._strikes: dict[str, Callable[[], None]] = {
            "worker": self._kill_worker,
            "redis": lambda: self._kill_server(self._servers.redis),
            "mongodb": lambda: self._kill_server(self._servers.mongodb),
        }

    def run(self) -> Killed:
        """Until the crawl has ended by itself."""
        struck = dict.fromkeys(self._strikes, 0)
        self._workers.start()
        self.reaches(10)
        self._fill()
        for threshold, victim in self._moments():
            if not self.reaches(threshold):
                break
            struck[victim] += 1
            self._strikes[victim]()
        self.finish()
        return Killed(struck, self._in_flight)

    def victims(self) -> Iterator[str]:
        """The name of each strike, in any order."""
        plan = self._plan
        yield from ["worker"] * plan.worker_kills + ["redis"] * plan.redis_kills + ["mongodb"] * plan.mongodb_kills

    def _moments(self) -> Iterator[tuple[int, str]]:
        plan, dice = self._plan, self._dice
        victims = list(self.victims())
        dice.shuffle(victims)
        thresholds = sorted(dice.randrange(plan.pages // 20, plan.pages * 9 // 10) for _ in victims)
        yield from zip(thresholds, victims, strict=True)

    def reaches(self, pages: int) -> bool:
        """Waits until so many pages are answered and a worker is at work; False when the crawl has ended before."""

        def reached() -> bool:
            progress = self._site.progress()
            return progress.pages >= pages and self._workers.at_work(progress, self._dice) is not None

        return self.waits_until(reached)

    def waits_until(self, condition: Callable[[], bool]) -> bool:
        """False when the crawl has ended before. Fails when the crawl hangs."""
        pages, since = -1, time.monotonic()
        while self._is_going_on():
            if condition():
                return True
            if (progress := self._site.progress()).pages > pages:
                pages, since = progress.pages, time.monotonic()
            assert time.monotonic() < since + STALLED_S, f"no new page after {pages}:\n{self._workers.said}"
            time.sleep(POLL_S)
        return False

    def finish(self) -> None:
        """Waits until the crawl has ended by itself."""
        self.waits_until(lambda: False)

    def _is_going_on(self) -> bool:
        """Whether any worker is; when all have left work behind, they are started once more."""
        self._workers.tend()
        if not self._workers.alive and self._pending() and self._rounds < 3:
            self._rounds += 1
            self._fill()
        return bool(self._workers.alive)

    def _fill(self, beyond: Worker | None = None) -> None:
        """Starts workers until there are enough, that one not counted."""
        while sum(worker is not beyond for worker in self._workers.alive) < self._plan.workers:
            self._workers.start(joins=True)

    def _one_at_work(self) -> Worker:
        worker = self._workers.at_work(self._site.progress(), self._dice)
        assert worker, "it has ended just now"
        return worker

    def _kill_worker(self) -> None:
        worker = self._one_at_work()
        worker.process.send_signal(signal.SIGSTOP)  # what it has is the others' as soon as it has ended
        self._in_flight += self._held_by(worker)
        self._workers.kill(worker)
        self._workers.start(joins=True)

    def _kill_server(self, server: Mongod) -> None:
        server.end(signal.SIGKILL)
        time.sleep(self._dice.uniform(0, 1))  # for as long it is away
        server.start()
