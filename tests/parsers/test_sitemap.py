"""Sitemaps of every form are read, and hostile ones do no harm."""

import gzip
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from harvester.exceptions import ParseError
from harvester.parsers.web.sitemap import MOST_BYTES, MOST_ENTRIES, MOST_PARTS, Entry, parse_sitemap

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
A, B = "https://example.org/a?x=1&y=2", "https://example.org/b"
URLSET = f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- made by hand -->
<urlset {NAMESPACE} xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url><loc> {A.replace("&", "&amp;")} </loc><lastmod>2026-11-02</lastmod><priority>0.5</priority>
    <image:image><image:loc>https://example.org/a.jpg</image:loc></image:image></url>
  <url><lastmod>2026-11-02T10:00:00+01:00</lastmod><loc><![CDATA[{B}]]></loc></url>
</urlset>""".encode()
INDEX = f"<sitemapindex {NAMESPACE}><sitemap><loc>{A.replace('&', '&amp;')}</loc></sitemap></sitemapindex>".encode()
ENTRIES = [
    Entry(A, datetime(2026, 11, 2, tzinfo=UTC)),
    Entry(B, datetime(2026, 11, 2, 10, tzinfo=timezone(timedelta(hours=1)))),
]


def read(body: bytes) -> list[Entry]:
    return list(parse_sitemap(body))


def listing(*entries: str) -> bytes:
    return f"<urlset>{''.join(f'<url>{entry}</url>' for entry in entries)}</urlset>".encode()


@pytest.mark.parametrize(
    "body",
    [
        URLSET,
        b"\xef\xbb\xbf" + URLSET,
        b"\n " + URLSET.partition(b"\n")[2],
        URLSET.decode().replace("UTF-8", "UTF-16").encode("utf-16"),
        gzip.compress(URLSET),
        gzip.compress(URLSET[:100]) + gzip.compress(URLSET[100:]),
        URLSET.replace(b"<loc>", b"<LOC>").replace(b"</loc>", b"</LOC>"),
    ],
    ids=["plain", "bom", "white space", "utf-16", "gzip", "two gzips", "capitals"],
)
def test_pages_are_listed_with_their_dates(body: bytes) -> None:
    assert read(body) == ENTRIES


def test_an_index_lists_sitemaps() -> None:
    assert read(INDEX) == [Entry(A, is_sitemap=True)]


def test_an_index_that_lists_one_sitemap_a_thousand_times_leads_to_it_once() -> None:
    assert read(b"<sitemapindex>" + f"<sitemap><loc>{B}</loc></sitemap>".encode() * 1000) == [Entry(B, is_sitemap=True)]


def test_a_text_is_a_sitemap_too() -> None:
    none = ["ftp://example.org/c", "not an address", "http://[::1/", "http://example.org:99999/", "http://:80/"]
    body = "\r\n".join([f"\ufeff{A}", "", B, *none, ""]).encode()
    assert read(body) == read(gzip.compress(body)) == [Entry(A), Entry(B)]


@pytest.mark.parametrize(
    ("lastmod", "date"),
    [
        ("2026", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-11", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-02T10:00Z", datetime(2026, 11, 2, 10, tzinfo=UTC)),
        ("2026-11-02T10:00:00.25Z", datetime(2026, 11, 2, 10, 0, 0, 250_000, tzinfo=UTC)),
        ("yesterday", None),
        ("2026-99", None),
        ("", None),
    ],
)
def test_dates_are_read_in_all_forms(lastmod: str, date: datetime | None) -> None:
    assert read(listing(f"<loc>{B}</loc><lastmod>{lastmod}</lastmod>")) == [Entry(B, date)]


@pytest.mark.parametrize(
    "loc", ["/relative", "javascript:alert(1)", "file:///etc/passwd", "", "https://a b/", "http://a/" + "x" * 3000]
)
def test_what_is_no_address_is_passed_over(loc: str) -> None:
    assert read(listing(f"<loc>{loc}</loc>", f"<loc>{B}</loc>", "<lastmod>2026</lastmod>")) == [Entry(B)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"<html><body>https://example.org/</body></html>",
        b"Not found",
        b"<",
        b"\x1f\x8bbroken",
        b'{"a":1}',
        b"<!DOCTYPE html>",
    ],
)
def test_what_is_no_sitemap_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError, match="it is no sitemap"):
        read(body)


def test_a_file_that_is_cut_short_gives_what_it_has() -> None:
    assert read(URLSET[:-30])[:1] == ENTRIES[:1]
    packed = gzip.compress(listing(*(f"<loc>{B}/{number:x}</loc>" for number in range(5000))))
    assert read(packed[: len(packed) // 2])[0] == Entry(f"{B}/0")


def test_no_more_is_listed_than_the_protocol_allows() -> None:
    assert len(read(listing(*([f"<loc>{B}</loc>"] * (MOST_ENTRIES + 1))))) == MOST_ENTRIES
    assert len(read(f"{B}\n".encode() * (MOST_ENTRIES + 1))) == MOST_ENTRIES


def test_a_bomb_is_not_unpacked() -> None:
    """It would have 2 GB; what is read of it is a list that begins well."""
    head = gzip.compress(b"<urlset><url><loc>" + B.encode() + b"</loc></url>" + b" " * 1_000_000)
    bomb = head + gzip.compress(b" " * 10_000_000) * 200
    tracemalloc.start()
    try:
        assert read(bomb) == [Entry(B)]
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["<{}>{}</{}>", "<{}><url>{}</url></{}>"])
def test_an_entry_without_end_is_not_kept_in_memory(form: str) -> None:
    """lxml's own memory is not traced: what is not read shows that it was not made."""
    endless = form.format("urlset", f"<x/>{'<x/>' * MOST_PARTS}<loc>{B}</loc>", "urlset").encode()
    with pytest.raises(ParseError, match="there is no entry in its first 10,000 elements"):
        read(endless)
    assert read(endless.replace(b"<urlset>", b"<urlset>" + f"<url><loc>{A.replace('&', '&amp;')}</loc></url>".encode()))
    pictures = "<image><loc>https://a.example/1.jpg</loc></image>" * 1000
    assert read(listing(*[f"<loc>{B}</loc>{pictures}"] * 20)) == [Entry(B)] * 20


def test_a_text_is_read_line_by_line() -> None:
    body = b"ab\r\n" * 500_000 + f"\t {A} \r{B}".encode()
    tracemalloc.start()
    try:
        assert read(body) == [Entry(A), Entry(B)]
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body)
    finally:
        tracemalloc.stop()


def test_a_file_of_many_empty_gzips_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib hands out what follows on a part; with the whole rest each time it would be quadratic."""
    handed_out = 0
    made = zlib.decompressobj

    class Counted:
        def __init__(self, wbits: int) -> None:
            self._made = made(wbits)

        def __getattr__(self, name: str) -> object:
            nonlocal handed_out
            value = getattr(self._made, name)
            handed_out += len(value) if name == "unused_data" else 0
            return value

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    body = gzip.compress(b"") * 20_000 + gzip.compress(URLSET)
    assert read(body) == ENTRIES
    assert handed_out < 2_000 * len(body)


def test_entities_are_not_expanded_and_no_file_is_read() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    head = f'<!DOCTYPE urlset [<!ENTITY l0 "ha"><!ENTITY f SYSTEM "file:///etc/passwd">{laughs}]>'
    body = f"{head}<urlset><url><loc>{B}</loc></url><url><loc>{B}/&l9;</loc></url><url><loc>&f;</loc></url></urlset>"
    entries = read(body.encode())
    assert entries[0] == Entry(B)
    assert all(len(entry.url) < 100 and "root" not in entry.url for entry in entries)
