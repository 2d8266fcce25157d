"""Submitting jobs: items in JSON, or in a streamed file of any length."""

import hashlib
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from typing import Annotated, Any, cast
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints

from harvester.control.auth import OPERATES
from harvester.control.context import Here
from harvester.control.idempotency import Key, checked, fingerprint_of
from harvester.control.problems import ApiProblem, InputFault, documented
from harvester.control.responses import answered
from harvester.control.routes.jobs import JobId
from harvester.control.uploads import Upload, while_connected
from harvester.jobs.changes import LEAST_OFTEN, MOST_OFTEN
from harvester.jobs.inputs import PACKED, Input, InputFormat
from harvester.jobs.submission import Submission, Submitted
from harvester.validation import MOST_NUMBER

router = APIRouter(prefix="/jobs", tags=["jobs"])

MOST_NAMES = 1000
"""Maximum number of items to name in a request."""
FORMATS: Mapping[str, InputFormat | None] = {
    "text/csv": InputFormat.CSV,
    "application/jsonl": InputFormat.JSONL,
    "application/x-ndjson": InputFormat.JSONL,
    "text/plain": InputFormat.TEXT,
    "application/octet-stream": None,
    PACKED: None,
}
"""Input format by media type. None: detected from the content.

PACKED: items that a client has read from a larger input.
"""
_NO_JOB: dict[int | str, dict[str, Any]] = {200: {"description": "Nothing could be used.", "model": Submitted}}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_UPLOAD = {"requestBody": {"required": True, "content": dict.fromkeys(FORMATS, _BINARY)}}

Word = Annotated[str, StringConstraints(max_length=200)]
Text = Annotated[str, StringConstraints(max_length=10_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
Often = Annotated[float | None, Field(ge=LEAST_OFTEN, le=MOST_OFTEN)]


class Strict(BaseModel):
    """A body that is refused when it has a member that nobody reads."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class JobBody(Strict):
    """What is to be collected."""

    spider: Word
    """Its name."""
    arguments: dict[Word, Text] = {}
    """Of the spider, as they would be typed."""
    items: list[Name | StrictInt | dict[str, Any]] = Field(min_length=1)
    """Keys, or objects that hold one."""
    kind: Word = ""
    """Of the items; empty: the spider's first."""
    key: Word = ""
    """Which member of the objects is the key; empty: `key`."""
    priority: int = Field(0, ge=-MOST_NUMBER, le=MOST_NUMBER)
    """Jobs with a larger one go first."""
    max_items: int | None = Field(None, ge=1, le=MOST_NUMBER)
    """The most items of the kind that are worked at."""
    name: Word = ""
    """What the job is called, for people."""
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Submitted with it once more, items come to the same job. None: the header's, which is of this request alone."""


class ItemsBody(Strict):
    """Items for a job."""

    items: list[Name | StrictInt | dict[str, Any]] = Field(min_length=1)
    """Keys, or objects that hold one."""
    kind: Word = ""
    key: Word = ""
    often: Often = None
    """How many times as often as the policy of a standing job says they are looked at."""


class NamedBody(Strict):
    """Items of a job, by id or key."""

    items: list[Name] = Field(min_length=1, max_length=MOST_NAMES)


class ChangeItemsBody(NamedBody):
    """What is changed of them."""

    input: dict[Word, Text] = {}
    """What is set in what they already have; an empty text takes a value away."""
    often: Often = None


@dataclass(frozen=True, slots=True)
class ChangedItems:
    """So many items."""

    items: int


@router.post(
    "",
    operation_id="submit_job",
    status_code=201,
    dependencies=[OPERATES],
    responses=documented(404, 409, 413, 507) | _NO_JOB,
)
async def submit(here: Here, request: Request, body: JobBody, idempotency_key: Key = None) -> Submitted:
    """Make a job of the items in the body. Those that cannot be used are named and left out.

    201: there is a job. 200: nothing could be used, and there is none.
    """
    key = checked(idempotency_key)
    lines = _lines(body.items)
    wanted = Submission(
        spider=body.spider,
        arguments=_arguments(body.arguments),
        kind=body.kind,
        priority=body.priority,
        max_items=body.max_items,
        name=body.name,
        idempotency_key=body.idempotency_key or key,
    )

    async def act(_: str) -> Response:
        return _submitted(await here.jobs.submit_upload(wanted, lines, Input("body", InputFormat.JSONL, body.key)))

    return await here.keys.once(key, fingerprint_of(request, digest_of(body)), act)  # type: ignore[return-value]


@router.post(
    "/upload",
    operation_id="upload_job",
    status_code=201,
    dependencies=[OPERATES],
    responses=documented(404, 408, 409, 413, 415, 507) | _NO_JOB,
    openapi_extra=_UPLOAD,
)
async def upload(
    here: Here,
    request: Request,
    spider: Annotated[Word, Query(description="Name of the spider.")],
    argument: Annotated[list[Text], Query(description="NAME=VALUE, of the spider.")] = [],  # noqa: B006
    kind: Annotated[Word, Query(description="Of the items; empty: the spider's first.")] = "",
    key: Annotated[Word, Query(description="Column or field that holds the key of an item.")] = "",
    priority: Annotated[int, Query(ge=-MOST_NUMBER, le=MOST_NUMBER)] = 0,
    max_items: Annotated[int | None, Query(ge=1, le=MOST_NUMBER)] = None,
    name: Annotated[Word, Query(description="What the job is called, for people.")] = "",
    job_key: Annotated[Word, Query(description="As `idempotency_key` of a JSON body.")] = "",
    idempotency_key: Key = None,
) -> Submitted:
    """Make a job of a file: CSV with a header, JSON lines or lines of text, also with `Content-Encoding: gzip`."""
    header = checked(idempotency_key)
    wanted = Submission(
        spider, _arguments(_pairs(argument)), kind, priority, max_items, name, idempotency_key=job_key or header
    )
    given = Input("body", _form(request), key)
    async with here.uploads.take(request) as body:

        async def act(_: str) -> Response:
            if _media_type(request) == PACKED:
                return _submitted(await here.jobs.submit_packed(wanted, body.file))
            return _submitted(await here.jobs.submit_upload(wanted, body.file, given))

        done = here.keys.once(header, _fingerprint_of(request, body), act)
        return await while_connected(request, done)  # type: ignore[return-value]


@router.post("/{job}/items", operation_id="add_items", dependencies=[OPERATES], responses=documented(404, 409, 413))
async def add(here: Here, job: JobId, body: ItemsBody) -> Submitted:
    """Add items to a job. One that was removed is there again. Adding twice is adding once."""
    given = Input("body", InputFormat.JSONL, body.key)
    return await here.jobs.add_upload(job, _lines(body.items), given, body.kind, body.often)


@router.post(
    "/{job}/items/upload",
    operation_id="upload_items",
    dependencies=[OPERATES],
    responses=documented(404, 408, 409, 413, 415, 507),
    openapi_extra=_UPLOAD,
)
async def add_upload(
    here: Here,
    request: Request,
    job: JobId,
    kind: Annotated[Word, Query()] = "",
    key: Annotated[Word, Query()] = "",
    often: Annotated[float | None, Query(ge=LEAST_OFTEN, le=MOST_OFTEN)] = None,
    idempotency_key: Key = None,
) -> Submitted:
    """Add the items of a file to a job. It needs no Idempotency-Key: adding twice is adding once.

    With one, whoever asks again is told what was new the first time.
    """
    header = None if idempotency_key is None else checked(idempotency_key)
    given = Input("body", _form(request), key)
    async with here.uploads.take(request) as body:

        async def act(_: str) -> Response:
            if _media_type(request) == PACKED:
                return answered(await here.jobs.add_packed(job, body.file, kind, often))
            return answered(await here.jobs.add_upload(job, body.file, given, kind, often))

        done: Coroutine[Any, Any, Any] = (
            act("") if header is None else here.keys.once(header, _fingerprint_of(request, body), act)
        )
        return await while_connected(request, done)  # type: ignore[return-value]


@router.post("/{job}/items/remove", operation_id="remove_items", dependencies=[OPERATES], responses=documented(404))
async def remove(here: Here, job: JobId, body: NamedBody) -> ChangedItems:
    """Take items out of a job. Their records stay; what is being worked at comes to its end."""
    return ChangedItems(await here.jobs.remove(job, body.items))


@router.post(
    "/{job}/items/change", operation_id="change_items", dependencies=[OPERATES], responses=documented(404, 409)
)
async def change(here: Here, job: JobId, body: ChangeItemsBody) -> ChangedItems:
    """Change what items of a job ask for, or how often they are looked at."""
    if not body.input and body.often is None:
        raise ApiProblem(
            422, "invalid", "Give input, often, or both.", errors=[InputFault("/body", "nothing is changed")]
        )
    return ChangedItems(await here.jobs.change(job, body.items, _arguments(body.input), body.often, foreign=True))


def location_of(job: str) -> str:
    """Returns the path of a job."""
    return f"/api/v1/jobs/{quote(job, safe='')}"


def digest_of(body: BaseModel) -> str:
    """Returns the digest that tells two bodies apart."""
    return hashlib.sha256(json.dumps(body.model_dump(mode="python"), default=str).encode()).hexdigest()


def _fingerprint_of(request: Request, body: Upload) -> str:
    """Returns the fingerprint of an upload.

    It includes the format, because the same bytes mean other items in another format.
    """
    return fingerprint_of(request, f"{body.digest} {_media_type(request)}")


def _submitted(submitted: Submitted) -> Response:
    if submitted.job is None:
        return answered(submitted)
    return answered(submitted, 201, location_of(submitted.job))


def _lines(items: list[Any]) -> "BufferedReader[Any]":
    """Returns the items as JSON lines, to be read like a file."""
    return BufferedReader(cast(Any, BytesIO("\n".join(map(json.dumps, items)).encode())))


def _form(request: Request) -> InputFormat | None:
    media_type = _media_type(request)
    if media_type not in FORMATS:
        raise ApiProblem(415, "media_type", f"Give a Content-Type: one of {', '.join(FORMATS)}.")
    return FORMATS[media_type]


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise ApiProblem(422, "invalid", f"{name!r} is no NAME=VALUE.", errors=[InputFault("/query/argument", "")])
    return {name: value for name, _, value in pairs}


def _arguments(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the arguments.

    Raises ApiProblem for a value that names a local file: remote clients must not read files.
    """
    for name, value in given.items():
        if value.lstrip().startswith("@"):
            said = f"{name}: a file of the controller's machine is not read for whoever asks from elsewhere. Upload it."
            raise ApiProblem(422, "invalid", said, errors=[InputFault(f"/arguments/{name}", "names a file")])
    return dict(given)
