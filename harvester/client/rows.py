"""The rows of a job, streamed by a controller as BSON documents, so that each value keeps its type."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError

from harvester.client.connection import ControllerConnection
from harvester.exceptions import ServiceError, UsageError
from harvester.items import RECORDS
from harvester.items.other import know_collections
from harvester.jobs.documents import Document
from harvester.jobs.export import MANIFEST
from harvester.project import spider_loader

MOST_BYTES = 1 << 30
"""Maximum number of bytes of a document. A row of the manifest may name a million records and files of an item."""
_HEAD_BYTES = 4
_AWARE: CodecOptions[Document] = CodecOptions(tz_aware=True)


@dataclass(frozen=True, slots=True)
class _Collections:
    names: list[str]


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kinds: list[str]


class RemoteRows:
    """Streams the rows of a job from a controller."""

    def __init__(self, connection: ControllerConnection, path: str, codec: CodecOptions[Document] = _AWARE) -> None:
        self._connection = connection
        self._path = path
        self._codec = codec

    async def collections(self) -> list[str]:
        """Returns the collections with records of the job. Raises UsageError for kinds that this project lacks."""
        spider_loader()  # importing the spiders also registers the record kinds of the project
        names = (await self._connection.ask("GET", self._path, _Collections)).names
        know_collections(names)
        if unknown := set(names) - {kind.COLLECTION for kind in RECORDS.values()}:
            raise UsageError(
                f"Records in {', '.join(sorted(unknown))} are of a kind that this project does not have: export them"
                " where the controller's project is."
            )
        return names

    async def fields_seen(self, collection: str) -> list[Document]:
        path = f"{self._path}/{quote(collection, safe='')}/fields"
        found = await self._connection.ask("GET", path, list[_Field])
        return [{"_id": each.name, "kinds": each.kinds} for each in found]

    def records(self, collection: str) -> AsyncIterator[Document]:
        return self._documents(collection)

    def manifest(self) -> AsyncIterator[Document]:
        return self._documents(MANIFEST)

    async def _documents(self, name: str) -> AsyncIterator[Document]:
        buffer = bytearray()
        async with self._connection.stream(f"{self._path}/{quote(name, safe='')}") as answer:
            async for chunk in answer.aiter_bytes():
                buffer += chunk
                at = 0
                while (end := at + _size_at(buffer, at)) <= len(buffer):
                    yield self._decoded(bytes(buffer[at:end]))
                    at = end
                del buffer[:at]
        if buffer:
            raise ServiceError(f"The controller at {self._connection.access.url} broke off within a row. Try again.")

    def _decoded(self, raw: bytes) -> dict[str, Any]:
        try:
            return bson.decode(raw, self._codec)
        except BSONError as error:
            raise ServiceError(f"A row of the controller at {self._connection.access.url} is none: {error}.") from None


def _size_at(buffer: bytearray, at: int) -> int:
    """Returns the size of the document at this place, or more than the buffer holds when the size is not known yet."""
    if len(buffer) - at < _HEAD_BYTES:
        return _HEAD_BYTES + 1
    size = int.from_bytes(buffer[at : at + _HEAD_BYTES], "little")
    if not _HEAD_BYTES < size <= MOST_BYTES:
        raise ServiceError("The controller sends what are no rows.")
    return size
