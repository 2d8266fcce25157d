"""Keeps N workers running: starts again what dies, drains what grows too large, ends when there is no more work."""

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
"""Until it is looked for the first time whether old files are to be removed: most commands have ended by then."""
TIDY_SECONDS = 3_600.0
"""Between two looks whether a day has passed since."""
LOOK_SECONDS = 1.0
"""Between two looks at the workers."""
FIRST_BACKOFF_SECONDS = 1.0
MOST_BACKOFF_SECONDS = 30.0
SETTLED_SECONDS = 60.0
"""A worker that has lived so long, or has fetched a page, did not die at once."""
SPARE_DEATHS = 3
"""Deaths at once that are borne beyond `max_deliveries`: a request that kills workers is given up before."""

Look = Callable[[Sequence[WorkerProcess]], None]


class Plan(NamedTuple):
    """What is to be run."""

    command: Sequence[str]
    """Words after `scrapy`."""
    processes: int
    max_memory_bytes: int | None
    """Of one worker with its children."""
    drain_seconds: float


def check_services(config: Config) -> None:
    """Says once what each worker would say. Raises ServiceError and UsageError."""
    hold_services(config)
    mongodb.check(config)
    redis.check(config)


def hold_services(config: Config) -> None:
    """Private servers stay as long as this process does, though all workers may be between two lives."""
    servers.mongodb_uri(config)
    servers.redis_url(config)


class WorkerSupervisor:
    """Each worker has a task here, in which it lives, dies, waits, and lives again, with one command for all."""

    def __init__(self, config: Config, plan: Plan, show_line: Callable[[str], None] | None = None) -> None:
        self.config = config
        self.plan = plan
        self.workers = [
            WorkerProcess(number, plan.drain_seconds, show_line, plan.command)
            for number in range(1, plan.processes + 1)
        ]
        self._codes: list[int] = []
        """How workers ended that are not started again."""
        self._stopping = asyncio.Event()

    async def run(self, look: Look) -> int:
        """The exit code, when all workers have ended. `look` is called about once a second."""
        with _on_signals(self._asked_to_stop):
            beside = [asyncio.create_task(self._watch(look)), asyncio.create_task(self._tidy())]
            try:
                await self._work()
            finally:
                self._stopping.set()  # what is being tidied up comes to its end too
                for task in beside:
                    task.cancel()
                for worker in self.workers:
                    worker.kill()
        look(self.workers)
        return worst(self._codes)

    async def _work(self) -> None:
        """Returns when there is nothing more to do, and no process is left."""
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
        """What is amiss with them a worker will say itself."""
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
        """Ends early when all workers are to end."""
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
        """The same would become of the others."""
        worker.state = "ended"
        self._codes.append(USAGE if worker.draining else code)  # the bound on its memory cannot be met
        again = f" {deaths} times in a row before it had fetched anything" if deaths > 1 else ""
        follows = self._end_alike(worker, code)
        logger.error("%s%s. %s; what they said stands above", _ended_how(worker, code), again, follows)

    def _end_alike(self, worker: WorkerProcess, code: int) -> str:
        """Ends those that would end as this one did. Which they are, for the log."""
        self._stop()
        return "All workers are stopped"

    # All --------------------------------------------------------------------------------------------------

    async def _watch(self, look: Look) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._weigh()
            look(self.workers)

    async def _tidy(self) -> None:
        """Removes old files once a day, if no other supervisor does."""
        await asyncio.sleep(TIDY_AFTER_SECONDS)
        while True:
            await asyncio.to_thread(daily, self.config, lambda: not self._stopping.is_set())
            await asyncio.sleep(TIDY_SECONDS)

    def _weigh(self) -> None:
        """Drains those that are too large. They are started again."""
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
        """The first signal drains, a second one has all end at once."""
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
    """Calls `act` with the signal's name, on the event loop, for each signal that asks this process to end."""
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        note(number)
        loop.call_soon_threadsafe(act, signal.Signals(number).name)

    names = ("SIGINT", "SIGTERM", "SIGHUP")  # the last: the terminal was closed; there is none on Windows
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
