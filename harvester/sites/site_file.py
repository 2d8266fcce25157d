"""A TOML file of entries."""

import tomllib
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harvester.exceptions import UsageError
from harvester.sites.problems import problems
from harvester.sites.site import Site


class SiteFile:
    """A file of entries. It is read at once, and parsed only for the first use of a site, because that takes far
    longer."""

    def __init__(self, path: Traversable | Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from None

    @cached_property
    def sites(self) -> dict[str, Site]:
        """The sites by name. Raises UsageError that names file, site and key."""
        try:
            tables: dict[str, Any] = tomllib.loads(self.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise self._unreadable(error) from None
        return {name: self._site(name, table) for name, table in tables.items()}

    def _site(self, name: str, table: Any) -> Site:
        if not isinstance(table, dict):
            raise UsageError(f"{self.path}: {name} stands outside of a site's table. Put it below a line like [name].")
        try:
            return Site(name=name, **table)
        except ValidationError as error:
            lines = [f"  {place}: {said}" for place, said in problems(error, Site, name).items()]
            raise UsageError(f"Sites in {self.path} cannot be used:\n" + "\n".join(lines)) from None
        except TypeError:
            raise UsageError(
                f"{self.path}: the site's name is the heading, [{name}]; take the key `name` out."
            ) from None

    def _unreadable(self, error: Exception) -> UsageError:
        return UsageError(f"The sites in {self.path} cannot be read: {error}.")
