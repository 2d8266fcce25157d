"""Sitemaps (sitemaps.org): lists of pages and of further sitemaps, as XML or text, gzipped or not. Pure functions.

Nothing in them is trusted: entities are not expanded, nothing is fetched, and what is unpacked, read and listed is
bounded.
"""

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from gzip import GzipFile
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lxml import etree

from harvester.exceptions import ParseError

MOST_BYTES = 50 * 1024 * 1024
"""Of a sitemap, unpacked; the protocol allows no more."""
MOST_ENTRIES = 50_000
"""Of a sitemap; the protocol allows no more."""
MOST_PARTS = 10_000
"""Elements of an entry, with those before it; a page has no more than 1,000 pictures."""
MOST_LENGTH = 2048
"""Characters of an address; the protocol allows no more."""

_CHUNK_BYTES = 1 << 16
_lines = re.compile(rb"(?:^|[\r\n])[^\S\r\n]*(https?://[^\r\n]*)", re.IGNORECASE).finditer
_may_be_address = re.compile(rf"https?://[^\s<>\x00-\x1f]{{1,{MOST_LENGTH - 8}}}", re.IGNORECASE).fullmatch
_is_short_date = re.compile(r"(\d{4})(?:-(\d\d))?").fullmatch


class Entry(NamedTuple):
    """A line of a sitemap."""

    url: str
    lastmod: datetime | None = None
    """When the page changed last, as the site says. UTC when it names no time zone."""
    is_sitemap: bool = False
    """Whether it is another sitemap."""


def is_address(text: str) -> bool:
    """Whether it can be asked for: an absolute http(s) address, with a host and a port that make sense."""
    if not _may_be_address(text):
        return False
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def parse_sitemap(body: bytes) -> Iterator[Entry]:
    """Its entries, in their order. Raises ParseError when it is none.

    Those that are no addresses are passed over, and so is a sitemap that was listed before.
    """
    unpacked = _unpack(body).removeprefix(b"\xef\xbb\xbf").lstrip()
    is_xml = unpacked.startswith((b"<", b"\xff\xfe", b"\xfe\xff"))
    sitemaps: set[str] = set()
    for entry in _of_xml(unpacked) if is_xml else _of_text(unpacked):
        if entry.is_sitemap:
            if entry.url in sitemaps:
                continue
            sitemaps.add(entry.url)
        yield entry


def _unpack(body: bytes) -> bytes:
    """As much as is allowed, of a gzip file that may be cut short or made of several."""
    if not body.startswith(b"\x1f\x8b"):
        return body[:MOST_BYTES]
    unpacked = bytearray()
    with suppress(OSError, EOFError, zlib.error), GzipFile(fileobj=BytesIO(body)) as file:
        while len(unpacked) < MOST_BYTES and (chunk := file.read1(_CHUNK_BYTES)):
            unpacked += chunk
    return bytes(unpacked[:MOST_BYTES])


def _of_text(body: bytes) -> Iterator[Entry]:
    count = 0
    for line in _lines(body):
        address = line[1].decode("utf-8", "replace").strip()
        if is_address(address):
            yield Entry(address)
            count += 1
            if count == MOST_ENTRIES:
                return
    if not count:
        raise ParseError("it is no sitemap: neither XML nor a list of addresses")


def _of_xml(body: bytes) -> Iterator[Entry]:
    reader = etree.iterparse(
        BytesIO(body),
        events=("start", "end"),
        recover=True,
        resolve_entities=False,
        no_network=True,
        remove_comments=True,
        remove_pis=True,
        collect_ids=False,
    )
    root = ""
    count = parts = 0
    try:
        for event, element in reader:
            name = _name(element)
            if event == "start":
                root = root or name
                if root not in ("urlset", "sitemapindex"):
                    raise ParseError(f"it is no sitemap: its root is <{root[:50]}>")
                parts += 1
                if parts > MOST_PARTS:
                    break
            elif name in ("url", "sitemap") and (entry := _entry(element, name == "sitemap")):
                yield entry
                count += 1
                if count == MOST_ENTRIES:
                    return
            if event == "end" and name in ("url", "sitemap"):
                _forget(element)
                parts = 0
    except etree.XMLSyntaxError as error:
        if not count:
            raise ParseError(f"it is no sitemap: {error.msg}") from None
    if not root:
        raise ParseError("it is no sitemap: it is empty")
    if parts > MOST_PARTS and not count:
        raise ParseError(f"it is no sitemap: there is no entry in its first {MOST_PARTS:,} elements")


def _entry(element: Any, is_sitemap: bool) -> Entry | None:
    texts = {_name(child): (child.text or "").strip() for child in element}
    address = texts.get("loc", "")
    return Entry(address, _date(texts.get("lastmod", "")), is_sitemap) if is_address(address) else None


def _forget(element: Any) -> None:
    """So that memory does not grow with the list."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _name(element: Any) -> str:
    """Without its namespace: many sites leave that out, or write it wrong."""
    return str(element.tag).rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def _date(text: str) -> datetime | None:
    """W3C's forms of ISO 8601, a year or a month alone too."""
    if short := _is_short_date(text):
        text = f"{short[1]}-{short[2] or '01'}-01"
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
