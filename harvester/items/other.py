"""Turns items that are not records (dicts, dataclasses, Scrapy items, attrs, pydantic models) into records."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from types import new_class
from typing import Any, ClassVar
from unicodedata import normalize

import msgspec
from itemadapter import ItemAdapter
from pydantic import AnyUrl

from harvester.exceptions import InvalidRecordError, UsageError
from harvester.items.base import ITEM, LINK, OUTBOX, RECORDS, RESERVED, Provenance, Record

MOST_NAME = 50
"""Maximum number of characters of the spider's name in the name of the collection."""
_is_collection = re.compile("[a-z][a-z0-9_]{0,59}").fullmatch
_IN_BSON = (datetime, bytes)
"""Types of values that stay unchanged."""
_PLAIN: tuple[type[Any], ...] = (str, int, float, bytes)
"""Python's own types. Values of their subclasses are converted to them."""
_AS_TEXT = (AnyUrl, PurePath, IPv4Address, IPv6Address)
_OWN = frozenset({*Record.__struct_fields__, OUTBOX}) - {"raw"}


class ItemRecord(Record, frozen=True, kw_only=True):
    """The base of record types for such items. The document holds the fields of the item at its top level."""

    FIELDS_VARY: ClassVar[bool] = True

    id: str
    fields: dict[str, Any]
    """Values as in BSON. Types that BSON lacks, such as Decimal and date, become text."""

    def to_document(self) -> dict[str, Any]:
        document = super().to_document()
        del document["id"]
        fields: dict[str, Any] = document.pop("fields")
        return fields | document

    @classmethod
    def staged(cls, key: str, raw: bytes, provenance: Provenance) -> "ItemRecord":
        """Returns the record of a staged line."""
        return cls(id=key, fields=msgspec.json.decode(raw, type=dict[str, Any]), raw=raw, provenance=provenance)

    @classmethod
    def of(cls, item: Any, named: Sequence[str], provenance: Provenance) -> "ItemRecord":
        """Returns the record of an item.

        `named` lists the fields that make the key. Without them the key is the item's `_id`, else a digest of all
        fields. Raises InvalidRecordError when the object is not an item or cannot be stored.
        """
        if not ItemAdapter.is_item(item):
            raise InvalidRecordError(
                f"{cls.KIND}: what is of the type {type(item).__name__} is no item: yield a record, a dict,"
                " a dataclass, an attrs or pydantic object, or an Item of Scrapy"
            )
        try:
            fields = _as_bson(ItemAdapter(item).asdict())
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRecordError(f"{cls.KIND}: it cannot be stored: {error}") from None
        return cls.of_values(fields, named, provenance)

    @classmethod
    def of_values(cls, fields: dict[str, Any], named: Sequence[str], provenance: Provenance) -> "ItemRecord":
        """Returns the record of fields that are values as in BSON, such as decoded JSON. It takes over the dictionary.

        Raises InvalidRecordError when they cannot be stored. See `of` for `named`.
        """
        try:
            raw = msgspec.json.encode(fields, order="sorted")
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRecordError(f"{cls.KIND}: it cannot be stored: {error}") from None
        key = _key(cls.KIND, fields, named) or hashlib.sha256(raw).hexdigest()[:32]
        fields.pop("_id", None)
        if taken := _OWN.intersection(fields):
            raise InvalidRecordError(f"{cls.KIND}: its field {min(taken)!r} is harvester's own: name it otherwise")
        if operators := [name for name in fields if name.startswith("$")]:
            raise InvalidRecordError(f"{cls.KIND}: its field {operators[0]!r} has a name that MongoDB does not replace")
        return cls(id=key, fields=fields, raw=raw, provenance=provenance)


def _as_bson(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields as BSON values, in their order. Sets are sorted: their order differs between processes."""
    to_builtins = partial(msgspec.to_builtins, builtin_types=_IN_BSON, str_keys=True, enc_hook=plain_value)
    try:
        fields = to_builtins(given, order="deterministic")
    except TypeError:  # a set holds values that cannot be compared, such as texts and numbers
        fields = to_builtins(given)
    return {name: fields[name] for name in msgspec.to_builtins(dict.fromkeys(given), str_keys=True)}


def plain_value(value: Any) -> Any:
    """Returns a plain value for a type that msgspec does not know: a path or a text of lxml becomes text.

    A value of a subclass of a Python type, such as a number of numpy, becomes a value of the Python type. Raises
    TypeError.
    """
    if isinstance(value, _AS_TEXT):
        return str(value)
    for kind in _PLAIN:
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _key(kind: str, fields: dict[str, Any], named: Sequence[str]) -> str:
    if not named:
        own = fields.get("_id")
        return "" if own is None else str(own)
    parts = ["" if fields.get(name) is None else str(fields[name]) for name in named]
    if "" in parts:
        raise InvalidRecordError(f"{kind}: it has no {named[parts.index('')]!r}, which its key is made of")
    if any(" " in part for part in parts[:-1]):
        raise InvalidRecordError(f"{kind}: only the last part of the key {' '.join(parts)[:200]!r} may hold a space")
    return " ".join(parts)


def item_type(spider: str) -> type[ItemRecord]:
    """Returns the record type for the items of a spider."""
    return _type(item_kind(spider))


def item_kind(spider: str) -> str:
    """Returns the kind for the items of a spider, which is also the name of their collection.

    It is the spider's name, with the suffix `_items` if the name is taken.
    """
    name = collection_named(spider, "items")
    return f"{name}_items" if _is_taken(name) else name


def collection_named(name: str, otherwise: str) -> str:
    """Returns the name of a collection, made of the letters a to z and the digits of another name.

    If other letters are lost, a digest of the name is appended, so that similar names stay distinct. `otherwise` is the
    prefix of a name that would not begin with a letter.
    """
    ascii_name = normalize("NFKD", name.lower()).encode("ascii", "ignore").decode()
    words = re.sub("[^a-z0-9]+", "_", ascii_name).strip("_")
    if len(words) > MOST_NAME or not words or any(letter.isalnum() and not letter.isascii() for letter in name):
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
        words = f"{words[: MOST_NAME - 9] or otherwise}_{digest}"
    return words if words[:1].isalpha() else f"{otherwise}_{words}"


def check_collection(name: str) -> None:
    """Raises UsageError when no items can be stored in a collection of this name."""
    if not _is_collection(name):
        raise UsageError(
            f"{name!r} is no name of a collection: small letters, digits and _, at most 60, the first a letter"
        )
    if _is_taken(name):
        raise UsageError(f"the collection {name} is of other records: choose another name")


def collection_type(name: str) -> type[ItemRecord]:
    """Returns the record type for a collection that is not named after a spider. Raises UsageError."""
    check_collection(name)
    return _type(name)


def know_collections(names: Iterable[str]) -> None:
    """Adds record types to RECORDS for collections that other processes filled with such items."""
    for name in names:
        if _is_collection(name) and not _is_taken(name):
            _type(name)


def _is_taken(name: str) -> bool:
    others = [kind for kind in RECORDS.values() if not issubclass(kind, ItemRecord)]
    return name in (LINK, ITEM, *RESERVED) or any(name in (kind.KIND, kind.COLLECTION) for kind in others)


@cache
def _type(name: str) -> type[ItemRecord]:
    says = {"KIND": name, "COLLECTION": name, "KEY": ("id",), "PLURAL": "items", "__module__": __name__}
    return new_class(name, (ItemRecord,), {"frozen": True, "kw_only": True}, lambda body: body.update(says))
