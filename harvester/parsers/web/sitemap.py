"""Sitemaps (sitemaps.org): lists of pages and of further sitemaps, as XML or text, gzipped or not. Pure functions.

Nothing in them is trusted: entities are not expanded without bound, nothing is fetched, and what is unpacked, read and
listed is bounded.
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
"""Of a sitemap; the protocol allows no more."""
MOST_PARTS = 10_000
"""Elements of an entry, with those before it; a page has no more than 1,000 pictures."""
MOST_SHOWN = 200
"""Characters of what is no address."""
MOST_UNREAD = 1_000
"""Of these, as many are told."""
MOST_WRAPPERS = 3
"""Elements around a list; some sites write one into a page of theirs."""

_LISTED = {"urlset": "url", "sitemapindex": "sitemap"}
_lines = re.compile(rb"(?:^|[\r\n])(?:[^\S\r\n]|\xef\xbb\xbf)*(https?://[^\r\n]*)", re.IGNORECASE).finditer
_closings = re.compile(rb"</(?:[\w.-]+:)?(?:url|sitemap)((?:set|index)?)\s*>", re.IGNORECASE).finditer
_is_empty = re.compile(rb"<(?:[\w.-]+:)?(?:urlset|sitemapindex)\b[^<>]*/>\s*\Z", re.IGNORECASE).search


class SitemapEntry(NamedTuple):
    """A line of a sitemap."""

    url: str
    lastmod: datetime | None = None
    """When the page changed last, as the site says; UTC."""
    is_sitemap: bool = False
    """Whether it is another sitemap."""
    problem: str = ""
    """Why there is no such date though the site says one."""


class Sitemap(NamedTuple):
    """What a sitemap lists, in its order."""

    entries: list[SitemapEntry]
    """Each further sitemap once."""
    unread: tuple[str, ...] = ()
    """What stands where an address should, and is none."""
    cut: str = ""
    """Why these are not all entries; empty when they are."""


def parse_sitemap(body: bytes) -> Sitemap:
    """Reads a sitemap of any form. Raises ParseError when it is none.

    Of one that is cut, what stands at the cut is left out: half an address leads to another page.
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
    for end in _closings(body):  # noqa: B007  the last one
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
    """Its addresses, each with its date; also those of elements that were never closed."""
    space, name = _name(element)
    addresses: list[str] = []
    dates: dict[int, str] = {}
    for child in element:
        own, tag = _name(child)
        if tag in ("loc", "lastmod") and own in (space, ""):  # another namespace's is the address of a picture
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
    """So that memory does not grow with the list."""
    element.clear()
    parent = element.getparent()
    while parent is not None and _name(parent)[1] in _LISTED and element.getprevious() is not None:
        del parent[0]  # but not within an element that was never closed: its own address may stand there


def _name(element: Any) -> tuple[str, str]:
    """Its namespace, or the prefix of one that is not declared, and its name. Many sites leave that out, or err."""
    if not isinstance(element.tag, str):
        return "", ""
    space, _, name = element.tag.rpartition("}" if "}" in element.tag else ":")
    return space, name.lower()
