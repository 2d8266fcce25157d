"""The base of spiders that process the items of jobs."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import wraps
from time import monotonic
from typing import Any, ClassVar, Self, cast

from msgspec.structs import replace
from pydantic import ValidationError
from pymongo.errors import PyMongoError
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.config import Config, load_config
from harvester.exceptions import HarvesterError, UsageError
from harvester.frontier.messages import ItemRef
from harvester.frontier.scheduler import Scheduler
from harvester.frontier.start_list import StartList
from harvester.internal_meta import ITEMS
from harvester.items import Found, ItemResult, Provenance, Record
from harvester.items.base import WEB
from harvester.jobs.documents import JOBS, Item, Job, JobItem, RetryPolicy, read_job
from harvester.jobs.feeder import Feeder
from harvester.jobs.job_opener import OpensJobs, file_entries, give_items, open_job_of
from harvester.jobs.ledger import Ledger
from harvester.jobs.missing import Listing
from harvester.jobs.runs import End, Run
from harvester.jobs.start_lists import Serving
from harvester.meta import JOB
from harvester.middlewares.batch import batched
from harvester.shutdown import RunEnding, end, is_ending, pause
from harvester.sites import load_sites
from harvester.spiders.base import HarvesterSpider, SpiderArguments, said_of
from harvester.stores import redis
from harvester.stores.mongodb import MongoOutage, connect, connect_sync, disconnect, unavailable

logger = logging.getLogger(__name__)

OTHERS_S = 5.0
"""Seconds between two checks whether other processes work on the same spider."""
ALL_JOBS = "all"
"""Value of `-a job=all`: process all open jobs of the spider until there is nothing left to do."""


def errback(method: Callable[..., Iterable[Any] | AsyncIterator[Any]]) -> Callable[..., Any]:
    """Decorates an errback so that it may yield whatever callbacks may.

    Spider middlewares do not see the output of an errback whose request got no response.
    """

    @wraps(method)
    async def yield_batches(spider: "JobSpider", failure: Failure) -> AsyncIterator[Any]:
        async def outputs() -> AsyncIterator[Any]:
            found = method(spider, failure)
            if isinstance(found, AsyncIterator):
                async for output in found:
                    yield output
            else:
                for output in found:
                    yield output

        async for output in batched(outputs(), failure.request):  # type: ignore[attr-defined]
            yield output

    return yield_batches


class JobSpider(HarvesterSpider, ABC):
    """Base class: implement `requests_of`, and callbacks that yield records, requests, Found, Stage, ItemResult and
    Looked.

    `scrapy crawl <name> -a ...` opens the job with these arguments, or continues it, and runs until it is finished. `-a
    job=<id>` processes that job with the arguments that it was opened with.
    """

    ITEM_KINDS: ClassVar[tuple[str, ...]] = ()
    """Kinds of items that may be submitted to the spider; the first one is the default."""
    ITEMS_A_REQUEST: ClassVar[int | Mapping[str, int]] = 1
    """Maximum number of items that share a request, where an API takes several: one number, or a number by kind."""
    CHECKED_AS: ClassVar[Mapping[str, str]] = {}
    """Kind of items that pages lead to -> kind of the check for such items that only the previous job has met.

    A missing item may have left all lists, so that no page leads to it. It is requested after everything else.
    """
    ADDRESS: ClassVar[str] = ""
    """Arguments that set the site's address, if there are any. The message about an unreachable host mentions them."""
    BEGIN: ClassVar[str] = ""
    """The hint for an empty start list: which arguments to type."""
    ATTEMPTS: ClassVar[int] = RetryPolicy().attempts
    """Maximum number of failures of an item, for jobs opened by `scrapy crawl`."""
    BACKOFF_S: ClassVar[float] = RetryPolicy().backoff_s
    """Seconds to wait after the first failure; doubled for each further one."""

    def __init__(self, config: Config, arguments: SpiderArguments, **kwargs: Any) -> None:
        super().__init__(config, arguments, **kwargs)
        self.only = ""
        """Id of the job to process, if the arguments name one."""
        self.jobs: dict[str, Job] = {}
        """Jobs whose pages this process has met, by id."""
        self._arguments: dict[str, tuple[dict[str, Any], SpiderArguments]] = {}
        """Job id -> its raw arguments, and the model parsed from them."""
        self._feeder: Feeder | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.only = kwargs.get("job", "")
        return spider

    @classmethod
    def parse_arguments(cls, given: dict[str, Any]) -> SpiderArguments:
        """Returns the arguments of the named job, or else the typed ones. Raises UsageError and ServiceError."""
        job = given.get("job")
        if not job:
            return super().parse_arguments(given)
        if len(given) > 1:
            raise UsageError(f"-a job={job} works at that job, whose arguments are known: leave the others out.")
        if job == ALL_JOBS:
            return cls.Arguments.model_construct()
        return cls.arguments_from(cls._read_job(job))

    @classmethod
    def _read_job(cls, job: str) -> Job:
        with connect_sync(load_config()).client as client:
            try:
                document = client[load_config().database][JOBS].find_one({"_id": job, "spider": cls.name})
            except PyMongoError as error:
                raise unavailable(error) from None
        if document is None:
            raise UsageError(f"There is no job {job!r} of {cls.name}. `harvester jobs list` shows those there are.")
        return read_job(document)

    @classmethod
    def arguments_from(cls, job: Job) -> SpiderArguments:
        """Returns the arguments of a job. Raises UsageError when this version cannot read them."""
        try:
            return cls.Arguments(**job.arguments)
        except ValidationError as error:
            said = "; ".join(said_of(error, cls.Arguments))
            raise UsageError(f"The arguments of the job {job.id} are none that this version knows: {said}.") from None

    # Hooks for spiders ------------------------------------------------------------------------------------

    @abstractmethod
    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request | ItemResult]:
        """Yields the first requests for items of a kind, or an ItemResult for each item without a request.

        A request belongs to all the items, unless `harvester_items_of` in its meta, a list of ids, narrows that. An
        errback that yields anything has handled the failure: the items are not retried for it.
        """

    def listings_of(self, item: Item) -> Iterable[Listing]:
        """Returns the listings that an attempt has read completely: their records that it did not see are marked as
        missing.

        `item` is the state after the attempt. All its pages were read without a rejected record; an error that an
        errback has handled counts as a page.
        """
        return ()

    @classmethod
    def first_items(cls, arguments: Any) -> Iterable[Found]:
        """Yields the items that a job with these arguments begins with. It is called again when the job is continued.

        A recurring job follows it: items that have left are removed, items whose input has changed are visited.
        """
        return ()

    def items_of_arguments(self) -> Iterable[Found]:
        """Yields the first items of this run; a spider overrides it when it needs more than the arguments."""
        return self.first_items(self.arguments)

    @classmethod
    def recheck_of(cls, arguments: Any) -> str | None:
        """Returns the recheck policy for items of a job with these arguments, in the form that `read_policy` reads.

        Such a job is recurring: it never finishes. Its arguments' `identity` identifies it, whatever its items are.
        Returns None for a job that is finished when its items have ended.
        """
        return None

    @classmethod
    def looks_a_day_of(cls, arguments: Any) -> int | None:
        """Maximum number of visits a day for a recurring job with these arguments. None: no limit."""
        return None

    @classmethod
    def limits_of(cls, arguments: SpiderArguments) -> dict[str, int]:
        """Maximum number of items that a job with these arguments ever requests, by kind."""
        return {}

    @classmethod
    def read_start_entry(cls, entry: bytes, own: SpiderArguments) -> tuple[SpiderArguments, list[Found]] | None:
        """Returns the arguments and items that an entry of the start list asks for; None for an empty one.

        Raises UsageError when the entry cannot be used. Values that the entry leaves out come from `own`, the arguments
        of the command.
        """
        raise UsageError(f"{cls.name} serves no start list")

    @property
    def is_serving(self) -> bool:
        """True if a start list in Redis supplies the first items because the arguments do not."""
        return False

    async def before(self) -> None:
        """Hook that runs before the first item is fed."""

    @classmethod
    def check_item(cls, found: Found) -> Found:
        """Returns a submitted item in the saved form, with a normalised key. Raises UsageError for a bad one."""
        return found

    @classmethod
    def site_of(cls, found: Found) -> str:
        """Returns the name of the site that an item is fetched from, if its `url` or key is an address; else empty."""
        url = found.input.get("url", found.key)
        return load_sites().of(url).name if isinstance(url, str) and url.startswith(WEB) else ""

    # For callbacks ----------------------------------------------------------------------------------------

    def items_of(self, page: Response | Request) -> list[ItemRef]:
        """Returns the items that the page is fetched for."""
        return [ItemRef(*item) for item in page.meta[ITEMS]]

    def item_of(self, page: Response | Request) -> ItemRef:
        """Returns the only item that the page is fetched for."""
        (item,) = self.items_of(page)
        return item

    def arguments_of(self, page: Response | Request | JobItem | Item | Record) -> Any:
        """Returns the arguments of the job that a page is fetched for: workers share the pages of all jobs."""
        if isinstance(page, Record):
            job = page.provenance.crawl
        else:
            job = page.job if isinstance(page, (JobItem, Item)) else str(page.meta[JOB])
        known = self._job_named(job)
        if job not in self._arguments or self._arguments[job][0] is not known.arguments:
            self._arguments[job] = known.arguments, self.arguments_from(known)
        return self._arguments[job][1]

    def _job_named(self, name: str) -> Job:
        """Returns the job from this process's cache. A recurring job whose arguments have changed is read again."""
        known = self._feeder.jobs.get(name) if self._feeder else None
        if name not in self.jobs or (known and known.standing and known.arguments != self.jobs[name].arguments):
            self.jobs[name] = known or self._read_job(name)
        return self.jobs[name]

    def provenance(self, response: Response | Request) -> Provenance:
        return replace(super().provenance(response), crawl=str(response.meta.get(JOB, "")))

    # The run ----------------------------------------------------------------------------------------------

    async def start(self) -> AsyncIterator[Any]:
        """Feeds the job's items beside the engine until the job is finished or cannot go on."""
        try:
            ended = await self._work()
        except HarvesterError as error:
            closing = self.stop_for(error)
            if is_ending(self.crawler):  # the engine would close a closed spider once more
                return
            raise closing from None
        except RunEnding:
            return  # the run is ending for its own reason
        if ended.said:
            logger.error("%s", ended.said)
        end(self.crawler, ended.reason, ended.exit_code, ended.said)
        return
        yield

    async def _work(self) -> End:
        database = connect(self.config)
        try:
            ledger = Ledger(database, MongoOutage(self.crawler, self.config))
            await ledger.make_indexes()
            await self.before()
            if self.only == ALL_JOBS or self.is_serving:
                self.resumed = True  # stats count only this worker's share
                return await self._run(ledger, None)
            return await self._run(ledger, await self._open(ledger))
        finally:
            await disconnect(database)

    async def _open(self, ledger: Ledger) -> Job:
        """Returns the job to process: the named one, or the one with these arguments."""
        if self.only:
            job = await ledger.job(self.only)
            assert job
            begun = True
        else:
            job, begun = await open_job_of(ledger, self._opening, self.arguments, incomplete=True)
        self.crawl_id, self.resumed = job.id, begun
        self.crawler.stats.set_value("harvester/job", job.id)
        if begun:
            logger.info("Continuing the job %s", job.id)
        if begun and not await self._scheduler.feeding.others():
            await ledger.promote(job, all_of_them=True)
        return job

    async def _run(self, ledger: Ledger, job: Job | None) -> End:
        feeding, only, waits_for = self._scheduler.feeding, job.id if job else None, "further jobs"
        stats = self.crawler.stats
        self._feeder = Feeder(ledger, feeding, self, stats, worker=self._scheduler.worker, only=only)
        feeding.listen(self._feeder.hear)
        adding = asyncio.create_task(self._add(ledger, job))
        serving = self._serve(ledger) if self.is_serving else None
        if serving:
            waits_for = f"entries of the list {serving.name} (`harvester feed {self.name} FILE`), and for jobs"

        looked_at = -OTHERS_S

        async def go_on() -> None:
            nonlocal looked_at
            await pause(self.crawler, 0)
            await feeding.hold()
            if not self.resumed and monotonic() >= looked_at + OTHERS_S:
                self.resumed, looked_at = bool(await feeding.others()), monotonic()  # stats count only a share
            if serving:
                await serving.file_entries()

        try:
            run = Run(
                ledger, feeding, self._feeder, self.config, stats, job=only, address=self.ADDRESS, waits_for=waits_for
            )
            ended = await run.work(lambda: self._goes_on(adding) or bool(serving and serving.is_busy), go_on)
            if serving and ended.reason == "finished" and not run.had_jobs:
                return self._nothing_given(serving.name)
            return ended
        finally:
            adding.cancel()
            feeding.listen(None)
            await self._feeder.write_ended()
            if serving:
                await serving.leave()
            await self._feeder.job_stats.close()

    def _serve(self, ledger: Ledger) -> Serving[Found]:
        client = redis.connect(self.config)
        self.crawler.signals.connect(client.aclose, signals.spider_closed)
        config = self.config
        start_list = StartList(client, self.name, config.database, lease_seconds=config.lease_seconds)
        patiently = redis.RedisOutage(self.crawler, config)
        logger.info("Serving the list %s in Redis", start_list.name)

        async def add(arguments: str, found: list[Found]) -> None:
            asked_for = self.Arguments.model_validate_json(arguments)
            await file_entries(ledger, self._opening, start_list, patiently, asked_for, found)

        def read(entry: bytes) -> tuple[str, list[Found]] | None:
            asked_for = self.read_start_entry(entry, self.arguments)
            return (asked_for[0].model_dump_json(), asked_for[1]) if asked_for else None

        return Serving(start_list, patiently, self.crawler.stats, read, add)

    def _nothing_given(self, start_list: str) -> End:
        """Returns the end of a run that got no items from its arguments or start list, and found no open job."""
        stats, stay = self.crawler.stats, "HARVESTER_IDLE_SECONDS=-1 has workers wait for entries."
        taken = stats.get_value("harvester/start_list/taken", 0)
        if taken > stats.get_value("harvester/start_list/dead", 0):
            return End("finished")
        if self.crawler.settings.getint("HARVESTER_WORKER") or self.config.idle_seconds:  # others may have had some
            logger.info("There was nothing to do. %s", stay)
            return End("finished")
        said = (
            f"There is nothing to do: no seeds are given, the list {start_list} in Redis is empty, and no job is open."
            f" {self.BEGIN} Or fill the list: `harvester feed {self.name} FILE`. {stay}"
        )
        if taken:
            said = f"No entry of the list {start_list} can be used: `harvester frontier dead {self.name}` says why."
        return End("usage_error", UsageError.exit_code, said)

    async def _add(self, ledger: Ledger, job: Job | None) -> None:
        if job and not self.only:
            await give_items(ledger, self._opening, job, self.items_of_arguments())

    def _goes_on(self, adding: "asyncio.Task[None]") -> bool:
        """Returns True while items are being added. Raises the error that stopped the adding."""
        if adding.done():
            adding.result()
        return not adding.done()

    @property
    def _opening(self) -> OpensJobs:
        return cast(OpensJobs, type(self))

    @property
    def _scheduler(self) -> Scheduler:
        assert self.crawler.engine
        scheduler = self.crawler.engine.scheduler
        if not isinstance(scheduler, Scheduler):
            raise UsageError(f"{self.name} needs harvester's scheduler: its requests wait in the frontier.")
        return scheduler
