"""The records: typed, validated where they are constructed, each with a natural key and its provenance.

A record is a frozen msgspec Struct. `key` is its `_id` in MongoDB, so the same thing observed twice is one document.
`raw` is the part of the answer it was read from; it is staged on disk and never written to MongoDB. Records are never
in a cycle, so the garbage collector need not look at them (gc=False).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from harvester.exceptions import InvalidRecordError
from harvester.items.found import Found, Said, Stage

_is_did = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]{1,2000}").fullmatch
_is_at_uri = re.compile(r"at://did:[a-z]+:[A-Za-z0-9._:%-]+/[a-zA-Z0-9.-]+/[A-Za-z0-9._~:-]{1,512}").fullmatch


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a site says of the use of a page: `allowed`, `refused` or `unknown`."""

    training: str = "unknown"
    """For training models."""
    mining: str = "unknown"
    """For mining text and data."""
    signals: tuple[str, ...] = ()
    """The words it was told from, as found."""


class Provenance(Struct, frozen=True, omit_defaults=True, gc=False, cache_hash=True):
    """Where and when a record was observed. One object is shared by all records of a page."""

    url: str
    """The address asked."""
    fetched_at: datetime
    """UTC."""
    spider: str
    crawl: str
    """Identifier of the crawl in the ledger."""
    usage: Usage | None = None
    """None: nothing was said, or nobody looked."""


class Media(NamedTuple):
    """A picture to be fetched for a record."""

    url: str
    path: str
    """Where it is stored, below the images location."""
    slot: str
    """Which of the record's pictures it is: `avatar`, `banner`, or the index of an image."""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all records. Raises InvalidRecordError when a value breaks a rule of its type."""

    KIND: ClassVar[str]
    """Singular name, used for staging folders and stats."""
    COLLECTION: ClassVar[str]
    """MongoDB collection."""
    KEY: ClassVar[tuple[str, ...]] = ("uri",)
    """Fields that make the natural key."""
    CLEANED: ClassVar[Mapping[str, str]] = {}
    """Field of untouched text -> field of its cleaned form, which the clean pipeline fills."""
    COVERED: ClassVar[tuple[str, ...]] = ()
    """Fields whose coverage the monitors watch."""
    INDEXES: ClassVar[Sequence[tuple[str, ...]]] = ()
    """Fields of each MongoDB index beside `_id`."""

    did: str
    """The account whose record it is."""
    provenance: Provenance
    media_paths: dict[str, str] = {}
    """Stored pictures: slot -> path below the images location."""
    media_sources: dict[str, str] = {}
    """Slot -> address a stored picture came from. Only where the path stays while the picture changes."""
    opt_outs: tuple[str, ...] = ()
    """What the account declared against being collected, as found."""
    raw: bytes = b""
    """JSON this record was read from."""

    def __post_init__(self) -> None:
        if not _is_did(self.did):
            raise InvalidRecordError(f"{self.KIND}: {self.did!r} is not a DID")
        if self.KEY == ("uri",) and not _is_at_uri(self.key):
            raise InvalidRecordError(f"{self.KIND}: {self.key!r} is not an at:// address")

    @property
    def key(self) -> str:
        """The natural key, `_id` in MongoDB."""
        names = self.KEY
        if len(names) > 1:
            return " ".join([getattr(self, name) for name in names])
        key: str = getattr(self, names[0])
        return key

    def media(self) -> list[Media]:
        """The pictures that belong to this record."""
        return []

    def to_document(self) -> dict[str, Any]:
        """The MongoDB document, without `raw`. Datetimes stay datetimes; absent values are left out."""
        document: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(datetime, bytes))
        document.pop("raw", None)
        document["_id"] = self.key
        return document


LINK = "link"
"""Kind of a reject that would have been no record, but a request."""


class Reject(NamedTuple):
    """Part of an answer that could not become a record, or a record that breaks a rule across its fields."""

    kind: str
    """KIND of the record it would have been, or LINK."""
    reason: str
    key: str
    """Natural key as far as it is known, else empty."""
    raw: bytes
    """JSON it was read from."""
    url: str
    """The address asked."""


class Batch(NamedTuple):
    """What one answer yielded. It travels through the item pipelines as one item."""

    records: list[Record]
    ledger: list[Any]
    """Changes of the ledger that may be made when, and only when, the records are confirmed."""
    rejects: tuple[Reject, ...] = ()
    job: str = ""
    """For which the page was fetched, if for any."""
    items: tuple[tuple[str, int], ...] = ()
    """Of the job, for which it was fetched: id and attempt."""
    found: tuple[Found, ...] = ()
    """Written down when the records are stored; likewise below."""
    stages: tuple[Stage, ...] = ()
    said: tuple[Said, ...] = ()
