"""Values of a request's meta and cb_kwargs as MessagePack: the types that users of Scrapy pass on, without pickle.

An object of a class (a dataclass, an Item, an enumeration) is written as the name of its class and its fields.
Reading it calls no constructor, and imports no module except those of the project.
"""

import dataclasses
import importlib
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
from msgspec.msgpack import Ext
from pydantic import BaseModel
from scrapy import Item

_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_TUPLE, _DATETIME, _TYPED = 1, 2, 3
"""MessagePack extension types: a tuple; a datetime that is not in UTC; a pair of a type's name and a value."""
_KEYS = frozenset({str, int, bytes})
"""Types that a key of a MessagePack map may have."""
_FACTORIES: dict[str | None, type | None] = {
    None: None,
    **{kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple)},
}
"""Factories of a defaultdict, by name."""
_encoder = msgspec.msgpack.Encoder()


class UnknownValueError(Exception):
    """A value that cannot be written, with its place."""


# Writing --------------------------------------------------------------------------------------------------


def to_plain(value: Any, where: str) -> Any:
    """Returns a value that MessagePack can encode. Raises UnknownValueError, or RecursionError for a cycle."""
    kind = type(value)
    if kind in _SCALARS:
        is_large = kind is int and not _MIN_INTEGER <= value <= _MAX_INTEGER
        return _typed("int", str(value)) if is_large else value
    if kind is list:
        return [to_plain(each, f"{where}[{index}]") for index, each in enumerate(value)]
    if kind is dict:
        return _plain_dict(value, where)
    if kind is tuple:
        return Ext(_TUPLE, _encoder.encode(to_plain(list(value), where)))
    if kind is datetime and not isinstance(value.tzinfo, ZoneInfo):
        return value if value.tzinfo is UTC else Ext(_DATETIME, value.isoformat().encode())
    if write := _WRITE.get(kind):
        name, written = write(value)
        return _typed(name, to_plain(written, where))
    return _plain_object(value, where)


def _plain_dict(value: Mapping[Any, Any], where: str) -> Any:
    if all(type(key) in _KEYS for key in value):
        return {key: to_plain(each, f"{where}[{key!r}]") for key, each in value.items()}
    return _typed("dict", [to_plain([*pair], f"{where}[{pair[0]!r}]") for pair in value.items()])


def _plain_object(value: Any, where: str) -> Any:
    """Writes an object of a class, or of a subclass of a simple type."""
    kind = type(value)
    if family := next((each for each, known in _FAMILIES.items() if known.holds(kind)), ""):
        module, name = kind.__module__, kind.__qualname__
        if _found(module, name) is not kind:
            raise UnknownValueError(
                f"{where} is {_article(name)}, whose class is not found again by its name."
                " Put the class at the top level of its module"
            )
        return _typed("object", [family, module, name, to_plain(_FAMILIES[family].write(value), where)])
    if isinstance(value, (str, int, float, bytes)):  # like the texts of links, and NumPy's numbers
        plain: Any = next(each for each in (str, int, float, bytes) if isinstance(value, each))
        return to_plain(plain(value), where)
    if isinstance(value, dict) and kind.__getitem__ is dict.__getitem__ and not hasattr(kind, "__missing__"):
        return _plain_dict(value, where)  # other classes look keys up differently, as headers do
    raise UnknownValueError(
        f"{where} is {_article(kind.__name__)}, which cannot be written to Redis."
        " Put texts, numbers, lists and dicts there, and build the object in the callback"
    )


def _typed(name: str, value: Any) -> Ext:
    return Ext(_TYPED, _encoder.encode([name, value]))


def _write_defaultdict(value: defaultdict[Any, Any]) -> tuple[str, Any]:
    factory: Any = value.default_factory
    name: str | None = getattr(factory, "__name__", None)
    if _FACTORIES.get(name) is not factory:
        raise UnknownValueError(f"a defaultdict of {factory!r} cannot be written to Redis. Put a dict there")
    return "defaultdict", [name, dict(value)]


def _pairs(value: Mapping[Any, Any]) -> list[list[Any]]:
    return [[key, each] for key, each in value.items()]


_WRITE: dict[type, Callable[[Any], tuple[str, Any]]] = {
    date: lambda value: ("date", value.isoformat()),
    datetime: lambda value: ("datetime", [value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo.key]),
    time: lambda value: ("time", value.isoformat()),
    timedelta: lambda value: ("timedelta", [value.days, value.seconds, value.microseconds]),
    ZoneInfo: lambda value: ("ZoneInfo", value.key),
    Decimal: lambda value: ("Decimal", str(value)),
    Fraction: lambda value: ("Fraction", [value.numerator, value.denominator]),
    complex: lambda value: ("complex", [value.real, value.imag]),
    UUID: lambda value: ("UUID", value.bytes),
    bytearray: lambda value: ("bytearray", bytes(value)),
    set: lambda value: ("set", list(value)),
    frozenset: lambda value: ("frozenset", list(value)),
    deque: lambda value: ("deque", [list(value), value.maxlen]),
    range: lambda value: ("range", [value.start, value.stop, value.step]),
    OrderedDict: lambda value: ("OrderedDict", _pairs(value)),
    Counter: lambda value: ("Counter", _pairs(value)),
    defaultdict: _write_defaultdict,
    type(Path()): lambda value: ("Path", str(value)),
}
"""Functions that return name and written form of a value, by its type."""


# Reading --------------------------------------------------------------------------------------------------


def decoder(kind: Any, packages: Iterable[str]) -> msgspec.msgpack.Decoder[Any]:
    """Returns a decoder of `kind` that knows these values.

    `packages`: names of the project's packages. Modules of other packages are found only if they are already
    imported.
    """
    return _decoder(kind, frozenset(packages))


@cache
def _decoder(kind: Any, packages: frozenset[str]) -> msgspec.msgpack.Decoder[Any]:
    def load_extension(code: int, data: memoryview) -> Any:
        if code == _DATETIME:
            return datetime.fromisoformat(bytes(data).decode())
        value = values.decode(data)
        if code == _TUPLE:
            return tuple(value)
        if code != _TYPED:
            raise ValueError(f"an extension of type {code} is unknown")
        name, written = value
        return _object(packages, *written) if name == "object" else _READ[name](written)

    values = msgspec.msgpack.Decoder(ext_hook=load_extension)
    return msgspec.msgpack.Decoder(kind, ext_hook=load_extension)


def _object(packages: frozenset[str], family: str, module: str, name: str, state: Any) -> Any:
    is_importable = module.split(".")[0] in packages
    kind = _found(module, name, is_importable=is_importable)
    if not isinstance(kind, type) or not _FAMILIES[family].holds(kind):
        raise ValueError(f"{module}.{name} is not a class of {family} here")
    return _FAMILIES[family].read(kind, state)


def _found(module: str, name: str, *, is_importable: bool = False) -> Any:
    """Returns the object with that name, or None."""
    found: Any = sys.modules.get(module)
    if found is None and is_importable:
        found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


_READ: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "date": date.fromisoformat,
    "datetime": lambda written: datetime.fromisoformat(written[0]).replace(
        fold=written[1], tzinfo=ZoneInfo(written[2])
    ),
    "time": time.fromisoformat,
    "timedelta": lambda written: timedelta(*written),
    "ZoneInfo": ZoneInfo,
    "Decimal": Decimal,
    "Fraction": lambda written: Fraction(*written),
    "complex": lambda written: complex(*written),
    "UUID": lambda written: UUID(bytes=written),
    "bytearray": bytearray,
    "set": set,
    "frozenset": frozenset,
    "deque": lambda written: deque(*written),
    "range": lambda written: range(*written),
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": lambda written: Counter(dict(written)),
    "defaultdict": lambda written: defaultdict(_FACTORIES[written[0]], written[1]),
    "Path": Path,
}
"""Functions that make a value from its written form, by type name."""


# Families of classes --------------------------------------------------------------------------------------


class _Family(NamedTuple):
    """A kind of class, with the functions that write and read its objects."""

    holds: Callable[[type], bool]
    write: Callable[[Any], Any]
    read: Callable[[Any, Any], Any]
    """Makes an object from its class and its written form."""


def _read_item(kind: type[Item], state: dict[str, Any]) -> Item:
    item = kind.__new__(kind)
    Item.__init__(item)
    for name, value in state.items():
        Item.__setitem__(item, name, value)
    return item


def _read_model(kind: type[BaseModel], state: dict[Any, Any]) -> BaseModel:
    model = kind.__new__(kind)
    model.__setstate__(state)
    return model


def _fields(value: Any) -> dict[str, Any]:
    """Returns all attributes of an object, also those in slots."""
    described = attrs.fields(type(value)) if attrs.has(type(value)) else dataclasses.fields(value)
    named = {each.name: getattr(value, each.name) for each in described if hasattr(value, each.name)}
    return named | getattr(value, "__dict__", {})


def _read_fields(kind: type, state: dict[str, Any]) -> Any:
    read: Any = object.__new__(kind)
    for name, value in state.items():
        object.__setattr__(read, name, value)
    return read


_FAMILIES = {
    "Enum": _Family(lambda kind: issubclass(kind, Enum), lambda value: value.value, lambda kind, state: kind(state)),
    "Item": _Family(lambda kind: issubclass(kind, Item), dict, _read_item),
    "BaseModel": _Family(lambda kind: issubclass(kind, BaseModel), BaseModel.__getstate__, _read_model),
    "attrs": _Family(attrs.has, _fields, _read_fields),
    "dataclass": _Family(dataclasses.is_dataclass, _fields, _read_fields),
    "namedtuple": _Family(
        lambda kind: issubclass(kind, tuple) and hasattr(kind, "_fields"),
        list,
        lambda kind, state: tuple.__new__(kind, state),
    ),
}
"""Families by name. A class belongs to the first that holds it."""


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
