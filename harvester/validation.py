"""What is wrong with what a person wrote, in words for that person."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from harvester.exceptions import UsageError

if TYPE_CHECKING:  # the command line needs this module without pydantic
    from pydantic import AfterValidator
    from pydantic_core import ErrorDetails

MOST_NUMBER = 1_000_000_000
"""Of items or looks, or a priority, that one may ask for: it stands in a job, and MongoDB's numbers have an end."""


def said_of(error: "ErrorDetails") -> str:
    """One fault that pydantic found, without its word for where that was."""
    return error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that follows a sentence on a name that is none of those; empty where none is like it."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def read_by(read: Callable[[str], object]) -> "AfterValidator":
    """For a field of pydantic: a text that `read` can read, whose UsageError says what is wrong with another."""

    def check(value: str) -> str:
        try:
            read(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return value

    from pydantic import AfterValidator

    return AfterValidator(check)
