"""Parses RSS and Atom with feedparser. Pure: nothing is fetched, and HTML in contents stays unchanged."""

import re
from collections.abc import Collection
from io import BytesIO
from typing import Any, NamedTuple

import feedparser

from harvester.decoding import as_utf8
from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.parsers.web.entries import Given, enclosures, with_dates, with_ids
from harvester.parsers.web.packed import CUT
from harvester.parsers.web.references import with_references
from harvester.parsers.web.values import is_address, joined, line, lines, whole
from harvester.recheck.hints import Hints

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PERIODS_S = {"hourly": 3_600, "daily": 86_400, "weekly": 604_800, "monthly": 2_592_000, "yearly": 31_536_000}
_HEADERS = {"content-type": "application/xml; charset=utf-8"}
"""Headers without an address. With one, feedparser would turn ids that are not addresses into addresses."""
_skipped = re.compile(rb"<skip(?:Hours|Days)\b.{0,5000}?</skip(?:Hours|Days)>", re.DOTALL | re.IGNORECASE).findall
_hours = re.compile(rb"<hour>\s*(\d{1,2})\s*</hour>", re.IGNORECASE).findall
_days = re.compile(rb"<day>\s*(\w+)\s*</day>", re.IGNORECASE).findall
_root = re.compile(rb"<(?:[\w.-]+:)?(?:rss|feed|rdf|channel)\b[^<>]*?(/?)>", re.IGNORECASE).search
_root_ends = re.compile(rb"</(?:[\w.-]+:)?(?:rss|feed|rdf|channel)\s*>", re.IGNORECASE).search
_entry_starts = re.compile(rb"<(?:[\w.-]+:)?(?:item|entry)\b", re.IGNORECASE).search
_entry_ends = re.compile(rb"</(?:[\w.-]+:)?(?:item|entry)\s*>", re.IGNORECASE).finditer


class Syndicated(NamedTuple):
    """The content of an RSS or Atom feed."""

    about: Given
    """Fields of the feed itself."""
    entries: list[Given]
    hints: Hints
    next: str
    """Address of the page with older entries (RFC 5005); empty on the last page."""
    repeated: list[str]
    """Digests of ambiguous ids, see `with_ids`."""
    cut: str
    """Reason why entries are missing; empty if the list is complete."""


def parse_syndication(body: bytes, url: str, content_type: str, seen: Provenance, known: Collection[str]) -> Syndicated:
    """Reads a feed. Raises ParseError when the body is not a feed.

    Addresses in the feed are relative to `seen.url`, the address it was fetched from.
    """
    text, cut = _whole_entries(as_utf8(body, content_type, prefers_utf8=True))
    read = _parsed(text)
    version = str(read.get("version") or "")
    if not version:
        raise ParseError(f"it is no feed: {read.get('bozo_exception') or 'neither RSS, Atom, JSON Feed nor a sitemap'}")
    about, base, is_atom = read.feed, seen.url, version.startswith("atom")
    given = {
        "form": "atom" if is_atom else "rss",
        "title": _title(about, is_atom),
        "description": whole(about.get("subtitle")),
        "page_url": joined(base, about.get("link")),
        "language": line(about.get("language")),
    }
    found = ((entry.get("id"), _entry(entry, url, seen, is_atom)) for entry in read.entries)
    entries, repeated = with_ids(found, known, are_trusted=is_atom)
    leads_to = next((link.get("href") for link in about.get("links", ()) if link.get("rel") == "next"), None)
    return Syndicated(given, entries, _hints(about, text), joined(base, leads_to) or "", repeated, cut)


def _whole_entries(text: bytes) -> tuple[bytes, str]:
    """Leaves out the last entry if it is truncated, since half an address leads elsewhere."""
    root = _root(text)
    if root is None or root[1] or _root_ends(text):
        return text, ""
    end = None
    for end in _entry_ends(text):  # noqa: B007  finds the last one
        pass
    if end is None:
        start = _entry_starts(text)
        return (text[: start.start()] if start else text), CUT
    return text[: end.end()], CUT


def _parsed(text: bytes) -> Any:
    """Parses a feed. Raises ParseError when feedparser fails."""
    try:
        # Passed as a stream, since feedparser may take other bytes for the name of a file.
        return feedparser.parse(
            BytesIO(with_references(text)), response_headers=_HEADERS, resolve_relative_uris=False, sanitize_html=False
        )
    except Exception as error:  # noqa: BLE001  odd bytes make the library raise nearly anything
        raise ParseError(f"it is no feed that can be read: {type(error).__name__}: {error}") from None


def _entry(entry: Any, url: str, seen: Provenance, is_atom: bool) -> Given:
    content = [whole(each.get("value")) for each in entry.get("content", ())]
    summary = whole(entry.get("summary"))
    given = {
        "feed_url": url,
        "page_url": _page_url(entry, seen.url),
        "title": _title(entry, is_atom),
        "summary": None if content and summary == content[0] else summary,
        "content": next(filter(None, content), None),
        "authors": lines((each.get("name") or each.get("email") for each in entry.get("authors", ()) if each), "meant"),
        "categories": lines((each.get("term") or each.get("label") for each in entry.get("tags", ())), "meant"),
        "language": line((entry.get("content") or [{}])[0].get("language") or entry.get("language")),
        "enclosures": tuple(enclosures(seen.url, entry.get("enclosures", ()), "href", "type", "length")),
    }
    # feedparser substitutes one date for another, so membership is checked before access.
    dates = {f"{name}_at": entry[name] for name in ("published", "updated") if name in entry}
    return with_dates(given, seen.fetched_at, **{"published_at": None, "updated_at": None, **dates})


def _title(of: Any, is_atom: bool) -> str | None:
    """Returns the title. Atom states whether a title is HTML; RSS does not, and many feeds write HTML."""
    is_text = (of.get("title_detail") or {}).get("type") == "text/plain"
    return line(of.get("title"), ("none" if is_text else "all") if is_atom else "meant")


def _page_url(entry: Any, base: str) -> str | None:
    """Returns the address of the entry's page.

    feedparser takes a guid for the address; this function accepts it only if it is an absolute address.
    """
    links = [link["href"] for link in entry.get("links", ()) if link.get("rel") == "alternate" and link.get("href")]
    if entry.get("link") in links:
        return joined(base, entry["link"])
    if links:
        return joined(base, links[0])
    own = str(entry.get("id") or "").strip()
    return joined(base, own) if entry.get("guidislink") and is_address(own) else None


def _hints(about: Any, text: bytes) -> Hints:
    ttl = str(about.get("ttl") or "").strip()
    interval = 60 * int(ttl) if ttl.isascii() and ttl.isdecimal() and len(ttl) < 8 else 0
    period = _PERIODS_S.get(str(about.get("sy_updateperiod") or "").strip().lower(), 0)
    frequency = str(about.get("sy_updatefrequency") or "1").strip()
    if period and frequency.isascii() and frequency.isdecimal() and len(frequency) < 8 and int(frequency):
        interval = max(interval, period // int(frequency))
    skipped = b"".join(_skipped(text[:100_000]))
    hours = {int(each) % 24 for each in _hours(skipped)}
    days = {_DAYS.index(name) for each in _days(skipped) if (name := each.decode("latin-1").lower()) in _DAYS}
    return Hints(interval, tuple(sorted(hours)), tuple(sorted(days)))
