"""Parses feeds: RSS and Atom, JSON Feed, sitemaps; and finds the feeds that a page names. Pure.

Nothing is fetched, and the content is not trusted: HTML stays unchanged, and the user of a record must make it safe.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
from lxml import etree, html

from harvester.decoding import as_utf8
from harvester.exceptions import ParseError
from harvester.hosts import without_user
from harvester.items import Provenance, Reject
from harvester.items.feed import Feed, FeedEntry
from harvester.parsers.json_text import read_json
from harvester.parsers.web.entries import Given, enclosures, record, with_dates, with_ids
from harvester.parsers.web.packed import start_of, unpack
from harvester.parsers.web.sitemap import parse_sitemap
from harvester.parsers.web.syndication import parse_syndication
from harvester.parsers.web.values import joined, line, lines, whole
from harvester.recheck.hints import Hints

JSON_FEED = ("https://jsonfeed.org/version/", "http://jsonfeed.org/version/")
FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json", "application/json")
MOST_FOUND = 50
"""Maximum number of feeds that a page may name."""

_max_age = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})").search
_root = re.compile(rb"<(?:\w+:)?(html|rss|feed|rdf|urlset|sitemapindex)\b").search
_is_sitemap = re.compile(rb"^https?://|<(?:\w+:)?(?:urlset|sitemapindex)\b").search


class ParsedFeed(NamedTuple):
    """The content of a feed."""

    feed: Feed
    entries: list[FeedEntry | Reject]
    hints: Hints = Hints()
    next: str = ""
    """Address of the page with older entries (RFC 5005, JSON Feed); empty on the last page."""
    sitemaps: tuple[str, ...] = ()
    """Addresses of further sitemaps in a list of sitemaps."""
    repeated: tuple[str, ...] = ()
    """Digests of ambiguous ids. Pass them to the next visit, see `with_ids`."""
    unread: tuple[str, ...] = ()
    """Texts in place of addresses that are not addresses."""
    cut: str = ""
    """Reason why entries of the file are missing; empty if the list is complete."""


def parse_feed(
    body: bytes, url: str, content_type: str, provenance: Provenance, known: Collection[str] = ()
) -> ParsedFeed:
    """Reads a feed. Raises ParseError when the body is not a feed.

    `url` is the name of the feed in records. Addresses in the feed are relative to the address it was fetched from.
    `known` is the value of `repeated` from the previous visit.
    """
    url = without_user(url)
    start = start_of(body, content_type)
    if start.startswith(b"{"):
        return _of_json(unpack(body)[0], url, content_type, provenance, known)
    if _is_sitemap(start):
        return _of_sitemap(body, url, provenance)
    unpacked, cut = unpack(body)
    if cut and not start:
        raise ParseError(f"it is no feed: {cut}")
    found = parse_syndication(unpacked, url, content_type, provenance, known)
    return ParsedFeed(
        _feed(provenance, feed_url=url, **found.about),
        [record(each, provenance) for each in found.entries],
        found.hints,
        found.next,
        repeated=tuple(found.repeated),
        cut=cut or found.cut,
    )


def is_page(body: bytes, content_type: str) -> bool:
    """Tells whether the body is a web page, which may name its feeds."""
    start = start_of(body, content_type).lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return True
    root = _root(start)
    is_feed = start.startswith(b"{") or (root and root[1] != b"html")  # many servers call feeds text/html
    return "html" in content_type.lower() and not is_feed


def feeds_of_page(body: bytes, url: str) -> list[str]:
    """Returns the addresses of the feeds that a page names in its head (`link rel="alternate"`)."""
    try:
        tree = html.document_fromstring(as_utf8(body), parser=html.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, ValueError):
        return []
    found = []
    base = next((address for each in tree.iter("base") if (address := joined(url, each.get("href")))), url)
    for link in tree.iter("link"):
        rel, kind = (link.get("rel") or "").lower().split(), (link.get("type") or "").lower()
        if "alternate" in rel and kind in FEED_TYPES and (address := joined(base, link.get("href"))):
            found.append(address)
    return list(dict.fromkeys(found))[:MOST_FOUND]


def max_age(cache_control: str) -> int:
    """Returns the number of seconds that a response stays fresh, from its header; 0 if the header does not state it."""
    found = _max_age(cache_control.lower())
    return int(found[1]) if found else 0


# JSON Feed --------------------------------------------------------------------------------------------------


def _of_json(body: bytes, url: str, content_type: str, provenance: Provenance, known: Collection[str]) -> ParsedFeed:
    try:
        given = read_json(body, content_type)
    except ParseError as error:
        raise ParseError(f"it is no JSON Feed: {error}") from None
    if not isinstance(given, dict) or not str(given.get("version", "")).startswith(JSON_FEED):
        raise ParseError(f"it is no JSON Feed: its version is none of {JSON_FEED[0]}...")
    items = given.get("items")
    if not isinstance(items, list):
        raise ParseError("it is no JSON Feed: it has no list of items")
    base = provenance.url
    feed = _feed(
        provenance,
        feed_url=url,
        form="json",
        title=line(given.get("title"), "meant"),
        description=whole(given.get("description")),
        page_url=joined(base, given.get("home_page_url")),
        language=line(given.get("language")),
    )
    found = ((item.get("id"), _entry_of_json(item, url, provenance)) for item in items if isinstance(item, dict))
    entries, repeated = with_ids(found, known, are_trusted=False)
    read: list[FeedEntry | Reject] = [record(entry, provenance) for entry in entries]
    for item in items:
        if not isinstance(item, dict):
            raw = msgspec.json.encode(item)
            read.append(Reject(FeedEntry.KIND, "it is no object, as an item of JSON Feed is", "", raw, base))
    return ParsedFeed(feed, read, next=joined(base, given.get("next_url")) or "", repeated=tuple(repeated))


def _entry_of_json(item: Mapping[str, Any], url: str, seen: Provenance) -> Given:
    authors, attachments, tags = item.get("authors"), item.get("attachments"), item.get("tags")
    if not isinstance(authors, list) or not authors:
        authors = [item.get("author")]
    base, files = seen.url, attachments if isinstance(attachments, list) else ()
    given = {
        "feed_url": url,
        "page_url": joined(base, item.get("url") or item.get("external_url")),
        "title": line(item.get("title"), "meant"),
        "summary": whole(item.get("summary")),
        "content": whole(item.get("content_html") or item.get("content_text")),
        "authors": lines((each.get("name") for each in authors if isinstance(each, dict)), "meant"),
        "categories": lines(tags if isinstance(tags, list) else (), "meant"),
        "language": line(item.get("language")),
        "enclosures": tuple(enclosures(base, files, "url", "mime_type", "size_in_bytes")),
    }
    dates = {"published_at": item.get("date_published"), "updated_at": item.get("date_modified")}
    return with_dates(given, seen.fetched_at, **dates)


# Sitemaps ---------------------------------------------------------------------------------------------------


def _of_sitemap(body: bytes, url: str, provenance: Provenance) -> ParsedFeed:
    listed = parse_sitemap(body)
    entries = [
        record(
            {
                "feed_url": url,
                "id": each.url,
                "page_url": each.url,
                "updated_at": each.lastmod,
                **({"withheld": {"updated_at": each.problem}} if each.problem else {}),
            },
            provenance,
        )
        for each in listed.entries
        if not each.is_sitemap
    ]
    sitemaps = tuple(each.url for each in listed.entries if each.is_sitemap)
    about = _feed(provenance, feed_url=url, form="sitemap")
    return ParsedFeed(about, entries, sitemaps=sitemaps, unread=listed.unread, cut=listed.cut)


def _feed(provenance: Provenance, **given: Any) -> Feed:
    return Feed(**given, raw=msgspec.json.encode(given), provenance=provenance)
