"""Describes the faults in a table of a site's entry for the person who wrote it."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harvester.validation import did_you_mean, said_of

RENAMED = {
    "judging": "outcomes",
    "breaking": "breaker",
    "proxying": "proxy",
    "rendering": "browser",
    "transport": "http",
    "later": "retryable",
    "dearer": "escalate",
}
"""Tables and keys of earlier versions -> their names now."""


def problems(error: ValidationError, model: type[BaseModel], *before: str) -> dict[str, str]:
    """Returns places such as `county.breaker.probes` -> the description of the fault there. `before` begins each
    place."""
    found: dict[str, list[str]] = {}
    for each in error.errors():
        table, path = _place_of(each, model)
        found.setdefault(".".join([*before, *path]), []).append(_said(each, table))
    return {place: ", or ".join(dict.fromkeys(said)) for place, said in found.items()}


def _place_of(error: ErrorDetails, model: type[BaseModel]) -> tuple[type[BaseModel], list[str]]:
    """Returns the table with the fault, and the path to it, without pydantic's names for members of a union."""
    table, annotation, path = model, None, list[str]()
    *way, last = error["loc"] or ("",)
    for step in way:
        if isinstance(step, str) and step in table.model_fields and not _is_mapping(annotation):
            annotation = table.model_fields[step].annotation
            table = next(_tables_in(annotation), table)
        elif isinstance(step, str) and not _is_mapping(annotation):
            continue
        else:
            annotation = None
        path.append(str(step))
    is_known = isinstance(last, int) or last in table.model_fields or _is_mapping(annotation)
    is_place = (is_known and last != "[key]") or error["type"] == "extra_forbidden"
    return table, [*path, str(last)] if is_place else path


def _tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _tables_in(each)


def _is_mapping(annotation: Any) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _said(error: ErrorDetails, table: type[BaseModel]) -> str:
    """Returns the description of a fault. For a renamed or misspelt key it includes the right name."""
    if error["type"] != "extra_forbidden":
        return said_of(error)
    key = str(error["loc"][-1])
    if new := RENAMED.get(key):
        return f"is called `{new}` now"
    known = f"; there are {', '.join(sorted(table.model_fields))}"
    return f"there is no such key{did_you_mean(key, table.model_fields) or known}"
