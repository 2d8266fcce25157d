"""Feeds of all kinds are read the same; nothing in them is trusted, and what is none is said to be none."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.items import Provenance, Reject
from harvester.items.feed import Enclosure, FeedEntry
from harvester.parsers.web.feed import ParsedFeed, feeds_of_page, is_page, max_age, parse_feed
from harvester.recheck.hints import Hints

URL = "https://a.example/feed"
PAGE = Provenance(URL, datetime(2026, 1, 1, tzinfo=UTC), "feeds")
RSS = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/" xmlns:atom="http://www.w3.org/2005/Atom"
 xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel><title>Cafe\u0301</title><link>/</link>
<description>of &lt;b&gt;all&lt;/b&gt;</description><language>en</language><ttl>90</ttl>
<skipHours><hour>3</hour><hour>24</hour></skipHours><skipDays><day>Sunday</day><day>Doomsday</day></skipDays>
<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>1</sy:updateFrequency>
<atom:link rel="next" href="?page=2"/>
<item><guid isPermaLink="false">x  1</guid><title>A &amp; B</title><link>/1</link><category>k</category>
<pubDate>Mon, 02 Nov 2026 10:00:00 +0200</pubDate><description>&lt;p onclick="x()"&gt;s&lt;/p&gt;</description>
<content:encoded><![CDATA[<script>alert(1)</script><p>c</p>]]></content:encoded>
<enclosure url="/s.mp3" type="audio/mpeg" length="12"/></item>
<item><title>without an id</title><pubDate>yesterday</pubDate></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><id>f</id><updated>2026-11-02T10:00:00Z</updated>
<entry><id>urn:1</id><title>A</title><link href="https://a.example/1"/><author><name>Ann</name></author>
<published>2026-11-02T10:00:00+02:00</published><updated>2026-11-03T10:00:00.5Z</updated>
<content type="html">&lt;p&gt;c&lt;/p&gt;</content></entry></feed>"""
JSON = {
    "version": "https://jsonfeed.org/version/1.1",
    "title": "T",
    "home_page_url": "https://a.example/",
    "next_url": "https://a.example/feed?page=2",
    "items": [
        {
            "id": 1,
            "url": "https://a.example/1",
            "content_html": "<p>c</p>",
            "authors": [{"name": "Ann"}],
            "tags": ["k", "k", 3],
            "date_published": "2026-11-02T10:00:00+02:00",
            "attachments": [{"url": "https://a.example/s.mp3", "mime_type": "audio/mpeg", "size_in_bytes": 12}],
        },
        "no item",
    ],
}
SITEMAP = """<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://a.example/1</loc>
<lastmod>2026-11-02T10:00:00+02:00</lastmod></url></urlset>"""
INDEX = "<sitemapindex><sitemap><loc>https://a.example/more.xml</loc></sitemap></sitemapindex>"
AT = datetime(2026, 11, 2, 8, tzinfo=UTC)


def read(given: Any, kind: str = "") -> ParsedFeed:
    body = given if isinstance(given, bytes) else (given if isinstance(given, str) else json.dumps(given)).encode()
    return parse_feed(body, URL, kind, PAGE)


def entries(given: Any) -> list[FeedEntry]:
    found = read(given).entries
    assert all(isinstance(each, FeedEntry) for each in found)
    return found  # type: ignore[return-value]


def test_rss_is_read_with_its_hints_and_its_html_stays_as_it_came() -> None:
    given = read(RSS)
    assert (given.feed.form, given.feed.title, given.feed.page_url) == ("rss", "Caf\u00e9", "https://a.example/")
    assert given.feed.description == "of <b>all</b>"
    assert given.hints == Hints(5400, (0, 3), (6,))
    assert given.next == "https://a.example/feed?page=2"
    first, second = entries(RSS)
    assert (first.key, first.title, first.page_url) == (f"{URL} x 1", "A & B", "https://a.example/1")
    assert (first.summary, first.content) == ('<p onclick="x()">s</p>', "<script>alert(1)</script><p>c</p>")
    assert (first.published_at, first.updated_at, first.categories) == (AT, None, ("k",))
    assert first.enclosures == (Enclosure("https://a.example/s.mp3", "audio/mpeg", 12),)
    assert (len(second.id), second.published_at) == (32, None)
    assert second.id == entries(RSS)[1].id, "the same entry has the same id each time"


def test_atom_is_read() -> None:
    (entry,) = entries(ATOM)
    assert read(ATOM).feed.form == "atom"
    assert (entry.id, entry.authors, entry.content, entry.published_at) == ("urn:1", ("Ann",), "<p>c</p>", AT)
    assert entry.updated_at == datetime(2026, 11, 3, 10, 0, 0, 500_000, UTC)


@pytest.mark.parametrize("given", [RSS, json.dumps(JSON).replace("https://a.example/", "/")])
def test_addresses_are_relative_to_where_the_feed_lay_and_not_to_the_address_that_led_there(given: str) -> None:
    lay_at = Provenance("https://b.example/blog/", PAGE.fetched_at, "feeds")
    found = parse_feed(given.replace('"/s.mp3"', '"s.mp3"').encode(), URL, "", lay_at)
    entry = found.entries[0]
    assert isinstance(entry, FeedEntry)
    assert (found.feed.feed_url, found.feed.page_url) == (URL, "https://b.example/")
    assert found.next.startswith("https://b.example/")
    assert (entry.feed_url, entry.page_url) == (URL, "https://b.example/1")
    assert entry.enclosures[0].url in ("https://b.example/blog/s.mp3", "https://b.example/s.mp3")


def test_json_feed_is_read() -> None:
    entry, other = read(JSON).entries
    assert isinstance(entry, FeedEntry)
    assert isinstance(other, Reject), "what is no item is told"
    assert (read(JSON).feed.form, read(JSON).next) == ("json", "https://a.example/feed?page=2")
    assert (entry.id, entry.content, entry.authors, entry.categories) == ("1", "<p>c</p>", ("Ann",), ("k",))
    assert (entry.published_at, entry.enclosures[0].size) == (AT, 12)


@pytest.mark.parametrize("odd", [5, True, "Ann", {"name": "Ann"}, [5], []])
def test_odd_authors_cost_no_entry(odd: Any) -> None:
    (item, *_) = JSON["items"]
    (entry,) = entries(JSON | {"items": [{**item, "authors": odd, "author": {"name": "Bob"}}]})  # type: ignore[dict-item]
    assert (entry.id, entry.content) == ("1", "<p>c</p>")


def test_a_sitemap_is_a_feed_of_pages_and_may_lead_to_others() -> None:
    (entry,) = entries(SITEMAP)
    assert (read(SITEMAP).feed.form, entry.id, entry.updated_at) == ("sitemap", "https://a.example/1", AT)
    assert read(INDEX).sitemaps == ("https://a.example/more.xml",)
    assert [each.id for each in entries("https://a.example/1\nhttps://a.example/2\n")] == [
        entry.id,
        "https://a.example/2",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "feed"),
        ("nonsense", "feed"),
        ('<?xml version="1.0"?><a/>', "RSS, Atom, JSON Feed"),
        ({}, "https://jsonfeed.org/version/"),
        ({"version": "https://jsonfeed.org/version/1"}, "items"),
        ("{", "JSON Feed"),
        (b"\x1f\x8b\x08 no gzip", "feed"),
    ],
)
def test_what_is_no_feed_is_said_to_be_none(given: Any, said: str) -> None:
    with pytest.raises(ParseError) as refused:
        read(given)
    assert said in str(refused.value)


def test_a_feed_that_is_cut_short_or_has_lies_in_it_gives_what_it_has() -> None:
    assert (len(read(RSS[:-60]).entries), bool(read(RSS[:-60]).cut)) == (1, True)
    assert entries(RSS.replace("2026", "99999"))[0].published_at is None
    assert entries(RSS.replace("x  1", "x" * 5000))[0].id != "x" * 5000
    assert entries(RSS.replace("/s.mp3", "javascript:alert(1)"))[0].enclosures == ()
    assert read(RSS.replace("<ttl>90", "<ttl>never")).hints.interval_s == 3600
    frequent = RSS.replace("<ttl>90</ttl>", "").replace("Frequency>1<", f"Frequency>{'9' * 5000}<")
    assert read(frequent).hints.interval_s == 0
    assert read(RSS.encode("latin-1", "replace").replace(b"utf-8", b"latin-1")).feed.form == "rss"


@pytest.mark.parametrize("number", ["xD800", "55296", "x110000", "99999999999999999999", "9" * 5000, "x" + "f" * 5000])
def test_a_reference_to_what_is_no_character_costs_no_entry(number: str) -> None:
    first, second = entries(RSS.replace("A &amp; B", f"A &#{number}; B"))
    assert first.title == "A \ufffd B"
    assert second.title == "without an id"
    assert entries(RSS.replace("A &amp; B", "A &#x1F600;&#8217; B"))[0].title == "A \U0001f600\u2019 B"


def test_what_the_library_fails_at_is_said_to_be_no_feed() -> None:
    assert "feed" in _refusal(b'<?xml version="1.0" encoding="u\xff"?>')


def test_entities_do_not_grow_without_bound_and_nothing_is_read_from_disk() -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE r [<!ENTITY e0 "boom"><!ENTITY f SYSTEM "file:///etc/passwd">{levels}]>'
    for title in ("A &f;", "A &e11;"):
        try:
            shown = str(read(RSS.replace('"?>', f'"?>{bomb}', 1).replace("A &amp; B", title)).entries)
        except ParseError as error:
            shown = str(error)
        assert "root:" not in shown
        assert len(shown) < 100_000
    assert "feed" in _refusal(b"/etc/passwd")


def _refusal(body: bytes) -> str:
    with pytest.raises(ParseError) as refused:
        parse_feed(body, URL, "", PAGE)
    return str(refused.value)


def test_an_entry_that_cannot_be_a_record_is_rejected_and_the_others_are_not() -> None:
    given = parse_feed(json.dumps(JSON).encode(), "https://a.example/with a space", "", PAGE)
    assert isinstance(given.entries[0], Reject)


def test_a_page_says_where_its_feeds_are() -> None:
    page = b"""<!DOCTYPE html><html><head><link rel="alternate" type="application/rss+xml" href="/rss">
    <link rel="Alternate stylesheet" type="text/css" href="/css"><link rel="alternate" hreflang="de" href="/de">
    <link rel="alternate" type="application/atom+xml" href="https://b.example/atom"></head></html>"""
    assert is_page(page, "")
    assert feeds_of_page(page, URL) == ["https://a.example/rss", "https://b.example/atom"]
    based = page.replace(b"<head>", b'<head><base href="https://c.example/x/">').replace(b'"/rss"', b'"rss"')
    assert feeds_of_page(based, URL) == ["https://c.example/x/rss", "https://b.example/atom"]
    assert feeds_of_page(b"", URL) == []
    assert not is_page(RSS.encode(), "application/rss+xml")


@pytest.mark.parametrize("given", [RSS, ATOM, json.dumps(JSON), SITEMAP, INDEX, f"<!-- made by hand -->\n{ATOM}"])
def test_a_feed_that_its_server_calls_a_page_is_a_feed(given: str) -> None:
    assert not is_page(given.encode(), "text/html; charset=utf-8")
    assert read(given, "text/html; charset=utf-8").feed == read(given).feed


@pytest.mark.parametrize(
    "given",
    [
        '<?xml version="1.0"?><!DOCTYPE html PUBLIC "x"><html><svg><feed></svg></html>',
        "<!doctype html><head><title>rss</title></head><rss>",
        "<title>a page</title>",
        "",
    ],
)
def test_a_page_is_one_whatever_stands_in_it(given: str) -> None:
    assert is_page(given.encode(), "application/xhtml+xml")


@pytest.mark.parametrize(
    ("header", "seconds"), [("max-age=60", 60), ("public, Max-Age=5", 5), ("no-cache", 0), ("s-maxage=9", 0), ("", 0)]
)
def test_for_how_long_an_answer_is_fresh_is_read(header: str, seconds: int) -> None:
    assert max_age(header) == seconds
