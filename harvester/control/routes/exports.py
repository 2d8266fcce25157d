"""The results of a job as streams: its records, and the manifest of its items."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse

from harvester.control.auth import READS
from harvester.control.context import Here
from harvester.control.problems import ApiProblem, documented
from harvester.control.routes.jobs import JobId
from harvester.jobs.export import MANIFEST, Exporter, StoredRows
from harvester.stores.tables import PLAIN_CSV, Format

router = APIRouter(prefix="/jobs/{job}", tags=["jobs"])

MEDIA_TYPES = {Format.JSONL: "application/jsonl", Format.CSV: "text/csv; charset=utf-8"}
Streamed = Annotated[Literal["jsonl", "csv"], Query(alias="format")]
EscapeFormulas = Annotated[
    bool, Query(description="In CSV, puts ' before texts that a spreadsheet program would run as a formula.")
]
_LINES: dict[str, Any] = {"schema": {"type": "string"}}
_STREAMS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A row a line. One that is cut short was not whole: its last chunk is missing.",
        "content": {"application/jsonl": _LINES, "text/csv": _LINES},
    }
}


@dataclass(frozen=True, slots=True)
class Collections:
    """Of a job."""

    names: list[str]


@router.get("/collections", operation_id="list_collections", dependencies=[READS], responses=documented(404))
async def collections(here: Here, job: JobId) -> Collections:
    """The collections that have records of the job: what can be exported."""
    await here.jobs.job(job)
    return Collections(await StoredRows(here.database, job).with_records())


@router.get(
    "/manifest",
    operation_id="export_manifest",
    dependencies=[READS],
    response_class=StreamingResponse,
    responses=documented(404) | _STREAMS,
)
async def manifest(
    here: Here, job: JobId, form: Streamed = "jsonl", escape_formulas: EscapeFormulas = False
) -> StreamingResponse:
    """A row for each item of the job: what it is, how it ended, where its records and files lie."""
    return await _streamed(here, job, MANIFEST, Format(form), escape_formulas)


@router.get(
    "/export/{collection}",
    operation_id="export_records",
    dependencies=[READS],
    response_class=StreamingResponse,
    responses=documented(404) | _STREAMS,
)
async def export(
    here: Here,
    job: JobId,
    collection: Annotated[str, Path(max_length=200)],
    form: Streamed = "jsonl",
    escape_formulas: EscapeFormulas = False,
) -> StreamingResponse:
    """The records of the job in one collection. The job may go on meanwhile."""
    await here.jobs.job(job)
    if not await StoredRows(here.database, job).are_in(collection):
        raise ApiProblem(404, "unknown", f"{job} has no records in a collection {collection!r}.")
    return await _streamed(here, job, collection, Format(form), escape_formulas)


async def _streamed(here: Here, job: str, name: str, form: Format, escape_formulas: bool) -> StreamingResponse:
    await here.jobs.job(job)
    if escape_formulas and form is not Format.CSV:
        raise ApiProblem(422, "invalid", "escape_formulas is for format=csv.")
    options = PLAIN_CSV._replace(escape_formulas=escape_formulas)
    chunks = Exporter(StoredRows(here.database, job), [name]).stream(form, options)
    first = await anext(chunks)  # errors before the first row still change the status

    async def lines() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
    return StreamingResponse(lines(), media_type=MEDIA_TYPES[form], headers=headers)
