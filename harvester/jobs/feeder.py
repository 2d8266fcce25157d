"""The feeder: brings due items of jobs into the frontier, a window at a time, and stores how they end.

Every worker of a JobSpider has one. An item is marked as active, with the number of its attempt, before the
frontier receives it. An active item that the frontier does not know is set to waiting again. So a feeder may die at
any point, two may work at once, and Redis may lose all data.
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
"""Number of a spider's items that are in the frontier and not parked: enough to keep many workers busy."""
MOST_CLAIMED = 250
"""Maximum number of items that are claimed and fed together."""
LEAST_CLAIMED = 0.1
"""Minimum free part of a job's share of the window before more is claimed, unless the frontier has no item of the job.
"""
MOST_PROBES = 10
"""Maximum number of items of a site that this feeder feeds for one half-open trial of the site's breaker."""
MOST_REQUESTS = 1000
"""Maximum number of first requests of items that are fed together. The first requests may lead to any number."""
MOST_PASSED_OVER = 1000
"""Maximum number of sites with an open breaker that a claim skips."""
FEED_S = 60.0
"""Seconds within which the frontier must receive claimed items. After that it refuses them."""
LOOK_S = 0.5
"""Seconds between two checks for work when a feeder is idle or has a recurring job, since visits have their times."""
JOBS_S = 1.0
"""Seconds between two reads of the list of jobs."""
AT_WORK_S = 2.0
"""Seconds between two checks while the process has requests to work on and no item has ended."""
GATHER_S = 0.1
"""Seconds that an ended item waits to be stored together with others while there are requests to work on."""
LOST_S = 10.0
"""Seconds between two searches for items that no worker has."""
READ = {Outcome.OK.value, Outcome.EMPTY.value}
"""The outcomes of requests with a page that was read, or with an errback that reported something."""
MOST_REASON = 500
"""Maximum number of characters of an exception's text that an item keeps."""


class FrontierSide(Protocol):
    """The part of a process's frontier client that a feeder needs."""

    @property
    def epoch(self) -> str:
        """The epoch of Redis. A new value means that Redis has lost its data."""

    @property
    def parked(self) -> int:
        """Number of requests that are parked because the breaker of their site is not closed."""

    def is_at(self, job: str | None) -> bool:
        """Returns True while this process works on a request of the job. None: of any job."""

    def all_parked(self) -> AllParked | None:
        """Returns the parked requests if no worker has anything else left."""

    def now(self) -> float:
        """Returns the time of Redis, in epoch seconds."""

    def shut(self) -> Mapping[str, BreakerState]:
        """Returns the sites with a breaker that is not closed."""

    def feed(self, items: Sequence[ItemRef], requests: Sequence[Request], deadline: float) -> Awaitable[None]:
        """Feeds items with their requests. The result is awaited until the frontier has received them.

        After the deadline, in seconds of `now`, the frontier refuses them. Raises ValueError for a request that it
        cannot store.
        """

    def acknowledge(self, items: Sequence[ItemRef]) -> None:
        """Acknowledges items after their ends are stored."""

    async def unknown_items(self, items: Sequence[ItemRef]) -> list[ItemRef]:
        """Returns the items that the frontier neither has nor has still to report."""

    async def workers(self) -> set[str]:
        """Returns the known workers that have not ended, as far as the frontier knows."""

    async def open_items(self, jobs: Sequence[str]) -> dict[str, int]:
        """Returns job -> number of items in the frontier."""


class FedSpider(Protocol):
    """The part of a spider that a feeder needs."""

    name: str
    ITEMS_A_REQUEST: ClassVar[int | Mapping[str, int]]
    CHECKED_AS: ClassVar[Mapping[str, str]]

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request | ItemResult]:
        """Yields the first requests of items, and the results of items that need no request."""

    def listings_of(self, item: Item) -> Iterable[Listing]:
        """Yields the listings that an ended attempt has read to their end."""


class Feeder:
    """Feeds one job or all jobs of a spider. Stores the ends of items of all its jobs."""

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
        """The job to feed. None: all jobs of the spider."""
        self.jobs: dict[str, Job] = {}
        """The spider's jobs that may still change, as last read."""
        self.adding = False
        """True while this process adds items to its job. The job is not finished then."""
        self._jobs_at = -JOBS_S
        self._ended: list[ItemEnded] = []
        self._wake = asyncio.Event()
        self._feeding: set[ItemRef] = set()
        """The items that are claimed and not yet known to the frontier."""
        self._epoch: str | None = None
        """The epoch of the last complete search for lost items."""
        self._lost_at = -LOST_S
        self._sated: set[str] = set()
        """The jobs that had nothing due at the last claim."""
        self._turn = 0
        self._checked: set[str] = set()
        """The jobs that already have the items which only the job before them met."""
        self._later: dict[str, bool] = {}
        """Job -> True if the spider had an earlier job, with records that may be missing now."""
        self._probed: dict[str, int] = {}
        """Site -> the half-open trial (of the site's breaker) that last got items."""

    def hear(self, ended: Iterable[ItemEnded]) -> None:
        """Receives items without a request left in the frontier."""
        self._ended.extend(ended)
        self._wake.set()

    async def wait(self) -> None:
        """Waits until there is something to do, or may be."""
        has_times = any(job.standing for job in self.jobs.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AT_WORK_S if self._frontier.is_at(self._only) and not has_times else LOOK_S):
                await self._wake.wait()
                if self._frontier.is_at(self._only):
                    await asyncio.sleep(GATHER_S)

    async def step(self) -> int:
        """Stores the ends of items and feeds due items. Returns the number of both, for the jobs that it feeds."""
        self._wake.clear()
        number = await self.write_ended()
        if not self._frontier.epoch:
            return number  # the frontier has not answered yet
        await self._look_at_jobs()
        await self._find_lost()
        return number + await self._feed()

    async def write_ended(self) -> int:
        """Stores the ends of items, then acknowledges them. Returns their number, for the jobs that it feeds."""
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
                await self._control.skip_cancelled(job.id)  # items that were added after the cancellation
            elif job.state is JobState.OPEN and self._feeds(job.id):
                await self._ledger.promote(job)
                await self.job_stats.look(job)
                if not self.adding and not self._frontier.is_at(job.id) and await self.finish(job):
                    del self.jobs[job.id]
        self._jobs_at = monotonic()

    async def finish(self, job: Job) -> bool:
        """Finishes a job without unfinished items, after adding the items that only the job before it met."""
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
        """True after the first read of the list of jobs. The read needs an answer of the frontier."""
        return self._jobs_at >= 0

    def is_open(self, job: str) -> bool:
        """Returns True if the job was open when jobs were last read."""
        return job in self.jobs and self.jobs[job].state is JobState.OPEN

    # Items that nobody works on ---------------------------------------------------------------------------

    async def _find_lost(self) -> None:
        """Sets active items that the frontier does not know to waiting.

        They were claimed by a feeder that died, or Redis has lost them. Each search includes the items of ended
        processes of this machine. The first search, and the one after Redis has lost its data, also includes items
        of this process and of workers unknown to the frontier. Items of other workers may be on their way to the
        frontier: they are included after the time that a feed may take.
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
        others = await self._frontier.workers() - {self._worker}  # read after `active`, to include all its feeders
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
        """Claims and feeds due items: each job gets a share of the window by its priority. Returns the number of
        items."""
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
        """Yields the awaitables of the feed. An item that the spider cannot start ends here, with the reason."""
        refs = [ItemRef(item.id, item.attempts) for item in items]
        try:
            requests, said = self._requests_of(items)
        except Exception as error:  # noqa: BLE001  whatever a spider raises
            async for each in self._send_singly(items, deadline, error):
                yield each
            return
        if said:  # before the feed, and outside its `try`: a refusal by MongoDB is not the item's fault
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
        """Sends each item of a failed group by itself, so that only the faulty item ends."""
        if isinstance(error, (ServiceError, StorageError)):
            raise error  # a fault of a server or of this machine is not the item's fault
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
        """Returns the first requests and results. Raises ValueError for too many requests, or a result of a foreign
        item."""
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
        """Yields groups of items that share requests. A group has one kind."""
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
