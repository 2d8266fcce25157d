"""Feeds: RSS and Atom (read by feedparser), JSON Feed, sitemaps; and where a page says that its feeds are. Pure.

Nothing is fetched, and nothing in them is trusted: HTML stays as it came, for those who know what to do with it.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from time import struct_time
from typing import Any, NamedTuple
from unicodedata import normalize
from urllib.parse import urljoin

import feedparser
import msgspec
from lxml import etree, html

from harvester.exceptions import InvalidRecordError, ParseError
from harvester.items import Provenance, Reject
from harvester.items.feed import Enclosure, Feed, FeedEntry
from harvester.parsers.json_values import date_time
from harvester.parsers.web.sitemap import is_address, parse_sitemap
from harvester.recheck.hints import Hints

JSON_FEED = "https://jsonfeed.org/version/"
FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json", "application/json")
MOST_KEY = 1000
"""Characters of an entry's id; a longer one is replaced by its digest."""
MOST_FOUND = 50
"""Feeds that a page names."""
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PERIODS_S = {"hourly": 3_600, "daily": 86_400, "weekly": 604_800, "monthly": 2_592_000, "yearly": 31_536_000}
_skipped = re.compile(rb"<skip(?:Hours|Days)\b.{0,5000}?</skip(?:Hours|Days)>", re.DOTALL | re.IGNORECASE).findall
_hours = re.compile(rb"<hour>\s*(\d{1,2})\s*</hour>", re.IGNORECASE).findall
_days = re.compile(rb"<day>\s*(\w+)\s*</day>", re.IGNORECASE).findall
_max_age = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})").search
_root = re.compile(rb"<(?:\w+:)?(html|rss|feed|rdf|urlset|sitemapindex)\b").search
_is_sitemap = re.compile(rb"^https?://|<(?:\w+:)?(?:urlset|sitemapindex)\b").search
_is_odd = re.compile(r"[\x00-\x20\x7f]").search
_references = re.compile(rb"&#(?:[xX]([0-9A-Fa-f]+)|([0-9]+))").sub


class Read(NamedTuple):
    """What a feed holds."""

    feed: Feed
    entries: list[FeedEntry | Reject]
    hints: Hints = Hints()
    next: str = ""
    """Address of the page with older entries (RFC 5005, JSON Feed); empty: there is none."""
    sitemaps: tuple[str, ...] = ()
    """Addresses of further lists, of a list of sitemaps."""


def parse_feed(body: bytes, url: str, content_type: str, provenance: Provenance) -> Read:
    """Raises ParseError when it is none. `url`: its name in records; addresses in it are relative to where it lay."""
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:2000]
    if start.startswith(b"{"):
        return _of_json(body, url, provenance)
    if body.startswith(b"\x1f\x8b") or _is_sitemap(start):
        return _of_sitemap(body, url, provenance)
    return _of_xml(body, url, content_type, provenance)


def is_page(body: bytes, content_type: str) -> bool:
    """Whether it is a web page, which may say where its feeds are."""
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:2000].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return True
    root = _root(start)
    is_feed = start.startswith(b"{") or (root and root[1] != b"html")  # many servers call feeds text/html
    return "html" in content_type.lower() and not is_feed


def feeds_of_page(body: bytes, url: str) -> list[str]:
    """Addresses of the feeds that a page names in its head (`link rel="alternate"`)."""
    try:
        tree = html.document_fromstring(body)
    except (etree.ParserError, ValueError):
        return []
    found = []
    base = next((address for each in tree.iter("base") if (address := _joined(url, each.get("href")))), url)
    for link in tree.iter("link"):
        rel, kind = (link.get("rel") or "").lower().split(), (link.get("type") or "").lower()
        if "alternate" in rel and kind in FEED_TYPES and (address := _joined(base, link.get("href"))):
            found.append(address)
    return list(dict.fromkeys(found))[:MOST_FOUND]


def max_age(cache_control: str) -> int:
    """Seconds for which an answer is fresh, as its header says; 0 when it does not."""
    found = _max_age(cache_control.lower())
    return int(found[1]) if found else 0


# RSS and Atom -----------------------------------------------------------------------------------------------


def _of_xml(body: bytes, url: str, content_type: str, provenance: Provenance) -> Read:
    base = provenance.url
    read = _parsed(body, {"content-location": base, "content-type": content_type or "application/xml"})
    version = str(read.get("version") or "")
    if not version:
        raise ParseError(f"it is no feed: {read.get('bozo_exception') or 'neither RSS, Atom, JSON Feed nor a sitemap'}")
    about = read.feed
    feed = _feed(
        provenance,
        feed_url=url,
        form="atom" if version.startswith("atom") else "rss",
        title=_text(about.get("title")),
        description=_whole(about.get("subtitle")),
        page_url=_joined(base, about.get("link")),
        language=_text(about.get("language")),
    )
    entries = [_made(_entry_of_xml(entry, url, base), provenance) for entry in read.entries]
    leads_to = next((link.get("href") for link in about.get("links", ()) if link.get("rel") == "next"), None)
    return Read(feed, entries, _hints_of(about, body), _joined(base, leads_to) or "")


def _parsed(body: bytes, headers: dict[str, str]) -> Any:
    """Raises ParseError for what feedparser fails at. It fails at a reference to what is no character, too."""
    said = ""
    for given in (body, _references(_to_a_character, body)):
        try:
            # A stream: what is neither a stream nor text feedparser may take for the name of a file.
            return feedparser.parse(
                BytesIO(given), response_headers=headers, resolve_relative_uris=False, sanitize_html=False
            )
        except Exception as error:  # noqa: BLE001  odd bytes make the library raise nearly anything
            said = f"{type(error).__name__}: {error}"
    raise ParseError(f"it is no feed that can be read: {said}")


def _to_a_character(reference: re.Match[bytes]) -> bytes:
    digits, base = (reference[1], 16) if reference[1] else (reference[2], 10)
    digits = digits.lstrip(b"0") or b"0"
    number = int(digits, base) if len(digits) < 8 else sys.maxunicode + 1
    return b"&#xFFFD" if number > sys.maxunicode or 0xD800 <= number < 0xE000 else reference[0]


def _entry_of_xml(entry: Any, url: str, base: str) -> dict[str, Any]:
    content = [_whole(each.get("value")) for each in entry.get("content", ())]
    summary = _whole(entry.get("summary"))
    given = {
        "feed_url": url,
        "page_url": _joined(base, entry.get("link")),
        "title": _text(entry.get("title")),
        "summary": None if content and summary == content[0] else summary,
        "content": next(filter(None, content), None),
        "authors": _texts(each.get("name") or each.get("email") for each in entry.get("authors", ()) if each),
        "categories": _texts(each.get("term") or each.get("label") for each in entry.get("tags", ())),
        "published_at": _time(entry, "published_parsed"),
        "updated_at": _time(entry, "updated_parsed"),
        "language": _text((entry.get("content") or [{}])[0].get("language")),
        "enclosures": tuple(_enclosures(base, entry.get("enclosures", ()), "href", "type", "length")),
    }
    return {"id": _id(entry.get("id"), given), **given}


def _hints_of(about: Any, body: bytes) -> Hints:
    ttl = str(about.get("ttl") or "").strip()
    interval = 60 * int(ttl) if ttl.isascii() and ttl.isdecimal() and len(ttl) < 8 else 0
    period = _PERIODS_S.get(str(about.get("sy_updateperiod") or "").strip().lower(), 0)
    frequency = str(about.get("sy_updatefrequency") or "1").strip()
    if period and frequency.isascii() and frequency.isdecimal() and len(frequency) < 8 and int(frequency):
        interval = max(interval, period // int(frequency))
    skipped = b"".join(_skipped(body[:100_000]))
    hours = {int(each) % 24 for each in _hours(skipped)}
    days = {_DAYS.index(name) for each in _days(skipped) if (name := each.decode("latin-1").lower()) in _DAYS}
    return Hints(interval, tuple(sorted(hours)), tuple(sorted(days)))


# JSON Feed --------------------------------------------------------------------------------------------------


def _of_json(body: bytes, url: str, provenance: Provenance) -> Read:
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"it is no JSON Feed: {error}") from None
    if not isinstance(given, dict) or not str(given.get("version", "")).startswith(JSON_FEED):
        raise ParseError(f"it is no JSON Feed: its version is none of {JSON_FEED}...")
    items = given.get("items")
    if not isinstance(items, list):
        raise ParseError("it is no JSON Feed: it has no list of items")
    feed = _feed(
        provenance,
        feed_url=url,
        form="json",
        title=_text(given.get("title")),
        description=_whole(given.get("description")),
        page_url=_joined(provenance.url, given.get("home_page_url")),
        language=_text(given.get("language")),
    )
    base = provenance.url
    entries = [_made(_entry_of_json(item, url, base), provenance) for item in items if isinstance(item, dict)]
    return Read(feed, entries, next=_joined(base, given.get("next_url")) or "")


def _entry_of_json(item: Mapping[str, Any], url: str, base: str) -> dict[str, Any]:
    authors, attachments, tags = item.get("authors"), item.get("attachments"), item.get("tags")
    if not isinstance(authors, list) or not authors:
        authors = [item.get("author")]
    given = {
        "feed_url": url,
        "page_url": _joined(base, item.get("url") or item.get("external_url")),
        "title": _text(item.get("title")),
        "summary": _whole(item.get("summary")),
        "content": _whole(item.get("content_html") or item.get("content_text")),
        "authors": _texts(each.get("name") for each in authors if isinstance(each, dict)),
        "categories": _texts(tags if isinstance(tags, list) else ()),
        "published_at": date_time(item.get("date_published")),
        "updated_at": date_time(item.get("date_modified")),
        "language": _text(item.get("language")),
        "enclosures": tuple(
            _enclosures(base, attachments if isinstance(attachments, list) else (), "url", "mime_type", "size_in_bytes")
        ),
    }
    return {"id": _id(item.get("id"), given), **given}


# Sitemaps ---------------------------------------------------------------------------------------------------


def _of_sitemap(body: bytes, url: str, provenance: Provenance) -> Read:
    listed = list(parse_sitemap(body))
    entries = [
        _made({"feed_url": url, "id": each.url, "page_url": each.url, "updated_at": _utc(each.lastmod)}, provenance)
        for each in listed
        if not each.is_sitemap
    ]
    sitemaps = tuple(each.url for each in listed if each.is_sitemap)
    return Read(_feed(provenance, feed_url=url, form="sitemap"), entries, sitemaps=sitemaps)


# Values -----------------------------------------------------------------------------------------------------


def _feed(provenance: Provenance, **given: Any) -> Feed:
    return Feed(**given, raw=msgspec.json.encode(given), provenance=provenance)


def _made(given: dict[str, Any], provenance: Provenance) -> FeedEntry | Reject:
    raw = msgspec.json.encode(given)
    try:
        return FeedEntry(**given, raw=raw, provenance=provenance)
    except InvalidRecordError as error:
        return Reject(FeedEntry.KIND, str(error), str(given.get("id", "")), raw, provenance.url)


def _id(own: Any, given: Mapping[str, Any]) -> str:
    text = " ".join(str(own or "").split()) or given.get("page_url") or ""
    if text and len(text) <= MOST_KEY and not _is_odd(text.replace(" ", "_")):
        return text
    return sha256((text or repr(sorted(given.items(), key=str))).encode("utf-8", "replace")).hexdigest()[:32]


def _enclosures(base: str, given: Iterable[Any], address: str, kind: str, size: str) -> Iterator[Enclosure]:
    for each in given:
        if isinstance(each, Mapping) and (found := _joined(base, each.get(address))):
            length = str(each.get(size) or "")
            number = int(length) if length.isascii() and length.isdecimal() and len(length) < 18 else None
            yield Enclosure(found, _text(each.get(kind)), number)


def _time(of: Any, name: str) -> datetime | None:
    """What feedparser made of it, in UTC. It must be asked whether it is there, or another one stands in for it."""
    if name not in of:
        return None
    found = of[name]
    if not isinstance(found, (struct_time, tuple)):
        return None
    year, month, day, hour, minute, second = found[:6]
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except (ValueError, OverflowError, TypeError):
        return None


def _utc(at: datetime | None) -> datetime | None:
    try:
        return at.astimezone(UTC) if at else None
    except (ValueError, OverflowError):
        return None


def _joined(base: str, address: Any) -> str | None:
    if not isinstance(address, str) or not address.strip():
        return None
    try:
        joined = urljoin(base, address.strip())
    except ValueError:
        return None
    return joined if is_address(joined) else None


def _text(value: Any) -> str | None:
    """On one line, in the form NFC; None when nothing is said."""
    return (" ".join(normalize("NFC", value).split()) or None) if isinstance(value, str) else None


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(_text, values))))


def _whole(value: Any) -> str | None:
    """As it came."""
    return value if isinstance(value, str) and value.strip() else None
