"""The actions of users on jobs, for the command line and the API. Typed values in and out.

Raises UnknownJob for an unknown job or item, JobConflict for an action that the job's state does not allow,
UsageError for other invalid values, and ServiceError when MongoDB is unavailable.
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
"""Maximum age in seconds of a large job's counts. Older counts are renewed."""
ALONE_SHARE = 10
"""Factor: the sites of a job with an open breaker are cached this many times as long as the lookup took."""
RATE_S = 300.0
"""Seconds that the pace of a job is measured over."""
LEAST_S = 10.0
"""Minimum number of seconds between two counts. A shorter time gives no useful pace."""
MOST_COMING = 5
"""Maximum number of items in the report of a recurring job that are visited next."""
LOOK_S = 1.0
"""Seconds between two checks for the end of a job."""


@dataclass(frozen=True, slots=True)
class SiteLeftAlone:
    """A site of a job, with a breaker that is not closed."""

    site: str
    tier: str
    """The proxy tier of the breaker. Empty: the whole site."""
    breaker: BreakerStatus
    items: int
    """Number of the job's unfinished items on the site."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """The progress of a job."""

    job: Job
    items: int
    states: dict[str, int]
    """State -> number of items."""
    kinds: dict[str, dict[str, int]]
    """Kind -> state -> number of items."""
    stages: dict[str, int]
    """Stage -> number of items. Items without a stage are left out."""
    outcomes: dict[str, int]
    """Outcome -> number of items. Items without an outcome are left out."""
    rate: float | None
    """Items that ended per second, over the last minutes. None: not known."""
    left_s: float | None
    """Seconds until all items have ended, at this rate. None: not known."""
    deferred: Deferred | None
    """The items that wait for a time."""
    next_look: datetime | None
    """Time of the next visit in a recurring job. None: no visit is due, or the job is not recurring."""
    next_items: list[Item]
    """The first items that a recurring job visits next."""
    left_alone: list[SiteLeftAlone]
    left_alone_unknown: str
    """The reason why the sites with an open breaker are unknown. Empty: they are known."""


class JobPlace(NamedTuple):
    """The end of a page of jobs."""

    created_at: datetime
    id: str


@asynccontextmanager
async def job_service(config: Config) -> AsyncIterator["JobService"]:
    """Connects to MongoDB, and starts the private one when none is configured."""
    spider_loader()  # importing the spiders also imports the project's record classes
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
    """All queries and actions on jobs. harvester.client has the same methods, for another machine."""

    def __init__(self, config: Config, database: AsyncDatabase[Document], ledger: Ledger) -> None:
        self.config = config
        self.database = database
        self.ledger = ledger
        self._control = Control(ledger)
        self._results = ItemResults(database)
        self._list = ItemList(ledger, self._results)
        self._counting: dict[str, asyncio.Task[None]] = {}
        """Job -> its running count."""
        self._alone: dict[str, tuple[float, list[SiteLeftAlone]]] = {}
        """Job -> time on the monotonic clock until the list is valid, and its sites with a breaker that is not closed.
        """

    async def close(self) -> None:
        """Stops the counts that are still running."""
        for task in [*self._counting.values()]:
            await stop(task)

    # Looking ----------------------------------------------------------------------------------------------

    async def job(self, job: str) -> Job:
        """Returns the job. Raises UnknownJob."""
        found = await self.ledger.job(job)
        if found is None:
            raise UnknownJob(f"There is no job {job!r}; `harvester jobs list` shows those there are.")
        return found

    async def jobs(
        self, spider: str = "", states: Iterable[JobState] = (), most: int = 100, after: JobPlace | None = None
    ) -> list[Job]:
        """Returns jobs after `after`, the latest first, with their last counts."""
        query: Document = {"spider": spider} if spider else {}
        if after:
            at = {"created_at": after.created_at}
            query["$or"] = [{"created_at": {"$lt": after.created_at}}, at | {"_id": {"$lt": after.id}}]
        if wanted := list(states):
            query["state"] = {"$in": wanted}
        rows = await self.ledger.jobs.find(query, sort=[("created_at", -1), ("_id", -1)], limit=most).to_list()
        return [read_job(row) for row in rows]

    async def report(self, job: str, *, wait: bool = True) -> JobReport:
        """Returns the progress of the job, and the reasons why it is not further.

        `wait` waits for a new count if the last one is old. With wait=False a large job is counted in a task, and
        the report has the old counts.
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
        """Returns items with their results, in the order of the ids. Raises UsageError for an unknown state or site."""
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
        """Returns a page of items after `after`; a shorter one where many items must be searched.

        Raises UsageError for an unknown state. An unknown site raises it only if the first page covers the whole
        job.
        """
        await self.job(job)
        page = await self._list.page(job, which, most, after, with_results=with_results)
        if which.site and not after and not page.items and not page.end:
            await self._check_site(job, which.site)
        return page

    async def item(self, job: str, name: str) -> ItemReport:
        """Returns an item by id or key. A key of several kinds gives the item of the first kind. Raises UnknownJob."""
        await self.job(job)
        item = (await items_named(self.ledger, job, [name]))[0]
        (results,) = await self._results.of([item.id], MOST_RECORDS)
        return ItemReport(item, results)

    async def retriable(self, job: str, which: ItemFilter, items: Sequence[str] = (), until: datetime = FOREVER) -> int:
        """Returns the number of items that `retry_those` would retry. Raises JobConflict for a cancelled job."""
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
        """Returns the waiting items, from the counts: there may be millions, and a query for all would be slow."""
        outcomes: Counter[str] = Counter()
        for row in job.counts:
            outcomes[row.outcome] += row.later
        until = await self.ledger.first_due(job) if any(outcomes.values()) else None
        return Deferred(outcomes.total(), until, dict(+outcomes)) if until else None

    async def _left_alone(self, job: Job) -> tuple[list[SiteLeftAlone], str]:
        """Returns the job's sites with a breaker that is not closed, or the reason why they are unknown."""
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
        """Submits a file from another machine. The path in `given` is only shown to users."""
        submitter = Submitter(self.config, self.ledger, wanted._replace(foreign=True))
        return await self._submit_upload(submitter, upload, given)

    async def add_upload(
        self, job: str, upload: Source, given: Input, kind: str = "", often: float | None = None
    ) -> Submitted:
        """Adds items from a file of another machine to a job: see `add`."""
        submitter = await self._adder(job, kind, often, foreign=True)
        return await self._submit_upload(submitter, upload, given)

    async def submit_packed(self, wanted: Submission, part: Source) -> Submitted:
        """Submits items that another machine has read: one part of a larger input."""
        submitter = Submitter(self.config, self.ledger, wanted._replace(foreign=True), is_part=True)
        return await submitter.submit(unpacked(part, submitter.kind))

    async def add_packed(self, job: str, part: Source, kind: str = "", often: float | None = None) -> Submitted:
        """Adds items that another machine has read to a job: see `add`."""
        submitter = await self._adder(job, kind, often, foreign=True, is_part=True)
        return await submitter.submit(unpacked(part, submitter.kind))

    async def submit(self, wanted: Submission, given: Input) -> Submitted:
        """Submits the lines of an input as a job: see `Submitter`."""
        return await self._submit(Submitter(self.config, self.ledger, wanted), given)

    async def add(
        self, job: str, given: Input | Sequence[str], kind: str = "", often: float | None = None
    ) -> Submitted:
        """Adds items to a job, from an input or by their keys. A removed item comes back.

        `often`: factor on the visit frequency of a recurring job's policy.
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
        """Writes the job's records and manifest into files. Raises StorageError when one cannot be written."""
        known = await self.job(job)
        folder = wanted.folder or self.config.data_dir / "exports" / known.id
        exporter = Exporter(StoredRows(self.database, known.id), wanted.only)
        return await exporter.to_files(folder, wanted.form, zstd=wanted.zstd, csv_options=wanted.csv_options)

    async def export_to(self, job: str, postgres: "Postgres", only: Sequence[str] = ()) -> list[Stored]:
        """Writes the job's records and manifest into tables. Raises ServiceError and StorageError."""
        from harvester.stores.postgres import CODEC

        known = await self.job(job)
        return await Exporter(StoredRows(self.database.with_options(CODEC), known.id), only).to_postgres(postgres)

    # Doing ------------------------------------------------------------------------------------------------

    async def remove(self, job: str, items: Sequence[str]) -> int:
        """Removes items from a job, by id or key, and returns their number. Their records stay."""
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
        """Changes the input or frequency of items, by id or key, and returns their number: see `changes.change`."""
        return await changes.change(self.ledger, await self.job(job), items, inputs, often, foreign=foreign)

    async def pause(self, job: str, reason: str = "") -> None:
        """Stops feeding the job's items. Active items end first. A paused job stays paused."""
        if not await self._control.pause(job, reason):
            await self._expect(job, JobState.PAUSED, "paused")

    async def resume(self, job: str) -> None:
        """Ends a pause. An open job stays open."""
        if not await self._control.resume(job):
            await self._expect(job, JobState.OPEN, "resumed")

    async def cancel(self, job: str) -> int:
        """Skips the waiting items for good, and returns their number. Active items end first."""
        skipped = await self._control.cancel(job)
        if skipped is None:
            await self._expect(job, JobState.CANCELLED, "cancelled")
        await self.ledger.counting.count(job)
        return skipped or 0

    async def retry(self, job: str, items: Sequence[str] = (), outcome: str = "") -> int:
        """Retries items now, and returns their number.

        The items are those with these ids or keys, those with the outcome, or all failed ones. Items that are
        active or already due are left out.
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
        """Retries the named items, or those that a filter matches, and returns their number.

        Without state and outcome the filter matches failed items. Items that changed after `until` are left out, so
        a repeated call retries no other items. `moved` receives the number of each chunk.
        """
        number = await self._control.retry_those(job, [await self._retried(job, which, items, until)], moved)
        if number is None:
            raise JobConflict(f"{job} is cancelled: its items are not tried again. Submit them anew.")
        await self.ledger.counting.count(job)
        return number

    async def begin_cancelling(self, job: str) -> int:
        """Marks a job as cancelled: no item is started any more. Returns the number of items to skip."""
        if not await self._control.begin_cancelling(job):
            await self._expect(job, JobState.CANCELLED, "cancelled")
        return await self.ledger.items.count_documents({"job": job, "state": ItemState.WAITING})

    async def skip_cancelled(self, job: str, moved: Moved | None = None) -> int:
        """Skips the waiting items of a cancelled job, and returns their number. It may be repeated."""
        skipped = await self._control.skip_cancelled(job, moved)
        await self.ledger.counting.count(job)
        return skipped

    async def set_priority(self, job: str, priority: int) -> None:
        """Sets the priority. Jobs with a larger one get a larger share of the window."""
        await self.job(job)
        await self._control.set_priority(job, priority)

    async def wait(self, job: str, timeout_s: float | None = None) -> Job:
        """Waits until the job is finished or cancelled, or the time is over, and returns it. Raises UsageError if it
        never ends."""
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
    """Raises UsageError for a job that never ends, unless there is a timeout."""
    if job.standing and timeout_s is None:
        raise UsageError(f"{job.id} never finishes, since it is a standing job: give a time to wait for.")


def pace_of(job: Job) -> float | None:
    """Returns the items that ended per second over the last minutes. None with too few counts."""
    since = now() - timedelta(seconds=RATE_S)
    recent = [pace for pace in job.pace if pace.at >= since]
    if len(recent) < 2:
        return None
    first, last = recent[0], recent[-1]
    seconds = (last.at - first.at).total_seconds()
    return max(0.0, (last.ended - first.ended) / seconds) if seconds >= LEAST_S else None


def by_state(job: Job) -> dict[str, int]:
    """Returns state -> number of items at the last count."""
    return _sums(job.counts, lambda row: row.state)


def _sums(counts: Iterable[Counted], name: Callable[[Counted], str]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in counts:
        if name(row):
            sums[str(name(row))] = sums.get(str(name(row)), 0) + row.items
    return dict(sorted(sums.items(), key=lambda pair: (-pair[1], pair[0])))


def _is_fresh(job: Job) -> bool:
    """Returns True if the counts need no renewal: final ones, or recent ones of a large unfinished job."""
    if job.state is JobState.FINISHED:
        return job.is_counted
    return job.is_large and not is_due(job, now() - timedelta(seconds=FRESH_S))


async def _at_once(operation: Callable[[], Awaitable[Any]]) -> Any:
    """Runs the operation without retries: a command does not wait for a server that is unavailable."""
    return await operation()
