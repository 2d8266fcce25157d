"""Sitemaps of every form are read, and hostile ones do no harm."""

import gzip
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from harvester.exceptions import ParseError
from harvester.parsers.web.packed import MOST_BYTES
from harvester.parsers.web.sitemap import MOST_ENTRIES, MOST_PARTS, SitemapEntry, parse_sitemap

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
    SitemapEntry(A, datetime(2026, 11, 2, tzinfo=UTC)),
    SitemapEntry(B, datetime(2026, 11, 2, 10, tzinfo=timezone(timedelta(hours=1)))),
]


def read(body: bytes) -> list[SitemapEntry]:
    return parse_sitemap(body).entries


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
    assert read(INDEX) == [SitemapEntry(A, is_sitemap=True)]


def test_an_index_that_lists_one_sitemap_a_thousand_times_leads_to_it_once() -> None:
    assert read(b"<sitemapindex>" + f"<sitemap><loc>{B}</loc></sitemap>".encode() * 1000) == [
        SitemapEntry(B, is_sitemap=True)
    ]


def test_a_text_is_a_sitemap_too() -> None:
    none = ["ftp://example.org/c", "not an address", "http://[::1/", "http://example.org:99999/", "http://:80/"]
    body = "\r\n".join([f"\ufeff{A}", "", B, *none, ""]).encode()
    assert read(body) == read(gzip.compress(body)) == [SitemapEntry(A), SitemapEntry(B)]


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
    (entry,) = read(listing(f"<loc>{B}</loc><lastmod>{lastmod}</lastmod>"))
    assert (entry.url, entry.lastmod) == (B, date)
    assert (entry.problem == "") is (date is not None or not lastmod), "a date that cannot be read says so"


@pytest.mark.parametrize(
    "loc", ["/relative", "javascript:alert(1)", "file:///etc/passwd", "", "https://a b/", "http://a/" + "x" * 3000]
)
def test_what_is_no_address_is_passed_over(loc: str) -> None:
    assert read(listing(f"<loc>{loc}</loc>", f"<loc>{B}</loc>", "<lastmod>2026</lastmod>")) == [SitemapEntry(B)]


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
    with pytest.raises(ParseError, match="sitemap"):
        read(body)


def test_a_file_that_is_cut_short_gives_what_it_has() -> None:
    assert read(URLSET[:-30])[:1] == ENTRIES[:1]
    packed = gzip.compress(listing(*(f"<loc>{B}/{number:x}</loc>" for number in range(5000))))
    assert read(packed[: len(packed) // 2])[0] == SitemapEntry(f"{B}/0")


def test_no_more_is_listed_than_the_protocol_allows() -> None:
    assert len(read(listing(*([f"<loc>{B}</loc>"] * (MOST_ENTRIES + 1))))) == MOST_ENTRIES
    assert len(read(f"{B}\n".encode() * (MOST_ENTRIES + 1))) == MOST_ENTRIES


def test_a_bomb_is_not_unpacked() -> None:
    """It would have 2 GB; what is read of it is a list that begins well."""
    head = gzip.compress(b"<urlset><url><loc>" + B.encode() + b"</loc></url>" + b" " * 1_000_000)
    bomb = head + gzip.compress(b" " * 10_000_000) * 200
    tracemalloc.start()
    try:
        assert read(bomb) == [SitemapEntry(B)]
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["<{}>{}</{}>", "<{}><url>{}</url></{}>"])
def test_an_entry_without_end_is_not_kept_in_memory(form: str) -> None:
    """lxml's own memory is not traced: what is not read shows that it was not made."""
    endless = form.format("urlset", f"<x/>{'<x/>' * MOST_PARTS}<loc>{B}</loc>", "urlset").encode()
    with pytest.raises(ParseError, match="10,000"):
        read(endless)
    assert read(endless.replace(b"<urlset>", b"<urlset>" + f"<url><loc>{A.replace('&', '&amp;')}</loc></url>".encode()))
    pictures = "<image><loc>https://a.example/1.jpg</loc></image>" * 1000
    assert read(listing(*[f"<loc>{B}</loc>{pictures}"] * 20)) == [SitemapEntry(B)] * 20


def test_a_text_is_read_line_by_line() -> None:
    body = b"ab\r\n" * 500_000 + f"\t {A} \r{B}".encode()
    tracemalloc.start()
    try:
        assert read(body) == [SitemapEntry(A), SitemapEntry(B)]
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
    assert entries[0] == SitemapEntry(B)
    assert all(len(entry.url) < 100 and "root" not in entry.url for entry in entries)


@pytest.mark.parametrize(
    ("loc", "address"),
    [
        ("https://a.example/p?a=1&b=2&c=3", "https://a.example/p?a=1&b=2&c=3"),
        ("https://a.example/this-&-that/", "https://a.example/this-&-that/"),
        ("https://a.example/q?copy=1&copy2=3&lt=4", "https://a.example/q?copy=1&copy2=3&lt=4"),
        ("https://a.example/caf&eacute;?x=1&amp;y=2", "https://a.example/caf\u00e9?x=1&y=2"),
        ("https://a.example/?a=1&unknown;b", "https://a.example/?a=1&unknown;b"),
        ("https://a.example/&#x41;&#66;", "https://a.example/AB"),
        ("<![CDATA[https://a.example/?a=1&b=2&amp;c]]>", "https://a.example/?a=1&b=2&amp;c"),
        ("https://a.example/one two", "https://a.example/one%20two"),
        ("https://user:secret@a.example/", "https://a.example/"),
        ("https://a.example/x<!-- y -->z", "https://a.example/xz"),
    ],
)
def test_an_address_is_read_whole_whatever_stands_in_it(loc: str, address: str) -> None:
    assert read(listing(f"<loc>{loc}</loc>")) == [SitemapEntry(address)]


def test_an_entity_that_the_list_declares_is_expanded() -> None:
    head = b'<!DOCTYPE urlset [<!ENTITY site "https://a.example">]>'
    assert read(head + listing("<loc>&site;/1?a&b</loc>")) == [SitemapEntry("https://a.example/1?a&b")]


@pytest.mark.parametrize(
    "picture",
    [
        "<image:loc xmlns:image='http://images'>https://cdn.example/1.jpg</image:loc>",
        "<image:loc>https://c/1</image:loc>",
    ],
)
def test_the_address_of_a_picture_is_not_that_of_its_page(picture: str) -> None:
    assert read(listing(f"<loc>{B}</loc>{picture}", f"{picture}<loc>{B}</loc>")) == [SitemapEntry(B), SitemapEntry(B)]


@pytest.mark.parametrize(
    "index",
    [
        "<sitemapindex><url><loc>{}</loc></url></sitemapindex>",
        "<sitemapindex><sitemap>\n{}\n</sitemap></sitemapindex>",
        "<sitemapindex><loc>{}</loc></sitemapindex>",
        "<sitemapindex><sitemap><loc url='{}'/></sitemap></sitemapindex>",
        "<script><sitemapindex><sitemap><loc>{}</loc></sitemap></sitemapindex></script>",
        "<urlset><sitemap><loc>{}</loc></sitemap></urlset>",
        "<s:sitemapindex><s:sitemap><s:loc>{}</s:loc></s:sitemap></s:sitemapindex>",
        "<s:sitemapindex xmlns:s='http://s'><s:sitemap><s:loc>{}</s:loc></s:sitemap></s:sitemapindex>",
    ],
)
def test_an_index_in_another_shape_lists_sitemaps(index: str) -> None:
    assert read(index.format(B).encode()) == [SitemapEntry(B, is_sitemap=True)]


def test_several_addresses_of_one_element_are_as_many_entries() -> None:
    dated = "<lastmod>2026</lastmod>"
    index = f"<sitemapindex><sitemap><loc>{B}/1</loc><loc>{B}/2</loc></sitemap></sitemapindex>"
    assert [each.url for each in read(index.encode())] == [f"{B}/1", f"{B}/2"]
    found = read(listing(f"<loc>{B}/1</loc>{dated}<loc>{B}/2</loc>"))
    assert found == [SitemapEntry(f"{B}/1", datetime(2026, 1, 1, tzinfo=UTC)), SitemapEntry(f"{B}/2")]
    assert {each.url for each in read(f"<urlset><url><loc>{B}/1</loc><url><loc>{B}/2</loc></urlset>".encode())} == {
        f"{B}/1",
        f"{B}/2",
    }


@pytest.mark.parametrize("at", [1, 5, 6, 20, 40, 60])
def test_what_stands_at_a_cut_is_left_out_and_the_cut_is_told(at: int) -> None:
    """Half an address leads to another page."""
    body = listing(*(f"<loc>{B}/{number}0</loc>" for number in range(3)))
    assert parse_sitemap(body).cut == ""
    found = parse_sitemap(body[:-at] if at > 5 else body[: -at - 9])
    assert found.cut
    assert {each.url for each in found.entries} <= {f"{B}/{number}0" for number in range(3)}
    assert len(found.entries) >= 1


def test_a_gzip_file_that_is_cut_loses_its_last_line_and_tells() -> None:
    for body in (
        listing(*(f"<loc>{B}/{number:05}</loc>" for number in range(5000))),
        "\n".join(f"{B}/{number:05}" for number in range(5000)).encode(),
    ):
        packed = gzip.compress(body)
        found = parse_sitemap(packed[: len(packed) // 2])
        assert found.cut
        assert [each.url for each in found.entries] == [f"{B}/{number:05}" for number in range(len(found.entries))]
        assert 0 < len(found.entries) < 5000
        assert parse_sitemap(packed + b"\r\n<!-- made in 3 s -->").cut == ""
        assert parse_sitemap(packed[:-8] + b"\0" * 8).cut, "its checksum is another one"


def test_what_is_no_address_and_what_is_too_much_is_told() -> None:
    found = parse_sitemap(listing("<loc>/relative</loc>", f"<loc>{B}</loc>", "<loc>a.example/x</loc>"))
    assert (found.unread, found.cut) == (("/relative", "a.example/x"), "")
    assert parse_sitemap(f"{B}\n".encode() * (MOST_ENTRIES + 1)).cut
    assert not parse_sitemap(f"{B}\n".encode() * MOST_ENTRIES).cut


def test_a_list_is_read_in_its_encoding() -> None:
    text = f'<?xml version="1.0" encoding="{{}}"?>{listing("<loc>https://a.example/ü</loc>").decode()}'
    for encoding in ("utf-16", "utf-16-le", "iso-8859-1", "utf-8-sig"):
        assert read(text.format(encoding).encode(encoding)) == [SitemapEntry("https://a.example/\u00fc")]
    assert read("https://a.example/ü\n".encode("utf-16")) == [SitemapEntry("https://a.example/\u00fc")]
    assert read(b"https://a.example/\xfc\n") == [SitemapEntry("https://a.example/\u00fc")]
    assert read(listing("<loc>https://a.example/1</loc><x>\x00\x08\x1e</x>", f"<loc>{B}</loc>"))[-1] == SitemapEntry(B)
