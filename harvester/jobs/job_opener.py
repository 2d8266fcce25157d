"""Opens the job of a spider's arguments and adds the items that they name, without running the spider."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

from harvester.frontier.start_list import StartList
from harvester.items import Found
from harvester.jobs.documents import Job, JobState
from harvester.jobs.due_visits import Patiently
from harvester.jobs.ledger import Ledger, Opened
from harvester.recheck import Budget, read_policy


class OpensJobs(Protocol):
    """The part of a spider's class that opening a job needs: see JobSpider."""

    name: str
    ATTEMPTS: int
    BACKOFF_S: float

    def scope_of(self, arguments: Any) -> str: ...

    def limits_of(self, arguments: Any) -> dict[str, int]: ...

    def recheck_of(self, arguments: Any) -> str | None: ...

    def looks_a_day_of(self, arguments: Any) -> int | None: ...

    def site_of(self, found: Found) -> str: ...


async def open_job_of(ledger: Ledger, spider: OpensJobs, asked_for: Any, scope: str = "", **fields: Any) -> Opened:
    """Returns the unfinished job with the same arguments, or a new one with these fields of Job.

    A recurring job continues with the new arguments where they differ. `scope` replaces the scope of the arguments.
    Raises UsageError for an invalid visit policy.
    """
    kept, recheck = asked_for.kept(), spider.recheck_of(asked_for)
    policy = read_policy(recheck) if recheck else None
    of_policy = policy.a_day if isinstance(policy, Budget) else None
    of_arguments: dict[str, Any] = {
        "arguments": kept,
        "limits": spider.limits_of(asked_for),
        "recheck": str(policy or ""),
        "looks_a_day": spider.looks_a_day_of(asked_for) or of_policy,
    }
    wanted = of_arguments | {"attempts": spider.ATTEMPTS, "backoff_s": spider.BACKOFF_S} | fields
    scope = scope or spider.scope_of(asked_for)
    job, begun = await ledger.open_job(spider.name, scope, **wanted)
    changed = {name: wanted[name] for name in of_arguments if getattr(job, name) != wanted[name]}
    if job.standing and changed and (job.spider, job.scope) == (spider.name, scope):
        await ledger.set_job(job.id, **changed | ({"threshold": None} if "recheck" in changed else {}))
        job = await ledger.job(job.id) or job
    return Opened(job, begun)


async def give_items(ledger: Ledger, spider: OpensJobs, job: Job, found: Iterable[Found]) -> None:
    """Adds the items that the job's arguments name. In a recurring job, items that they no longer name are removed.

    An incomplete job is complete after this, whichever process adds the items.
    """
    if job.standing:
        await ledger.list_items(job, found, spider.site_of)
    elif job.state is JobState.OPEN:
        await ledger.add(job.id, found, spider.site_of)
    else:
        return
    if job.incomplete:
        await ledger.set_job(job.id, incomplete=None)


async def file_entries(
    ledger: Ledger, spider: OpensJobs, start_list: StartList, patiently: Patiently, asked_for: Any, found: list[Found]
) -> None:
    """Adds the items that entries of a start list with these arguments name.

    A worker may die after it filed entries and before it confirmed them. Then they go to the same job again, even
    if it has finished: a new job would do them twice.
    """
    part = asked_for.model_dump_json()
    before = await patiently(partial(start_list.filed_in, part))
    job = await ledger.job(before) if before else None
    if job is None:
        job, _ = await open_job_of(ledger, spider, asked_for)
        if not await patiently(partial(start_list.file_in, part, job.id)):
            found = []
    await ledger.add(job.id, found, spider.site_of)
