"""What is wrong with what a person wrote, in words for that person."""

from collections.abc import Iterable
from difflib import get_close_matches

from pydantic_core import ErrorDetails


def said_of(error: ErrorDetails) -> str:
    """One fault that pydantic found, without its word for where that was."""
    return error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that follows a sentence on a name that is none of those; empty where none is like it."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
