"""Works at all open jobs: the spiders with due work share the processes.

A process works at all jobs of its spider (the feeder treats them fairly) and ends when nothing is due. Then it is free
for another spider.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from time import monotonic
from typing import NamedTuple

from pymongo.errors import PyMongoError

from harvester.config import Config
from harvester.exceptions import INTERRUPTED, LEFT
from harvester.formatting import duration, how_long, shown
from harvester.jobs.documents import NOT_GIVEN
from harvester.jobs.ledger import Ledger, now
from harvester.jobs.open_work import Work, work_of
from harvester.jobs.scheduling import Schedules
from harvester.jobs.service import job_service
from harvester.project import spider_loader
from harvester.spiders.job import ALL_JOBS, JobSpider
from harvester.stores import mongodb
from harvester.worker.endings import Next, backoff_s, next_step
from harvester.worker.planner import Running, to_drain, to_start
from harvester.worker.process import WorkerProcess
from harvester.worker.supervisor import Plan, WorkerSupervisor

logger = logging.getLogger("harvester.worker")

JOBS_SECONDS = 1.0
"""Seconds between two reads of the jobs."""
FIRST_REST_SECONDS = 1.0
MOST_REST_SECONDS = 60.0
VARIABLES = {"HARVESTER_IDLE_SECONDS": "0"}
"""Environment variables of the processes: only the supervisor waits for more work, a process does not."""


class SpiderRest(NamedTuple):
    """A pause for a spider after a process ended without a page, was refused, or died repeatedly."""

    until: float
    """End of the pause on the monotonic clock, like `since`."""
    times: int
    """Number of pauses in a row."""
    since: float
    was_refused: bool
    """True if its process ended with LEFT or died repeatedly; then the supervisor does not wait for the spider."""
    added: int | None = None
    """Work.added at the first read after the pause began. A higher value ends the pause."""


class JobsSupervisor(WorkerSupervisor):
    """A supervisor that assigns processes to spiders according to the work in their jobs."""

    def __init__(
        self,
        config: Config,
        plan: Plan,
        spiders: Sequence[str],
        show_line: Callable[[str], None] | None = None,
        only: str = "",
    ) -> None:
        """`plan.command`: the arguments for all spiders, without `crawl` and the spider's name.

        `only`: the only spider to run.
        """
        super().__init__(config, plan, show_line)
        for worker in self.workers:
            worker.state = "idle"
        self._spiders = [only] if only else list(spiders)
        """Spiders that may get a process, ordered by their last start: the oldest first."""
        self._named = set(spiders)
        """Spiders of the project, and unknown spiders that were already logged."""
        self._lives: dict[WorkerProcess, asyncio.Task[None]] = {}
        """Worker with a spider -> the task that runs it."""
        self._rests: dict[str, SpiderRest] = {}
        self._work_of: dict[str, Work] = {}
        """Spider -> work at the last read."""
        self._next_time: datetime | None = None
        """The next time of all active schedules. None: no schedule is active."""
        self._busy_at = monotonic()
        self._said = ""
        """The last logged text about waiting, to log it only once."""
        self._is_away = False
        """True if the last read of MongoDB failed."""

    async def _work(self) -> None:
        async with job_service(self.config) as service, asyncio.TaskGroup() as lives:
            while not self._stopping.is_set():
                if await self._look_at_jobs(service.ledger):
                    self._start(lives)
                    if self._may_end():
                        break
                await self._pause(JOBS_SECONDS)
            else:
                self._codes.append(INTERRUPTED)

    async def _look_at_jobs(self, ledger: Ledger) -> bool:
        """Starts due schedules and reads the work of all spiders. Returns False if MongoDB is unreachable."""
        try:
            schedules = Schedules(ledger)
            await schedules.begin_due()
            self._next_time = await schedules.next_at()
            self._work_of = {spider: await work_of(ledger, spider) for spider in [*self._spiders]}
            strangers = await ledger.spiders_with_open_jobs() - self._named
        except PyMongoError as error:
            if not self._is_away:
                logger.warning("%s No process is started until it is back", mongodb.unavailable(error))
            self._is_away = True
            await self._hold_services()
            return False
        self._is_away = False
        if strangers:
            names = ", ".join(sorted(map(shown, strangers)))
            logger.warning("Open jobs are left alone whose spiders this project does not have: %s", names)
            self._named |= strangers
        for spider in self._rests.keys() & self._work_of.keys():
            rest, added = self._rests[spider], self._work_of[spider].added
            if rest.added not in (None, added):
                del self._rests[spider]  # new items also reset the number of pauses in a row
            else:
                self._rests[spider] = rest._replace(added=added)
        return True

    def _start(self, lives: asyncio.TaskGroup) -> None:
        """Assigns free processes to waiting spiders. Without a free process, it drains one if the planner wants so."""
        waiting = [spider for spider in self._spiders if self._waits(spider)]
        idle = [worker for worker in self.workers if worker not in self._lives]
        running = [Running(worker.spider, worker.turn_s) for worker in self._lives]
        for worker in idle:
            spider = to_start(waiting, running)
            if spider is None:
                return
            waiting.remove(spider)
            running.append(Running(spider, 0))
            self._spiders.remove(spider)
            self._spiders.append(spider)
            worker.give_to(spider, ["crawl", spider, "-a", f"job={ALL_JOBS}", *self.plan.command], VARIABLES)
            self._lives[worker] = lives.create_task(self._live(worker))
        if not idle and not any(worker.retired for worker in self._lives):
            index = to_drain(waiting, running)
            if index is not None:
                worker = list(self._lives)[index]
                logger.info("%s makes room for %s", worker, to_start(waiting, running))
                self._retire(worker)

    def _waits(self, spider: str) -> bool:
        """Returns True if the spider can use another process. A process that has just started may be enough."""
        work, rest = self._work_of[spider], self._rests.get(spider)
        if rest and monotonic() < rest.until:
            return False
        own = [worker for worker in self._lives if worker.spider == spider]
        return (work.is_due and all(worker.report for worker in own)) or (work.is_active and not own)

    async def _live(self, worker: WorkerProcess) -> None:
        await self._keep(worker)
        del self._lives[worker]
        worker.state = "idle"

    def _retire(self, worker: WorkerProcess) -> None:
        worker.retired = True
        worker.drain()

    def _note_end(self, worker: WorkerProcess, code: int) -> None:
        if worker.retired and code == INTERRUPTED:
            return
        goes_on = worker.retired and next_step(code, drained=True) is Next.AGAIN  # another process continues its work
        if code != LEFT and not goes_on:  # LEFT is decided when all processes have ended
            super()._note_end(worker, code)
        before = self._rests.get(worker.spider)
        if worker.retired and before and before.was_refused:
            return  # the other process has already set the pause
        self._rests.pop(worker.spider, None)
        if code == LEFT or not worker.pages:
            at, times = monotonic(), before.times + 1 if before else 1
            until = at + backoff_s(times, FIRST_REST_SECONDS, MOST_REST_SECONDS)
            self._rests[worker.spider] = SpiderRest(until, times, before.since if before else at, code == LEFT)

    def _end_alike(self, worker: WorkerProcess, code: int) -> str:
        for each in self._lives:
            if each.spider == worker.spider:
                self._retire(each)
        if next_step(code, drained=False) is Next.AGAIN and not worker.draining:
            at = monotonic()
            self._rests[worker.spider] = SpiderRest(at + MOST_REST_SECONDS, 1, at, was_refused=True)
            return f"No process of {worker.spider} is started for {duration(MOST_REST_SECONDS)}"
        if worker.spider in self._spiders:
            self._spiders.remove(worker.spider)
        return f"No process of {worker.spider} is started any more"

    def _may_end(self) -> bool:
        """Returns True if there is nothing left to do or to wait for."""
        at = monotonic()
        work = {spider: self._work_of[spider] for spider in self._spiders}
        waited_for = {spider: each for spider, each in work.items() if self._is_waited_for(spider, each)}
        if self._lives or waited_for or self._next_time:
            self._busy_at = at
            self._say_waiting("" if self._lives else _said_of(waited_for, self._next_time))
            return False
        if not 0 <= self.config.idle_seconds <= at - self._busy_at:
            self._say_waiting(f"for jobs (`harvester jobs submit`), {how_long(self.config.idle_seconds)}")
            return False
        for job in sorted(job for each in work.values() for job in each.incomplete):
            logger.warning("The job %s stays open: %s", job, NOT_GIVEN)
        if left := sorted(spider for spider, each in work.items() if each.is_left):
            self._codes.append(LEFT)
            logger.warning("Items are left for which nothing can be done now: of %s", ", ".join(left))
        else:
            logger.info("No open job has anything to do. HARVESTER_IDLE_SECONDS=-1 has workers stay and wait for jobs")
        return True

    def _say_waiting(self, said: str) -> None:
        if said and said != self._said:
            logger.info("Nothing to do now: waiting %s", said)
        self._said = said

    def _is_waited_for(self, spider: str, work: Work) -> bool:
        rest = self._rests.get(spider)
        if work.is_due or work.is_active:
            if rest is None:
                return True
            if not rest.was_refused and not _is_too_long(monotonic() - rest.since, self.config.parked_seconds):
                return True
        due_s = (work.next_due - now()).total_seconds() if work.next_due else None
        return work.standing or (due_s is not None and not _is_too_long(due_s, self.config.deferred_seconds))


def _said_of(work: Mapping[str, Work], next_time: datetime | None) -> str:
    """Describes the wait for items that are due later, or otherwise for schedules. Pausing spiders are left out."""
    later = {spider: each for spider, each in work.items() if not (each.is_due or each.is_active)}
    if not later:
        return f"for schedules, the next time is {next_time:%Y-%m-%d %H:%M:%S} UTC" if next_time and not work else ""
    at = min((each.next_due for each in later.values() if each.next_due), default=None)
    when = f", the first of them due at {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
    return f"for items of {', '.join(sorted(later))}{when}"


def _is_too_long(seconds: float, most: float) -> bool:
    """Returns True if `seconds` exceeds `most`; -1 means no limit."""
    return 0 <= most < seconds


def spiders_with_jobs(settings: Mapping[str, str]) -> list[str]:
    """Returns the names of the project's spiders that process job items. `settings`: as given with -s."""
    loader = spider_loader(settings)
    return [name for name in sorted(loader.list()) if issubclass(loader.load(name), JobSpider)]
