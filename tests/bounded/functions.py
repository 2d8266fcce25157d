"""What the tests of harvester.bounded call."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from harvester.exceptions import PageFailed, ParseError


def same(value: Any) -> Any:
    return value


def numbers(until: int) -> Iterator[int]:
    yield from range(until)


def rows(number: int) -> list[tuple[int, str]]:
    return [(each, f"row {each}") for each in range(number)]


def size_of_many(number: int) -> int:
    return len([f"{each:40}" for each in range(number)])


def raise_parse_error(text: str) -> None:
    raise ParseError(text)


def raise_page_failed(outcome: str, reason: str) -> None:
    raise PageFailed(outcome, reason)


def divide(one: int, other: int) -> float:
    return one / other


def compute_for_ever() -> None:
    while True:
        pass


def take_memory_for_ever() -> None:
    taken = []
    while True:
        with suppress(BaseException):  # as libraries do
            taken.append(os.urandom(1 << 20))


def wait(seconds: float) -> None:
    time.sleep(seconds)


def die() -> None:
    os._exit(9)
