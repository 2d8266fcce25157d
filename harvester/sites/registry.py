"""Reads the entries of all sites, and finds the one that an address belongs to."""

import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from harvester.config import Config, load_config
from harvester.exceptions import UsageError
from harvester.sites.problems import problems
from harvester.sites.site import MOST_NAME, Site, patterns_of

MOST_KNOWN = 10_000
"""Unregistered hosts whose entry is kept; a crawl of pictures meets many hosts."""


class Registry:
    """All sites. An entry of a later file replaces one of the same name."""

    def __init__(self, sites: Iterable[Site] = ()) -> None:
        self._sites = {site.name: site for site in sites}
        self._hosts = {host: site for site in self._sites.values() for host in site.hosts}
        self._met: dict[tuple[str, str], Site] = {}
        """By scheme and host."""

    def __iter__(self) -> Iterator[Site]:
        return iter(self._sites.values())

    def named(self, name: str) -> Site:
        """The site of this name; of an unregistered one, the entry that is assumed."""
        return self._sites.get(name) or _assumed(name)

    def of(self, url: str) -> Site:
        """The site of an address: registered, or its host with all defaults."""
        try:
            parts = urlsplit(url)
            scheme, host = parts.scheme, parts.netloc.rpartition("@")[2].lower()[:MOST_NAME]
        except ValueError:
            scheme, host = "", ""  # it is no address, and is refused where it is to be asked
        site = self._met.get((scheme, host))
        if site is None:
            if len(self._met) >= MOST_KNOWN:
                self._met.clear()
            site = self._met[scheme, host] = self._of(scheme, host)
        return site

    def _of(self, scheme: str, host: str) -> Site:
        for pattern in patterns_of(scheme, host):
            if site := self._hosts.get(pattern):
                return site
        return _assumed(host or "-")


def _assumed(name: str) -> Site:
    """The entry of a site that has none. What is asked for may name a host that cannot be: it is not checked."""
    return Site.model_construct(name=name, hosts=(name,))


@lru_cache(maxsize=1)
def load_sites() -> Registry:
    """The sites of this process."""
    return read_sites(load_config())


def read_sites(config: Config) -> Registry:
    """The packaged entries and those of HARVESTER_SITES_DIR. Raises UsageError that names file, site and key."""
    folder = config.sites_dir
    if folder is not None and not folder.is_dir():
        raise UsageError(f"HARVESTER_SITES_DIR: there is no folder {folder}.")
    roots: list[Traversable | Path] = [files("harvester.sites"), *([folder] if folder else [])]
    sites: dict[str, Site] = {}
    for root in roots:
        sites |= _read_all(root)
    whose: dict[str, str] = {}
    for host, name in [(host, site.name) for site in sites.values() for host in site.hosts]:
        if whose.setdefault(host, name) != name:
            raise UsageError(f"The host {host} belongs to two sites, [{whose[host]}] and [{name}]: name it in one.")
    return Registry(sites.values())


def _read_all(folder: Traversable | Path) -> dict[str, Site]:
    sites: dict[str, Site] = {}
    where: dict[str, Traversable | Path] = {}
    for file in _toml_below(folder):
        for site in _read(file):
            if site.name in sites:
                raise UsageError(f"[{site.name}] stands in {where[site.name]} and in {file}: take one of them out.")
            sites[site.name], where[site.name] = site, file
    return sites


def _toml_below(folder: Traversable | Path) -> Iterator[Traversable | Path]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _toml_below(entry)
        elif entry.name.endswith(".toml"):
            yield entry


def _read(file: Traversable | Path) -> Iterator[Site]:
    try:
        tables: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"The sites in {file} cannot be read: {error}.") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{file}: {name} stands outside of a site's table. Put it below a line like [name].")
        try:
            yield Site(name=name, **table)
        except ValidationError as error:
            lines = [f"  {place}: {said}" for place, said in problems(error, Site, name).items()]
            raise UsageError(f"Sites in {file} cannot be used:\n" + "\n".join(lines)) from None
        except TypeError:
            raise UsageError(f"{file}: the site's name is the heading, [{name}]; take the key `name` out.") from None
