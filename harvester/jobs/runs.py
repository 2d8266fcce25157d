"""A run: lets the feeder work until the job is finished, or until nothing can be done for too long, and reports why."""

import logging
import math
from collections.abc import Awaitable, Callable
from time import monotonic, time
from typing import NamedTuple

from scrapy.statscollectors import StatsCollector

from harvester.config import Config
from harvester.exceptions import INTERRUPTED, LEFT
from harvester.formatting import how_long, shown
from harvester.jobs.documents import NOT_GIVEN, Job, JobState
from harvester.jobs.feeder import Feeder, FrontierSide
from harvester.jobs.host_faults import Blame, blame, is_refusal, refused
from harvester.jobs.ledger import Ledger
from harvester.outcomes import Outcome

logger = logging.getLogger(__name__)


NEVER_OF_USE_S = 0.0
"""Seconds to wait for sites with an open breaker if no host has answered in the run: the address may be wrong."""


class End(NamedTuple):
    """The end of a run."""

    reason: str
    """Scrapy's finish reason."""
    exit_code: int = 0
    said: str = ""
    """The message for the user at the terminal."""


class Run:
    """The work of a process at one job, or at all jobs of its spider."""

    def __init__(
        self,
        ledger: Ledger,
        frontier: FrontierSide,
        feeder: Feeder,
        config: Config,
        stats: StatsCollector,
        *,
        job: str | None = None,
        address: str = "",
        waits_for: str = "",
    ) -> None:
        """`address`: the argument with the address of the spider's site, if it has one.

        `waits_for`: the name of the thing that a run of all jobs waits for when it is idle, for the log.
        """
        self._ledger = ledger
        self._frontier = frontier
        self._feeder = feeder
        self._config = config
        self._stats = stats
        self._address = address
        self._waits_for = waits_for
        self._job = job
        self._has_said = False
        """True if the log already says that nothing in the recurring job is due."""
        self.had_jobs = False
        """True if the run ever had a job to work at."""
        self._busy_at = monotonic()
        """Time when there was last something to do."""

    async def work(self, goes_on: Callable[[], bool], pause: Callable[[], Awaitable[None]]) -> End:
        """Works until the end. `goes_on` returns True while items are being added. `pause` raises to end the run
        early."""
        while True:
            self._feeder.adding = goes_on()
            is_busy = bool(await self._feeder.step())
            if is_busy:
                self._busy_at, self._has_said = monotonic(), False
            self.had_jobs = self.had_jobs or is_busy or bool(self._feeder.jobs)
            may_end = not is_busy or (self._job is not None and not self._feeder.is_open(self._job))
            if may_end and not self._feeder.adding and (end := await self._end()):
                return end
            await pause()
            await self._feeder.wait()

    async def _end(self) -> End | None:
        if self._frontier.is_at(self._job):  # decided without MongoDB, since this is checked twice a second
            self._busy_at = monotonic()
            return None
        if self._job is not None:
            job = await self._ledger.job(self._job)
            return await self._end_of(job) if job else End("job_gone", INTERRUPTED, f"The job {self._job} is gone.")
        if not self._feeder.knows_jobs:
            return None
        for job in self._feeder.jobs.values():
            if not await self._feeder.finish(job) and await self._may_work_at(job):
                self._busy_at = monotonic()
                return self._stranded(job)
        idle = self._config.idle_seconds
        if 0 <= idle <= monotonic() - self._busy_at:
            for job in self._feeder.jobs.values():
                if job.incomplete:
                    logger.warning("The job %s stays open: %s", job.id, NOT_GIVEN)
            return End("finished")
        if self._waits_for:
            logger.info("Nothing to do now: waiting for %s, %s", self._waits_for, how_long(idle))
            self._waits_for = ""
        return None

    async def _end_of(self, job: Job) -> End | None:
        if job.state is JobState.FINISHED or await self._feeder.finish(job):
            return await self._finished(job)
        if await self._ledger.is_active(job.id):
            return self._stranded(job)
        if job.state is JobState.CANCELLED:
            return End("cancelled", INTERRUPTED, f"The job {job.id} was cancelled.")
        if job.state is JobState.PAUSED:
            why = f": {shown(job.pause_reason)}" if job.pause_reason else ""
            return End(
                "paused", LEFT, f"The job {job.id} is paused{why}. `harvester jobs resume {job.id}` has it go on."
            )
        if await self._ledger.is_due(job, self._frontier.shut()):
            self._busy_at = monotonic()
            return None
        if job.standing:
            return await self._rest_of(job)
        if await self._goes_on_soon(job):
            return None
        if (job.incomplete or not job.fed) and not await self._ledger.is_left(job.id):
            why = NOT_GIVEN if job.incomplete else "no item was given to it"
            return End("parked", LEFT, f"The job {job.id} is not finished: {why}.")
        said = await self._said_of_rest(job)
        if to_blame := await self._refused(job):
            return End(to_blame.reason, LEFT, f"{to_blame.said} {said} The same command continues the job.")
        return self._left(said, parked=await self._ledger.is_due(job))

    async def _rest_of(self, job: Job) -> End | None:
        """Returns the end of a run of a recurring job with nothing due, or None while it goes on."""
        idle = self._config.idle_seconds
        ends = 0 <= idle <= monotonic() - self._busy_at
        if ends or not self._has_said:
            self._has_said = True
            next_at = await self._ledger.next_due(job)
            when = (
                f"the next look is due at {next_at:%Y-%m-%d %H:%M:%S} UTC" if next_at else "no item is to be looked at"
            )
            logger.info(
                "Nothing of the job %s is due now: %s%s", job.id, when, "" if ends else f". Waiting {how_long(idle)}"
            )
        return await self._finished(job) if ends else None

    async def _finished(self, job: Job) -> End:
        if to_blame := await self._refused(job):
            again = f"`harvester jobs retry {job.id} --failed` and `harvester jobs run {job.id}` ask for them again."
            return End(to_blame.reason, LEFT, f"{to_blame.said} {again}")
        if not self._was_of_use and (to_blame := blame(self._stats, self._address)):
            return End(to_blame.reason, LEFT, f"{to_blame.said} Nothing came of the job {job.id}.")
        return End("finished")

    async def _refused(self, job: Job) -> Blame | None:
        """Returns the host that refused most of the job's items in this run, or None."""
        if not any(self._stats.get_value(f"harvester/jobs/ended/{each}") for each in Outcome if is_refusal(each)):
            return None
        known = await self._ledger.job(job.id)
        counts = known.counts if known and known.is_counted else await self._ledger.counting.count(job.id)
        return refused(self._stats, counts)

    async def _may_work_at(self, job: Job) -> bool:
        """Returns True if work at the job is under way, or possible now."""
        if await self._ledger.is_active(job.id):
            return True
        return job.state is JobState.OPEN and await self._ledger.is_due(job, self._frontier.shut())

    def _stranded(self, job: Job) -> End | None:
        """Returns the end of a run if all active items have been parked for too long."""
        all_parked = self._frontier.all_parked()
        most = self._config.parked_seconds if self._was_of_use else min(self._config.parked_seconds, NEVER_OF_USE_S)
        if all_parked is None or not _is_too_long(all_parked.alone_s, most):
            return None
        sites = ", ".join(f"{each.parked:,} of {each.site} ({each.state})" for each in all_parked.sites)
        return self._left(f"Nothing is left but parked requests: {sites}.", parked=True)

    def _left(self, said: str, *, parked: bool) -> End:
        """Returns the end of a run that leaves items behind. It names the host that is to blame only if that is
        certain."""
        to_blame = blame(self._stats, self._address) if parked or not self._was_of_use else None
        if to_blame is None:
            return End("parked", LEFT, f"{said} The same command continues the job.")
        return End(to_blame.reason, LEFT, f"{to_blame.said} {said} The same command continues the job.")

    @property
    def _was_of_use(self) -> bool:
        return bool(self._stats.get_value("harvester/pages", 0))

    async def _goes_on_soon(self, job: Job) -> bool:
        """Returns True if a job with nothing to do now goes on before the waiting time is over."""
        due_at, waits_for_sites = await self._ledger.next_due(job), await self._ledger.is_due(job)
        if due_at and not _is_too_long((due_at - self._ledger.now()).total_seconds(), self._config.deferred_seconds):
            return True
        if waits_for_sites:
            looked_at = [each.until - time() for each in self._frontier.shut().values() if each.until]
            return not _is_too_long(min(looked_at, default=math.inf), self._config.parked_seconds)
        if due_at is None and (job.incomplete or not job.fed):  # items may come while the process that adds them lives
            return not _is_too_long(monotonic() - self._busy_at, self._config.deferred_seconds)
        return due_at is None  # another process is just writing a change

    async def _said_of_rest(self, job: Job) -> str:
        said = []
        if deferred := await self._ledger.deferred(job.id):
            why = "; ".join(f"{number:,} {outcome}" for outcome, number in sorted(deferred.outcomes.items()))
            why += f": {shown(deferred.reason)}" if deferred.reason else ""
            until = f"{deferred.until:%Y-%m-%d %H:%M:%S} UTC ({why})"
            one = "1 item waits for its next attempt, until"
            many = f"{deferred.items:,} items wait for their next attempt, the first until"
            said.append(f"{one if deferred.items == 1 else many} {until}")
        if await self._ledger.is_due(job):
            sites = ", ".join(sorted(self._frontier.shut())[:5])
            said.append(f"others wait for sites that are left alone ({sites})")
        return f"The job {job.id} is not finished: {'; '.join(said)}."


def _is_too_long(seconds: float, most: float) -> bool:
    """Returns True if `seconds` is too long to wait. `most`: -1 allows any time."""
    return 0 <= most < seconds
