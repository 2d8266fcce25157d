"""Gives a job its items, from a stream of any length: a thousand at a time are read and stored.

One that was killed may be submitted once more: with the same idempotency key it is the same job, and an item that
is there already stays as it is.
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
"""Items that are added together."""
MOST_KEY = 200
"""Characters of an idempotency key."""
MAX_BAD_LINES = 100_000
"""Of an input. One that has more is of another form than was said."""
MOST_SHOWN = 20
"""Bad lines that an answer holds. All are in a file."""
SHOWN = 1000
"""Characters of each that an answer holds: a line may have a megabyte, and what is kept of an answer has 16 at most."""


class Submission(NamedTuple):
    """What somebody asks for."""

    spider: str
    arguments: dict[str, str]
    """As typed."""
    kind: str = ""
    """Of the items; empty: the first of the spider's ITEM_KINDS."""
    priority: int = 0
    max_items: int | None = None
    """The most items of the kind that are ever fed."""
    name: str = ""
    idempotency_key: str | None = None
    foreign: bool = False
    """Whether somebody gave it who may be on another machine: it may name no file and no variable of this one."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a submission."""

    job: str | None
    """None: there was no line that could be used, and no job was made."""
    begun: bool
    """Whether the job was there before."""
    accepted: int
    """New items."""
    known: int
    """Items that were in the job before, or came twice."""
    bad: int
    bad_lines: list[BadLine]
    """The beginnings of the first of them."""
    bad_file: Path | None
    """All of them, one JSON object a line."""


class TakesItems(OpensJobs, Protocol):
    """What a submission needs of the class of a spider: see JobSpider."""

    ITEM_KINDS: tuple[str, ...]

    def parse_arguments(self, given: dict[str, Any]) -> Any: ...

    def check_item(self, found: Found) -> Found: ...


class Submitter:
    """One submission. What can be known to be wrong before the first item is refused by the constructor: UsageError."""

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
        """`into`: the job that gets the items, in place of one of their own. `often`: how often they are looked at.

        `is_part`: more are sent to the same job by whoever sends these. They are told of all bad lines, which no file
        keeps here, and count by themselves what came before an error.
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
        """Of its items."""
        self._is_part = is_part
        self._bad = BadLines(None if is_part else bad_file(config, wanted.spider))
        self._job: Job | None = None
        self._begun = False
        self._accepted = self._known = 0

    async def submit(self, lines: Iterable[Found | BadLine], *, ahead: bool = False) -> Submitted:
        """Reads all of them. The job is made with the first that can be used.

        `ahead`: the next thousand are read while the last are stored. Not of a pipe or a terminal: an error would be
        told only when more lines have come.
        Raises JobConflict when the idempotency key belongs to something else, or the job is cancelled; StorageError
        when bad lines cannot be written; and what reading raises. What was read before is then in the job, as is said.
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
        """A thousand at a time; `ahead` as `submit` has it."""
        adding: asyncio.Task[None] | None = None
        try:
            while chunk := await asyncio.to_thread(list, islice(items, CHUNK)):  # it may be a terminal that is read
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
        if self._into:  # those that were removed are there again
            ids = {item_id(self._job.id, each.kind, each.key) for each in items}
            await self._ledger.apply([(each, Changed(often=self._often)) for each in ids])
            await self._ledger.note_added([self._job.id])
        self._accepted += added.new
        self._known += added.known
        now = await self._ledger.job(self._job.id)
        if now and now.state is JobState.CANCELLED:
            raise JobConflict(f"{now.id} was cancelled, and takes no more items.")

    async def _open(self) -> Job:
        """The job of the idempotency key, or a new one. Its scope is its own, so that no other run continues it."""
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
    """Raises UsageError unless it can be an idempotency key."""
    if key is not None and not 0 < len(key) <= MOST_KEY:
        raise UsageError(f"--idempotency-key: give 1 to {MOST_KEY} characters.")


def with_progress(error: HarvesterError, job: str, items: int, goes_on: bool) -> HarvesterError:
    """The same error, which says what came to the job before, and whether the same command goes on."""
    if not items:
        return error
    others = "; the same command adds the others" if goes_on else ""
    return type(error)(f"{error} Before that, {items:,} items came to {job}{others}.")


def bad_file(config: Config, spider: str) -> Path:
    """Where the bad lines of a submission are kept that begins now: no other has the same."""
    name = f"{spider}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}.bad-lines.jsonl"
    return config.data_dir / "jobs" / name


def refuse_files(spider: str, arguments: Mapping[str, str]) -> None:
    """Raises UsageError for an argument that would have a file of this machine read for whoever asks from elsewhere."""
    declared: Any = getattr(load_spider(spider), "Arguments", None)
    for name, value in arguments.items():
        if declared and declared.names_file(name, value):
            raise UsageError(f"{name}: a file of the controller's machine is not read for whoever asks from elsewhere.")


def refuse_variables(given: Mapping[str, Any]) -> None:
    """Raises UsageError for headers that name variables of the workers: a secret in one could be sent anywhere.

    `given`: all that an item asks for.
    """
    headers = given.get("headers")
    if isinstance(headers, Mapping) and any("${" in str(value) for value in headers.values()):
        raise UsageError(
            "headers: ${...} names a variable of the workers, and what has such headers is given and changed only by"
            " whoever is at their machine"
        )


class BadLines:
    """Counts bad lines, keeps the beginnings of the first, and writes all into a file, which `with` closes.

    A thread may still add lines when `with` has ended, since a thread cannot be cancelled. They are dropped.
    """

    def __init__(self, path: Path | None) -> None:
        """None: no file is written, and all are kept here."""
        self.number = 0
        self.first: list[BadLine] = []
        self.path: Path | None = None
        """None while there is no bad line, or no file."""
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
        """Raises StorageError, and UsageError when there are too many."""
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
