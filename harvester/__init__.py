"""A crawler of public data that loses nothing and explains every failure."""

__version__: str


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # takes as long as the start of a process that only parses

    return version("harvester")
