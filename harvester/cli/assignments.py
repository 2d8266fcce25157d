"""Options like `-a NAME=VALUE`."""

from collections.abc import Iterable

from harvester.exceptions import UsageError


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Returns the values by name. Raises UsageError."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"{option}: {text!r} is not of the form NAME=VALUE.")
        found[name] = value
    return found
