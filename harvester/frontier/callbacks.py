"""Which of a spider's methods a request may name: those that take an answer or a failure, and no others."""

import inspect
from functools import lru_cache
from types import FunctionType
from typing import Any

from scrapy import Spider

FIRST = ("response", "failure")
"""What the first argument of a callback is called, or how its annotation ends."""


def is_callback(spider: type[Spider], name: str) -> bool:
    """Whether the class has such a method. Its first argument says so, by its name or by its annotation.

    A name that comes from Redis could else call whatever a spider has: `close`, `from_crawler`, `update_settings`.
    """
    kind: Any = spider  # mypy takes the hash of its instances for its own
    return _is_callback(kind, name)


@lru_cache(maxsize=1000)
def _is_callback(spider: Any, name: str) -> bool:
    function = inspect.getattr_static(spider, name, None)
    if not isinstance(function, FunctionType):
        return False
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if not parameters:
        return False
    annotation = parameters[0].annotation
    said = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameters[0].name in FIRST or said.lower().endswith(FIRST)
