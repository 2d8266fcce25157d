"""The base of all records: a natural key, provenance and files, checked where a record is constructed.

A record is a frozen msgspec Struct. `key` is its `_id` in MongoDB, so the same thing observed twice is one document.
`raw` is the part of the answer it was read from; it is staged on disk and never written to MongoDB. Records are never
in a cycle, so the garbage collector need not look at them (gc=False).
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
from harvester.items.found import Found, ItemResult, Looked, Stage
from harvester.items.raw import members
from harvester.meta import ITEMS, USAGE

RECORDS: dict[str, type["Record"]] = {}
"""KIND -> type, of every record type whose module is imported."""
LINK = "link"
"""Kind of a reject that would have been no record, but a request."""
ITEM = "item"
"""Kind of a reject that was an item of another type."""
OF_ITEM = "provenance.item"
"""Where a stored record names its job item. Each collection has an index on it."""
GONE_AT = "gone_at"
"""Field of a stored record that its site no longer shows: when the look began in which it was missing."""
OUTBOX = "_outbox"
"""Field of a stored record of which others are told (harvester.publish): what they know of it."""
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
"""Collections that are no record's."""
WEB = ("https://", "http://")
"""What a web address starts with."""
_NUMBER = (int, float, int | None, float | None)
_TEXT = (str, str | None)
_DECIMAL = (Decimal, Decimal | None)
_SEGMENT = "[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,120}[A-Za-z0-9_-])?"
_is_name = re.compile("[a-z][a-z0-9_]{0,59}").fullmatch
_is_key = re.compile(
    "[^\x00-\x20\x7f\ud800-\udfff](?:[^\x00-\x1f\x7f\ud800-\udfff]*[^\x00-\x20\x7f\ud800-\udfff])?"
).fullmatch


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
    crawl: str = ""
    """Identifier of the crawl in the ledger, if it has one."""
    usage: Usage | None = None
    """None: nothing was said, or nobody looked."""
    item: str = ""
    """Id of the job item that its page was fetched for; empty when there are several, or none."""

    @classmethod
    def of(cls, page: Any, spider: str, crawl: str) -> Self:
        """Of what is read now from this answer, or failure of a request, or of a request; None: from no page."""
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
    """Where it is stored, below the images location. Its end says what it must be: `.jpg` a picture, `.pdf` a PDF."""
    slot: str
    """Which of the record's files it is: `avatar`, `banner`, the index of an image, `bill`."""


class MediaContent(Struct, frozen=True, omit_defaults=True, gc=False):
    """What is known of a document, or why there is none."""

    sha256: str = ""
    """Of the stored file; so is the size. Empty: it is not stored."""
    size: int = 0
    """Bytes."""
    pages: int | None = None
    text: str | None = None
    problem: str | None = None
    """Why it was not stored, or why its text is missing or not whole: a word, a colon and more about it."""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all records. Raises InvalidRecordError when a value breaks a rule of its type.

    A subclass that says its KIND is a record type, and is in RECORDS from then on; one that says none is the base of
    a family. frozen, omit_defaults and gc are inherited, kw_only is not.
    """

    KIND: ClassVar[str]
    """Singular name, used for staging folders and stats."""
    COLLECTION: ClassVar[str]
    """MongoDB collection."""
    PLURAL: ClassVar[str]
    """For messages; COLLECTION with spaces unless it is given."""
    KEY: ClassVar[tuple[str, ...]]
    """Fields that make the natural key."""
    OWNERS: ClassVar[tuple[str, ...]] = ()
    """Fields that name accounts: whose record it is, then whom else it is about. It goes when one of them is purged."""
    CLEANED: ClassVar[Mapping[str, str]] = {}
    """Field of untouched text -> field of its cleaned form, which the clean pipeline fills."""
    COVERED: ClassVar[tuple[str, ...]] = ()
    """Fields whose coverage the monitors watch."""
    INDEXES: ClassVar[Sequence[tuple[str, ...]]] = ()
    """Fields of each MongoDB index beside `_id`."""
    VERSION: ClassVar[str] = ""
    """Field by which two with the same key are told apart that one job meets: the larger stays. Empty: the latest."""
    EXCLUSIVE: ClassVar[str] = ""
    """Field whose value one record has at a time. What was seen with it earlier loses it to the field `former_...`."""
    NOT_EXCLUSIVE: ClassVar[frozenset[str]] = frozenset()
    """Values of that field that many may have."""
    MOST_TEXT_BYTES: ClassVar[int] = 1_000_000
    """Of a field in CLEANED."""
    MEDIA_PATH: ClassVar[re.Pattern[str]] = re.compile(rf"(?:{_SEGMENT}/){{0,7}}{_SEGMENT}\.jpg")
    """What a path of its files may look like. It must not match one that leads out of the images location."""
    FIELDS_VARY: ClassVar[bool] = False
    """Whether two of it may have different fields, so that a newer one replaces the whole document."""
    MEDIA_SLOTS: ClassVar[tuple[str, ...]] = ()
    """Slots whose files may be taken away. Of one that it has no more, it says no more where it is stored."""
    MEDIA_FIXED: ClassVar[bool] = False
    """Whether what is stored at a path is there for good, because the path names the content."""

    provenance: Provenance
    media_paths: dict[str, str] = {}
    """Stored files: slot -> path below the images location."""
    media_sources: dict[str, str] = {}
    """Slot -> address a stored file came from. Only where the path stays while the file changes."""
    media_contents: dict[str, MediaContent] = {}
    """Of documents: slot -> what is known of it."""
    gone_at: datetime | None = None
    """When the look began in which it was missing. Written in MongoDB; when it is seen again, this is removed."""
    raw: bytes = b""
    """What this record was read from: a part of the answer, as it came."""

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
        """The natural key, `_id` in MongoDB."""
        names = self.KEY
        if len(names) > 1:
            return " ".join([str(getattr(self, name)) for name in names])
        return str(getattr(self, names[0]))

    @property
    def belongs_to(self) -> str:
        """The account whose record it is; empty when it is nobody's."""
        return str(getattr(self, self.OWNERS[0])) if self.OWNERS else ""

    @property
    def opted_out(self) -> bool:
        """Whether its owner declared against being collected, as the record itself shows."""
        return False

    def replaces(self, other: "Record") -> bool:
        """Whether it stays, of two with the same key in one batch, of which `other` came first."""
        if not self.VERSION:
            return self.provenance.fetched_at >= other.provenance.fetched_at  # of one page, unless it was staged
        ours, theirs = getattr(self, self.VERSION), getattr(other, self.VERSION)
        return theirs is None or (ours is not None and bool(ours >= theirs))

    def stub(self) -> "Record | None":
        """What is kept of it when its owner declared against being collected; None: nothing."""
        return None

    def media(self) -> list[Media]:
        """The files that belong to this record."""
        return []

    def problem(self) -> str | None:
        """Which rule across types and fields it breaks, for which it is rejected; None when it breaks none."""
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
        """Its staged line: JSON without newline. `observed`: members that say where and when it was observed.

        Raises ValueError, TypeError or RecursionError when there is something in it that JSON cannot hold.
        """
        return b'{"kind":"%b","key":%b,%b,%b}' % (self.KIND.encode(), _encode(self.key), observed, members(self.raw))

    def to_document(self) -> dict[str, Any]:
        """The MongoDB document, without `raw`. Absent values are left out.

        Datetimes stay datetimes. Fields of the type Decimal are MongoDB's decimals, which are exact numbers.
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
    """Raises UsageError when the type does not say what it must, or says what another says."""
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
            continue  # the same one, whose module is imported again
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
    """A type with the same fields, by which msgspec checks those of a record that was constructed."""
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
    """The fields of a record type that a rule applies to, told by their names and types."""

    counts: tuple[str, ...]
    urls: tuple[str, ...]
    decimals: tuple[str, ...]
    parts: dict[str, tuple[str, ...]]
    """Fields of several parts, each with fields of its own -> those of these that are decimals."""


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
    """Whether it has more bytes than that, as UTF-8."""
    return len(text) > most // 4 and len(text.encode("utf-8", "replace")) > most


class Reject(NamedTuple):
    """Part of an answer that could not become a record, or a record that breaks a rule across its fields."""

    kind: str
    """KIND of the record it would have been, or LINK."""
    reason: str
    key: str
    """Natural key as far as it is known, else empty."""
    raw: bytes
    """What it was read from."""
    url: str
    """The address asked."""


class Batch(NamedTuple):
    """What one answer yielded. It travels through the item pipelines as one item."""

    records: list[Record]
    rejects: tuple[Reject, ...] = ()
    job: str = ""
    """For which the page was fetched, if for any."""
    items: tuple[tuple[str, int], ...] = ()
    """Of the job, for which it was fetched: id and attempt."""
    found: tuple[Found, ...] = ()
    """Written down when the records are stored; likewise below."""
    stages: tuple[Stage, ...] = ()
    said: tuple[ItemResult, ...] = ()
    looked: tuple[Looked, ...] = ()
