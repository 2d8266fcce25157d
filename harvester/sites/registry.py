"""Reads the entries of all sites, and finds the site of an address."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from harvester.config import Config, load_config
from harvester.exceptions import UsageError
from harvester.hosts import ascii_netloc
from harvester.sites.site import MOST_NAME, Site, patterns_of, usual_host
from harvester.sites.site_file import SiteFile

MOST_KNOWN = 10_000
"""Maximum number of names and hosts with a cached site; a crawl of pictures meets many hosts."""
UNDER_WAY = 256
"""Maximum number of addresses with a cached site: a dozen middlewares need it for each request."""


class Registry:
    """All sites. The user's own entry replaces a packaged one with the same name, and has priority at its hosts."""

    def __init__(self, sites: Iterable[Site] = (), packaged: Sequence[SiteFile] = ()) -> None:
        self._sites = {site.name: site for site in sites}
        self._hosts = {host: site for site in self._sites.values() for host in site.hosts}
        self._packaged = packaged
        self._by_name = lru_cache(MOST_KNOWN)(self._named)
        self._by_host = lru_cache(MOST_KNOWN)(self._at)
        self._by_url = lru_cache(UNDER_WAY)(self._of)

    def __iter__(self) -> Iterator[Site]:
        """Yields all sites. Raises UsageError when two packaged entries share a name or a host."""
        return chain(self._sites.values(), self._unreplaced(self._all_packaged))

    def named(self, name: str) -> Site:
        """Returns the site with this name; for an unregistered one, the default entry."""
        return self._by_name(name)

    def of(self, url: str) -> Site:
        """Returns the site of an address: a registered one, or its host with all defaults."""
        return self._by_url(url)

    def _of(self, url: str) -> Site:
        try:
            parts = urlsplit(url)
            scheme, host = parts.scheme, parts.netloc.rpartition("@")[2].lower()
            with suppress(UnicodeError):  # not a host; the request is refused later
                host = ascii_netloc(host)
            host = usual_host(scheme, host[:MOST_NAME])
        except ValueError:
            scheme, host = "", ""  # not an address; the request is refused later
        return self._by_host(scheme, host)

    def having(self, table: str) -> Iterator[Site]:
        """Returns the sites whose entry has this table."""
        return (site for site in chain(self._sites.values(), self._mentioned(table)) if table in site.model_fields_set)

    def _named(self, name: str) -> Site:
        found = self._sites.get(name) or next((site for site in self._mentioned(name) if site.name == name), None)
        return found or _assumed(name)

    def _at(self, scheme: str, host: str) -> Site:
        if not host:
            return _assumed("-")
        patterns = list(patterns_of(scheme, host))
        own = (self._hosts[pattern] for pattern in patterns if pattern in self._hosts)
        packaged = (site for pattern in patterns for site in self._mentioned(pattern) if pattern in site.hosts)
        return next(chain(own, packaged), None) or _assumed(host)

    def _mentioned(self, word: str) -> Iterator[Site]:
        """Yields the packaged sites of files that contain the word; no other file is parsed."""
        sites = (file.sites.values() for file in self._packaged if word and word in file.text)
        return self._unreplaced(chain.from_iterable(sites))

    def _unreplaced(self, packaged: Iterable[Site]) -> Iterator[Site]:
        return (site for site in packaged if site.name not in self._sites)

    @cached_property
    def _all_packaged(self) -> list[Site]:
        return sites_of(self._packaged)


def _assumed(name: str) -> Site:
    """Returns the entry for an unregistered site. It skips validation, because the host may be invalid."""
    return Site.model_construct(name=name, hosts=(name,))


@lru_cache(maxsize=1)
def load_sites() -> Registry:
    """Returns the sites of this process."""
    return read_sites(load_config())


def read_sites(config: Config) -> Registry:
    """Reads the packaged entries and those in HARVESTER_SITES_DIR. Raises UsageError that names file, site and key."""
    return Registry(sites_of(own_files(config)), packaged_files())


@lru_cache(maxsize=1)
def packaged_files() -> tuple[SiteFile, ...]:
    """Returns the files in the package."""
    return tuple(_files_below(files("harvester.sites")))


def own_files(config: Config) -> list[SiteFile]:
    """Returns the files in HARVESTER_SITES_DIR. Raises UsageError when that folder is missing or unreadable."""
    folder = config.sites_dir
    try:
        if folder is not None and not folder.is_dir():
            raise UsageError(f"HARVESTER_SITES_DIR: there is no folder {folder}.")
        return list(_files_below(folder)) if folder else []
    except OSError as error:
        raise UsageError(f"HARVESTER_SITES_DIR: {error.filename} cannot be read: {error.strerror}.") from None


def sites_of(files: Iterable[SiteFile]) -> list[Site]:
    """Returns all sites of the files. Raises UsageError when two share a name or a host."""
    sites: list[Site] = []
    where: dict[str, SiteFile] = {}
    whose: dict[str, str] = {}
    for file in files:
        for site in file.sites.values():
            if where.setdefault(site.name, file) is not file:
                raise UsageError(
                    f"[{site.name}] stands in {where[site.name].path} and in {file.path}: take one of them out."
                )
            for host in site.hosts:
                if whose.setdefault(host, site.name) != site.name:
                    raise UsageError(
                        f"The host {host} belongs to two sites, [{whose[host]}] and [{site.name}]: name it in one."
                    )
            sites.append(site)
    return sites


def _files_below(folder: Traversable | Path) -> Iterator[SiteFile]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.name.startswith("."):
            continue  # an editor's copy, or the folder that Kubernetes links to
        if entry.is_dir():
            yield from _files_below(entry)
        elif entry.name.endswith(".toml"):
            yield SiteFile(entry)
