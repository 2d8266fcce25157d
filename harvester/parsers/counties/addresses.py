"""Splits addresses into parts with the package usaddress (the extra `addresses`). Without it they stay as shown.

`AddressQuery` serves searches that know each street by one spelling only.
"""

import re
from functools import cache
from types import ModuleType
from typing import NamedTuple

from harvester.parsers.counties.names import is_notice

STREET = "Street Address"
"""The kind that usaddress gives an address with a street. Its parts of other kinds are not usable."""
_SUFFIXES = {
    word: words.split()[0]
    for words in (
        "ALY ALLEY",
        "AVE AV AVENUE",
        "BLVD BOULEVARD",
        "CIR CIRCLE",
        "CT COURT",
        "DR DRIVE",
        "EXT EXTENSION",
        "HWY HIGHWAY",
        "HTS HEIGHTS",
        "LN LANE",
        "LOOP",
        "PIKE",
        "PKWY PARKWAY",
        "PL PLACE",
        "RD ROAD",
        "SQ SQUARE",
        "ST STREET",
        "TER TERR TERRACE",
        "TPKE TURNPIKE",
        "TRL TRAIL",
        "WAY WY",
    )
    for word in words.split()
}
"""A spelling of a street's kind -> the spelling used in comparisons."""
_words = re.compile(r"[\w'&/-]+").findall


_is_code = re.compile(r"(?:\d{1,3}|[A-Z]\d?)\s*[-:]\s+(?=[A-Z]{3})", re.IGNORECASE).match


def is_code(address: str) -> bool:
    """Returns True for a code with its meaning, `6 - NEIGHBORHOOD OR SPOT`, which some sites show as the location."""
    return _is_code(address) is not None


_is_place_only = re.compile(r"[\s,.-]*(?:[A-Z]{2}\b)?[\s,.-]*(?:\d{5}(?:-?\d{4})?)?[\s,.-]*", re.IGNORECASE).fullmatch
_is_post_box = re.compile(r"\s*(?:p\.?\s*o\.?|post office)\s*(?:box|drawer)\b", re.IGNORECASE).match
_is_unassigned = re.compile(
    r"(?=.*\b(?:no|not|un(?:assigned|known|addressed)|tbd|determined)\b)(?:\b(?:no|not|unassigned|unknown|unaddressed|tbd"
    r"|to|be|determined|yet|currently|assigned|available|given|listed|situs|site|physical|street|property|location|address"
    r"|number)\b\W*)+",
    re.IGNORECASE,
).fullmatch


def why_no_place(address: str) -> str:
    """Returns the reason why the value of an address label is not the address of a property; empty if it is one.

    `RR 2 BOX 15` is the place of a farm. `PO BOX 15` is only where somebody receives mail.
    """
    if _is_place_only(address):
        return "it names no street"
    if is_notice(address) or _is_unassigned(address) or not any(map(str.isalpha, address)):
        return "it is no address"
    if _is_post_box(address):
        return "it is a box of a post office"
    return "it is a code" if is_code(address) else ""


def as_box(number: str) -> str:
    """Returns a post office box in its usual spelling."""
    return f"PO BOX {number}" if number.isdecimal() else number


def ends_with_place(address: str, place: str) -> bool:
    """Returns True if an address ends with the ZIP code of a place, or with its last word if it has no ZIP code."""
    words, last = _words(address.upper()), _words(place.upper())
    code = next((word[:5] for word in last if word[:5].isdecimal()), "")
    return bool(words and last) and (words[-1][:5] == code if code else words[-len(last) :] == last)


class AddressQuery(NamedTuple):
    """An address to search for."""

    asked: str
    """The house number and the street name without the street's kind, because sites differ in spelling: RD, ROAD."""
    words: tuple[str, ...]
    """All words of the address, with the street's kind in the spelling used in comparisons."""

    @classmethod
    def of(cls, address: str) -> "AddressQuery":
        """Builds the query from an address. The text after a comma (town, state) is left out."""
        given = _words(address.partition(",")[0].upper())
        kinds = [at for at, word in enumerate(given) if word in _SUFFIXES and at and not given[at - 1].isdecimal()]
        return cls(" ".join(given[: kinds[-1]] if kinds else given), tuple(_SUFFIXES.get(word, word) for word in given))

    def matches(self, addresses: list[str]) -> list[bool]:
        """Returns which addresses match: those with the given kind of street, else those with any kind."""
        found = [_words(address.upper()) for address in addresses]
        exact = [_begins([_SUFFIXES.get(word, word) for word in words], self.words) for words in found]
        return exact if any(exact) else [_begins(words, self.asked.split()) for words in found]


def _begins(words: list[str], with_these: "list[str] | tuple[str, ...]") -> bool:
    """Returns True if the words occur in sequence. A house number must be the first word."""
    number = len(with_these)
    if not number:
        return False
    places = range(1 if with_these[0][0].isdecimal() else len(words) - number + 1)
    return any(words[at : at + number] == list(with_these) for at in places)


def parts_of(address: str) -> dict[str, str]:
    """Returns the parts by their usaddress names: AddressNumber, StreetName, OccupancyIdentifier. Empty if unclear."""
    package = _usaddress()
    if package is None:
        return {}
    try:
        parts, kind = package.tag(address)
    except package.RepeatedLabelError:
        return {}
    return dict(parts) if kind == STREET else {}


@cache
def _usaddress() -> ModuleType | None:
    try:
        import usaddress
    except ImportError:
        return None
    module: ModuleType = usaddress
    return module
