"""Keeps N workers running: restarts dead workers, drains those with too much memory, ends when no work is left."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import NamedTuple

from harvester.config import Config
from harvester.exceptions import FAULT, INTERRUPTED, ServiceError, StateGone
from harvester.formatting import counted, duration, size
from harvester.stores import mongodb, redis, servers
from harvester.worker.endings import USAGE, Next, backoff_s, describe, next_step, worst
from harvester.worker.interrupts import note
from harvester.worker.process import WorkerProcess, memory_of
from harvester.worker.retention import daily

logger = logging.getLogger("harvester.worker")

TIDY_AFTER_SECONDS = 60.0
"""Seconds until the first check for old files: most commands have ended by then."""
TIDY_SECONDS = 3_600.0
"""Seconds between two checks if a day has passed."""
LOOK_SECONDS = 1.0
"""Seconds between two checks of the workers."""
FIRST_BACKOFF_SECONDS = 1.0
MOST_BACKOFF_SECONDS = 30.0
SETTLED_SECONDS = 60.0
"""Age in seconds from when on a death is not immediate.

A worker that fetched a page did not die immediately either.
"""
SPARE_DEATHS = 3
"""Immediate deaths to tolerate beyond `max_deliveries`: a request that kills workers is given up before that."""

Look = Callable[[Sequence[WorkerProcess]], None]


class Plan(NamedTuple):
    """The command to run, with its limits."""

    command: Sequence[str]
    """Arguments of `scrapy`."""
    processes: int
    max_memory_bytes: int | None
    """Maximum bytes of memory of a worker with its children."""
    drain_seconds: float


def check_services(config: Config) -> None:
    """Checks the services once for all workers. Raises ServiceError and UsageError."""
    hold_services(config)
    mongodb.check(config)
    redis.check(config)


def hold_services(config: Config) -> None:
    """Keeps private servers running as long as this process, even while all workers wait for a restart."""
    servers.mongodb_uri(config)
    servers.redis_url(config)


class WorkerSupervisor:
    """A supervisor with one command for all workers. Each worker has a task that starts and restarts it."""

    def __init__(self, config: Config, plan: Plan, show_line: Callable[[str], None] | None = None) -> None:
        self.config = config
        self.plan = plan
        self.workers = [
            WorkerProcess(number, plan.drain_seconds, show_line, plan.command)
            for number in range(1, plan.processes + 1)
        ]
        self._codes: list[int] = []
        """Exit codes of workers that are not restarted."""
        self._stopping = asyncio.Event()

    async def run(self, look: Look) -> int:
        """Returns the exit code when all workers have ended. Calls `look` about once a second."""
        with _on_signals(self._asked_to_stop):
            beside = [asyncio.create_task(self._watch(look)), asyncio.create_task(self._tidy())]
            try:
                await self._work()
            finally:
                self._stopping.set()  # ends a running sweep too
                for task in beside:
                    task.cancel()
                for worker in self.workers:
                    worker.kill()
        look(self.workers)
        return worst(self._codes)

    async def _work(self) -> None:
        """Runs until no work and no process is left."""
        await asyncio.gather(*map(self._keep, self.workers))

    async def _keep(self, worker: WorkerProcess) -> None:
        deaths = 0
        while not (self._stopping.is_set() or worker.retired):
            try:
                code = await worker.live(lambda: logger.info("%s: started, pid %d", worker, worker.pid))
            except OSError as error:
                logger.error("%s cannot be started: %s", worker, error)  # noqa: TRY400
                code = FAULT
            step = next_step(code, worker.draining)
            if self._stopping.is_set() or worker.retired or step is Next.DONE:
                self._ended(worker, code)
                return
            at_once = not worker.pages and worker.age_s < SETTLED_SECONDS
            deaths = deaths + 1 if at_once else 0
            if step is Next.STOP or deaths > self.config.max_deliveries + SPARE_DEATHS:
                self._give_up(worker, code, deaths)
                return
            pause_s = 0.0
            if at_once or not worker.draining:
                pause_s = backoff_s(max(1, deaths), FIRST_BACKOFF_SECONDS, MOST_BACKOFF_SECONDS)
            logger.warning("%s; it is started again in %s", _ended_how(worker, code), duration(pause_s))
            await self._wait(worker, pause_s)
        worker.state = "ended"
        self._note_end(worker, INTERRUPTED)

    async def _wait(self, worker: WorkerProcess, seconds: float) -> None:
        worker.state = f"starts again in {duration(seconds)}"
        await self._pause(seconds)
        await self._hold_services()

    async def _hold_services(self) -> None:
        """Starts private servers again if needed. Other faults are left to the workers, which report them."""
        try:
            await asyncio.to_thread(hold_services, self.config)
        except StateGone as error:
            if not self._stopping.is_set():
                logger.error("%s All workers are stopped", error)  # noqa: TRY400
            self._codes.append(error.exit_code)
            self._stop()
        except ServiceError:
            pass

    async def _pause(self, seconds: float) -> None:
        """Waits, but not longer than until a stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _ended(self, worker: WorkerProcess, code: int) -> None:
        worker.state = "ended"
        logger.info("%s. It fetched %s", _ended_how(worker, code), counted(worker.pages, "page"))
        self._note_end(worker, INTERRUPTED if worker.killed or (worker.draining and code == -signal.SIGTERM) else code)

    def _note_end(self, worker: WorkerProcess, code: int) -> None:
        self._codes.append(code)

    def _give_up(self, worker: WorkerProcess, code: int, deaths: int) -> None:
        """Ends this worker and others that would end in the same way."""
        worker.state = "ended"
        self._codes.append(USAGE if worker.draining else code)  # its memory limit cannot be met
        again = f" {deaths} times in a row before it had fetched anything" if deaths > 1 else ""
        follows = self._end_alike(worker, code)
        logger.error("%s%s. %s; what they said stands above", _ended_how(worker, code), again, follows)

    def _end_alike(self, worker: WorkerProcess, code: int) -> str:
        """Ends the workers that would end in the same way, and returns a text about them for the log."""
        self._stop()
        return "All workers are stopped"

    # All --------------------------------------------------------------------------------------------------

    async def _watch(self, look: Look) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._weigh()
            look(self.workers)

    async def _tidy(self) -> None:
        """Removes old files once a day, unless another supervisor does."""
        await asyncio.sleep(TIDY_AFTER_SECONDS)
        while True:
            await asyncio.to_thread(daily, self.config, lambda: not self._stopping.is_set())
            await asyncio.sleep(TIDY_SECONDS)

    def _weigh(self) -> None:
        """Drains workers that use too much memory. They are restarted."""
        memory = memory_of([worker.pid for worker in self.workers if worker.alive])
        for worker in self.workers:
            worker.rss = memory.get(worker.pid, 0) if worker.alive else 0
            most = self.plan.max_memory_bytes
            if most and worker.rss > most and not worker.draining:
                logger.warning(
                    "%s (pid %d) uses %s, more than %s: it is drained, and then started again",
                    worker,
                    worker.pid,
                    size(worker.rss),
                    size(most),
                )
                worker.drain()

    def _asked_to_stop(self, name: str) -> None:
        """Drains at the first signal; ends all workers at once at the second."""
        if self._stopping.is_set():
            logger.warning("%s again: the workers end at once; their requests go to others", name)
            for worker in self.workers:
                worker.interrupt()
            return
        logger.info(
            "%s: the workers finish what is in flight, for at most %s. Send it again to end them at once",
            name,
            duration(self.plan.drain_seconds),
        )
        self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        for worker in self.workers:
            worker.drain()


def _ended_how(worker: WorkerProcess, code: int) -> str:
    how = describe(code)
    if worker.killed:
        how = "it was killed, since it did not drain in time; its requests go to others"
    return f"{worker} (pid {worker.pid}) ended after {duration(worker.age_s)} ({how})"


@contextlib.contextmanager
def _on_signals(act: Callable[[str], None]) -> Iterator[None]:
    """Calls `act` with the signal's name, on the event loop, for each stop signal to this process."""
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        note(number)
        loop.call_soon_threadsafe(act, signal.Signals(number).name)

    names = ("SIGINT", "SIGTERM", "SIGHUP")  # SIGHUP: the terminal was closed; missing on Windows
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
