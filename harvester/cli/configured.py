"""The settings, for commands: read when one asks for them, so that help and completion need not wait for pydantic."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harvester.config import Config


def load_config() -> "Config":
    """Returns what `harvester.config.load_config` returns, and raises what it raises."""
    from harvester.config import load_config as load

    return load()
