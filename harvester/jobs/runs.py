"""A run: the feeder works until its job is finished, or until nothing can be done for long enough, and says why."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic
from typing import NamedTuple

from harvester.config import Config
from harvester.jobs.documents import Job, JobState
from harvester.jobs.feeder import Feeder, FrontierSide
from harvester.jobs.ledger import Ledger, now

LEFT = 7
"""Exit code of a run that leaves items behind which wait for a time, or for their sites."""
STOPPED = 130
"""Exit code of a run whose job somebody has cancelled."""


class End(NamedTuple):
    """How a run ends."""

    reason: str
    """The finish reason, as Scrapy calls it."""
    exit_code: int = 0
    said: str = ""
    """For the person at the terminal."""


class Run:
    """The work of one process at one job, or at all jobs of its spider."""

    def __init__(
        self, ledger: Ledger, frontier: FrontierSide, feeder: Feeder, config: Config, *, job: str | None = None
    ) -> None:
        self._ledger = ledger
        self._frontier = frontier
        self._feeder = feeder
        self._config = config
        self._job = job
        self._busy_at = monotonic()
        """When there was something to do last."""

    async def work(self, goes_on: Callable[[], bool], pause: Callable[[], Awaitable[None]]) -> End:
        """Works until the end. `goes_on`: whether items are still being added; `pause` raises to end the run early."""
        while True:
            self._feeder.adding = goes_on()
            is_busy = bool(await self._feeder.step())
            if is_busy:
                self._busy_at = monotonic()
            may_end = not is_busy or (self._job is not None and not self._feeder.is_open(self._job))
            if may_end and not self._feeder.adding and (end := await self._end()):
                return end
            await pause()
            await self._feeder.wait()

    async def _end(self) -> End | None:
        if self._job is not None:
            job = await self._ledger.job(self._job)
            return await self._end_of(job) if job else End("job_gone", STOPPED, f"The job {self._job} is gone.")
        for job in self._feeder.jobs.values():
            if not await self._ledger.finish(job.id) and await self._may_work_at(job):
                self._busy_at = monotonic()
                return self._stranded(job)
        idle = self._config.idle_seconds
        return End("finished") if 0 <= idle <= monotonic() - self._busy_at else None

    async def _end_of(self, job: Job) -> End | None:
        if job.state is JobState.FINISHED or await self._ledger.finish(job.id):
            return End("finished")
        if await self._ledger.is_active(job.id):
            return self._stranded(job)
        if job.state is JobState.CANCELLED:
            return End("cancelled", STOPPED, f"The job {job.id} was cancelled.")
        if job.state is JobState.PAUSED:
            why = f": {job.pause_reason}" if job.pause_reason else ""
            return End(
                "paused", LEFT, f"The job {job.id} is paused{why}. `harvester jobs resume {job.id}` has it go on."
            )
        goes_on_at = await self._goes_on_at(job.id)
        if goes_on_at is None or not self._is_too_long((goes_on_at - now()).total_seconds()):
            return None
        return End("parked", LEFT, await self._said_of_rest(job.id))

    async def _may_work_at(self, job: Job) -> bool:
        """Whether something of it is under way, or could be now."""
        if await self._ledger.is_active(job.id):
            return True
        return job.state is JobState.OPEN and await self._ledger.is_due(job.id, self._frontier.shut())

    def _stranded(self, job: Job) -> End | None:
        """The end of a run in which all that is under way is parked, and has been for long."""
        stranded = self._frontier.stranded()
        if stranded is None or not self._is_too_long(stranded.alone_s):
            return None
        sites = ", ".join(f"{each.parked:,} of {each.site} ({each.state})" for each in stranded.sites)
        return End("parked", LEFT, f"Nothing is left but parked requests: {sites}. The same command continues the job.")

    def _is_too_long(self, seconds: float) -> bool:
        """To be waited for."""
        return 0 <= self._config.parked_seconds < seconds

    async def _goes_on_at(self, job: str) -> datetime | None:
        """When something can be done of a job of which nothing is under way; None: now."""
        shut = self._frontier.shut()
        if await self._ledger.is_due(job, shut):
            return None
        times = [each.until for each in shut.values()] if await self._ledger.is_due(job) else []
        moments = [datetime.fromtimestamp(until, UTC) if until else datetime.max.replace(tzinfo=UTC) for until in times]
        if due_at := await self._ledger.next_due(job):
            moments.append(due_at)
        return min(moments, default=None)

    async def _said_of_rest(self, job: str) -> str:
        said = []
        if deferred := await self._ledger.deferred(job):
            why = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(deferred.outcomes.items()))
            until = f"{deferred.until:%Y-%m-%d %H:%M:%S} UTC ({why})"
            one = "1 item waits for its next attempt, until"
            many = f"{deferred.items:,} items wait for their next attempt, the first until"
            said.append(f"{one if deferred.items == 1 else many} {until}")
        if await self._ledger.is_due(job):
            sites = ", ".join(sorted(self._frontier.shut())[:5])
            said.append(f"others wait for sites that are left alone ({sites})")
        return f"The job {job} is not finished: {'; '.join(said)}. The same command continues it."
