"""JSON Schemas for rows of a JSON document. A schema is checked when it is given, and then applied to each row.

Pure.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from jsonschema import Draft201909Validator, Draft202012Validator, FormatChecker, SchemaError, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from harvester.exceptions import UsageError
from harvester.parsers.json_text import canonical

MOST_SAID = 200
"""Maximum number of characters of an error about a row or a schema."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_FAILS = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, re.error)
"""Exceptions of the library for unforeseen schemas and values, such as a number that is too large to be divided."""
_IN_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")
"""Keywords whose schemas apply to the same value."""


def _unevaluated(asked: Validator, keyword: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Skips unevaluatedProperties if there is additionalProperties, which leaves nothing to evaluate.

    The library does not take this into account in this draft.
    """
    if "additionalProperties" not in schema:
        yield from Draft201909Validator.VALIDATORS["unevaluatedProperties"](asked, keyword, instance, schema)


_Draft201909 = extend(Draft201909Validator, {"unevaluatedProperties": _unevaluated})  # type: ignore[no-untyped-call]


def check_schema(schema: Any) -> None:
    """Raises UsageError when the value is not a JSON Schema, or a schema that would fail for each row."""
    try:
        schema = msgspec.json.decode(canonical(schema))
        kind = _kind_of(schema)
        kind.check_schema(schema)
        _check_parts(schema, kind)
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path))
        raise UsageError(
            f"it is no JSON Schema: {error.message[:MOST_SAID]}{f' (at {where})' if where else ''}"
        ) from None
    except Unresolvable as unknown:
        raise UsageError(
            f"it refers to {unknown.ref[:MOST_SAID]!r}, which is not in it, and nothing is fetched for it"
        ) from None
    except RecursionError:
        raise UsageError("it is nested too deeply, or refers to itself without end") from None
    except _FAILS as error:
        raise UsageError(f"it cannot be used: {type(error).__name__}: {str(error)[:MOST_SAID]}") from None


def unchecked_formats(schema: Any) -> list[str]:
    """Returns the values of `format` in a schema that have no effect, because no check exists for them."""
    parts = _parts(schema, _kind_of(schema)) if isinstance(schema, dict) else ()
    named = {part["format"] for part, _ in parts if isinstance(part.get("format"), str)}
    return sorted(named - _formats(_kind_of(schema)).checkers.keys())


def problem_of(row: Any, schema: Mapping[str, Any]) -> str:
    """Returns the reason why a row does not fit the schema; empty if it fits.

    References of a schema are never fetched.
    """
    try:
        error = best_match(_validator(canonical(schema)).iter_errors(row))
    except Unresolvable as unknown:
        return f"its schema refers to what is not in it: {unknown.ref}"
    except RecursionError:
        return "its schema refers to itself without end, or it is nested too deeply for that"
    except _FAILS as failed:
        return f"its schema cannot be asked about it: {type(failed).__name__}: {failed}"[:MOST_SAID]
    return "" if error is None else _said(error)


def validator(schema: Any, registry: Registry[Any] = REGISTRY) -> Validator:
    """Returns a validator that also checks `format`. `registry` holds the documents that the schema may refer to."""
    kind = _kind_of(schema)
    return kind(schema, registry=registry, format_checker=_formats(kind))


@lru_cache(maxsize=2_000)
def _validator(schema: bytes) -> Validator:
    return validator(msgspec.json.decode(schema))


@lru_cache(maxsize=16)
def _formats(kind: type[Validator]) -> FormatChecker:
    """Returns the formats of the schema's draft, and the formats of the newest draft that the older one lacks."""
    checker = FormatChecker()
    checker.checkers = {**Draft202012Validator.FORMAT_CHECKER.checkers, **kind.FORMAT_CHECKER.checkers}
    return checker


def _kind_of(schema: Any) -> type[Validator]:
    if not isinstance(schema, dict) or "$schema" not in schema:
        return Draft202012Validator
    draft = schema["$schema"]
    if not isinstance(draft, str):
        raise UsageError("it is no JSON Schema: its $schema is no text")
    kind: type[Validator] | None = validator_for(schema, default=None)  # type: ignore[arg-type]
    if kind is None:
        raise UsageError(f"its $schema {draft[:MOST_SAID]!r} is no draft of JSON Schema that is known")
    return _Draft201909 if kind is Draft201909Validator else kind


def _said(error: ValidationError) -> str:
    where = ".".join(map(str, error.absolute_path))
    return f"{where}: {error.message}"[:MOST_SAID] if where else error.message[:MOST_SAID]


# Parts ------------------------------------------------------------------------------------------------------


def _parts(schema: Any, kind: type[Validator]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yields each subschema that is an object, with a resolver for its references. Raises Unresolvable."""
    specification = specification_with(kind.META_SCHEMA.get("$id") or kind.META_SCHEMA["id"])
    resource = specification.create_resource(schema)
    registry = REGISTRY.with_resource(resource.id() or "", resource)
    waiting = [(resource, registry.resolver_with_root(resource))]
    while waiting:
        part, resolver = waiting.pop()
        inner = [each for each in part.subresources() if isinstance(each.contents, dict)]
        waiting += [(each, resolver.in_subresource(each)) for each in inner]
        if isinstance(part.contents, dict):
            yield part.contents, resolver


def _check_parts(schema: Any, kind: type[Validator]) -> None:
    """Raises UsageError for a pattern that cannot be compiled, and RecursionError for an endless reference."""
    leads_to: dict[int, list[int]] = {}
    for part, resolver in _parts(schema, kind):
        for pattern in [part.get("pattern"), *_keys(part.get("patternProperties"))]:
            _check_pattern(pattern)
        targets = [resolver.lookup(part[name]).contents for name in _REFERENCES if isinstance(part.get(name), str)]
        targets += [part.get(name) for name in _IN_PLACE]
        targets += [each for name in _IN_LISTS if isinstance(part.get(name), list) for each in part[name]]
        leads_to[id(part)] = [id(target) for target in targets if isinstance(target, dict)]
    if _has_circle(leads_to):
        raise RecursionError


def _keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else []


def _check_pattern(pattern: Any) -> None:
    if not isinstance(pattern, str):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"its pattern {pattern[:MOST_SAID]!r} cannot be compiled: {error}") from None


def _has_circle(leads_to: dict[int, list[int]]) -> bool:
    """True if references lead back to their start without descending into the value."""
    open_parts: set[int] = set()
    done: set[int] = set()
    for start in leads_to:
        path = [(start, iter(leads_to[start]))] if start not in done else []
        open_parts.update([start] if path else ())
        while path:
            part, rest = path[-1]
            following = next(rest, None)
            if following is None:
                path.pop()
                open_parts.discard(part)
                done.add(part)
            elif following in open_parts:
                return True
            elif following not in done:
                open_parts.add(following)
                path.append((following, iter(leads_to.get(following, ()))))
    return False
