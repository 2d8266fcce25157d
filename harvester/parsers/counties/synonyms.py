"""Loads meanings of labels that hold for one platform or jurisdiction only: lines of TOML that add to `labels.py`."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from harvester.parsers.counties import labels
from harvester.parsers.counties.labels import plain
from harvester.sites.property import IGNORED

CANONICAL: Mapping[str, str] = {
    "parcel_id": labels.PARCEL_ID[0],
    "alt_parcel_ids": "ALTPARCELID",
    "owner_names": labels.OWNERS[0],
    "co_owner": labels.MORE_OWNERS[0],
    "situs_address": labels.SITUS[0],
    "legal_description": labels.LEGAL[0],
    "mailing_address": labels.MAILING[0],
    "mailing_city": labels.MAILING_CITY[0],
    "mailing_state": labels.MAILING_STATE[0],
    "mailing_zip": labels.MAILING_ZIP[0],
    **{field: of[0] for table in (labels.PROPERTY, labels.ASSESSMENT, labels.SALE) for field, of in table.items()},
    IGNORED: "",
}
"""Field -> a label that means it everywhere."""


class Synonyms:
    """The meanings of labels on one site."""

    def __init__(self, lines: Mapping[str, str]) -> None:
        self._meanings = {_key(*_parts(label)): CANONICAL[field] for label, field in lines.items()}

    def meaning(self, label: str, title: str = "") -> str | None:
        """Returns the general label with the same meaning; empty for an ignored label, None for an unknown one.

        `title`: the title of the section. A line with this title precedes a line without a title.
        """
        if not self._meanings:
            return None
        return self._meanings.get(_key(title, label), self._meanings.get(_key("", label)))

    def plain(self, label: str, title: str = "") -> str:
        """Returns the label's meaning on this site, or the label itself, in the form of `labels.plain`."""
        return self.meaning(label, title) or plain(label)


NONE = Synonyms({})


@cache
def synonyms_of(platform: str, jurisdiction: str, own: tuple[tuple[str, str], ...] = ()) -> Synonyms:
    """Returns the synonyms for a jurisdiction on a platform.

    `own`: lines in the registry entry, which precede the others.
    """
    shipped = _shipped()
    return Synonyms({**shipped.get(platform, {}), **shipped.get(jurisdiction, {}), **dict(own)})


@cache
def _shipped() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = tomllib.loads(
        files("harvester.parsers.counties").joinpath("synonyms.toml").read_text("utf-8")
    )
    return found


def _parts(label: str) -> tuple[str, str]:
    """Returns the title of the section (may be empty) and the label."""
    title, _, name = label.rpartition(": ")
    return title, name


def _key(title: str, label: str) -> str:
    return ": ".join(plain(each.replace(".", " ")) for each in (title, label))
