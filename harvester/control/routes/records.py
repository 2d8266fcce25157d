"""Stored records: their number, a selection, one record, and its files."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse

from harvester.control.auth import READS
from harvester.control.context import Here
from harvester.control.cursors import After, cursor_of, place_of
from harvester.control.problems import documented
from harvester.control.services.records import (
    MOST,
    MOST_KEY,
    Collection,
    RecordKinds,
    RecordsPage,
    StoredFile,
    StoredRecord,
)

router = APIRouter(prefix="/records", tags=["records"])

CHUNK_BYTES = 1 << 18
Name = Annotated[str, Path(max_length=200, description="Name of the collection.")]
LONGEST_KEY = 10_000
"""Maximum number of characters of a record's key, which may be a URL."""
Key = Annotated[str, Query(min_length=1, max_length=LONGEST_KEY, description="Key of the record.")]
Most = Annotated[int, Query(ge=1, le=MOST, description="The most that are listed.")]
_BINARY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_ALONE = {"content-security-policy": "sandbox; default-src 'none'", "cross-origin-resource-policy": "same-origin"}
"""Headers of foreign files: they run nothing, wherever they are opened."""


@router.get("", operation_id="list_record_kinds", dependencies=[READS])
async def list_record_kinds(here: Here) -> list[Collection]:
    """Kinds of records, and about how many there are of each."""
    return await RecordKinds(here.jobs).collections()


@router.get("/{collection}", operation_id="search_records", dependencies=[READS], responses=documented(404))
async def search_records(
    here: Here,
    collection: Name,
    key: Annotated[str, Query(max_length=MOST_KEY, description="With what their keys begin; empty: all.")] = "",
    limit: Most = 20,
    after: After = "",
) -> RecordsPage:
    """In the order of their keys. What is long is cut."""
    place = place_of(after, str, collection, key) if after else ""
    page = await RecordKinds(here.jobs).search(collection, key, str(place), limit)
    return replace(page, next=cursor_of(page.next, collection, key)) if page.next else page


@router.get("/{collection}/newest", operation_id="newest_records", dependencies=[READS], responses=documented(404))
async def newest_records(here: Here, collection: Name, limit: Most = 20) -> RecordsPage:
    """Those that were stored last, the last first. What is long is cut."""
    return await RecordKinds(here.jobs).newest(collection, limit)


@router.get("/{collection}/record", operation_id="show_record", dependencies=[READS], responses=documented(404))
async def show_record(here: Here, collection: Name, key: Key) -> StoredRecord:
    """One record, whole as far as that can be shown."""
    return await RecordKinds(here.jobs).record(collection, key)


@router.get(
    "/{collection}/file",
    operation_id="read_file",
    dependencies=[READS],
    responses=documented(404) | {200: {"description": "The file.", **_BINARY}},
    response_class=StreamingResponse,
)
async def read_file(
    here: Here,
    collection: Name,
    key: Key,
    slot: Annotated[str, Query(min_length=1, max_length=MOST_KEY, description="Which of its files.")],
) -> StreamingResponse:
    """A picture or document of a record."""
    found = await RecordKinds(here.jobs).file(collection, key, slot)
    headers = {
        "content-length": str(found.size),
        "content-disposition": f"inline; filename*=UTF-8''{quote(found.name, safe='')}",
        **_ALONE,
    }
    return StreamingResponse(_chunks(found), media_type=found.media_type, headers=headers)


def _chunks(found: StoredFile) -> Iterator[bytes]:
    with found.file:
        left = found.size
        while left and (chunk := found.file.read(min(left, CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk
