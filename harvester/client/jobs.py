"""The calls of `harvester.jobs.service.JobService`, sent to a controller on another machine.

    async with remote_jobs(ControllerAccess("https://harvester.example.org", token), Config()) as jobs:
        job = await jobs.wait("bluesky-1a2b3c4d")

Results and exceptions are the same. ServiceError is also raised when the controller cannot be reached.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harvester.client.access import ControllerAccess
from harvester.client.connection import ControllerConnection
from harvester.client.rows import RemoteRows
from harvester.client.sending import Parts
from harvester.config import Config
from harvester.exceptions import UnknownJob, UsageError
from harvester.jobs.documents import Job, JobState
from harvester.jobs.export import Exported, Exporter, FileExport, Stored
from harvester.jobs.inputs import Input, InputLines, keys_as_items, opened, size_of
from harvester.jobs.listing import ItemFilter, ItemReport
from harvester.jobs.service import JobReport, check_waitable
from harvester.jobs.submission import Submission, Submitted, check_key

if TYPE_CHECKING:
    from harvester.stores.postgres import Postgres

MOST_ROWS = 500
"""Maximum number of rows in a page of a list."""
MOST_NAMES = 1000
"""Maximum number of items that one request names."""
LONGEST_WAIT_S = 30.0
"""Maximum number of seconds that one request waits for the end of a job."""
LOOK_S = 0.2
"""Seconds between two checks whether a batch is done."""
ANY_KIND = "item"
"""Kind of items whose real kind is known to the controller."""


@asynccontextmanager
async def remote_jobs(access: ControllerAccess, config: Config) -> AsyncIterator["RemoteJobs"]:
    """Opens a client for jobs. The connection is made by its first call."""
    connection = ControllerConnection(access, config)
    try:
        yield RemoteJobs(connection, config)
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object!r} holds bytes that are no UTF-8.") from None
    finally:
        await connection.close()


@dataclass(frozen=True, slots=True)
class _JobPage:
    jobs: list[Job]
    next: str | None


@dataclass(frozen=True, slots=True)
class _ItemPage:
    items: list[ItemReport]
    next: str | None


@dataclass(frozen=True, slots=True)
class _Batch:
    """A change to many items that runs in the background."""

    id: str
    state: str
    done: int
    said: str


@dataclass(frozen=True, slots=True)
class _Webhook:
    id: str


@dataclass(frozen=True, slots=True)
class _AddedWebhook:
    webhook: _Webhook
    secret: str


@dataclass(frozen=True, slots=True)
class _Changed:
    items: int


class RemoteJobs:
    """Reads, changes and exports the jobs of a controller."""

    def __init__(self, connection: ControllerConnection, config: Config) -> None:
        self.config = config
        self._connection = connection

    # Looking ----------------------------------------------------------------------------------------------

    async def job(self, job: str) -> Job:
        """Returns the job in its current state. Raises UnknownJob."""
        return (await self.report(job)).job

    async def jobs(self, spider: str = "", states: Iterable[JobState] = (), most: int = 100) -> list[Job]:
        """Returns jobs, the latest first, with the counts that were made last."""
        query: dict[str, Any] = {"spider": spider, "state": [str(each) for each in states]}
        found: list[Job] = []
        after: str | None = ""
        while after is not None and len(found) < most:
            rows = min(MOST_ROWS, most - len(found))
            page = await self._connection.ask("GET", "jobs", _JobPage, query=query | {"limit": rows, "after": after})
            found += page.jobs
            after = page.next
        return found

    async def report(self, job: str) -> JobReport:
        """Returns the progress of a job, and what delays it."""
        return await self._connection.ask("GET", _path(job), JobReport)

    async def items(self, job: str, which: ItemFilter, most: int = 100) -> list[ItemReport]:
        """Returns items with their results, by ascending id. Raises UsageError for an unknown state or site."""
        query: dict[str, Any] = {"site": which.site, "kind": which.kind, "text": which.text, "results": "true"}
        query |= {"state": _words(which.state), "outcome": _words(which.outcome)}
        found: list[ItemReport] = []
        after: str | None = ""
        while after is not None and len(found) < most:
            page_query = query | {"limit": min(MOST_ROWS, most - len(found)), "after": after}
            page = await self._connection.ask("GET", _path(job, "items"), _ItemPage, query=page_query)
            found += page.items
            after = page.next
        return found

    # Submitting, adding, exporting --------------------------------------------------------------------------

    async def submit(self, wanted: Submission, given: Input) -> Submitted:
        """Creates a job from the lines of an input, which are read locally and sent in parts, each part once.

        Waits while the controller is away. After an interruption, submit with the same idempotency key to continue.
        """
        check_key(wanted.idempotency_key)
        query: dict[str, Any] = {
            "spider": wanted.spider,
            "argument": [f"{name}={value}" for name, value in wanted.arguments.items()],
            "kind": wanted.kind,
            "priority": wanted.priority,
            "name": wanted.name,
            "job_key": secrets.token_hex(16) if wanted.idempotency_key is None else wanted.idempotency_key,
        }
        if wanted.max_items is not None:
            query["max_items"] = wanted.max_items
        goes_on = bool(wanted.idempotency_key)
        parts = Parts(self._connection, "jobs/upload", query, wanted.spider, self.config, goes_on=goes_on)
        return await self._send(parts, given, wanted.kind)

    async def add(
        self, job: str, given: Input | Sequence[str], kind: str = "", often: float | None = None
    ) -> Submitted:
        """Adds items to a job: the lines of an input, or the given keys. Removed items are restored."""
        query: dict[str, Any] = {"kind": kind} | ({} if often is None else {"often": often})
        path = _path(job, "items", "upload")
        parts = Parts(self._connection, path, query, job.rpartition("-")[0], self.config, goes_on=False)
        if isinstance(given, Input):
            return await self._send(parts, given, kind)
        await parts.begin()
        return await parts.send(keys_as_items(given, kind or ANY_KIND))

    async def _send(self, parts: Parts, given: Input, kind: str) -> Submitted:
        await parts.begin()
        with opened(given.path) as file:
            lines = await asyncio.to_thread(InputLines, file, given.path, kind or ANY_KIND, given.form, given.key)
            return await parts.send(lines, at_hand=size_of(file) > 0)

    async def export(self, job: str, wanted: FileExport) -> list[Exported]:
        """Writes the job's records and manifest into local files. Raises StorageError when a file cannot be written."""
        known = await self.job(job)
        folder = wanted.folder or self.config.data_dir / "exports" / known.id
        exporter = Exporter(RemoteRows(self._connection, _path(known.id, "rows")), wanted.only)
        return await exporter.to_files(folder, wanted.form, zstd=wanted.zstd, csv_options=wanted.csv_options)

    async def export_to(self, job: str, postgres: "Postgres", only: Sequence[str] = ()) -> list[Stored]:
        """Writes the job's records and manifest into tables. Raises ServiceError and StorageError of PostgreSQL."""
        from harvester.stores.postgres import CODEC

        known = await self.job(job)
        rows = RemoteRows(self._connection, _path(known.id, "rows"), CODEC)
        return await Exporter(rows, only).to_postgres(postgres)

    # Changing ---------------------------------------------------------------------------------------------

    async def remove(self, job: str, items: Sequence[str]) -> int:
        """Removes items from a job, by id or key, and returns their number. Their records stay."""
        return sum([await self._change(job, "remove", {"items": names}) for names in _named(items)])

    async def change(
        self, job: str, items: Sequence[str], inputs: Mapping[str, str], often: float | None = None
    ) -> int:
        """Changes the inputs of items, or how often they are visited, by id or key. Returns the number of items."""
        changes = {"input": dict(inputs), "often": often}
        return sum([await self._change(job, "change", changes | {"items": names}) for names in _named(items)])

    async def _change(self, job: str, word: str, body: dict[str, Any]) -> int:
        return (await self._connection.ask("POST", _path(job, "items", word), _Changed, body=body)).items

    async def pause(self, job: str, reason: str = "") -> None:
        """Pauses a job: no more items are fed, and active ones end normally. A paused job stays paused."""
        await self._connection.ask("POST", _path(job, "pause"), Job, body={"reason": reason})

    async def resume(self, job: str) -> None:
        """Ends a pause. An open job stays open."""
        await self._connection.ask("POST", _path(job, "resume"), Job)

    async def cancel(self, job: str) -> int:
        """Skips all waiting items for good, and returns their number. Active items end normally."""
        before = await self.job(job)
        batch = await self._connection.ask("POST", _path(job, "cancel"), _Batch)
        number = await self._done(batch)
        return 0 if before.state is JobState.CANCELLED else number

    async def retry(self, job: str, items: Sequence[str] = (), outcome: str = "") -> int:
        """Retries items now: those named by id or key, those with the outcome, or all failed ones.

        Returns their number. Items that wait already, or are active, are left out.
        """
        bodies: list[dict[str, Any]] = [{"items": names} for names in _named(items)]
        if not bodies:
            bodies = [{"filter": {"outcome": [outcome]}} if outcome else {}]
        number = 0
        for body in bodies:
            key = secrets.token_hex(16)
            number += await self._done(
                await self._connection.ask("POST", _path(job, "retry"), _Batch, body=body, key=key)
            )
        return number

    async def _done(self, batch: _Batch) -> int:
        """Waits for the end of a batch and returns its number of items. Raises UsageError when the batch failed."""
        while batch.state == "running":
            await asyncio.sleep(LOOK_S)
            batch = await self._connection.ask("GET", f"batches/{quote(batch.id, safe='')}", _Batch)
        if batch.state == "failed":
            raise UsageError(batch.said)
        return batch.done

    async def set_priority(self, job: str, priority: int) -> None:
        """Sets the priority of a job. Items of jobs with a larger number are fed first."""
        await self._connection.ask("PUT", _path(job, "priority"), Job, body={"priority": priority})

    async def add_webhook(self, url: str, job: str) -> tuple[str, str]:
        """Adds a webhook for the end or a pause of a job. Returns the webhook's id and its secret."""
        added = await self._connection.ask("POST", "webhooks", _AddedWebhook, body={"url": url, "job": job})
        return added.webhook.id, added.secret

    async def wait(self, job: str, timeout_s: float | None = None) -> Job:
        """Returns the job when it has ended, or at the timeout. Raises UsageError for a wait that would never end."""
        known = await self.job(job)
        check_waitable(known, timeout_s)
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = LONGEST_WAIT_S if until is None else min(LONGEST_WAIT_S, max(0.0, until - time.monotonic()))
            known = await self._connection.ask("GET", _path(job, "wait"), Job, query={"timeout_s": left})
            if known.state not in (JobState.OPEN, JobState.PAUSED) or (until and time.monotonic() >= until):
                return known


def _path(job: str, *parts: str) -> str:
    """Builds the path of a job. Raises UnknownJob for dots alone, which would lead to another path."""
    if not job.strip("."):
        raise UnknownJob(f"There is no job {job!r}; `harvester jobs list` shows those there are.")
    return "/".join(["jobs", *(quote(each, safe="") for each in (job, *parts))])


def _named(items: Sequence[str]) -> Iterable[list[str]]:
    return (list(items[first : first + MOST_NAMES]) for first in range(0, len(items), MOST_NAMES))


def _words(given: str) -> list[str]:
    return given.split(",") if given else []
