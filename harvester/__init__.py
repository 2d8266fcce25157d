"""A crawler of public data that loses nothing and explains every failure."""

from typing import Any

__version__: str


def __getattr__(name: str) -> Any:
    """Imports slow modules at first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("harvester")
    if name == "Addon":
        from harvester.addon import Addon

        return Addon
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
