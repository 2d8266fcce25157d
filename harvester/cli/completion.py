"""What the shell completes: names of spiders and sites. `harvester --install-completion` tells the shell of it."""

from collections.abc import Callable, Iterable


def spider_names(incomplete: str) -> list[str]:
    """Those that begin so."""
    return _begun(incomplete, _spiders)


def site_names(incomplete: str) -> list[str]:
    """Those of the registry that begin so."""
    return _begun(incomplete, _sites)


def _spiders() -> Iterable[str]:
    from harvester.project import spider_loader

    return spider_loader().list()


def _sites() -> Iterable[str]:
    from harvester.sites import load_sites

    return (site.name for site in load_sites())


def _begun(incomplete: str, known: Callable[[], Iterable[str]]) -> list[str]:
    """None where what is known cannot be read: the command itself says why."""
    from contextlib import redirect_stderr
    from io import StringIO

    try:
        with redirect_stderr(StringIO()):  # a message would stand in the middle of what is being typed
            return sorted(name for name in known() if name.startswith(incomplete))
    except (Exception, SystemExit):  # noqa: BLE001
        return []
