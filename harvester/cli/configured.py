"""Loads the settings on demand, so that help and completion do not wait for pydantic."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harvester.config import Config


def load_config() -> "Config":
    """Returns the settings. Raises the errors of `harvester.config.load_config`."""
    from harvester.config import load_config as load

    return load()
