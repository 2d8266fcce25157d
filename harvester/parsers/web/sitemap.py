"""Parses sitemaps (sitemaps.org): lists of pages and further sitemaps, as XML or text, gzipped or not. Pure functions.

The content is not trusted: entities have a limited expansion, nothing is fetched, and the sizes of the unpacked, read
and listed data are limited.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from typing import Any, NamedTuple

from lxml import etree

from harvester.decoding import as_utf8
from harvester.exceptions import ParseError
from harvester.hosts import without_user
from harvester.parsers.web.dates import read_date
from harvester.parsers.web.packed import CUT, unpack
from harvester.parsers.web.references import with_references
from harvester.parsers.web.values import is_address, without_spaces

MOST_ENTRIES = 50_000
"""Maximum number of entries of a sitemap. The protocol has the same limit."""
MOST_PARTS = 10_000
"""Maximum number of elements of an entry, including elements before it. A page has at most 1,000 pictures."""
MOST_SHOWN = 200
"""Maximum number of characters that are kept of a text that is not an address."""
MOST_UNREAD = 1_000
"""Maximum number of such texts."""
MOST_WRAPPERS = 3
"""Maximum number of elements around a list. Some sites put one inside a page."""

_LISTED = {"urlset": "url", "sitemapindex": "sitemap"}
_lines = re.compile(rb"(?:^|[\r\n])(?:[^\S\r\n]|\xef\xbb\xbf)*(https?://[^\r\n]*)", re.IGNORECASE).finditer
_closings = re.compile(rb"</(?:[\w.-]+:)?(?:url|sitemap)((?:set|index)?)\s*>", re.IGNORECASE).finditer
_is_empty = re.compile(rb"<(?:[\w.-]+:)?(?:urlset|sitemapindex)\b[^<>]*/>\s*\Z", re.IGNORECASE).search


class SitemapEntry(NamedTuple):
    """An entry of a sitemap."""

    url: str
    lastmod: datetime | None = None
    """Time of the page's last change, as the site states it; in UTC."""
    is_sitemap: bool = False
    """True if the entry is another sitemap."""
    problem: str = ""
    """Reason why the date is missing although the site states one."""


class Sitemap(NamedTuple):
    """The entries of a sitemap, in their order."""

    entries: list[SitemapEntry]
    """The list holds each further sitemap once."""
    unread: tuple[str, ...] = ()
    """Texts in place of addresses that are not addresses."""
    cut: str = ""
    """Reason why entries are missing; empty if the list is complete."""


def parse_sitemap(body: bytes) -> Sitemap:
    """Reads a sitemap in any form. Raises ParseError when the body is not a sitemap.

    The entry at the end of a truncated sitemap is left out, since half an address leads to another page.
    """
    unpacked, cut = unpack(body)
    text = as_utf8(unpacked, prefers_utf8=True).lstrip()
    found = _of_xml(text, cut) if text.startswith(b"<") else _of_text(text, cut)
    entries: list[SitemapEntry] = []
    unread: list[str] = []
    sitemaps: set[str] = set()
    for entry in found:
        if isinstance(entry, _Cut):
            cut = entry.why
        elif not is_address(entry.url):
            unread += [entry.url[:MOST_SHOWN]] if len(unread) < MOST_UNREAD else []
        elif not entry.is_sitemap or entry.url not in sitemaps:
            if len(entries) == MOST_ENTRIES:
                cut = f"it lists more than {MOST_ENTRIES:,}"
                break
            entries.append(entry)
            sitemaps.update([entry.url] if entry.is_sitemap else ())
    return Sitemap(entries, tuple(unread), cut)


class _Cut(NamedTuple):
    why: str


def _of_text(body: bytes, cut: str) -> Iterator[SitemapEntry | _Cut]:
    if cut:
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    count = 0
    for line in _lines(body):
        entry = SitemapEntry(_address(line[1].decode("utf-8", "replace").strip()))
        count += is_address(entry.url)
        yield entry
    if not count:
        raise ParseError("it is no sitemap: neither XML nor a list of addresses" + (f", and {cut}" if cut else ""))


def _of_xml(body: bytes, cut: str) -> Iterator[SitemapEntry | _Cut]:
    end = None
    for end in _closings(body):  # noqa: B007  finds the last one
        pass
    if not (end and end[1]) and not _is_empty(body):
        yield _Cut(cut or CUT)
        body = body[: end.end()] if end else body
    reader = etree.iterparse(
        BytesIO(with_references(body)),
        events=("start", "end"),
        encoding="utf-8",
        recover=True,
        resolve_entities="internal",
        no_network=True,
        remove_comments=True,
        remove_pis=True,
        collect_ids=False,
    )
    root = first = ""
    count = parts = around = 0
    try:
        for event, element in reader:
            name = _name(element)[1]
            if event == "start":
                first, around = first or name, around + 1
                root = root or (name if name in _LISTED else "")
                if not root and around >= MOST_WRAPPERS:
                    break
                parts += 1
                if parts > MOST_PARTS:
                    yield _Cut(f"there is no entry in {MOST_PARTS:,} elements")
                    break
            elif name in ("url", "sitemap", *_LISTED) and root:
                for entry in _entries(element, root == "sitemapindex" or name in ("sitemap", "sitemapindex")):
                    count += 1
                    yield entry
                if name not in _LISTED:
                    _forget(element)
                parts = 0
    except etree.XMLSyntaxError as error:
        if not count:
            raise ParseError(f"it is no sitemap: {error.msg}") from None
        yield _Cut(f"it cannot be read to its end: {error.msg}")
    if not root:
        raise ParseError(f"it is no sitemap: its root is <{first[:50]}>" if first else "it is no sitemap: it is empty")
    if parts > MOST_PARTS and not count:
        raise ParseError(f"it is no sitemap: there is no entry in its first {MOST_PARTS:,} elements")


def _entries(element: Any, is_sitemap: bool) -> Iterator[SitemapEntry]:
    """Yields the addresses in an element, each with its date. It also handles elements that were never closed."""
    space, name = _name(element)
    addresses: list[str] = []
    dates: dict[int, str] = {}
    for child in element:
        own, tag = _name(child)
        if tag in ("loc", "lastmod") and own in (space, ""):  # others are addresses of pictures
            text = (child.text or "").strip()
            if tag == "loc":
                addresses.append(text or child.get("url") or "")
            elif text:
                dates.setdefault(max(len(addresses), 1), text)
    if not addresses and name not in _LISTED and (text := (element.text or "").strip()):
        addresses = [text]
    for number, address in enumerate(addresses, 1):
        date = read_date(dates.get(number, ""))
        yield SitemapEntry(_address(address), date.at, is_sitemap, date.problem)


def _address(text: str) -> str:
    return without_user(without_spaces(text))


def _forget(element: Any) -> None:
    """Clears an element, so that memory does not grow with the list."""
    element.clear()
    parent = element.getparent()
    while parent is not None and _name(parent)[1] in _LISTED and element.getprevious() is not None:
        del parent[0]  # stops inside an element that was never closed, which may hold its own address


def _name(element: Any) -> tuple[str, str]:
    """Returns namespace (or undeclared prefix) and name of an element.

    Many sites omit the namespace or get it wrong.
    """
    if not isinstance(element.tag, str):
        return "", ""
    space, _, name = element.tag.rpartition("}" if "}" in element.tag else ":")
    return space, name.lower()
