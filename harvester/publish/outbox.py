"""The outbox is part of the record: its marks stand in the record's document, and one write stores both.

`_outbox` holds `version` (1, 2, ... with each change of content), `at` (the time of the change), `content` (a digest),
`told` (the version in the last deliveries) and, while there is something to deliver, `due`. A partial index holds the
documents with `due`. MongoDB writes one document in one step, even on a server without a replica set.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import bson
from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from harvester.config import Config
from harvester.items import Record
from harvester.items.base import GONE_AT, OUTBOX
from harvester.publish.sinks import Sinks, load_sinks

Document = dict[str, Any]

PUBLISHING = "publishing"
"""Collection with the state of publishing: the lease, the sinks, and the collections that have an outbox."""
DUE = f"{OUTBOX}.due"
INDEX = "outbox"
_NO_CONTENT = frozenset(
    ["_id", "provenance", GONE_AT, OUTBOX, "media_paths", "media_sources", "media_contents"]
)  # time and place of the fetch, and fields that newer observations do not erase


class Marks:
    """Marks documents of records that a sink wants."""

    def __init__(self, sinks: Sinks) -> None:
        self._sinks = sinks

    @classmethod
    def configured(cls, config: Config) -> "Marks | None":
        """Returns None when nothing is published. Raises UsageError."""
        sinks = load_sinks(config)
        return cls(sinks) if sinks else None

    def add(self, record: Record, document: Document) -> None:
        """Adds the mark of a new record. Raises the exceptions of encoding the document as BSON."""
        if self._sinks.wanting(record.KIND, record.provenance.spider):
            at = datetime.now(UTC)
            document[OUTBOX] = {"version": 1, "content": content_of(document), "at": at, "due": at}

    async def open(self, collection: AsyncCollection[Document], kind: type[Record]) -> None:
        """Registers the collection's outbox, and creates its index."""
        await collection.create_indexes([_INDEX])
        known = {"what": "outbox", "collection": kind.COLLECTION, "kind": kind.KIND}
        await collection.database[PUBLISHING].update_one({"_id": f"outbox {kind.COLLECTION}"}, {"$set": known}, True)

    async def note_earlier(self, collection: AsyncCollection[Document], documents: Iterable[Document]) -> None:
        """Marks records that were stored while nothing was published, so that their present content is not a change
        later."""
        ids = [document["_id"] for document in documents if OUTBOX in document]
        unknown = {"_id": {"$in": ids}, OUTBOX: None}
        earlier = [
            UpdateOne(
                {"_id": stored["_id"], OUTBOX: None},
                {"$set": {OUTBOX: {"version": 0, "content": content_of(stored), "told": 0}}},
            )
            async for stored in collection.find(unknown)
        ]
        if earlier:
            await collection.bulk_write(earlier, ordered=False)


_INDEX = IndexModel([(DUE, ASCENDING)], name=INDEX, partialFilterExpression={DUE: {"$exists": True}})


def content_of(document: Mapping[str, Any]) -> str:
    """Returns a digest of a record's content, from its document."""
    content = {name: document[name] for name in sorted(document) if name not in _NO_CONTENT}
    return blake2b(bson.encode(content), digest_size=12).hexdigest()


def marking(here: Document, document: Document, kept: Iterable[str], unsets: Sequence[str]) -> UpdateOne:
    """Returns the update that sets the fields of `document` where `here` matches, and marks the record if its content
    changes.

    Fields in `kept` are merged into the stored value; fields in `unsets` are removed.
    """
    apart = {name: {"$mergeObjects": [f"${name}", {"$literal": document[name]}]} for name in kept if name in document}
    plain = {name: value for name, value in document.items() if name != OUTBOX and name not in apart}
    merged = ["$$ROOT", {"$literal": plain}, {**apart, OUTBOX: _marked(document)}]
    stages: list[Document] = [{"$replaceWith": {"$mergeObjects": merged}}]
    return UpdateOne(here, [*stages, {"$unset": list(unsets)}] if unsets else stages)


def marking_whole(here: Document, document: Document) -> UpdateOne:
    """Returns the update that replaces a document, and marks the record if its content changes."""
    plain = {name: value for name, value in document.items() if name != OUTBOX}
    return UpdateOne(here, [{"$replaceWith": {"$mergeObjects": [{"$literal": plain}, {OUTBOX: _marked(document)}]}}])


_KNOWN = f"${OUTBOX}"
_KNOWN_CONTENT = f"${OUTBOX}.content"
_NEXT_VERSION = {"$add": [{"$ifNull": [f"${OUTBOX}.version", 0]}, 1]}


def _marked(document: Document) -> Document:
    mark = document[OUTBOX]
    changed = {"$mergeObjects": [_KNOWN, {**mark, "version": _NEXT_VERSION}]}
    return {"$cond": [{"$eq": [_KNOWN_CONTENT, mark["content"]]}, _KNOWN, changed]}


async def outboxes(database: AsyncDatabase[Document]) -> list[Document]:
    """Returns `collection` and `kind` for each collection with marked records."""
    return await database[PUBLISHING].find({"what": "outbox"}).to_list()
