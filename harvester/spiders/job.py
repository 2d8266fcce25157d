"""The base of spiders that deal with the items of jobs."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from msgspec.structs import replace
from pydantic import ValidationError
from pymongo.errors import PyMongoError
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.config import Config, load_config
from harvester.exceptions import HarvesterError, UsageError
from harvester.frontier.entries import ItemRef
from harvester.frontier.scheduler import Scheduler
from harvester.items import Found, Provenance
from harvester.items.base import WEB
from harvester.jobs.documents import JOBS, Job, JobItem, JobState, RetryPolicy, read_job
from harvester.jobs.feeder import Feeder
from harvester.jobs.ledger import Ledger
from harvester.jobs.runs import End, Run
from harvester.meta import ITEMS, JOB
from harvester.shutdown import RunEnding, end, pause
from harvester.sites import load_sites
from harvester.spiders.base import HarvesterSpider, SpiderArguments
from harvester.stores.mongodb import MongoOutage, connect, connect_sync, unavailable

logger = logging.getLogger(__name__)

ALL_JOBS = "all"
"""As `-a job=all`: all open jobs of the spider, for as long as there is something to do."""


class JobSpider(HarvesterSpider, ABC):
    """Give `requests_of`, and callbacks that yield records, requests, Found, Stage and Said.

    `scrapy crawl <name> -a ...` opens the job of these arguments, or continues it, and works until it is finished.
    `-a job=<id>` works at that job, whatever its arguments are.
    """

    ITEM_KINDS: ClassVar[tuple[str, ...]] = ()
    """Kinds of items that may be submitted to it; the first is meant when none is named."""
    ITEMS_A_REQUEST: ClassVar[int | Mapping[str, int]] = 1
    """How many items of a kind share requests, where an API takes several; of each kind, or kind -> how many."""
    ATTEMPTS: ClassVar[int] = RetryPolicy().attempts
    """Failures after which an item of a job that `scrapy crawl` opens is failed."""
    BACKOFF_S: ClassVar[float] = RetryPolicy().backoff_s
    """Before its attempt after the first failure; doubled for each further one."""

    def __init__(self, config: Config, arguments: SpiderArguments, **kwargs: Any) -> None:
        super().__init__(config, arguments, **kwargs)
        self.only = ""
        """The job to work at, when it was named."""
        self.jobs: dict[str, Job] = {}
        """Jobs of which pages were seen."""
        self._feeder: Feeder | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.only = kwargs.get("job", "")
        return spider

    @classmethod
    def parse_arguments(cls, given: dict[str, Any]) -> SpiderArguments:
        """Those of the job, when it is named. Raises UsageError and ServiceError."""
        job = given.get("job")
        if not job:
            return super().parse_arguments(given)
        if len(given) > 1:
            raise UsageError(f"-a job={job} works at that job, whose arguments are known: leave the others out.")
        if job == ALL_JOBS:
            return cls.Arguments.model_construct()
        return cls._arguments_of(cls._read_job(job))

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
    def _arguments_of(cls, job: Job) -> SpiderArguments:
        try:
            return cls.Arguments(**job.arguments)
        except ValidationError as error:
            raise UsageError(f"The arguments of the job {job.id} are none that this version knows: {error}") from None

    # What a spider gives ----------------------------------------------------------------------------------

    @abstractmethod
    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request]:
        """With which these items of one kind begin. A request belongs to all of them, unless its meta narrows that:
        `harvester_items_of` is a list of ids."""

    def items_of_arguments(self) -> Iterator[Found]:
        """What a job that `scrapy crawl` opens begins with. It is read again when the job is continued."""
        yield from ()

    @classmethod
    def limits_of(cls, arguments: SpiderArguments) -> dict[str, int]:
        """Kind -> the most items of it that a job with these arguments ever asks for."""
        return {}

    @classmethod
    def check_item(cls, found: Found) -> Found:
        """A submitted item as it is kept, its key in the usual form. Raises UsageError when it cannot be used."""
        return found

    @classmethod
    def site_of(cls, found: Found) -> str:
        """Name of the site that an item is fetched from, where its `url` or its key is an address; else empty."""
        url = found.input.get("url", found.key)
        return load_sites().of(url).name if isinstance(url, str) and url.startswith(WEB) else ""

    # What callbacks ask -----------------------------------------------------------------------------------

    def items_of(self, response: Response) -> list[ItemRef]:
        """The items that the page was fetched for."""
        return [ItemRef(*item) for item in response.meta[ITEMS]]

    def item_of(self, response: Response) -> ItemRef:
        """The only item that the page was fetched for."""
        (item,) = self.items_of(response)
        return item

    def arguments_of(self, response: Response) -> Any:
        """The arguments of the job that the page was fetched for: workers share the pages of all jobs."""
        return self._arguments_of(self.job_of(response))

    def job_of(self, response: Response) -> Job:
        """The job that the page was fetched for."""
        name = str(response.meta[JOB])
        if name not in self.jobs:
            known = self._feeder.jobs.get(name) if self._feeder else None
            self.jobs[name] = known or self._read_job(name)
        return self.jobs[name]

    def provenance(self, response: Response) -> Provenance:
        return replace(super().provenance(response), crawl=str(response.meta.get(JOB, "")))

    # The run ----------------------------------------------------------------------------------------------

    async def start(self) -> AsyncIterator[Any]:
        """Feeds the job's items, beside the engine, until the job is finished or nothing can be done."""
        try:
            ended = await self._work()
        except HarvesterError as error:
            raise self.stop_for(error) from None
        except RunEnding:
            return  # the run is being ended, for the reason that it says
        if ended.said:
            logger.error("%s", ended.said)
        end(self.crawler, ended.reason, ended.exit_code)
        return
        yield

    async def _work(self) -> End:
        database = connect(self.config)
        try:
            ledger = Ledger(database, MongoOutage(self.crawler, self.config))
            await ledger.make_indexes()
            job = None if self.only == ALL_JOBS else await self._open(ledger)
            return await self._run(ledger, job)
        finally:
            await database.client.close()

    async def _open(self, ledger: Ledger) -> Job:
        """The job to work at."""
        if self.only:
            job = await ledger.job(self.only)
            assert job
            begun = True
        else:
            job, begun = await ledger.open_job(
                self.name,
                self.scope,
                arguments=self.arguments.model_dump(mode="json"),
                limits=self.limits_of(self.arguments),
                attempts=self.ATTEMPTS,
                backoff_s=self.BACKOFF_S,
            )
        self.crawl_id, self.resumed = job.id, begun
        self.crawler.stats.set_value("harvester/crawl", job.id)
        if begun and not await self._scheduler.feeding.others():
            await ledger.promote(job.id, all_of_them=True)
        return job

    async def _run(self, ledger: Ledger, job: Job | None) -> End:
        feeding, only = self._scheduler.feeding, job.id if job else None
        stats = self.crawler.stats
        self._feeder = Feeder(ledger, feeding, self, stats, worker=self._scheduler.worker, only=only)
        feeding.listen(self._feeder.hear)
        adding = asyncio.create_task(self._add(ledger, job))
        try:
            run = Run(ledger, feeding, self._feeder, self.config, job=only)
            return await run.work(lambda: self._goes_on(adding), lambda: pause(self.crawler, 0))
        finally:
            adding.cancel()
            feeding.listen(None)
            await self._feeder.write_ended()

    async def _add(self, ledger: Ledger, job: Job | None) -> None:
        if job and not self.only and job.state is JobState.OPEN:
            await ledger.add(job.id, self.items_of_arguments(), self.site_of)

    def _goes_on(self, adding: "asyncio.Task[None]") -> bool:
        """Raises what kept items from being added."""
        if adding.done():
            adding.result()
        return not adding.done()

    @property
    def _scheduler(self) -> Scheduler:
        assert self.crawler.engine
        scheduler = self.crawler.engine.scheduler
        if not isinstance(scheduler, Scheduler):
            raise UsageError(f"{self.name} needs harvester's scheduler: its requests wait in the frontier.")
        return scheduler
