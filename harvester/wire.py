"""Encoding of values over HTTP, for the responses of the control service and its client.

Results are frozen dataclasses, which pydantic writes for FastAPI. The ledger's documents are Structs of msgspec, for
speed; the class `OnTheWire` describes their fields to pydantic. msgspec reads both from the bytes of a response.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, get_type_hints

import msgspec

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

T = TypeVar("T")


class OnTheWire:
    """A Struct of msgspec that may be in a response of the control service."""

    __slots__ = ()

    HIDDEN: ClassVar[frozenset[str]] = frozenset()
    """Fields for the program alone. They need defaults, which a client then receives."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema  # slow, and parsers do without

        struct = cast(type[msgspec.Struct], cls)
        hints = get_type_hints(cls)
        shown = [name for name in struct.__struct_fields__ if name not in cls.HIDDEN]
        fields = {name: core_schema.typed_dict_field(handler.generate_schema(hints[name])) for name in shown}
        as_object = core_schema.typed_dict_schema(fields, cls=cls, ref=f"{cls.__module__}.{cls.__qualname__}")

        def fields_of(value: Any) -> dict[str, Any]:
            return {name: getattr(value, name) for name in shown}

        return core_schema.no_info_plain_validator_function(
            lambda value: msgspec.convert(value, cls),
            serialization=core_schema.plain_serializer_function_ser_schema(fields_of, return_schema=as_object),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> "JsonSchemaValue":
        serialization = cast("dict[str, Any]", schema)["serialization"]
        return handler(serialization["return_schema"])


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Returns a decoder for such a value in a JSON response. It raises msgspec.DecodeError for invalid data."""
    return msgspec.json.Decoder(kind, dec_hook=_path).decode


def _path(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return kind(value)
    raise NotImplementedError(f"no {kind.__name__} goes over HTTP")
