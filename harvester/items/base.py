"""The base of all records: a natural key, provenance and files, checked when a record is constructed.

A record is a frozen msgspec Struct. `key` is its `_id` in MongoDB, so the same thing observed twice is one document.
`raw` is the part of the response that the record was read from; it is staged on disk and never written to MongoDB.
Records are never in a reference cycle, so the garbage collector need not track them (gc=False).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self, get_args, get_origin

import msgspec
from bson.decimal128 import Decimal128
from msgspec import Struct
from msgspec.json import encode as _encode

from harvester.exceptions import InvalidRecordError, UsageError
from harvester.hosts import without_user
from harvester.internal_meta import ITEMS, USAGE
from harvester.items.found import Found, ItemResult, Looked, Stage
from harvester.items.raw import members

RECORDS: dict[str, type["Record"]] = {}
"""All record types by KIND. A type is added when its module is imported."""
LINK = "link"
"""Kind of a reject that would have become a request instead of a record."""
ITEM = "item"
"""Kind of a reject that was an item of another type."""
OF_ITEM = "provenance.item"
"""Field of a stored record that names its job item. Each collection has an index on it."""
GONE_AT = "gone_at"
"""Field of a stored record that its site no longer shows: the start of the visit that found the record missing."""
OUTBOX = "_outbox"
"""Field of a stored record that is published (see harvester.publish): the state that subscribers know."""
RESERVED = frozenset(
    [
        "accounts",
        "alerts",
        "audit",
        "batches",
        "crawls",
        "deliveries",
        "events",
        "frontiers",
        "idempotency_keys",
        "job_items",
        "jobs",
        "opt_outs",
        "publishing",
        "purged",
        "quotas",
        "runs",
        "schedule_looks",
        "schedules",
        "seeds",
        "thread_queue",
        "tokens",
        "validators",
        "webhook_deliveries",
        "webhooks",
    ]
)
"""Names of collections that a record type must not use."""
WEB = ("https://", "http://")
"""Prefixes of a web address."""
_NUMBER = (int, float, int | None, float | None)
_TEXT = (str, str | None)
_DECIMAL = (Decimal, Decimal | None)
_SEGMENT = "[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,120}[A-Za-z0-9_-])?"
_is_name = re.compile("[a-z][a-z0-9_]{0,59}").fullmatch
_is_key = re.compile(
    "[^\x00-\x20\x7f\ud800-\udfff](?:[^\x00-\x1f\x7f\ud800-\udfff]*[^\x00-\x20\x7f\ud800-\udfff])?"
).fullmatch


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """The permissions that a site states for the use of a page: `allowed`, `refused` or `unknown`."""

    training: str = "unknown"
    """Permission to train models."""
    mining: str = "unknown"
    """Permission to mine text and data."""
    signals: tuple[str, ...] = ()
    """The words of the site that these permissions were read from, as found."""


class Provenance(Struct, frozen=True, omit_defaults=True, gc=False, cache_hash=True):
    """The place and time of an observation. All records of a page share one object."""

    url: str
    """The requested address."""
    fetched_at: datetime
    """In UTC."""
    spider: str
    crawl: str = ""
    """Identifier of the crawl in the ledger; empty if the crawl has no entry there."""
    usage: Usage | None = None
    """None if the site states nothing, or if the statement was not looked up."""
    item: str = ""
    """Id of the job item that the page was fetched for; empty if it was fetched for several items or without one."""

    @classmethod
    def of(cls, page: Any, spider: str, crawl: str) -> Self:
        """Returns the provenance of records that are read now.

        `page` is a response, the failure of a request, or a request. None means that the record comes from no page.
        """
        now = datetime.now(UTC)
        if page is None:
            return cls("", now, spider, crawl)
        request = getattr(page, "request", page)
        meta = request.meta
        said, items = meta.get(USAGE), meta.get(ITEMS, ())
        item = items[0][0] if len(items) == 1 else ""
        return cls(
            without_user(getattr(page, "url", request.url)), now, spider, crawl, Usage(*said) if said else None, item
        )


class Media(NamedTuple):
    """A picture or a document to be fetched for a record."""

    url: str
    path: str
    """Path below the images location. The suffix sets the required type: `.jpg` a picture, `.pdf` a PDF."""
    slot: str
    """Role of the file in its record: `avatar`, `banner`, the index of an image, `bill`."""


class MediaContent(Struct, frozen=True, omit_defaults=True, gc=False):
    """The facts read from a document of a record, or the reason why the document is missing."""

    sha256: str = ""
    """Digest of the stored file. Empty if the file is not stored."""
    size: int = 0
    """Bytes of the stored file."""
    pages: int | None = None
    text: str | None = None
    problem: str | None = None
    """Reason why the file is not stored, or why its text is missing or incomplete: a word, a colon and details."""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all records. Raises InvalidRecordError when a value breaks a rule of its type.

    A subclass with a KIND is a record type and is added to RECORDS. A subclass without one is the base of a family.
    Subclasses inherit frozen, omit_defaults and gc, but not kw_only.
    """

    KIND: ClassVar[str]
    """Name in the singular, used for staging folders and stats."""
    COLLECTION: ClassVar[str]
    """Name of the MongoDB collection."""
    PLURAL: ClassVar[str]
    """Name in messages. The default is COLLECTION with spaces."""
    KEY: ClassVar[tuple[str, ...]]
    """Fields that make the natural key."""
    OWNERS: ClassVar[tuple[str, ...]] = ()
    """Fields that name accounts: first the owner, then others that the record is about.

    The record is deleted when any of the accounts is purged.
    """
    CLEANED: ClassVar[Mapping[str, str]] = {}
    """Fields with untouched text, each with the field for its cleaned form. The clean pipeline fills the latter."""
    COVERED: ClassVar[tuple[str, ...]] = ()
    """Fields whose coverage the monitors check."""
    INDEXES: ClassVar[Sequence[tuple[str, ...]]] = ()
    """MongoDB indexes beside `_id`, each as a tuple of field names."""
    VERSION: ClassVar[str] = ""
    """Field that decides between two records with the same key in one job: the larger value stays. Empty: the later."""
    EXCLUSIVE: ClassVar[str] = ""
    """Field whose value belongs to one record at a time.

    An earlier record with the same value loses it: the value moves to its field `former_...`.
    """
    NOT_EXCLUSIVE: ClassVar[frozenset[str]] = frozenset()
    """Values of the EXCLUSIVE field that several records may share."""
    MOST_TEXT_BYTES: ClassVar[int] = 1_000_000
    """Maximum number of bytes of a field in CLEANED."""
    MEDIA_PATH: ClassVar[re.Pattern[str]] = re.compile(rf"(?:{_SEGMENT}/){{0,7}}{_SEGMENT}\.jpg")
    """Pattern of the paths of media files. It must not match a path that leads out of the images location."""
    FIELDS_VARY: ClassVar[bool] = False
    """True if two records of the type may have different fields, so that a newer one replaces the whole document."""
    MEDIA_SLOTS: ClassVar[tuple[str, ...]] = ()
    """Slots whose file may disappear. If a newer record lacks the file, the stored path is removed from the document.
    """
    MEDIA_FIXED: ClassVar[bool] = False
    """True if the file at a path never changes, because the path names the content."""

    provenance: Provenance
    media_paths: dict[str, str] = {}
    """Paths of stored files below the images location, by slot."""
    media_sources: dict[str, str] = {}
    """Addresses that stored files came from, by slot. Only for files that change while their path stays."""
    media_contents: dict[str, MediaContent] = {}
    """Facts about stored documents, by slot."""
    gone_at: datetime | None = None
    """Start of the visit that found the record missing. Written in MongoDB, and removed when the record is seen again.
    """
    raw: bytes = b""
    """The part of the response that this record was read from, unchanged."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "KIND" in cls.__dict__:
            _register(cls)

    def __post_init__(self) -> None:
        try:
            msgspec.convert(self, _types(type(self)), from_attributes=True, builtin_types=(bytes, datetime))
        except msgspec.ValidationError as error:
            raise InvalidRecordError(f"{self.KIND}: {error}") from None
        parts = [getattr(self, name) for name in self.KEY]
        if None in parts or not _is_key(self.key):
            raise InvalidRecordError(f"{self.KIND}: {self.key[:200]!r} cannot be a key")
        if any(" " in str(part) for part in parts[:-1]):
            raise InvalidRecordError(f"{self.KIND}: only the last part of the key {self.key[:200]!r} may hold a space")

    @property
    def key(self) -> str:
        """Returns the natural key, which is `_id` in MongoDB."""
        names = self.KEY
        if len(names) > 1:
            return " ".join([str(getattr(self, name)) for name in names])
        return str(getattr(self, names[0]))

    @property
    def belongs_to(self) -> str:
        """Returns the account that owns the record; empty for a record without an owner."""
        return str(getattr(self, self.OWNERS[0])) if self.OWNERS else ""

    @property
    def opted_out(self) -> bool:
        """True if the record itself shows that its owner opted out of being collected."""
        return False

    def replaces(self, other: "Record") -> bool:
        """True if this record stays when `other`, an earlier record of the same batch, has the same key."""
        if not self.VERSION:
            return self.provenance.fetched_at >= other.provenance.fetched_at  # equal in a page, unless staged
        ours, theirs = getattr(self, self.VERSION), getattr(other, self.VERSION)
        return theirs is None or (ours is not None and bool(ours >= theirs))

    def stub(self) -> "Record | None":
        """Returns the part of the record that is stored when its owner opted out; None to store nothing."""
        return None

    def media(self) -> list[Media]:
        """Returns the files that belong to this record."""
        return []

    def problem(self) -> str | None:
        """Returns the rule across types and fields that the record breaks, as the reason of a reject; else None."""
        fields = _fields(type(self))
        for name in self.CLEANED:
            text = getattr(self, name)
            if text and is_longer(text, self.MOST_TEXT_BYTES):
                return f"{name} is longer than {self.MOST_TEXT_BYTES} bytes"
        for name in fields.counts:
            count = getattr(self, name)
            if count is not None and count < 0:
                return f"{name} is negative"
        for name in fields.urls:
            url = getattr(self, name)
            if url and not url.startswith(WEB):
                return f"{name} is no web address"
        return None

    def line(self, observed: bytes) -> bytes:
        """Returns the staged line: JSON without a newline.

        `observed` holds JSON members with the place and time of the observation. Raises ValueError, TypeError or
        RecursionError when JSON cannot hold a value.
        """
        return b'{"kind":"%b","key":%b,%b,%b}' % (self.KIND.encode(), _encode(self.key), observed, members(self.raw))

    def to_document(self) -> dict[str, Any]:
        """Returns the MongoDB document, without `raw` and without absent values.

        Datetimes stay datetimes. Decimal fields become MongoDB's decimals, which are exact numbers.
        """
        document: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(datetime, bytes))
        document.pop("raw", None)
        for name in _fields(type(self)).decimals:
            if name in document:
                document[name] = _decimal128(name, document[name])
        for name, decimals in _fields(type(self)).parts.items():
            for part in document.get(name, ()):
                part |= {each: _decimal128(each, part[each]) for each in decimals if each in part}
        document["_id"] = self.key
        return document


def _register(kind: type[Record]) -> None:
    """Adds a record type to RECORDS.

    Raises UsageError when the type lacks a required attribute, or uses a name that is reserved or already taken.
    """
    name = f"The record type {kind.__qualname__} ({kind.__module__})"
    for attribute in ("COLLECTION", "KEY"):
        if not getattr(kind, attribute, None):
            raise UsageError(f"{name} has a KIND but no {attribute}.")
    for attribute in ("KIND", "COLLECTION"):
        if not _is_name(getattr(kind, attribute)):
            raise UsageError(f"{name}: its {attribute} {getattr(kind, attribute)!r} is not lower_case_words.")
    if kind.KIND in (LINK, ITEM) or kind.COLLECTION in RESERVED:
        taken = f"KIND {kind.KIND!r}" if kind.KIND in (LINK, ITEM) else f"COLLECTION {kind.COLLECTION!r}"
        raise UsageError(f"{name}: its {taken} is harvester's own; choose another.")
    if clash := _methods().intersection(kind.__dict__.get("__slots__", ())):
        raise UsageError(f"{name}: its field {min(clash)!r} has the name of something that every record does.")
    for other in RECORDS.values():
        if (other.__module__, other.__qualname__) == (kind.__module__, kind.__qualname__):
            continue  # the module of the same type was imported again
        for attribute in ("KIND", "COLLECTION"):
            if getattr(other, attribute) == getattr(kind, attribute):
                twice = f"{attribute} {getattr(kind, attribute)!r}"
                raise UsageError(f"{name}: its {twice} is that of {other.__qualname__} ({other.__module__}).")
    if "PLURAL" not in kind.__dict__:
        kind.PLURAL = kind.COLLECTION.replace("_", " ")
    RECORDS[kind.KIND] = kind


@cache
def _methods() -> set[str]:
    return {name for name in vars(Record) if not name.startswith("_")}.difference(Record.__struct_fields__)


@cache
def _types(kind: type[Record]) -> type[Struct]:
    """Returns a type with the same fields, which msgspec checks a constructed record against."""
    if not hasattr(kind, "KIND"):
        raise UsageError(f"{kind.__qualname__} ({kind.__module__}) has no KIND: it is a family, and no record type.")
    named = {name: getattr(kind, name) for name in ("KEY", "OWNERS", "COVERED", "CLEANED")}
    for attribute, fields in {**named, "VERSION": filter(None, [kind.VERSION])}.items():
        if unknown := set(fields).difference(kind.__struct_fields__):
            raise UsageError(
                f"The record type {kind.__qualname__}: {attribute} names {min(unknown)!r}, which is no field."
            )
    return msgspec.defstruct(kind.__name__, [(field.name, field.type) for field in msgspec.structs.fields(kind)])


class _Fields(NamedTuple):
    """The fields of a record type that a rule applies to, selected by name and type."""

    counts: tuple[str, ...]
    urls: tuple[str, ...]
    decimals: tuple[str, ...]
    parts: dict[str, tuple[str, ...]]
    """Fields that hold several structs, each with the names of the decimal fields in the structs."""


@cache
def _fields(kind: type[Record]) -> _Fields:
    fields = msgspec.structs.fields(kind)
    return _Fields(
        counts=tuple(field.name for field in fields if field.name.endswith("_count") and field.type in _NUMBER),
        urls=tuple(field.name for field in fields if field.name.endswith("_url") and field.type in _TEXT),
        decimals=_decimals(kind),
        parts={name: decimals for name, part in _parts(fields) if (decimals := _decimals(part))},
    )


def _parts(fields: Iterable[msgspec.structs.FieldInfo]) -> Iterator[tuple[str, type[Struct]]]:
    for field in fields:
        part = get_args(field.type)[0] if get_origin(field.type) is tuple else None
        if isinstance(part, type) and issubclass(part, Struct):
            yield field.name, part


def _decimals(kind: type[Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type in _DECIMAL)


def _decimal128(name: str, text: str) -> Decimal128:
    try:
        return Decimal128(text)
    except ArithmeticError:
        raise ValueError(f"{name}: {text!r} has more than 34 digits") from None


def is_longer(text: str, most: int) -> bool:
    """True if the text has more than `most` bytes in UTF-8."""
    return len(text) > most // 4 and len(text.encode("utf-8", "replace")) > most


class Reject(NamedTuple):
    """A part of a response that could not become a record, or a record that breaks a rule across its fields."""

    kind: str
    """KIND of the record that it would have become, or LINK or ITEM."""
    reason: str
    key: str
    """Natural key, if it is known, else empty."""
    raw: bytes
    """The part of the response that it was read from."""
    url: str
    """The requested address."""


class Batch(NamedTuple):
    """All that was read from a response. It passes the item pipelines as one item."""

    records: list[Record]
    rejects: tuple[Reject, ...] = ()
    job: str = ""
    """Id of the job that the page was fetched for; empty without a job."""
    items: tuple[tuple[str, int], ...] = ()
    """Job items that the page was fetched for: id and attempt."""
    found: tuple[Found, ...] = ()
    """Stored together with the records, as are the next three fields."""
    stages: tuple[Stage, ...] = ()
    said: tuple[ItemResult, ...] = ()
    looked: tuple[Looked, ...] = ()
