"""Reads single values of feeds and sitemaps: texts and addresses. An unreadable value costs only itself. Pure."""

import re
from collections.abc import Iterable
from typing import Any, Literal
from unicodedata import normalize
from urllib.parse import urlsplit

from harvester.hosts import without_user
from harvester.parsers.markup import text_of_html
from harvester.parsers.web.join import browser_join

MOST_LENGTH = 2048
"""Maximum number of characters of an address. The protocol of sitemaps has the same limit."""
MAX_MARKUP = 5_000
"""Maximum number of characters of a title that is searched for markup. In a longer title markup stays."""

Markup = Literal["none", "meant", "all"]
"""HTML to remove from a text: none (plain text), only HTML that was meant as markup, or all (the text is HTML)."""

_KEPT = "\t\n\r\x85"
_no_controls = {number: None for number in (*range(32), *range(127, 160)) if chr(number) not in _KEPT}
_may_be_address = re.compile(rf"https?://[^\s<>\x00-\x1f]{{1,{MOST_LENGTH - 8}}}", re.IGNORECASE).fullmatch


def is_address(text: str) -> bool:
    """Tells whether the text can be requested: an absolute http(s) address with a valid host and port."""
    if not _may_be_address(text):
        return False
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def without_spaces(address: str) -> str:
    """Writes the spaces of an address as browsers send them. Spaces in the host stay, since they make it invalid."""
    scheme, slashes, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host}{slash}{path.replace(' ', '%20')}"


def line(value: Any, markup: Markup = "none") -> str | None:
    """Returns a text on one line, in the form NFC; None if the text is missing or empty."""
    if not isinstance(value, str):
        return None
    if markup != "none" and len(value) <= MAX_MARKUP:
        text = text_of_html(value, every=markup == "all")
        # A title that consists of markup may be about markup, but not if the markup has attributes.
        value = text if text.strip() or markup == "all" or "=" in value else value
    return " ".join(normalize("NFC", without_controls(" ".join(value.split()))).split()) or None


def lines(values: Iterable[Any], markup: Markup = "none") -> tuple[str, ...]:
    """Returns the distinct texts."""
    return tuple(dict.fromkeys(filter(None, (line(value, markup) for value in values))))


def whole(value: Any) -> str | None:
    """Returns a text unchanged, except for control characters, which no format can hold."""
    return without_controls(value) or None if isinstance(value, str) and value.strip() else None


def without_controls(text: str) -> str:
    """Removes control characters except tabs and line ends, and pairs or replaces lone surrogates."""
    if text.isascii() and text.isprintable():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").translate(_no_controls)


def joined(base: str, address: Any) -> str | None:
    """Returns the target of an address from `base`, without user and password; None if it is not a web address."""
    if not isinstance(address, str) or not address.strip():
        return None
    try:
        found = without_user(without_spaces(browser_join(base, address)))
    except ValueError:
        return None
    return found if is_address(found) else None
