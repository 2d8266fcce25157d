"""The feeder: brings due items of jobs into the frontier, a window at a time, and writes down how they end.

Every worker of a JobSpider has one. An item is marked as active, with the number of its attempt, before the frontier
is told; an item that is active and that the frontier does not know is waiting again. So a feeder may die anywhere, two
may work at once, and Redis may lose everything.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from time import monotonic
from typing import ClassVar, Protocol

from scrapy import Request
from scrapy.statscollectors import StatsCollector

from harvester.breaker.states import BreakerState
from harvester.exceptions import ServiceError, StorageError
from harvester.frontier.messages import AllParked, ItemEnded, ItemRef
from harvester.frontier.workers import is_gone
from harvester.items import ItemResult
from harvester.jobs import missing
from harvester.jobs.control import Control
from harvester.jobs.documents import Item, Job, JobItem, JobState, looked_at
from harvester.jobs.job_stats import JobStats
from harvester.jobs.ledger import Ledger
from harvester.jobs.missed import add_missed
from harvester.jobs.missing import Listing
from harvester.jobs.scheduling import Schedules
from harvester.jobs.transitions import Ended, Event, Lost, was_missing, worst
from harvester.masking import mask
from harvester.outcomes import Outcome

logger = logging.getLogger(__name__)

WINDOW = 1000
"""Items of a spider that are in the frontier and not parked: enough to keep many workers busy."""
MOST_CLAIMED = 250
"""Items that are claimed and fed together."""
LEAST_CLAIMED = 0.1
"""Of its share of the window a job's room must be free before more is claimed, unless nothing of it is there."""
MOST_PROBES = 10
"""Items of a site that this feeder feeds while it is found out whether the site is well again."""
MOST_REQUESTS = 1000
"""With which items may begin that are fed together. They may lead to any number."""
MOST_PASSED_OVER = 1000
"""Sites that are left alone, of which a claim passes over the items."""
FEED_S = 60.0
"""Within which the frontier must have heard of items that were claimed; later it refuses them."""
LOOK_S = 0.5
"""How often a feeder looks for work that has nothing to do, or has a standing job, whose looks have their times."""
JOBS_S = 1.0
"""How often it looks which jobs there are."""
AT_WORK_S = 2.0
"""How often it looks for jobs and items while its process has requests to work on and none of its items has ended."""
GATHER_S = 0.1
"""How long an item that has ended waits for others to be written down with, while there are requests to work on."""
LOST_S = 10.0
"""How often it looks for items that nobody works on."""
READ = {Outcome.OK.value, Outcome.EMPTY.value}
"""Outcomes of requests whose pages were read; likewise of those whose errback had something to say."""
MOST_REASON = 500
"""Characters of an exception's text that an item keeps."""


class FrontierSide(Protocol):
    """What a feeder needs of its process's conversation with the frontier."""

    @property
    def epoch(self) -> str:
        """Another one: Redis has forgotten what it held."""

    @property
    def parked(self) -> int:
        """Requests of sites that are left alone."""

    def is_at(self, job: str | None) -> bool:
        """Whether this process is at a request of the job, so that it is not over; None: at one of any job."""

    def all_parked(self) -> AllParked | None:
        """The parked requests, when nothing else is left for any worker."""

    def now(self) -> float:
        """The time at Redis, in epoch seconds."""

    def shut(self) -> Mapping[str, BreakerState]:
        """Sites whose breaker is not closed."""

    def feed(self, items: Sequence[ItemRef], requests: Sequence[Request], deadline: float) -> Awaitable[None]:
        """To be awaited until the frontier has heard of it. Raises ValueError for a request that it cannot keep.

        After the deadline, in seconds of `now`, the frontier refuses it.
        """

    def acknowledge(self, items: Sequence[ItemRef]) -> None:
        """It is written down how these ended."""

    async def unknown_items(self, items: Sequence[ItemRef]) -> list[ItemRef]:
        """Those that it neither has nor has to tell of."""

    async def workers(self) -> set[str]:
        """Those that it has heard of and that have not ended, as far as is known."""

    async def open_items(self, jobs: Sequence[str]) -> dict[str, int]:
        """Job -> how many items it has."""


class FedSpider(Protocol):
    """What a feeder needs of a spider."""

    name: str
    ITEMS_A_REQUEST: ClassVar[int | Mapping[str, int]]
    CHECKED_AS: ClassVar[Mapping[str, str]]

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request | ItemResult]:
        """With which these items begin, and how those end that need not be asked for."""

    def listings_of(self, item: Item) -> Iterable[Listing]:
        """Which records an attempt that has ended looked through to their end."""


class Feeder:
    """Feeds the jobs of one spider, or one of them; settles those of all."""

    def __init__(
        self,
        ledger: Ledger,
        frontier: FrontierSide,
        spider: FedSpider,
        stats: StatsCollector,
        *,
        worker: str,
        only: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._control = Control(ledger)
        self._schedules = Schedules(ledger)
        self.job_stats = JobStats(ledger, stats)
        self._frontier = frontier
        self._spider = spider
        self._stats = stats
        self._worker = worker
        self._only = only
        """The job to feed. None: all of the spider's."""
        self.jobs: dict[str, Job] = {}
        """The spider's jobs in which something may happen yet, as they were a moment ago."""
        self.adding = False
        """Whether this process still adds items to its job, which is not finished then."""
        self._jobs_at = -JOBS_S
        self._ended: list[ItemEnded] = []
        self._wake = asyncio.Event()
        self._feeding: set[ItemRef] = set()
        """Claimed, and not yet known to the frontier."""
        self._epoch: str | None = None
        """For which it was looked for items that nobody works on."""
        self._lost_at = -LOST_S
        self._sated: set[str] = set()
        """Jobs that had nothing due when they were looked at last."""
        self._turn = 0
        self._checked: set[str] = set()
        """Jobs that were given what only the job before them has met."""
        self._later: dict[str, bool] = {}
        """Jobs -> whether there was one before, of which something may be gone since."""
        self._probed: dict[str, int] = {}
        """Site -> the trial of its breaker for which items were fed."""

    def hear(self, ended: Iterable[ItemEnded]) -> None:
        """Of items that the frontier has no request of any more."""
        self._ended.extend(ended)
        self._wake.set()

    async def wait(self) -> None:
        """Until something is to be done, or may be."""
        has_times = any(job.standing for job in self.jobs.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AT_WORK_S if self._frontier.is_at(self._only) and not has_times else LOOK_S):
                await self._wake.wait()
                if self._frontier.is_at(self._only):
                    await asyncio.sleep(GATHER_S)

    async def step(self) -> int:
        """Writes down what has ended, and feeds what is due; how many items of the jobs it feeds that were."""
        self._wake.clear()
        number = await self.write_ended()
        if not self._frontier.epoch:
            return number  # nothing was heard of the frontier yet
        await self._look_at_jobs()
        await self._find_lost()
        return number + await self._feed()

    async def write_ended(self) -> int:
        """Writes down how items have ended, and tells the frontier so; how many of the jobs that it feeds."""
        ended, self._ended = self._ended, []
        looked_through = {each.ref for each in ended if not each.rejected and each.outcomes.keys() <= READ}

        async def mark_gone(items: Sequence[Item]) -> None:
            looks = []
            for item in items:
                if (item.id, item.attempts) in looked_through:
                    may_lack_more = item.looks or await self._may_have_gone(item.job)
                    listings = self._spider.listings_of(item)
                    looks += [(item, each) for each in listings if each.is_absent or may_lack_more]
            await missing.unmark(self._ledger, looks)
            for kind, number in (await missing.mark(self._ledger, looks)).items():
                self._stats.inc_value(f"harvester/records/gone/{kind}", number)

        events: list[tuple[str, Event]] = []
        for each in ended:
            outcome = worst(each.outcomes)
            counts = {
                "requests": each.requests,
                "records": each.records,
                "new": each.new,
                "rejected": each.rejected,
            }
            events.append((each.id, Ended(each.attempt, outcome, each.reasons.get(outcome, ""), counts)))
            self._stats.inc_value(f"harvester/jobs/ended/{outcome}")
        if events:
            await self._ledger.apply(events, mark_gone)
            self._frontier.acknowledge([each.ref for each in ended])
        return sum(self._feeds(each.job) for each in ended)

    async def _may_have_gone(self, job: str) -> bool:
        if job not in self._later:
            self._later[job] = await missing.may_be(self._ledger, self._spider.name, job)
        return self._later[job]

    # Jobs -------------------------------------------------------------------------------------------------

    async def _look_at_jobs(self) -> None:
        if monotonic() < self._jobs_at + JOBS_S:
            return
        if self._only is None:
            await self._schedules.begin_due(self._spider.name)
        unfinished = await self._ledger.unfinished(self._spider.name)
        self.jobs = {job.id: job for job in unfinished}
        for job in unfinished:
            if job.state is JobState.CANCELLED:
                await self._control.skip_cancelled(job.id)  # what came after it was cancelled
            elif job.state is JobState.OPEN and self._feeds(job.id):
                await self._ledger.promote(job)
                await self.job_stats.look(job)
                if not self.adding and not self._frontier.is_at(job.id) and await self.finish(job):
                    del self.jobs[job.id]
        self._jobs_at = monotonic()

    async def finish(self, job: Job) -> bool:
        """Finishes a job of which no item is left, once those are checked that only the job before it has met."""
        if self._spider.CHECKED_AS and job.id not in self._checked and not await self._ledger.is_left(job.id):
            added = await add_missed(self._ledger, job, self._spider.CHECKED_AS)
            self._checked.add(job.id)
            if added:
                return False
        return await self._ledger.finish(job.id)

    def _feeds(self, job: str) -> bool:
        return self._only in (None, job)

    @property
    def knows_jobs(self) -> bool:
        """Whether it has looked which jobs there are, which it does when something was heard of the frontier."""
        return self._jobs_at >= 0

    def is_open(self, job: str) -> bool:
        """Whether the job was open a moment ago."""
        return job in self.jobs and self.jobs[job].state is JobState.OPEN

    # Items that nobody works on ---------------------------------------------------------------------------

    async def _find_lost(self) -> None:
        """Has items wait again that are active and that the frontier does not know.

        They were claimed by a feeder that died, or Redis has forgotten them. Those of processes of this machine that
        have ended are looked at each time; those of its own, and of workers of which the frontier does not know, when a
        feeder begins, or hears that Redis has forgotten. Those of other workers may be on their way to the frontier:
        they get the time that a feed may take.
        """
        epoch = self._frontier.epoch
        anew = epoch != self._epoch
        if not anew and monotonic() < self._lost_at + LOST_S:
            return
        for job in self.jobs:
            await self._lose_unknown(job, anew=anew)
        self._epoch, self._lost_at = epoch, monotonic()

    async def _lose_unknown(self, job: str, *, anew: bool) -> None:
        long_ago = self._ledger.now() - timedelta(seconds=2 * FEED_S)
        active = await self._ledger.active(job)
        if not active:
            return
        others = await self._frontier.workers() - {self._worker}  # asked after what they have claimed
        by = {item.feeder: item.feeder.rpartition(":")[0] for item in active}
        ended = {feeder for feeder, worker in by.items() if (worker not in others if anew else is_gone(worker))}
        refs = [
            ItemRef(item.id, item.attempts)
            for item in active
            if (item.fed_at and item.fed_at < long_ago) or item.feeder in ended
        ]
        unknown = await self._frontier.unknown_items([ref for ref in refs if ref not in self._feeding])
        if lost := await self._ledger.apply([(ref.id, Lost(ref.attempt)) for ref in unknown]):
            self._stats.inc_value("harvester/jobs/lost", lost)
            logger.info("%d items of the job %s were in nobody's hands, and wait again", lost, job)

    # Feeding ----------------------------------------------------------------------------------------------

    async def _feed(self) -> int:
        """Gives each job that has something due an equal share of the window; how many items were fed."""
        jobs = [job for job in self.jobs.values() if job.state is JobState.OPEN and self._feeds(job.id)]
        if not jobs:
            return 0
        here = await self._frontier.open_items([job.id for job in jobs])
        weights = {job.id: 2.0 ** max(-10, min(10, job.priority)) for job in jobs}
        self._turn += 1
        first = self._turn % len(jobs)
        fed = 0
        for job in jobs[first:] + jobs[:first]:
            others = sum(weights[each.id] for each in jobs if each.id != job.id and each.id not in self._sated)
            share = int((WINDOW + self._frontier.parked) * weights[job.id] / (weights[job.id] + others))
            room = share - here[job.id]
            if room > 0 and (room >= share * LEAST_CLAIMED or not here[job.id]):
                fed += await self._feed_job(job, min(room, MOST_CLAIMED))
        return fed

    async def _feed_job(self, job: Job, most: int) -> int:
        shut = self._frontier.shut()
        deadline = self._frontier.now() + FEED_S
        claimed = await self._ledger.claim(job, most, self._worker, left_alone=list(islice(shut, MOST_PASSED_OVER)))
        (self._sated.discard if len(claimed) == most else self._sated.add)(job.id)
        for site, breaker in shut.items():
            if breaker.state == "half_open" and self._probed.get(site) != breaker.trial:
                self._probed[site] = breaker.trial
                claimed += await self._ledger.claim(job, MOST_PROBES, self._worker, of_site=site)
        await self._send(claimed, deadline)
        return len(claimed)

    async def _send(self, items: Sequence[Item], deadline: float) -> None:
        refs = {ItemRef(item.id, item.attempts) for item in items}
        self._feeding |= refs
        try:
            sent = [each for group in self._groups(items) async for each in self._send_group(group, deadline)]
            await asyncio.gather(*sent)
        finally:
            self._feeding -= refs
        self._stats.inc_value("harvester/jobs/fed", len(items))

    async def _send_group(self, items: Sequence[Item], deadline: float) -> AsyncIterator[Awaitable[None]]:
        """What is to be awaited. An item with which the spider cannot begin ends here, and says why."""
        refs = [ItemRef(item.id, item.attempts) for item in items]
        try:
            requests, said = self._requests_of(items)
        except Exception as error:  # noqa: BLE001  whatever a spider raises
            async for each in self._send_singly(items, deadline, error):
                yield each
            return
        if said:  # before the frontier is told, and of no item's fault if MongoDB refuses it
            await self._ledger.say(dict(refs), said)
        try:
            sent = self._frontier.feed(refs, requests, deadline)
        except Exception as error:  # noqa: BLE001  whatever is wrong with a spider's request
            async for each in self._send_singly(items, deadline, error):
                yield each
            return
        yield sent

    async def _send_singly(
        self, items: Sequence[Item], deadline: float, error: Exception
    ) -> AsyncIterator[Awaitable[None]]:
        """Likewise, when the group cannot be asked for: each item by itself, so that only the one at fault ends."""
        if isinstance(error, (ServiceError, StorageError)):
            raise error  # what a server or this machine lacks is no item's fault
        if len(items) > 1:
            for item in items:
                async for each in self._send_group([item], deadline):
                    yield each
            return
        (item,) = items
        reason = mask(f"{type(error).__name__}: {error}", MOST_REASON).encode("utf-8", "replace").decode()
        logger.warning("The item %s cannot be asked for: %s", item.id, reason)
        await self._ledger.apply([(item.id, Ended(item.attempts, Outcome.INVALID, reason))])

    def _requests_of(self, items: Sequence[Item]) -> tuple[list[Request], list[ItemResult]]:
        """Raises ValueError when they are too many, or something is said of another item."""
        requests: list[Request] = []
        said: list[ItemResult] = []
        ids = {item.id for item in items}
        for each in self._spider.requests_of([_handed_out(item) for item in items]):
            if isinstance(each, ItemResult):
                if each.item_id not in ids:
                    raise ValueError(f"something is said of {each.item_id}, which does not begin here")
                said.append(each)
                continue
            requests.append(each)
            if len(requests) > MOST_REQUESTS:
                raise ValueError(f"it begins with more than {MOST_REQUESTS:,} requests")
        return requests, said

    def _groups(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Items of a kind that share requests."""
        by_kind: defaultdict[str, list[Item]] = defaultdict(list)
        for item in items:
            by_kind[item.kind].append(item)
        for kind, alike in by_kind.items():
            sizes = self._spider.ITEMS_A_REQUEST
            size = sizes if isinstance(sizes, int) else sizes.get(kind, 1)
            for first in range(0, len(alike), size):
                yield alike[first : first + size]


def _handed_out(item: Item) -> JobItem:
    return JobItem(
        item.id,
        item.job,
        item.kind,
        item.key,
        item.input,
        item.depth,
        item.attempts,
        item.stage,
        looked_at(item.looks),
        item.left,
        was_missing(item),
    )
