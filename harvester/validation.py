"""Describes errors in people's input, for these people."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from harvester.exceptions import UsageError

if TYPE_CHECKING:  # the command line needs this module without pydantic
    from pydantic import AfterValidator
    from pydantic_core import ErrorDetails

MOST_NUMBER = 1_000_000_000
"""Maximum for numbers of items or visits, or a priority, that a job may hold: MongoDB's numbers have a limit."""


def said_of(error: "ErrorDetails") -> str:
    """Returns the message of an error that pydantic found, without its prefix."""
    return error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a question that suggests a similar known name; empty if no name is similar."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def read_by(read: Callable[[str], object]) -> "AfterValidator":
    """Returns a validator for a pydantic field: `read` must accept the text, or its UsageError describes the fault."""

    def check(value: str) -> str:
        try:
            read(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return value

    from pydantic import AfterValidator

    return AfterValidator(check)
