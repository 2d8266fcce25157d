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
from pydantic_core import ErrorDetails

from harvester.config import Config, load_config
from harvester.exceptions import UsageError
from harvester.sites.site import MOST_NAME, Site

MOST_KNOWN = 10_000
"""Unregistered hosts whose entry is kept; a crawl of pictures meets many hosts."""

RENAMED = {
    "judging": "outcomes",
    "breaking": "breaker",
    "proxying": "proxy",
    "rendering": "browser",
    "transport": "http",
    "later": "retryable",
    "dearer": "escalate",
}
"""Tables and keys of earlier versions, and what they are called now."""


class Registry:
    """All sites. An entry of a later file replaces one of the same name."""

    def __init__(self, sites: Iterable[Site] = ()) -> None:
        self._sites = {site.name: site for site in sites}
        self._hosts = {host: site for site in self._sites.values() for host in site.hosts}
        self._met: dict[str, Site] = {}

    def __iter__(self) -> Iterator[Site]:
        return iter(self._sites.values())

    def named(self, name: str) -> Site:
        """The site of this name; of an unregistered one, the entry that is assumed."""
        return self._sites.get(name) or Site(name=name, hosts=(name,))

    def of(self, url: str) -> Site:
        """The site of an address: registered, or its host with all defaults."""
        try:
            host = urlsplit(url).netloc.rpartition("@")[2].lower()[:MOST_NAME]
        except ValueError:
            host = ""  # it is no address, and is refused where it is to be asked
        site = self._met.get(host)
        if site is None:
            if len(self._met) >= MOST_KNOWN:
                self._met.clear()
            site = self._met[host] = self._of(host)
        return site

    def _of(self, host: str) -> Site:
        bare = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        labels = bare.split(".")
        wildcards = ("*." + ".".join(labels[first:]) for first in range(1, len(labels)))
        for pattern in (host, bare, *wildcards):
            if site := self._hosts.get(pattern):
                return site
        return Site(name=host or "-", hosts=(host or "-",))


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
    return Registry(site for root in roots for file in _toml_below(root) for site in _read(file))


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
            lines = [f"  {'.'.join(map(str, (name, *each['loc'])))}: {_said(each)}" for each in error.errors()]
            raise UsageError(f"Sites in {file} cannot be used:\n" + "\n".join(lines)) from None
        except TypeError:
            raise UsageError(f"{file}: the site's name is the heading, [{name}]; take the key `name` out.") from None


def _said(error: ErrorDetails) -> str:
    """What is wrong with a key; of one that has another name now, that name."""
    new = RENAMED.get(str(error["loc"][-1])) if error["type"] == "extra_forbidden" else None
    return f"is called `{new}` now" if new else error["msg"]
