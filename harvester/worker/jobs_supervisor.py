"""Works at all open jobs: spiders with something to do share the processes, and those without get none.

A process works at all jobs of its spider, between which its feeder is fair, and ends when there is nothing to do. Then
another spider may have its place.
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
"""Between two looks at the jobs."""
FIRST_REST_SECONDS = 1.0
MOST_REST_SECONDS = 60.0
VARIABLES = {"HARVESTER_IDLE_SECONDS": "0"}
"""Of each process: this one waits for further work, not a process that others could have."""


class SpiderRest(NamedTuple):
    """A spider whose process ended without a page, was refused, or died often: for a while no other is started."""

    until: float
    """On the monotonic clock, as `since`."""
    times: int
    """In a row."""
    since: float
    was_refused: bool
    """Whether it died, or ended with LEFT, having waited for as long as it may: it is not waited for."""
    added: int | None = None
    """As in Work, at the first look since: when more is added, the rest is over."""


class JobsSupervisor(WorkerSupervisor):
    """Gives processes to spiders, by what their jobs have to do."""

    def __init__(
        self,
        config: Config,
        plan: Plan,
        spiders: Sequence[str],
        show_line: Callable[[str], None] | None = None,
        only: str = "",
    ) -> None:
        """The plan's command is that of every spider, without `crawl` and its name. `only`: the one that is wanted."""
        super().__init__(config, plan, show_line)
        for worker in self.workers:
            worker.state = "idle"
        self._spiders = [only] if only else list(spiders)
        """That are not given up, the one first for which a process was started longest ago."""
        self._named = set(spiders)
        """Those of the project, and others of whose jobs it was said that nobody works at them."""
        self._lives: dict[WorkerProcess, asyncio.Task[None]] = {}
        """Processes that were given to a spider."""
        self._rests: dict[str, SpiderRest] = {}
        self._work_of: dict[str, Work] = {}
        """As it was at the last look."""
        self._next_time: datetime | None = None
        """Of all schedules that are not paused. None: there is none."""
        self._busy_at = monotonic()
        self._said = ""
        """What was said last of what is waited for."""
        self._is_away = False
        """Whether MongoDB could not be asked the last time."""

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
        """Whether it is known what there is to do."""
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
                del self._rests[spider]  # and what it was in a row with
            else:
                self._rests[spider] = rest._replace(added=added)
        return True

    def _start(self, lives: asyncio.TaskGroup) -> None:
        """Gives free processes to spiders that wait for one; when there is none, has one make room."""
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
        """Whether it may use a process, or one more. One that has just been started may be enough."""
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
        goes_on = worker.retired and next_step(code, drained=True) is Next.AGAIN  # in another process
        if code != LEFT and not goes_on:  # whether anything is left, is seen when all have ended
            super()._note_end(worker, code)
        before = self._rests.get(worker.spider)
        if worker.retired and before and before.was_refused:
            return  # another of its processes has said how long none is started
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
        """Whether nothing is left to be done or waited for."""
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
    """Of spiders whose jobs have something to do later, or else of schedules. One that only rests is not spoken of."""
    later = {spider: each for spider, each in work.items() if not (each.is_due or each.is_active)}
    if not later:
        return f"for schedules, the next time is {next_time:%Y-%m-%d %H:%M:%S} UTC" if next_time and not work else ""
    at = min((each.next_due for each in later.values() if each.next_due), default=None)
    when = f", the first of them due at {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
    return f"for items of {', '.join(sorted(later))}{when}"


def _is_too_long(seconds: float, most: float) -> bool:
    """`most`: -1 for ever."""
    return 0 <= most < seconds


def spiders_with_jobs(settings: Mapping[str, str]) -> list[str]:
    """Names of the project's spiders that deal with the items of jobs. `settings`: as given with -s."""
    loader = spider_loader(settings)
    return [name for name in sorted(loader.list()) if issubclass(loader.load(name), JobSpider)]
