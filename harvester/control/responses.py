"""Responses that a route builds itself, to set another status or a Location."""

from typing import Any

from fastapi import Response
from pydantic import TypeAdapter

_writers: dict[type, TypeAdapter[Any]] = {}


def answered(value: Any, status: int = 200, location: str = "") -> Response:
    """Returns the value as JSON, in the form that FastAPI would give it."""
    kind = type(value)
    if kind not in _writers:
        _writers[kind] = TypeAdapter(kind)
    headers = {"Location": location} if location else None
    return Response(_writers[kind].dump_json(value), status, headers, "application/json")
