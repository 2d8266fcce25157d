"""The results of a job as BSON documents, for harvester's own client, which writes files and tables."""

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import bson
from bson.raw_bson import RawBSONDocument
from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from harvester.control.auth import READS
from harvester.control.context import ControllerContext, Here
from harvester.control.problems import ApiProblem, documented
from harvester.control.routes.exports import Collections
from harvester.control.routes.jobs import JobId
from harvester.items import RECORDS
from harvester.jobs.export import MANIFEST, StoredRows

router = APIRouter(prefix="/jobs/{job}/rows", tags=["jobs"])

MEDIA_TYPE = "application/vnd.harvester.rows+bson"
PIECE_BYTES = 256 * 1024
"""Bytes to send together."""

CollectionName = Annotated[str, Path(max_length=200, description="A collection of records.")]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Documents of BSON, one behind the other.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@dataclass(frozen=True, slots=True)
class FieldSeen:
    """A field of records whose fields vary."""

    name: str
    kinds: list[str]
    """Types of its values, in MongoDB's names."""


@router.get("", operation_id="list_row_collections", dependencies=[READS], responses=documented(404))
async def collections(here: Here, job: JobId) -> Collections:
    """The collections that have records of the job."""
    await here.jobs.job(job)
    return Collections(await StoredRows(here.database, job).with_records())


@router.get("/{collection}/fields", operation_id="list_fields", dependencies=[READS], responses=documented(404))
async def fields(here: Here, job: JobId, collection: CollectionName) -> list[FieldSeen]:
    """The fields that its records have there."""
    await _check(here, job, collection)
    seen = await StoredRows(here.database, job).fields_seen(collection)
    return [FieldSeen(row["_id"], row["kinds"]) for row in seen]


@router.get(
    "/{collection}",
    operation_id="stream_rows",
    dependencies=[READS],
    response_class=StreamingResponse,
    responses=documented(404) | _STREAM,
)
async def stream(here: Here, job: JobId, collection: CollectionName) -> StreamingResponse:
    """The records of the job in a collection; `manifest`: a row for each of its items. It may go on meanwhile."""
    if collection == MANIFEST:
        await here.jobs.job(job)
        return StreamingResponse(_pieces(_encoded(StoredRows(here.database, job).manifest())), media_type=MEDIA_TYPE)
    await _check(here, job, collection)
    options = here.database.codec_options.with_options(document_class=RawBSONDocument)
    rows = StoredRows(here.database.with_options(options), job)
    return StreamingResponse(_pieces(_raw(rows.records(collection))), media_type=MEDIA_TYPE)


async def _check(here: ControllerContext, job: str, collection: str) -> None:
    """Raises exceptions that lead to a 404 response."""
    await here.jobs.job(job)
    await StoredRows(here.database, job).collections()  # registers the collections of plain items
    if collection not in {kind.COLLECTION for kind in RECORDS.values()}:
        raise ApiProblem(404, "unknown", f"There is no collection {collection!r} of records.")


async def _encoded(rows: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    async for row in rows:
        yield bson.encode(row)


async def _raw(rows: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    async for row in rows:
        yield row.raw


async def _pieces(documents: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Joins documents into larger pieces, because each piece has a cost."""
    piece = bytearray()
    async for each in documents:
        piece += each
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)
