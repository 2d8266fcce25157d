"""Excerpts of responses for people, without tags, control characters and secrets."""

import re
from collections.abc import Iterator
from html import unescape

from harvester.masking import mask

MOST_EXCERPT = 300
"""Maximum number of characters of the excerpt in a verdict."""

_hidden = re.compile("<(?:(script|style)\\b|!--)", re.IGNORECASE | re.ASCII)
_end_of = {
    name: re.compile(end, re.IGNORECASE | re.ASCII).search
    for name, end in {"script": "</script", "style": "</style", "": "-->"}.items()
}
_tag = re.compile("<[^>]*>?")
_spaces = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060\ufeff]+")
_in_address = re.compile(r"//[^/\s@]+@")
_secrets = re.compile(
    r"\beyJ[\w-]{8,}(?:\.[\w-]*){1,2}"
    r"|\b(?:bearer|basic|dpop)\s+[\w.~+/=-]{8,}"
    r"|(?:pass(?:word|wd)?|secret|token|jwt|cookie|session_?id|api_?key|authorization|signature)s?\b[\\\"']*\s*[:=]"
    r"[\s\\\"']*(?:(?:bearer|basic|dpop)\s+)?[^\s\\\"'&,;<>]{4,}",
    re.IGNORECASE,
)


def readable(page: str) -> str:
    """Returns the visible text of an HTML page, on one line."""
    if "<" in page:
        page = _tag.sub(" ", "".join(_shown(page)))
    if "&" in page:
        page = unescape(page)
    return " ".join(page.split())


def _shown(page: str) -> Iterator[str]:
    """Yields the page without scripts, styles and comments."""
    start = 0
    while found := _hidden.search(page, start):
        yield page[start : found.start()]
        end = _end_of[found[1].lower() if found[1] else ""](page, found.end())
        if end is None:
            return
        start = end.start() if found[1] else end.end()
    yield page[start:]


def excerpt(text: str) -> str:
    """Returns the beginning of a text, without secrets and control characters."""
    return without_secrets(_spaces.sub(" ", mask(text, 4 * MOST_EXCERPT)).strip())[:MOST_EXCERPT]


def without_secrets(text: str) -> str:
    """Masks known secrets, passwords in addresses, tokens, and values of keys with the name of a secret."""
    return _secrets.sub("***", _in_address.sub("//***@", mask(text)))
