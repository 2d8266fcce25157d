"""Reads the entries of all sites, and finds the one that an address belongs to."""

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
"""Names and hosts whose site is kept; a crawl of pictures meets many hosts."""
UNDER_WAY = 256
"""Addresses whose site is kept: a dozen middlewares ask for that of each request."""


class Registry:
    """All sites. One of the user's own replaces a packaged one of the same name, and comes first at its hosts."""

    def __init__(self, sites: Iterable[Site] = (), packaged: Sequence[SiteFile] = ()) -> None:
        self._sites = {site.name: site for site in sites}
        self._hosts = {host: site for site in self._sites.values() for host in site.hosts}
        self._packaged = packaged
        self._by_name = lru_cache(MOST_KNOWN)(self._named)
        self._by_host = lru_cache(MOST_KNOWN)(self._at)
        self._by_url = lru_cache(UNDER_WAY)(self._of)

    def __iter__(self) -> Iterator[Site]:
        """All. Raises UsageError when two packaged entries have one name or one host."""
        return chain(self._sites.values(), self._unreplaced(self._all_packaged))

    def named(self, name: str) -> Site:
        """The site of this name; of an unregistered one, the entry that is assumed."""
        return self._by_name(name)

    def of(self, url: str) -> Site:
        """The site of an address: registered, or its host with all defaults."""
        return self._by_url(url)

    def _of(self, url: str) -> Site:
        try:
            parts = urlsplit(url)
            scheme, host = parts.scheme, parts.netloc.rpartition("@")[2].lower()
            with suppress(UnicodeError):  # it is no host, and is refused where it is to be asked
                host = ascii_netloc(host)
            host = usual_host(scheme, host[:MOST_NAME])
        except ValueError:
            scheme, host = "", ""  # it is no address, and is refused where it is to be asked
        return self._by_host(scheme, host)

    def having(self, table: str) -> Iterator[Site]:
        """Those whose entry has this table."""
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
        """Packaged sites of the files in which the word stands: no other is parsed."""
        sites = (file.sites.values() for file in self._packaged if word and word in file.text)
        return self._unreplaced(chain.from_iterable(sites))

    def _unreplaced(self, packaged: Iterable[Site]) -> Iterator[Site]:
        return (site for site in packaged if site.name not in self._sites)

    @cached_property
    def _all_packaged(self) -> list[Site]:
        return sites_of(self._packaged)


def _assumed(name: str) -> Site:
    """The entry of a site that has none. What is asked for may name a host that cannot be: it is not checked."""
    return Site.model_construct(name=name, hosts=(name,))


@lru_cache(maxsize=1)
def load_sites() -> Registry:
    """The sites of this process."""
    return read_sites(load_config())


def read_sites(config: Config) -> Registry:
    """The packaged entries and those of HARVESTER_SITES_DIR. Raises UsageError that names file, site and key."""
    return Registry(sites_of(own_files(config)), packaged_files())


@lru_cache(maxsize=1)
def packaged_files() -> tuple[SiteFile, ...]:
    """What harvester brings along."""
    return tuple(_files_below(files("harvester.sites")))


def own_files(config: Config) -> list[SiteFile]:
    """Those of HARVESTER_SITES_DIR. Raises UsageError when there is no such folder, or it cannot be read."""
    folder = config.sites_dir
    try:
        if folder is not None and not folder.is_dir():
            raise UsageError(f"HARVESTER_SITES_DIR: there is no folder {folder}.")
        return list(_files_below(folder)) if folder else []
    except OSError as error:
        raise UsageError(f"HARVESTER_SITES_DIR: {error.filename} cannot be read: {error.strerror}.") from None


def sites_of(files: Iterable[SiteFile]) -> list[Site]:
    """All of them. Raises UsageError when two have one name or one host."""
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
            continue  # an editor's copy; or where Kubernetes keeps what the others are links to
        if entry.is_dir():
            yield from _files_below(entry)
        elif entry.name.endswith(".toml"):
            yield SiteFile(entry)
