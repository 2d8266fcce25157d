"""The spider `flow`: replays a recorded browser flow once for each row of a table."""

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
from harvester.internal_meta import FLOW, FLOWN
from harvester.items import Found, ItemResult
from harvester.jobs.documents import JobItem
from harvester.jobs.inputs import digest_of, items_of_file
from harvester.meta import JOB, RENDER, RENDERING
from harvester.outcomes import Outcome, verdict_of
from harvester.sites import load_sites
from harvester.spiders.base import SpiderArguments
from harvester.spiders.job import JobSpider, errback
from harvester.stores.objects import LEFTOVER_S, LocalStore, S3Store, open_store

if TYPE_CHECKING:
    from harvester.browser.flow_run import File, Flown
    from harvester.sites.recording import Flow

ROW = "row"
"""Kind of an item: a row of a table. Its key is unique in the table."""
NO_RESULTS = "no_results"
"""Outcome of a row that the site has no results for."""
SPARE_S = 30.0
"""Seconds that a page may take beside its steps: to start, and for a screenshot when a step has failed."""
_FOLDER = "flows"
"""Folder below the place where files are stored."""
USUAL = ("key", "id", "parcel_id")
"""Columns that identify rows when no column is named."""


def faults_of(flow: "Flow", config: Config) -> Iterator[str]:
    """Yields the forbidden actions in the recording of a flow, each with the number of the step."""
    yield from flow.faults()
    for number, step in enumerate(flow.recording.steps, 1):
        if step.type == "navigate" and (private := refuse_private(step.url, config)):
            yield f"step {number} (navigate): {private}"


def read_checked(recording: str, collected: str, config: Config) -> "Flow":
    """Parses a flow from both texts. Raises UsageError that names each fault and its place."""
    from harvester.sites.recording import parse_flow, refused  # imported late: other crawls need not wait for it

    flow = parse_flow(recording, collected)
    if faults := list(faults_of(flow, config)):
        raise refused("the recording", faults)
    return flow


def request_of(flow: "Flow", **meta: Any) -> Request:
    """Returns the request that runs a flow, whose row is filled in already, and ends at the flow's last page."""
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
    """Stores files, each under its name only when it is complete; raises StorageError.

    Returns the path, size and SHA-256 of every file, by name.
    """
    kept = {}
    for name, content in ((file.name, file.content) for file in files):
        path = f"{folder}/{name}"
        headers = {"Content-Type": guess_type(name)[0] or "application/octet-stream"}
        await ensure_awaitable(store.persist_file(path, BytesIO(content), headers=headers, info=cast(Any, None)))
        digest = hashlib.sha256(content).hexdigest()
        kept[name] = {"path": store.address(path), "bytes": len(content), "sha256": digest}
    return kept


def files_of(response: Response) -> list["File"]:
    """Returns all files that a flow leaves: screenshots, PDFs, and captured responses."""
    from harvester.browser.flow_run import File

    flown: Flown = response.meta[FLOWN]
    captured = [
        File(f"captured-{number}.{'json' if 'json' in str(each.headers.get('Content-Type')) else 'txt'}", each.body)
        for number, each in enumerate(captured_of(response), 1)
    ]
    return [*flown.files, *captured]


class FlowArguments(SpiderArguments):
    """Arguments of the spider `flow`. A job saves the texts of both files, so that any machine can process it."""

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
        """Returns the parsed flow. Raises UsageError when it has faults."""
        if self._flow is None:
            self._flow = read_checked(self.recording, self.collected, config)
        flow: Flow = self._flow
        return flow

    def rows(self) -> Iterator[Found]:
        """Yields an item for each row. Raises UsageError for a file that cannot be read or used."""
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
        """Returns True also for a path without an @. A recording that a site's entry names is allowed: the operator
        added it.
        """
        if name == "recording" and not _is_inline(value):
            return not _file_of_site(value)
        return super().names_file(name, value) or (name == "collected" and _is_path(value))

    def kept(self) -> dict[str, Any]:
        """Leaves out the rows: they are items of the job."""
        return {"recording": self.recording, "collected": self.collected}

    @property
    def _path(self) -> str:
        return os.path.expanduser(self.inputs[1:])


def _is_inline(recording: str) -> bool:
    """Returns True if the argument is the text of a recording, not the name of a file or a site."""
    return recording.lstrip().startswith("{")


def _is_path(collected: str) -> bool:
    """Returns True if the argument is the path of the TOML file, not its text."""
    return collected.endswith(".toml")


def _file_of(recording: str) -> Path:
    """Returns the recording that a site's entry of this name refers to, or else the file of this name."""
    return _file_of_site(recording) or Path(os.path.expanduser(recording))


def _file_of_site(name: str) -> Path | None:
    folder, named = load_config().sites_dir, load_sites().named(name).recording
    return folder / named if folder and named else None


def missing(found: Found, columns: Sequence[str]) -> str:
    """Names the columns of the recording that a row lacks; empty when it has all."""
    row = row_of(found.key, found.input)
    lacks = [name for name in columns if row.get(name) in (None, "")]
    return f"it has no {' and no '.join(map(repr, lacks))}, which the recording wants" if lacks else ""


def row_of(key: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a row by column. `key` is the row's key unless a column has this name."""
    return {"key": key, **given}


class FlowSpider(JobSpider):
    """Replays a recording of Chrome's Recorder for each row of a table, and saves the collected fields and files.

    Domain: the recording's first page. Caveats: needs a browser; each row takes seconds, and a separate browser
    context; files stay on the machine that fetched them, unless they are stored in S3. Arguments: see `harvester
    spiders show flow`.
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
        """Raises UsageError when the file has no rows or a bad one."""
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
        """Yields the collected fields and files. Raises PageFailed when a step failed, after saving its screenshot."""
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
        """Saves the screenshot of a page that failed."""
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
        """Stores files in a folder that is unique to the key, even when the key cannot be a file name."""
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
    """Returns the id of a row's record. Two recordings whose titles differ in a letter or digit share no id."""
    slug = _slug(title)
    if [*filter(str.isalnum, title.lower())] != [*filter(str.isalnum, slug)]:
        slug = f"{slug}-{hashlib.sha256(title.encode()).hexdigest()[:8]}"
    return f"{slug} {key}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "flow"
