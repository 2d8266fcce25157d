"""What people do with jobs, from the command line or through an API. Typed values in and out.

Raises UnknownJob for a job or item that is none, JobConflict for what a job's state does not allow, UsageError for
other things that cannot be used, ServiceError when MongoDB cannot be had.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from harvester.config import Config
from harvester.exceptions import JobConflict, ServiceError, UnknownJob, UsageError
from harvester.frontier import operations
from harvester.frontier.messages import BreakerStatus
from harvester.jobs import changes
from harvester.jobs.changes import items_named
from harvester.jobs.control import Control, Moved, retriable
from harvester.jobs.counting import is_due
from harvester.jobs.documents import (
    UNFINISHED,
    Counted,
    Document,
    Item,
    ItemState,
    Job,
    JobState,
    read_job,
)
from harvester.jobs.export import Exported, Exporter, FileExport, Stored, StoredRows
from harvester.jobs.inputs import Input, InputLines, Source, keys_as_items, opened, size_of, unpacked
from harvester.jobs.ledger import Deferred, Ledger, now
from harvester.jobs.listing import MOST_RECORDS, ItemFilter, ItemList, ItemPage, ItemReport
from harvester.jobs.results import ItemResults
from harvester.jobs.submission import Submission, Submitted, Submitter
from harvester.jobs.uploads import read_upload
from harvester.project import spider_loader
from harvester.shutdown import stop
from harvester.stores import mongodb

if TYPE_CHECKING:
    from harvester.stores.postgres import Postgres

FOREVER = datetime.max.replace(tzinfo=UTC, microsecond=999_000)
logger = logging.getLogger(__name__)

FRESH_S = 60.0
"""Counts of a large job that are older are made anew."""
ALONE_SHARE = 10
"""So many times as long as it took to look which sites of a job are left alone, that is not looked up again."""
RATE_S = 300.0
"""The pace of a job is that of so long a while."""
LEAST_S = 10.0
"""Over a shorter time the pace says nothing."""
MOST_COMING = 5
"""Items of a standing job of which it is said when they are looked at next."""
LOOK_S = 1.0
"""Between two looks at a job whose end is waited for."""


@dataclass(frozen=True, slots=True)
class SiteLeftAlone:
    """A site of a job whose breaker is not closed."""

    site: str
    tier: str
    """Of proxies; empty: the whole site."""
    breaker: BreakerStatus
    items: int
    """Of the job, that are to be fetched from there and have not ended."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """How far a job is."""

    job: Job
    items: int
    states: dict[str, int]
    """Items by state; likewise below."""
    kinds: dict[str, dict[str, int]]
    """Kind -> its items by state."""
    stages: dict[str, int]
    """Of items that have reached one."""
    outcomes: dict[str, int]
    """Of items that have had one."""
    rate: float | None
    """Items that ended a second, over the last minutes. None: not known."""
    left_s: float | None
    """Until all have ended, at this rate. None: not known."""
    deferred: Deferred | None
    """Those that wait for a time."""
    next_look: datetime | None
    """When an item of a standing job may be looked at next. None: no look is due, or it is no standing job."""
    next_items: list[Item]
    """Those of a standing job that are looked at next, the first ones."""
    left_alone: list[SiteLeftAlone]
    left_alone_unknown: str
    """Why nobody knows; empty when it is known."""


class JobPlace(NamedTuple):
    """Where a page of jobs ends."""

    created_at: datetime
    id: str


@asynccontextmanager
async def job_service(config: Config) -> AsyncIterator["JobService"]:
    """Connects to MongoDB, and starts the private one when none is configured."""
    spider_loader()  # with the spiders it imports the records of the project
    database = await asyncio.to_thread(mongodb.connect, config)
    try:
        ledger = Ledger(database, _at_once)
        await ledger.make_indexes()
        service = JobService(config, database, ledger)
        try:
            yield service
        finally:
            await service.close()
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object!r} holds bytes that are no UTF-8.") from None
    except PyMongoError as error:
        raise mongodb.unavailable(error) from None
    finally:
        await mongodb.disconnect(database)


class JobService:
    """All that can be asked of jobs and done to them. harvester.client has the same calls, for another machine."""

    def __init__(self, config: Config, database: AsyncDatabase[Document], ledger: Ledger) -> None:
        self.config = config
        self.database = database
        self.ledger = ledger
        self._control = Control(ledger)
        self._results = ItemResults(database)
        self._list = ItemList(ledger, self._results)
        self._counting: dict[str, asyncio.Task[None]] = {}
        """By job."""
        self._alone: dict[str, tuple[float, list[SiteLeftAlone]]] = {}
        """Job -> its sites that are left alone, and until when on the monotonic clock that is not looked up again."""

    async def close(self) -> None:
        """Ends what is counted meanwhile."""
        for task in [*self._counting.values()]:
            await stop(task)

    # Looking ----------------------------------------------------------------------------------------------

    async def job(self, job: str) -> Job:
        """As it is now. Raises UnknownJob."""
        found = await self.ledger.job(job)
        if found is None:
            raise UnknownJob(f"There is no job {job!r}; `harvester jobs list` shows those there are.")
        return found

    async def jobs(
        self, spider: str = "", states: Iterable[JobState] = (), most: int = 100, after: JobPlace | None = None
    ) -> list[Job]:
        """The latest first, with the counts that were made last; those behind `after`."""
        query: Document = {"spider": spider} if spider else {}
        if after:
            at = {"created_at": after.created_at}
            query["$or"] = [{"created_at": {"$lt": after.created_at}}, at | {"_id": {"$lt": after.id}}]
        if wanted := list(states):
            query["state"] = {"$in": wanted}
        rows = await self.ledger.jobs.find(query, sort=[("created_at", -1), ("_id", -1)], limit=most).to_list()
        return [read_job(row) for row in rows]

    async def report(self, job: str, *, wait: bool = True) -> JobReport:
        """How far it is, and why it is no farther.

        `wait`: until its items are counted, if that was long ago. If not, those of a large job are counted meanwhile,
        and what was counted before is told.
        """
        known = await self.job(job)
        if not _is_fresh(known):
            if wait or not known.is_large:
                await self.ledger.counting.count_again(known)
                known = await self.job(job)
            elif job not in self._counting:
                self._counting[job] = asyncio.create_task(self._count(known))
        deferred, (left_alone, unknown) = await asyncio.gather(self._deferred(known), self._left_alone(known))
        states = by_state(known)
        rate = pace_of(known) if known.state is JobState.OPEN else None
        left = sum(states.get(state, 0) for state in UNFINISHED)
        return JobReport(
            job=known,
            items=sum(states.values()),
            states=states,
            kinds={
                kind: _sums((row for row in known.counts if row.kind == kind), lambda row: row.state)
                for kind in sorted({row.kind for row in known.counts})
            },
            stages=_sums(known.counts, lambda row: row.stage),
            outcomes=_sums(known.counts, lambda row: row.outcome),
            rate=rate,
            left_s=left / rate if rate and not known.standing else None,
            deferred=deferred,
            next_look=await self.ledger.next_due(known) if known.standing else None,
            next_items=list(await self.ledger.looks.coming(known, MOST_COMING)) if known.standing else [],
            left_alone=left_alone,
            left_alone_unknown=unknown,
        )

    async def _count(self, job: Job) -> None:
        try:
            await self.ledger.counting.count_again(job)
        except PyMongoError as error:
            logger.warning("The items of %s are counted later: %s", job.id, error)
        finally:
            del self._counting[job.id]

    async def items(self, job: str, which: ItemFilter, most: int = 100) -> list[ItemReport]:
        """In the order of their ids, with what came of them. Raises UsageError for a state or site that is none."""
        found: list[ItemReport] = []
        after: str | None = ""
        while after is not None and len(found) < most:
            page = await self.items_page(job, which, most - len(found), after)
            found += page.items
            after = page.end or None
        if not found and which.site:
            await self._check_site(job, which.site)
        return found

    async def items_page(
        self, job: str, which: ItemFilter, most: int, after: str = "", *, with_results: bool = True
    ) -> ItemPage:
        """Those behind the item `after`: a part of them where many must be looked at. Raises UsageError likewise.

        That a site is none is said only of a job that one page sees as a whole.
        """
        await self.job(job)
        page = await self._list.page(job, which, most, after, with_results=with_results)
        if which.site and not after and not page.items and not page.end:
            await self._check_site(job, which.site)
        return page

    async def item(self, job: str, name: str) -> ItemReport:
        """One, by its id or its key; of several with the key, the first kind's. Raises UnknownJob."""
        await self.job(job)
        item = (await items_named(self.ledger, job, [name]))[0]
        (results,) = await self._results.of([item.id], MOST_RECORDS)
        return ItemReport(item, results)

    async def retriable(self, job: str, which: ItemFilter, items: Sequence[str] = (), until: datetime = FOREVER) -> int:
        """How many items `retry_those` would have tried again. Raises JobConflict for a cancelled job."""
        if (await self.job(job)).state is JobState.CANCELLED:
            raise JobConflict(f"{job} is cancelled: its items are not tried again. Submit them anew.")
        queries = retriable(job, await self._retried(job, which, items, until))
        return sum([await self.ledger.items.count_documents(query) for query in queries])

    async def _retried(self, job: str, which: ItemFilter, items: Sequence[str], until: datetime) -> Document:
        query = which.of(job) | {"updated_at": {"$lte": until}}
        if items:
            return query | {"_id": {"$in": [item.id for item in await items_named(self.ledger, job, items)]}}
        return query if which.state or which.outcome else query | {"state": ItemState.FAILED}

    async def _check_site(self, job: str, site: str) -> None:
        sites = await self._list.sites(job)
        if site not in sites:
            known = f"its sites are {', '.join(sites[:20])}" if sites else "none of its items names a site"
            raise UsageError(f"--site: {job} has no items of the site {site!r}; {known}.")

    async def _deferred(self, job: Job) -> Deferred | None:
        """Told from its counts: there may be very many, and each look at all of them would take as long."""
        outcomes: Counter[str] = Counter()
        for row in job.counts:
            outcomes[row.outcome] += row.later
        until = await self.ledger.first_due(job) if any(outcomes.values()) else None
        return Deferred(outcomes.total(), until, dict(+outcomes)) if until else None

    async def _left_alone(self, job: Job) -> tuple[list[SiteLeftAlone], str]:
        """Its sites whose breakers are not closed, or why nobody knows."""
        if job.state not in (JobState.OPEN, JobState.PAUSED):
            return [], ""
        known = self._alone.get(job.id)
        if known and time.monotonic() < known[0]:
            return known[1], ""
        began = time.monotonic()
        try:
            found = await self._shut_sites(job)
        except ServiceError as error:
            return [], str(error)
        ended = time.monotonic()
        self._alone = {name: of_it for name, of_it in self._alone.items() if ended < of_it[0]}
        self._alone[job.id] = ended + ALONE_SHARE * (ended - began), found
        return found, ""

    async def _shut_sites(self, job: Job) -> list[SiteLeftAlone]:
        breakers = await operations.breakers(self.config, job.spider)
        places = [name.partition("\0")[::2] for name in breakers]
        unfinished = {"job": job.id, "state": {"$in": list(UNFINISHED)}, "site": {"$in": [site for site, _ in places]}}
        stages = [{"$match": unfinished}, {"$group": {"_id": "$site", "items": {"$sum": 1}}}]
        rows = await (await self.ledger.items.aggregate(stages)).to_list() if places else []
        numbers = {row["_id"]: row["items"] for row in rows}
        return [
            SiteLeftAlone(site, tier, breaker, numbers[site])
            for (site, tier), breaker in zip(places, breakers.values(), strict=True)
            if site in numbers
        ]

    # Giving and taking ------------------------------------------------------------------------------------

    async def submit_upload(self, wanted: Submission, upload: Source, given: Input) -> Submitted:
        """The same, of a file that came from elsewhere and is open: the path of the input is what people are told."""
        submitter = Submitter(self.config, self.ledger, wanted._replace(foreign=True))
        return await self._submit_upload(submitter, upload, given)

    async def add_upload(
        self, job: str, upload: Source, given: Input, kind: str = "", often: float | None = None
    ) -> Submitted:
        """Adds items of a file that came from elsewhere, and is open, to a job: see `add`."""
        submitter = await self._adder(job, kind, often, foreign=True)
        return await self._submit_upload(submitter, upload, given)

    async def submit_packed(self, wanted: Submission, part: Source) -> Submitted:
        """The same, of items that somebody elsewhere has read, a part of a larger input."""
        submitter = Submitter(self.config, self.ledger, wanted._replace(foreign=True), is_part=True)
        return await submitter.submit(unpacked(part, submitter.kind))

    async def add_packed(self, job: str, part: Source, kind: str = "", often: float | None = None) -> Submitted:
        """Adds such items to a job: see `add`."""
        submitter = await self._adder(job, kind, often, foreign=True, is_part=True)
        return await submitter.submit(unpacked(part, submitter.kind))

    async def submit(self, wanted: Submission, given: Input) -> Submitted:
        """Makes a job of the lines of an input: see `Submitter`."""
        return await self._submit(Submitter(self.config, self.ledger, wanted), given)

    async def add(
        self, job: str, given: Input | Sequence[str], kind: str = "", often: float | None = None
    ) -> Submitted:
        """Adds items to a job: those of an input, or those with these keys. One that was removed is there again.

        `often`: how many times as often as the policy of a standing job says they are looked at.
        """
        submitter = await self._adder(job, kind, often)
        if isinstance(given, Input):
            return await self._submit(submitter, given)
        return await submitter.submit(keys_as_items(given, submitter.kind))

    async def _adder(
        self, job: str, kind: str, often: float | None, *, foreign: bool = False, is_part: bool = False
    ) -> Submitter:
        known = await self.job(job)
        changes.check_can_change(known, often)
        wanted = Submission(known.spider, {}, kind, foreign=foreign)
        return Submitter(self.config, self.ledger, wanted, known, often, is_part=is_part)

    async def _submit(self, submitter: Submitter, given: Input) -> Submitted:
        with opened(given.path) as file:
            lines = await asyncio.to_thread(InputLines, file, given.path, submitter.kind, given.form, given.key)
            return await submitter.submit(lines, ahead=size_of(file) > 0)

    async def _submit_upload(self, submitter: Submitter, upload: Source, given: Input) -> Submitted:
        async with read_upload(upload, given, submitter.kind) as lines:
            return await submitter.submit(lines, ahead=True)

    async def export(self, job: str, wanted: FileExport) -> list[Exported]:
        """Writes files of its records and its manifest. Raises StorageError when one cannot be written."""
        known = await self.job(job)
        folder = wanted.folder or self.config.data_dir / "exports" / known.id
        exporter = Exporter(StoredRows(self.database, known.id), wanted.only)
        return await exporter.to_files(folder, wanted.form, zstd=wanted.zstd, csv_options=wanted.csv_options)

    async def export_to(self, job: str, postgres: "Postgres", only: Sequence[str] = ()) -> list[Stored]:
        """Writes the same into tables. Raises ServiceError and StorageError of PostgreSQL."""
        from harvester.stores.postgres import CODEC

        known = await self.job(job)
        return await Exporter(StoredRows(self.database.with_options(CODEC), known.id), only).to_postgres(postgres)

    # Doing ------------------------------------------------------------------------------------------------

    async def remove(self, job: str, items: Sequence[str]) -> int:
        """Takes items out of a job, by id or key; how many. Their records stay."""
        return await changes.remove(self.ledger, await self.job(job), items)

    async def change(
        self,
        job: str,
        items: Sequence[str],
        inputs: Mapping[str, Any],
        often: float | None = None,
        *,
        foreign: bool = False,
    ) -> int:
        """Changes what items ask for, by id or key, or how often they are looked at; how many: see `changes.change`."""
        return await changes.change(self.ledger, await self.job(job), items, inputs, often, foreign=foreign)

    async def pause(self, job: str, reason: str = "") -> None:
        """No more items are fed. Those that are active come to their end. One that is paused stays so."""
        if not await self._control.pause(job, reason):
            await self._expect(job, JobState.PAUSED, "paused")

    async def resume(self, job: str) -> None:
        """Ends a pause. One that is open stays so."""
        if not await self._control.resume(job):
            await self._expect(job, JobState.OPEN, "resumed")

    async def cancel(self, job: str) -> int:
        """Skips what waits, for good; how many items. Those that are active come to their end."""
        skipped = await self._control.cancel(job)
        if skipped is None:
            await self._expect(job, JobState.CANCELLED, "cancelled")
        await self.ledger.counting.count(job)
        return skipped or 0

    async def retry(self, job: str, items: Sequence[str] = (), outcome: str = "") -> int:
        """Has items tried again, now: those named by id or key, those with the outcome, or all that failed; how many.

        Items that wait already, or are active, are not among them.
        """
        await self.job(job)
        ids = [item.id for item in await items_named(self.ledger, job, items)] if items else None
        number = await self._control.retry(job, ids, outcome or None)
        if number is None:
            raise JobConflict(f"{job} is cancelled: its items are not tried again. Submit them anew.")
        await (self.ledger.counting.count_again(await self.job(job)) if items else self.ledger.counting.count(job))
        return number

    async def retry_those(
        self, job: str, which: ItemFilter, items: Sequence[str], until: datetime, moved: Moved | None = None
    ) -> int:
        """The same for items that a filter finds, or those named; how many. Without state and outcome: that failed.

        None that has changed after `until`: so whoever goes on with it later tries no item again that is not meant.
        `moved` is told how many more, each time some are.
        """
        number = await self._control.retry_those(job, [await self._retried(job, which, items, until)], moved)
        if number is None:
            raise JobConflict(f"{job} is cancelled: its items are not tried again. Submit them anew.")
        await self.ledger.counting.count(job)
        return number

    async def begin_cancelling(self, job: str) -> int:
        """Cancels a job but for its items, of which nothing is begun any more; how many wait to be skipped."""
        if not await self._control.begin_cancelling(job):
            await self._expect(job, JobState.CANCELLED, "cancelled")
        return await self.ledger.items.count_documents({"job": job, "state": ItemState.WAITING})

    async def skip_cancelled(self, job: str, moved: Moved | None = None) -> int:
        """What is left to do then, and may be done again: skips what waits; how many items."""
        skipped = await self._control.skip_cancelled(job, moved)
        await self.ledger.counting.count(job)
        return skipped

    async def set_priority(self, job: str, priority: int) -> None:
        """Its items are fed before those of jobs with a smaller one."""
        await self.job(job)
        await self._control.set_priority(job, priority)

    async def wait(self, job: str, timeout_s: float | None = None) -> Job:
        """The job when it is finished or cancelled, or when the time is over. Raises UsageError if that never comes."""
        known = await self.job(job)
        check_waitable(known, timeout_s)
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while known.state in (JobState.OPEN, JobState.PAUSED):
            left = LOOK_S if until is None else min(LOOK_S, until - time.monotonic())
            if left <= 0:
                break
            await asyncio.sleep(left)
            known = await self.job(job)
        if not _is_fresh(known):
            await self.ledger.counting.count(job)
        return await self.job(job)

    async def _expect(self, job: str, state: JobState, done: str) -> None:
        """Raises JobConflict unless the job is in this state."""
        known = await self.job(job)
        if known.state is not state:
            raise JobConflict(f"{job} is {known.state}, and cannot be {done}.")


def check_waitable(job: Job, timeout_s: float | None) -> None:
    """Raises UsageError for a job whose end never comes, unless there is a time to wait for."""
    if job.standing and timeout_s is None:
        raise UsageError(f"{job.id} never finishes, since it is a standing job: give a time to wait for.")


def pace_of(job: Job) -> float | None:
    """Items that ended a second over the last minutes; None when it was not counted often enough."""
    since = now() - timedelta(seconds=RATE_S)
    recent = [pace for pace in job.pace if pace.at >= since]
    if len(recent) < 2:
        return None
    first, last = recent[0], recent[-1]
    seconds = (last.at - first.at).total_seconds()
    return max(0.0, (last.ended - first.ended) / seconds) if seconds >= LEAST_S else None


def by_state(job: Job) -> dict[str, int]:
    """Its items, as they were counted last."""
    return _sums(job.counts, lambda row: row.state)


def _sums(counts: Iterable[Counted], name: Callable[[Counted], str]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in counts:
        if name(row):
            sums[str(name(row))] = sums.get(str(name(row)), 0) + row.items
    return dict(sorted(sums.items(), key=lambda pair: (-pair[1], pair[0])))


def _is_fresh(job: Job) -> bool:
    """Whether its counts do for whoever looks: final, or those of a large job that goes on, and not long overdue."""
    if job.state is JobState.FINISHED:
        return job.is_counted
    return job.is_large and not is_due(job, now() - timedelta(seconds=FRESH_S))


async def _at_once(operation: Callable[[], Awaitable[Any]]) -> Any:
    """A command does not wait for a server that is away."""
    return await operation()
