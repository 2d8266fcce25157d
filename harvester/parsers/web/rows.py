"""Rows of a JSON document: finds them, builds their keys, and describes their shape. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import ArityError, JMESPathError, UnknownFunctionError
from jmespath.functions import Functions

from harvester.exceptions import ParseError, UsageError

MOST_DEPTH = 3
"""Maximum depth of the fields of a row that belong to its shape."""
MOST_FIELDS = 100
"""Maximum number of fields of an object. In a larger object the names are data."""
MOST_NAME = 100
"""Maximum number of characters of a field's name. In an object with a longer name the names are data."""
MOST_FIELDS_IN_ALL = 1_000
"""Maximum number of fields of a shape. In a larger shape the names at the lowest level are data."""
ANY = "*"
"""Stands in a shape for the fields of an object whose names are data."""
MAX_PATH = 2_000
"""Maximum number of characters of a JMESPath or JSON Pointer."""
MOST_NAMED = 5
"""Maximum number of fields in a message."""
MOST_SAID = 200
"""Maximum number of characters of an error about a row."""
_FAILS = (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError)
"""Exceptions of JMESPath. It raises some instead of reporting that a value has another type."""
_KINDS = {dict: "object", list: "list", str: "text", bool: "boolean", int: "number", float: "number"}

Shape = dict[str, str]
"""Kinds of values by field, in words, followed by a question mark if some rows lack the field."""


def check_path(path: str) -> None:
    """Raises UsageError when the path is neither a JMESPath nor a JSON Pointer.

    The path is not evaluated, since evaluation may never end.
    """
    if len(path) > MAX_PATH:
        raise UsageError(f"{path[:MOST_NAME]!r}... has {len(path):,} characters, and a path has at most {MAX_PATH:,}")
    try:
        if not path.startswith("/"):
            _check_calls(_compiled(path).parsed)
    except _FAILS as error:
        said = " ".join(str(error).split())[:MOST_SAID]
        raise UsageError(
            f"{path[:MOST_SAID]!r} is neither a JMESPath, like data.items, nor a JSON Pointer, like /data/0: {said}"
        ) from None


def _check_calls(parsed: Any) -> None:
    """Raises JMESPathError for an unknown function, or a wrong number of arguments."""
    waiting = [parsed]
    while waiting:
        node = waiting.pop()
        waiting += [child for child in node["children"] if isinstance(child, dict)]  # a slice has numbers as children
        if node["type"] != "function_expression":
            continue
        name, number = node["value"], len(node["children"])
        if name not in Functions.FUNCTION_TABLE:
            raise UnknownFunctionError(f"Unknown function: {name}()")
        takes = Functions.FUNCTION_TABLE[name]["signature"]
        if number < len(takes) or (number > len(takes) and not takes[-1].get("variadic")):
            raise ArityError(len(takes), number, name)


def at(path: str, document: Any) -> Any:
    """Returns the value at a path in a document, or None.

    The path is a JMESPath, or a JSON Pointer (RFC 6901), which begins with /.
    """
    if path.startswith("/"):
        return _at_pointer(path, document)
    try:
        return _compiled(path).search(document)
    except _FAILS as error:
        raise ParseError(f"{path!r} does not fit: {' '.join(str(error).split())[:MOST_SAID]}") from None


@lru_cache(maxsize=10_000)
def _compiled(path: str) -> Any:
    return jmespath.compile(path)


def _at_pointer(pointer: str, value: Any) -> Any:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(name)] if name.isascii() and name.isdecimal() and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def rows_at(path: str, document: Any) -> list[Any]:
    """Returns the list of rows. Raises ParseError when the path leads to another value."""
    found = at(path, document)
    if not isinstance(found, list):
        raise ParseError(f"at {path!r} there is no list of rows but {'nothing' if found is None else _kind(found)}")
    return found


def key_of(row: Any, fields: Sequence[str]) -> str:
    """Returns the key of a row, made of the given fields; empty without fields.

    With several fields, a / within a value is written as ~1.
    """
    parts = [_as_text(at(field, row)) for field in fields]
    return parts[0] if len(parts) == 1 else "/".join(part.replace("~", "~0").replace("/", "~1") for part in parts)


def lack_of(row: Any, fields: Sequence[str]) -> str:
    """Returns the first key field that a row lacks, in words; empty if the row has all fields."""
    for field in fields:
        part = at(field, row)
        if part is None or isinstance(part, (dict, list)) or not _as_text(part):
            return f"it has no {field!r}, which its key is made of"
    return ""


def _as_text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)


# Shapes -----------------------------------------------------------------------------------------------------


def shape_of(rows: Iterable[Any]) -> Shape:
    """Returns the shape of all rows together."""
    number = 0
    counts: dict[str, int] = {}
    kinds: dict[str, set[str]] = {}
    for number, row in enumerate(rows, 1):  # noqa: B007
        for name, value in _fields(row, "", MOST_DEPTH):
            counts[name] = counts.get(name, 0) + 1
            kinds.setdefault(name, set()).update([] if value is None else [_kind(value)])
    return _bounded({name: _written(kinds[name], counts[name] == number) for name in sorted(counts)})


def shape_change(before: Shape, now: Shape) -> str:
    """Describes the change of a shape in words.

    A change is a field that all rows had and that is missing now, or a field of another kind.
    """
    lost = [
        name
        for name, kind in before.items()
        if not kind.endswith("?") and name not in now and _is_above(name, now) and not _is_data(name, now)
    ]
    new = [name for name in now if name not in before and not _is_any(name)]
    said = []
    if lost:
        said.append(f"the rows lack {_named(lost)}" + (f", and have {_named(new)}" if new else ""))
    for name, kind in before.items():
        were, are = _kinds(kind), _kinds(now.get(name, ""))
        if were and are and not were & are:
            said.append(f"{name!r} was {' or '.join(sorted(were))} and is {' or '.join(sorted(are))}")
    return "; ".join(said[:MOST_NAMED])


def new_fields(before: Shape, now: Shape) -> list[str]:
    """Returns the fields that no row had before."""
    new = now.keys() - before.keys() if before else ()
    return sorted(name for name in new if not _is_any(name) and not _is_data(name, before))


def merged(before: Shape, now: Shape) -> Shape:
    """Returns the shape of the rows of both shapes."""
    if not before or not now:
        return before or now
    both = {
        name: _written(
            _kinds(before.get(name, "")) | _kinds(now.get(name, "")),
            all(name in each and not each[name].endswith("?") for each in (before, now)),
        )
        for name in sorted({*before, *now})
    }
    return _bounded(both)


def _bounded(shape: Shape) -> Shape:
    """Replaces names that are data by ANY, so that the shape of many visits stays small."""
    numbers = Counter(map(_above, shape))
    data = {above for above, number in numbers.items() if number > MOST_FIELDS}
    found = _with_any(shape, data | {_above(name) for name in shape if _is_any(name)})
    for level in range(MOST_DEPTH - 1, 0, -1):
        if len(found) > MOST_FIELDS_IN_ALL:
            found = _with_any(found, {_above(name) for name in found if name.count(".") >= level})
    return found


def _with_any(shape: Shape, data: set[str]) -> Shape:
    whole = shape | {f"{above}.{ANY}".lstrip("."): "?" for above in data}
    return {name: whole[name] for name in sorted(whole) if _is_any(name) or not _is_data(name, whole)}


def _is_any(name: str) -> bool:
    return name.rpartition(".")[2] == ANY


def _is_data(name: str, shape: Shape) -> bool:
    """True if the field stands in an object whose names are data."""
    parts = name.split(".")
    return any(".".join([*parts[:number], ANY]) in shape for number in range(len(parts)))


def _above(name: str) -> str:
    return name.rpartition(".")[0]


def _fields(row: Any, above: str, depth: int) -> Iterable[tuple[str, Any]]:
    if not isinstance(row, dict):
        return
    if len(row) > MOST_FIELDS or any(len(name) > MOST_NAME for name in row):
        yield f"{above}{ANY}", None
        return
    for name, value in row.items():
        yield f"{above}{name}", value
        if depth > 1 and isinstance(value, dict):
            yield from _fields(value, f"{above}{name}.", depth - 1)


def _is_above(name: str, now: Shape) -> bool:
    """True if the parent of a field still exists. If a whole part is missing, only its top is reported."""
    above = _above(name)
    return not above or above in now


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "nothing")


def _kinds(written: str) -> set[str]:
    return set(filter(None, written.removesuffix("?").split("|")))


def _written(kinds: set[str], is_always: bool) -> str:
    return "|".join(sorted(kinds)) + ("" if is_always else "?")


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:MOST_NAMED])
    return shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
