"""A spider's arguments in a printable form: short, and without secrets."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from harvester.formatting import without_userinfo
from harvester.masking import mask

LONGEST_TEXT = 300
"""Maximum number of characters of an argument."""
MOST_VALUES = 20
"""Maximum number of values of an argument."""


def printable_arguments(arguments: BaseModel | Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns all arguments by name as JSON values.

    Long values are cut; SecretStr values and logins in URLs are masked. Text that is not valid UTF-8 shows as `?`,
    because databases refuse it. A SecretStr is masked everywhere from then on, even in the command line.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, BaseModel):
        mask.add(*(value.get_secret_value() for _, value in arguments if isinstance(value, SecretStr)))
    given = arguments.model_dump(mode="json") if isinstance(arguments, BaseModel) else arguments
    return {name: _short(value) for name, value in given.items()}


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list):
        more = [f"… ({len(value):,} in all)"] if len(value) > MOST_VALUES else []
        return [_short(item) for item in value[:MOST_VALUES]] + more
    if not isinstance(value, str):
        return value
    text = without_userinfo(value).encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… ({len(text):,} characters)"
