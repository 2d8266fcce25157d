"""Shell completion for names of spiders and sites. `harvester --install-completion` activates it."""

from collections.abc import Callable, Iterable


def spider_names(incomplete: str) -> list[str]:
    """Returns the names of spiders with this beginning."""
    return _begun(incomplete, _spiders)


def site_names(incomplete: str) -> list[str]:
    """Returns the names of sites with this beginning."""
    return _begun(incomplete, _sites)


def _spiders() -> Iterable[str]:
    from harvester.project import spider_loader

    return spider_loader().list()


def _sites() -> Iterable[str]:
    from harvester.sites import load_sites

    return (site.name for site in load_sites())


def _begun(incomplete: str, known: Callable[[], Iterable[str]]) -> list[str]:
    """Returns the known names with this beginning. Errors give no names; the command itself reports them later."""
    from contextlib import redirect_stderr
    from io import StringIO

    try:
        with redirect_stderr(StringIO()):  # a message would appear amid the user's typing
            return sorted(name for name in known() if name.startswith(incomplete))
    except (Exception, SystemExit):  # noqa: BLE001
        return []
