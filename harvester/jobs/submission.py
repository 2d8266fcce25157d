"""Adds items to a job from a stream of any length, a thousand at a time.

A submission that was killed may be repeated: with the same idempotency key it goes to the same job, and existing
items stay unchanged.
"""

import asyncio
import hashlib
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from io import BufferedWriter
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, cast

import msgspec

from harvester.config import Config
from harvester.exceptions import HarvesterError, InvalidRecordError, JobConflict, StorageError, UsageError
from harvester.items import Found
from harvester.jobs.documents import Job, JobState, item_id
from harvester.jobs.inputs import BadLine
from harvester.jobs.job_opener import OpensJobs, open_job_of
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import Changed
from harvester.project import load_spider
from harvester.stores.private_files import make_closed

CHUNK = 1000
"""Number of items that are added together."""
MOST_KEY = 200
"""Maximum number of characters of an idempotency key."""
MAX_BAD_LINES = 100_000
"""Maximum number of bad lines of an input. An input with more has another format than the user says."""
MOST_SHOWN = 20
"""Maximum number of bad lines in an answer. All bad lines are in the file."""
SHOWN = 1000
"""Maximum number of characters of a bad line in an answer. A line may have a megabyte, and a stored answer has at most
16 MB."""


class Submission(NamedTuple):
    """A request to add items to a job."""

    spider: str
    arguments: dict[str, str]
    """The arguments as typed."""
    kind: str = ""
    """The kind of the items. Empty: the first of the spider's ITEM_KINDS."""
    priority: int = 0
    max_items: int | None = None
    """Maximum number of items of the kind that are ever fed."""
    name: str = ""
    idempotency_key: str | None = None
    foreign: bool = False
    """True if it may come from another machine. Then it may name no file and no variable of this machine."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The result of a submission."""

    job: str | None
    """Id of the job. None: the input had no usable line, so no job was made."""
    begun: bool
    """True if the job already existed."""
    accepted: int
    """Number of new items."""
    known: int
    """Number of items that the job already had, or that came twice."""
    bad: int
    bad_lines: list[BadLine]
    """The first bad lines, cut."""
    bad_file: Path | None
    """The file with all bad lines, one JSON object a line."""


class TakesItems(OpensJobs, Protocol):
    """The part of a spider's class that a submission needs: see JobSpider."""

    ITEM_KINDS: tuple[str, ...]

    def parse_arguments(self, given: dict[str, Any]) -> Any: ...

    def check_item(self, found: Found) -> Found: ...


class Submitter:
    """One submission. The constructor raises UsageError for errors that are known before the first item."""

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        wanted: Submission,
        into: Job | None = None,
        often: float | None = None,
        *,
        is_part: bool = False,
    ) -> None:
        """`into`: an existing job that gets the items. `often`: factor on the visit frequency of the items.

        `is_part`: the sender sends more parts to the same job. The sender gets all bad lines, without a file here,
        and reports the progress before an error itself.
        """
        self._ledger = ledger
        self._into = into
        self._often = often
        self._wanted = wanted
        spider = load_spider(wanted.spider)
        if not getattr(spider, "ITEM_KINDS", ()):
            raise UsageError(f"{wanted.spider} takes no items: it begins with its arguments (harvester crawl).")
        self._spider = cast(TakesItems, spider)
        if "job" in wanted.arguments:
            raise UsageError("-a job: a submission makes a job of its own; give --idempotency-key to add to one.")
        if wanted.foreign:
            refuse_files(wanted.spider, wanted.arguments)
        self._arguments = None if into else self._spider.parse_arguments(dict(wanted.arguments))
        kinds = self._spider.ITEM_KINDS
        if wanted.kind and wanted.kind not in kinds:
            raise UsageError(f"{wanted.spider} takes no items of the kind {wanted.kind!r}, but {', '.join(kinds)}.")
        check_key(wanted.idempotency_key)
        self.kind = wanted.kind or kinds[0]
        """The kind of the items."""
        self._is_part = is_part
        self._bad = BadLines(None if is_part else bad_file(config, wanted.spider))
        self._job: Job | None = None
        self._begun = False
        self._accepted = self._known = 0

    async def submit(self, lines: Iterable[Found | BadLine], *, ahead: bool = False) -> Submitted:
        """Reads all lines. The first usable one opens the job.

        `ahead` reads the next thousand while the last are stored. Not for a pipe or a terminal: an error would be
        shown only after more lines have come. Raises JobConflict when the idempotency key belongs to another
        submission, or the job is cancelled; StorageError when bad lines cannot be written; and the errors of
        reading. Items that were read before the error are in the job, and the message says so.
        """
        with self._bad:
            try:
                await self._add_all(self._usable(lines), ahead)
            except HarvesterError as error:
                raise self._with_progress(error) from None
        if self._job and (known := await self._ledger.job(self._job.id)):
            await self._ledger.counting.count_again(known)
        job = self._job.id if self._job else None
        bad = self._bad
        return Submitted(job, self._begun, self._accepted, self._known, bad.number, bad.first, bad.path)

    async def _add_all(self, items: Iterator[Found], ahead: bool) -> None:
        """Adds the items, a thousand at a time. `ahead`: see `submit`."""
        adding: asyncio.Task[None] | None = None
        try:
            while chunk := await asyncio.to_thread(list, islice(items, CHUNK)):  # reading may block on a terminal
                if adding:
                    await adding
                adding = asyncio.create_task(self._add(chunk))
                if not ahead:
                    await adding
        except asyncio.CancelledError:
            if adding:
                adding.cancel()
            raise
        finally:
            if adding:
                await adding

    async def _add(self, items: list[Found]) -> None:
        if self._job is None:
            self._job = await self._open()
        added = await self._ledger.add(self._job.id, items, self._spider.site_of)
        if self._into:  # removed items come back
            ids = {item_id(self._job.id, each.kind, each.key) for each in items}
            await self._ledger.apply([(each, Changed(often=self._often)) for each in ids])
            await self._ledger.note_added([self._job.id])
        self._accepted += added.new
        self._known += added.known
        now = await self._ledger.job(self._job.id)
        if now and now.state is JobState.CANCELLED:
            raise JobConflict(f"{now.id} was cancelled, and takes no more items.")

    async def _open(self) -> Job:
        """Returns the job of the idempotency key, or a new one. It has a scope of its own, so that no other run
        continues it."""
        if self._into:
            self._begun = True
            return self._into
        wanted = self._wanted
        own = wanted.idempotency_key or secrets.token_hex(16)
        arguments = self._spider.scope_of(self._arguments)
        scope = hashlib.sha256(f"{arguments} {self.kind} {own}".encode()).hexdigest()[:16]
        limits = self._spider.limits_of(self._arguments)
        job, self._begun = await open_job_of(
            self._ledger,
            self._spider,
            self._arguments,
            scope,
            arguments=wanted.arguments,
            priority=wanted.priority,
            limits=limits | ({self.kind: wanted.max_items} if wanted.max_items else {}),
            name=wanted.name,
            idempotency_key=wanted.idempotency_key,
        )
        if (job.spider, job.scope) != (wanted.spider, scope):
            raise JobConflict(
                f"The idempotency key {wanted.idempotency_key!r} belongs to the job {job.id}, which has other arguments"
                " or another kind of items. Give another key."
            )
        if job.state is JobState.CANCELLED:
            raise JobConflict(f"{job.id} is cancelled, and takes no more items. Give another idempotency key.")
        return job

    def _usable(self, lines: Iterable[Found | BadLine]) -> Iterator[Found]:
        for number, each in enumerate(lines, 1):
            if isinstance(each, BadLine):
                self._bad.add(each)
                continue
            try:
                if self._wanted.foreign:
                    refuse_variables(each.input)
                yield self._spider.check_item(each)
            except (UsageError, InvalidRecordError) as error:
                self._bad.add(BadLine(each.line or number, each.key, str(error)))

    def _with_progress(self, error: HarvesterError) -> HarvesterError:
        if not self._job or self._is_part:
            return error
        return with_progress(error, self._job.id, self._accepted + self._known, bool(self._wanted.idempotency_key))


def check_key(key: str | None) -> None:
    """Raises UsageError for an invalid idempotency key."""
    if key is not None and not 0 < len(key) <= MOST_KEY:
        raise UsageError(f"--idempotency-key: give 1 to {MOST_KEY} characters.")


def with_progress(error: HarvesterError, job: str, items: int, goes_on: bool) -> HarvesterError:
    """Returns the error with the progress before it, and with the advice to repeat the command if that continues."""
    if not items:
        return error
    others = "; the same command adds the others" if goes_on else ""
    return type(error)(f"{error} Before that, {items:,} items came to {job}{others}.")


def bad_file(config: Config, spider: str) -> Path:
    """Returns a new path for the bad lines of a submission. It is unique."""
    name = f"{spider}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}.bad-lines.jsonl"
    return config.data_dir / "jobs" / name


def refuse_files(spider: str, arguments: Mapping[str, str]) -> None:
    """Raises UsageError for an argument that would make this machine read a file for a user of another machine."""
    declared: Any = getattr(load_spider(spider), "Arguments", None)
    for name, value in arguments.items():
        if declared and declared.names_file(name, value):
            raise UsageError(f"{name}: a file of the controller's machine is not read for whoever asks from elsewhere.")


def refuse_variables(given: Mapping[str, Any]) -> None:
    """Raises UsageError for headers that name variables of the workers: a secret in one could be sent to any host.

    `given`: the input of an item.
    """
    headers = given.get("headers")
    if isinstance(headers, Mapping) and any("${" in str(value) for value in headers.values()):
        raise UsageError(
            "headers: ${...} names a variable of the workers, and what has such headers is given and changed only by"
            " whoever is at their machine"
        )


class BadLines:
    """Counts bad lines, keeps the first ones cut, and writes all into a file, which `with` closes.

    A thread cannot be cancelled, so it may still add lines after `with` has ended. They are dropped.
    """

    def __init__(self, path: Path | None) -> None:
        """`path`: the file. None: nothing is written, and all lines are kept in memory."""
        self.number = 0
        self.first: list[BadLine] = []
        self.path: Path | None = None
        """The file that was written. None without a bad line, or without a file."""
        self._path = path
        self._file: BufferedWriter | None = None
        self._writing = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._writing:
            self._closed = True
            try:
                if self._file:
                    self._file.close()
            except OSError as error:
                raise self._failure(error) from None

    def add(self, line: BadLine) -> None:
        """Adds a bad line. Raises StorageError, and UsageError for more than MAX_BAD_LINES."""
        if self.number == MAX_BAD_LINES:
            raise UsageError(f"More than {MAX_BAD_LINES:,} lines cannot be used: {line.reason} (line {line.line}).")
        self.number += 1
        if self._path is None:
            self.first.append(line)
            return
        if len(self.first) < MOST_SHOWN:
            self.first.append(replace(line, text=line.text[:SHOWN]))
        with self._writing:
            if not self._closed:
                self._write(self._path, line)

    def _write(self, path: Path, line: BadLine) -> None:
        try:
            if self._file is None:
                make_closed(path.parent)
                self._file = path.open("ab")
                self.path = path
            self._file.write(msgspec.json.encode(asdict(line)) + b"\n")
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> StorageError:
        remedy = "Make room and let it be written, or set HARVESTER_DATA_DIR to another folder."
        return StorageError(f"{self._path} cannot be written: {error.strerror or error}. {remedy}")
