"""Regular expressions that users write: some take hours on a small page, and would block the event loop."""

import re
from functools import lru_cache
from typing import Annotated, Any

import regex  # type: ignore[import-untyped]
from pydantic import AfterValidator

from harvester.exceptions import TooCostlyError

MAX_SEARCH_S = 0.2
"""Maximum number of seconds of a search. A usual search in 20,000 characters takes less than 0.01."""
MAX_SHOWN = 100
"""Maximum number of characters of a pattern in a message."""


class BoundedPattern:
    """A compiled expression, whose methods raise TooCostlyError after MAX_SEARCH_S."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        self.pattern = pattern
        self._compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)

    def search(self, text: str) -> Any:
        """Returns the first match, or None."""
        return self._bounded(self._compiled.search, text)

    def fullmatch(self, text: str) -> Any:
        """Returns the match of the whole text, or None."""
        return self._bounded(self._compiled.fullmatch, text)

    def _bounded(self, match: Any, text: str) -> Any:
        try:
            return match(text, timeout=MAX_SEARCH_S)
        except TimeoutError:
            shown = self.pattern[:MAX_SHOWN]
            raise TooCostlyError(f"the pattern {shown!r} takes more than {MAX_SEARCH_S} seconds to search") from None


@lru_cache(maxsize=1000)
def bounded_pattern(pattern: str) -> BoundedPattern:
    """Compiles a pattern once."""
    return BoundedPattern(pattern)


def _check(pattern: str) -> str:
    try:
        re.compile(pattern)
        regex.compile(pattern)
    except (re.error, regex.error) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return pattern


Expression = Annotated[str, AfterValidator(_check)]
"""A field for a regular expression that a user writes."""
