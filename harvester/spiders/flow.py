"""The spider `flow`: recorded browser flows, a row of a table each."""

import hashlib
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import Field, PrivateAttr, model_validator
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.defer import ensure_awaitable
from twisted.python.failure import Failure

from harvester.browser.render_options import captured_of
from harvester.config import Config, load_config
from harvester.download.addresses import refuse_private
from harvester.exceptions import PageFailed, StorageError, UsageError
from harvester.items import Found, ItemResult
from harvester.jobs.documents import JobItem
from harvester.jobs.inputs import digest_of, items_of_file
from harvester.meta import FLOW, FLOWN, JOB, RENDER, RENDERING
from harvester.outcomes import Outcome, verdict_of
from harvester.sites import load_sites
from harvester.spiders.base import SpiderArguments
from harvester.spiders.job import JobSpider, errback
from harvester.stores.objects import LEFTOVER_S, LocalStore, S3Store, open_store

if TYPE_CHECKING:
    from harvester.browser.flow_run import File, Flown
    from harvester.sites.recording import Flow

ROW = "row"
"""Kind of an item: a row of a table, whose key tells it from the others."""
NO_RESULTS = "no_results"
"""Outcome of a row for which the site has nothing."""
SPARE_S = 30.0
"""What a page may take beside its steps: to begin, and for a picture of it when a step has failed."""
_FOLDER = "flows"
"""Below the place where files are kept."""
USUAL = ("key", "id", "parcel_id")
"""Columns that tell rows apart, where none is named."""


def faults_of(flow: "Flow", config: Config) -> Iterator[str]:
    """What its recording may not do, and where."""
    yield from flow.faults()
    for number, step in enumerate(flow.recording.steps, 1):
        if step.type == "navigate" and (private := refuse_private(step.url, config)):
            yield f"step {number} (navigate): {private}"


def read_checked(recording: str, collected: str, config: Config) -> "Flow":
    """The flow that both texts are. Raises UsageError that says what of it may not be, and where."""
    from harvester.sites.recording import parse_flow, refused  # other crawls need not wait for it

    flow = parse_flow(recording, collected)
    if faults := list(faults_of(flow, config)):
        raise refused("the recording", faults)
    return flow


def request_of(flow: "Flow", **meta: Any) -> Request:
    """The request for the page that a flow ends with; its row is filled in."""
    collected = flow.collected
    rendering: dict[str, Any] = {
        "steps": (),
        "capture": collected.capture,
        "timeout_s": collected.timeout_s + SPARE_S,
    }
    if collected.screenshot or collected.pdf:
        rendering["block"] = ()
    own = {RENDER: True, RENDERING: rendering, FLOW: flow.as_data()}
    return Request(flow.start_url, meta=own | meta, dont_filter=True)


async def keep_files(store: LocalStore | S3Store, folder: str, files: Sequence["File"]) -> dict[str, dict[str, Any]]:
    """Stores them, none under its name before it is whole; name -> what is known of each. Raises StorageError."""
    kept = {}
    for name, content in ((file.name, file.content) for file in files):
        path = f"{folder}/{name}"
        headers = {"Content-Type": guess_type(name)[0] or "application/octet-stream"}
        await ensure_awaitable(store.persist_file(path, BytesIO(content), headers=headers, info=cast(Any, None)))
        digest = hashlib.sha256(content).hexdigest()
        kept[name] = {"path": store.address(path), "bytes": len(content), "sha256": digest}
    return kept


def files_of(response: Response) -> list["File"]:
    """All that a flow leaves in files."""
    from harvester.browser.flow_run import File

    flown: Flown = response.meta[FLOWN]
    captured = [
        File(f"captured-{number}.{'json' if 'json' in str(each.headers.get('Content-Type')) else 'txt'}", each.body)
        for number, each in enumerate(captured_of(response), 1)
    ]
    return [*flown.files, *captured]


class FlowArguments(SpiderArguments):
    """Arguments of the spider `flow`. A job keeps the texts of both files, so that any machine can work at it."""

    recording: str = Field(
        description="a recording of Chrome's Recorder, exported as JSON, or a site whose entry names one; what to"
        " collect stands in the file of the same name that ends with .toml"
    )
    collected: str = Field("", description="another file that says what to collect")
    inputs: str = Field("", description="rows: @FILE, CSV with a header, JSON lines, or one value a line")
    column: str = Field("", description="the file's column that tells rows apart; none: `key`, `id` or `parcel_id`")

    _flow: Any = PrivateAttr(None)
    _digest: str = PrivateAttr("")

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        from harvester.sites.recording import read_files, read_text

        recording, collected = given.get("recording"), given.get("collected")
        try:
            if isinstance(recording, str) and recording and not _is_inline(recording):
                recording, beside = read_files(_file_of(recording))
                given = {"collected": beside, **given, "recording": recording}
            if isinstance(collected, str) and _is_path(collected):
                given = {**given, "collected": read_text(Path(os.path.expanduser(collected)))}
        except UsageError as error:
            raise ValueError(str(error)) from None
        return given

    @model_validator(mode="after")
    def _together(self) -> "FlowArguments":
        if self.inputs and not self.inputs.startswith("@"):
            raise ValueError(f"inputs: name a file: -a inputs=@{self.inputs}")
        if self.column and not self.inputs:
            raise ValueError("column: it is of a file, inputs=@FILE")
        return self

    def flow(self, config: Config) -> "Flow":
        """Raises UsageError."""
        if self._flow is None:
            self._flow = read_checked(self.recording, self.collected, config)
        flow: Flow = self._flow
        return flow

    def rows(self) -> Iterator[Found]:
        """Raises UsageError for a file that cannot be read or used."""
        if self.inputs:
            columns = self._flow.columns if self._flow else []
            yield from items_of_file(
                self._path, "inputs", ROW, self.column, USUAL, lambda found: missing(found, columns)
            )

    def identity(self) -> dict[str, Any]:
        if self.inputs and not self._digest:
            self._digest = digest_of(self._path)
        return {**self.kept(), "inputs": self._digest, "column": self.column}

    @classmethod
    def names_file(cls, name: str, value: str) -> bool:
        """Also without an @. What a site's entry names was put there by whoever runs this machine."""
        if name == "recording" and not _is_inline(value):
            return not _file_of_site(value)
        return super().names_file(name, value) or (name == "collected" and _is_path(value))

    def kept(self) -> dict[str, Any]:
        """Not the rows: they are items of the job."""
        return {"recording": self.recording, "collected": self.collected}

    @property
    def _path(self) -> str:
        return os.path.expanduser(self.inputs[1:])


def _is_inline(recording: str) -> bool:
    """Whether it is the text of a recording, and no file's or site's name."""
    return recording.lstrip().startswith("{")


def _is_path(collected: str) -> bool:
    """Whether it is the name of the other file, and not its text."""
    return collected.endswith(".toml")


def _file_of(recording: str) -> Path:
    """The file of that name, or the one that the entry of a site of that name names."""
    return _file_of_site(recording) or Path(os.path.expanduser(recording))


def _file_of_site(name: str) -> Path | None:
    folder, named = load_config().sites_dir, load_sites().named(name).recording
    return folder / named if folder and named else None


def missing(found: Found, columns: Sequence[str]) -> str:
    """Which columns of a recording a row lacks, in words; empty when it has all."""
    row = row_of(found.key, found.input)
    lacks = [name for name in columns if row.get(name) in (None, "")]
    return f"it has no {' and no '.join(map(repr, lacks))}, which the recording wants" if lacks else ""


def row_of(key: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row, by column; `key` is its key unless there is a column of that name."""
    return {"key": key, **given}


class FlowSpider(JobSpider):
    """Does the steps of a recording of Chrome's Recorder for each row of a table, and keeps what is collected.

    Domain: that of the recording's first page. Caveats: needs a browser; each row takes seconds, and a browser context
    of its own; files stay on the machine that fetched them, unless they are kept in S3. Arguments: see
    `harvester spiders show flow`.
    """

    name = "flow"
    Arguments = FlowArguments
    ITEM_KINDS: ClassVar[tuple[str, ...]] = (ROW,)
    arguments: FlowArguments

    @classmethod
    def parse_arguments(cls, given: dict[str, Any]) -> SpiderArguments:
        arguments = super().parse_arguments(given)
        if isinstance(arguments, FlowArguments) and "recording" in arguments.model_fields_set:
            arguments.flow(load_config())
        return arguments

    async def before(self) -> None:
        """Raises UsageError when there is no row, or one that cannot be used."""
        if not self.only and not sum(1 for _ in self.arguments.rows()):
            raise UsageError("There is no row to do the recording for. Give a file: -a inputs=@rows.csv.")

    @classmethod
    def first_items(cls, arguments: Any) -> Iterator[Found]:
        yield from arguments.rows()

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        for item in items:
            try:
                flow = self.arguments_of(item).flow(self.config).filled(row_of(item.key, item.input))
            except UsageError as error:
                yield ItemResult(item.id, "failed", Outcome.INVALID, str(error))
            else:
                key = {"key": item.key, "row": item.input}
                yield request_of(flow).replace(callback=self.parse_page, errback=self.failed, cb_kwargs=key)

    async def parse_page(self, response: Response, key: str, row: dict[str, Any]) -> AsyncIterator[Any]:
        """What was collected. Raises PageFailed when a step failed; how the page looked then is kept."""
        flown: Flown = response.meta[FLOWN]
        if flown.no_results:
            yield self._nothing(response)
            return
        recording = self.arguments_of(response).flow(self.config).recording
        files = await self._keep(response, key, files_of(response))
        if flown.failed:
            raise PageFailed(flown.outcome, flown.said(recording))
        yield {
            "_id": record_id(recording.title, key),
            "recording": recording.title,
            "row": row_of(key, row),
            "url": response.url,
            "fields": flown.fields,
            "files": files,
        }

    @errback
    async def failed(self, failure: Failure) -> AsyncIterator[Any]:
        """Keeps how a page looked that is no good answer."""
        response = getattr(failure.value, "response", None)
        if not isinstance(response, Response) or FLOWN not in response.meta:
            return
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        if verdict.outcome is Outcome.EMPTY and response.meta[FLOWN].no_results:
            yield self._nothing(response)
            return
        request: Request = failure.request  # type: ignore[attr-defined]
        await self._keep(request, request.cb_kwargs["key"], files_of(response))

    def _nothing(self, response: Response) -> ItemResult:
        return ItemResult(
            self.item_of(response).id, "done", NO_RESULTS, "the page shows that there is nothing for this row"
        )

    async def _keep(self, page: Response | Request, key: str, files: Sequence["File"]) -> dict[str, dict[str, Any]]:
        """In a folder that no two keys share, also those that are no names of files."""
        digest = hashlib.sha256(key.encode()).hexdigest()[:8]
        try:
            return await keep_files(self._store, f"{_FOLDER}/{page.meta[JOB]}/{_slug(key)}-{digest}", files)
        except StorageError as error:
            raise self.stop_for(error) from None

    @cached_property
    def _store(self) -> LocalStore | S3Store:
        store = open_store(self.config.images_store or str(self.config.data_dir))
        if isinstance(store, LocalStore):
            store.remove_leftovers(_FOLDER, older_than_s=LEFTOVER_S)
        return store


def record_id(title: str, key: str) -> str:
    """Of the record of a row. Recordings whose titles have other letters or digits share none."""
    slug = _slug(title)
    if [*filter(str.isalnum, title.lower())] != [*filter(str.isalnum, slug)]:
        slug = f"{slug}-{hashlib.sha256(title.encode()).hexdigest()[:8]}"
    return f"{slug} {key}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "flow"
