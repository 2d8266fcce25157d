"""A spider's arguments as people may read them: short, and without secrets."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from harvester.formatting import without_userinfo
from harvester.masking import mask

LONGEST_TEXT = 300
"""Characters of one argument that are kept."""
MOST_VALUES = 20
"""Values of one argument that are kept."""


def printable_arguments(arguments: BaseModel | Mapping[str, Any] | None) -> dict[str, Any]:
    """All arguments by name, as JSON values. Long ones are cut, SecretStr and logins in addresses masked; what is no
    text in UTF-8, which no database takes, is shown as `?`.

    A SecretStr is masked from then on wherever it may stand, as in the command that was typed.
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
