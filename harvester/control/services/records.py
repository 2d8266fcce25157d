"""Stored records: their number by kind, the newest, a search by key prefix, single records, and their files."""

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from pymongo.asynchronous.collection import AsyncCollection

from harvester.exceptions import UnknownRecord, UsageError
from harvester.items import RECORDS, Record
from harvester.items.base import GONE_AT, OUTBOX
from harvester.items.other import know_collections
from harvester.jobs.service import JobService
from harvester.stores.objects import places_of, stored_path
from harvester.stores.tables import in_json
from harvester.validation import did_you_mean

Document = Mapping[str, Any]

MOST = 100
"""Maximum number of records in a response."""
MOST_TEXT, MOST_WHOLE_TEXT = 500, 100_000
"""Maximum number of characters of a text, in a list of records and in a record that is shown complete."""
MOST_PARTS, MOST_WHOLE_PARTS = 20, 1000
"""Maximum number of elements of a list or table in a record.

The first is for lists of records, the second for a record that is shown complete.
"""
DEEPEST = 8
"""Maximum number of nested levels of a record to show."""
MOST_KEY = 1000
"""Maximum number of characters of a key in a search."""
CUT = "..."
"""Marks a place where something was cut."""
_MEDIA_TYPES = {
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
"""Media types by suffix, for the files that harvester writes in these formats. Other files are served as bytes."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Records of a kind."""

    name: str
    kind: str
    plural: str
    records: int
    """Number of records, as estimated by MongoDB."""
    bytes: int
    """Bytes that MongoDB uses for the records and their indexes."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as MongoDB holds it."""

    key: str
    url: str
    """The URL where the record was observed."""
    fetched_at: datetime | None
    spider: str
    item: str
    """Id of the job item that produced it; empty if several did, or none."""
    gone_at: datetime | None
    """Time since the record is missing from its site."""
    fields: dict[str, Any]
    """Fields as in JSON. Values that are too long or too deep are cut and end with CUT."""
    files: dict[str, str]
    """Slot of the file -> its path below the images location."""


@dataclass(frozen=True, slots=True)
class RecordsPage:
    """Some records of a collection."""

    records: list[StoredRecord]
    next: str | None
    """Key to continue after. None: the last page, or a list that is not sorted by key."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a record, open for reading. The caller closes it."""

    file: BinaryIO
    size: int
    media_type: str
    name: str


class RecordKinds:
    """All kinds of records that the project defines or the database holds."""

    def __init__(self, service: JobService) -> None:
        self._config = service.config
        self._database = service.database

    async def collections(self) -> list[Collection]:
        """Returns the collections with at least one record, by name."""
        there = set(await self._database.list_collection_names())
        know_collections(there)
        kinds = sorted(
            (kind for kind in RECORDS.values() if kind.COLLECTION in there), key=lambda kind: kind.COLLECTION
        )
        found = await asyncio.gather(*(self._collection(kind) for kind in kinds))
        return [each for each in found if each.records]

    async def newest(self, collection: str, most: int = 20) -> RecordsPage:
        """Returns the records that were stored last, the newest first.

        Raises UnknownRecord for an unknown collection.
        """
        records = await self._named(collection)
        rows = await records.find({}, {OUTBOX: 0}, sort=[("$natural", -1)], limit=min(most, MOST)).to_list()
        return RecordsPage([_record(row) for row in rows], None)

    async def search(self, collection: str, key: str = "", after: str = "", most: int = 20) -> RecordsPage:
        """Returns records with a key that starts with `key`, in the order of keys, after `after`.

        Raises UnknownRecord, UsageError.
        """
        records = await self._named(collection)
        if len(key) > MOST_KEY:
            raise UsageError(f"key: give at most {MOST_KEY:,} characters.")
        if "\0" in key:  # MongoDB refuses it in an expression, and no key contains it
            return RecordsPage([], None)
        query: dict[str, Any] = {"_id": {"$regex": f"^{re.escape(key)}"} if key else {"$gt": ""}}
        if after:
            query = {"$and": [query, {"_id": {"$gt": after}}]}
        most = min(most, MOST)
        rows = await records.find(query, {OUTBOX: 0}, sort=[("_id", 1)], limit=most + 1).to_list()
        return RecordsPage([_record(row) for row in rows[:most]], rows[most - 1]["_id"] if len(rows) > most else None)

    async def record(self, collection: str, key: str) -> StoredRecord:
        """Returns the record with this key, as complete as it can be shown. Raises UnknownRecord."""
        records = await self._named(collection)
        row = await records.find_one({"_id": key}, {OUTBOX: 0})
        if row is None:
            raise UnknownRecord(f"{collection} have none with the key {key[:MOST_KEY]!r}.")
        return _record(row, MOST_WHOLE_TEXT, MOST_WHOLE_PARTS)

    async def file(self, collection: str, key: str, slot: str) -> StoredFile:
        """Opens a file of a record. Raises UnknownRecord, or UsageError when files are not stored in a local folder."""
        found = await self.record(collection, key)
        if slot not in found.files:
            raise UnknownRecord(f"{key!r} of {collection} has no file {slot!r}.")
        location = self._config.images_location
        if "://" in location:
            raise UsageError(f"The files of records are in {location}, and not in a folder of this machine.")
        return await asyncio.to_thread(open_file, Path(location), found.files[slot])

    async def _collection(self, kind: type[Record]) -> Collection:
        stats = await (await self._database[kind.COLLECTION].aggregate(_STATS)).to_list()
        count, size = (sum(int(each.get(name, 0)) for each in stats) for name in ("count", "size"))
        return Collection(kind.COLLECTION, kind.KIND, kind.PLURAL, count, size)

    async def _named(self, name: str) -> AsyncCollection[dict[str, Any]]:
        if not any(name == kind.COLLECTION for kind in RECORDS.values()):
            know_collections(await self._database.list_collection_names())
        known = sorted(kind.COLLECTION for kind in RECORDS.values())
        if name not in known:
            raise UnknownRecord(f"There are no records {name[:MOST_KEY]!r}{did_you_mean(name, known) or '.'}")
        return self._database[name]


_STATS: list[dict[str, Any]] = [
    {"$collStats": {"storageStats": {}}},
    {"$project": {"count": "$storageStats.count", "size": "$storageStats.totalSize"}},
]
"""Reads MongoDB's own statistics, without reading records; a sharded collection gives one row per shard."""


def open_file(folder: Path, path: str) -> StoredFile:
    """Opens a file below the folder.

    Raises UnknownRecord for a path that no record may have, or a link that leads outside.
    """
    there_is_none = UnknownRecord(f"There is no file {path[:MOST_KEY]!r}.")
    if stored_path(path) is None:
        raise there_is_none
    try:
        place = folder.resolve(strict=True)
        known = next(filter(os.path.exists, (place / each for each in places_of(path))), place)
        found = known.resolve(strict=True)
        if not found.is_relative_to(place) or not found.is_file():
            raise there_is_none
        file = found.open("rb")
    except (OSError, ValueError):
        raise there_is_none from None
    size = os.fstat(file.fileno()).st_size
    return StoredFile(file, size, _MEDIA_TYPES.get(found.suffix, "application/octet-stream"), found.name)


def _record(row: Document, most_text: int = MOST_TEXT, most_parts: int = MOST_PARTS) -> StoredRecord:
    provenance = row.get("provenance") or {}
    fields = {name: value for name, value in row.items() if name not in ("_id", "provenance", "media_paths", GONE_AT)}
    return StoredRecord(
        key=str(row["_id"]),
        url=provenance.get("url", ""),
        fetched_at=provenance.get("fetched_at"),
        spider=provenance.get("spider", ""),
        item=provenance.get("item", ""),
        gone_at=row.get(GONE_AT),
        fields={name: _shown(value, most_text, most_parts, DEEPEST) for name, value in fields.items()},
        files={slot: str(path) for slot, path in (row.get("media_paths") or {}).items()},
    )


def _shown(value: Any, most_text: int, most_parts: int, deepest: int) -> Any:
    """Converts a value to its JSON form and cuts it to the limits."""
    if isinstance(value, str):
        return value if len(value) <= most_text else value[:most_text] + CUT
    if isinstance(value, dict):
        shown = {
            str(name): _shown(part, most_text, most_parts, deepest - 1) if deepest else CUT
            for name, part in list(value.items())[:most_parts]
        }
        return shown | ({CUT: CUT} if len(value) > most_parts else {})
    if isinstance(value, list):
        parts = [_shown(part, most_text, most_parts, deepest - 1) if deepest else CUT for part in value[:most_parts]]
        return [*parts, CUT] if len(value) > most_parts else parts
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or type(value) in (bool, int, float) else in_json(value)
