"""Feeds as their makers write them: nothing of them is swallowed, and nothing wrong is made of them."""

import gzip
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from harvester.items import Provenance
from harvester.items.feed import FeedEntry
from harvester.parsers.web.dates import read_date
from harvester.parsers.web.feed import ParsedFeed, feeds_of_page, is_page, parse_feed

URL = "https://a.example/blog/feed"
NOW = datetime(2026, 11, 1, tzinfo=UTC)
PAGE = Provenance(URL, NOW, "feeds")


def item(title: str = "T", **parts: str) -> str:
    return f"<item><title>{title}</title>{''.join(f'<{name}>{text}</{name}>' for name, text in parts.items())}</item>"


def rss(*items: str, head: str = "") -> bytes:
    return f'{head}<rss version="2.0"><channel><title>F</title>{"".join(items)}</channel></rss>'.encode()


def atom(*entries: str) -> bytes:
    inner = "".join(f"<entry>{entry}</entry>" for entry in entries)
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>F</title><id>urn:f</id>{inner}</feed>'.encode()


def json_feed(*items: dict[str, Any]) -> bytes:
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "F", "items": items}).encode()


def read(body: bytes, kind: str = "", known: tuple[str, ...] = ()) -> ParsedFeed:
    return parse_feed(body, URL, kind, PAGE, known)


def entries(body: bytes, kind: str = "", known: tuple[str, ...] = ()) -> list[FeedEntry]:
    found = read(body, kind, known).entries
    assert all(isinstance(each, FeedEntry) for each in found)
    return found  # type: ignore[return-value]


def entry(body: bytes, kind: str = "") -> FeedEntry:
    (found,) = entries(body, kind)
    return found


# Ids --------------------------------------------------------------------------------------------------------

SAME_ID = [
    rss(*(item(f"T{n}", guid="0", link=f"https://a.example/{n}") for n in range(3))),
    rss(*(item(f"level {n}", link="https://a.example/gauge") for n in range(3))),
    rss(*(item("level", guid="g", pubDate=f"0{n} Jan 2026 10:00 GMT") for n in range(1, 4))),
    json_feed(*({"id": 0, "url": f"https://a.example/{n}"} for n in range(3))),
    atom(*(f'<id>urn:1</id><link href="https://a.example/{n}"/>' for n in range(3))),
]


@pytest.mark.parametrize("body", SAME_ID, ids=["guid", "address", "date", "json", "atom without dates"])
def test_an_id_that_stands_at_several_entries_swallows_none(body: bytes) -> None:
    found = read(body)
    keys = [each.key for each in entries(body)]
    assert len(set(keys)) == 3
    assert len(found.repeated) == 1
    assert keys == [each.key for each in entries(body)], "the same entry has the same id each time"


def test_an_entry_keeps_the_id_it_got_beside_others_when_it_stands_alone() -> None:
    first, second, third = (item(f"T{n}", guid="0", link=f"https://a.example/{n}") for n in range(3))
    both = read(rss(second, first))
    alone = entries(rss(second), known=both.repeated)
    later = entries(rss(third, second), known=both.repeated)
    assert alone[0].id == later[1].id == entries(rss(second, first))[0].id
    assert entries(rss(first))[0].id == "0", "an id that tells entries apart stays as it is"


def test_an_entry_that_stands_there_twice_is_one() -> None:
    same = item("T", guid="1", link="https://a.example/1")
    assert [each.id for each in entries(rss(same, same, item("U", guid="2")))] == ["1", "2"]
    assert read(rss(same, same)).repeated == ()


def test_versions_of_an_entry_of_atom_are_one_entry_which_is_the_latest() -> None:
    body = atom(*(f"<id>urn:1</id><title>v{n}</title><updated>2026-01-0{n}T00:00:00Z</updated>" for n in (1, 3, 2)))
    found = entry(body)
    assert (found.id, found.title) == ("urn:1", "v3")


@pytest.mark.parametrize("guid", ["j1", "12", "post/7", "tag:a.example,2026:1"])
def test_a_guid_that_is_no_address_becomes_none(guid: str) -> None:
    found = entry(rss(item(guid=guid)))
    assert (found.id, found.page_url) == (guid, None)
    linked = entry(rss(item(guid=guid, link="https://a.example/1")))
    assert (linked.id, linked.page_url) == (guid, "https://a.example/1")


def test_a_guid_that_is_an_address_is_that_of_the_page_unless_it_says_that_it_is_none() -> None:
    assert entry(rss(item(guid="https://a.example/7"))).page_url == "https://a.example/7"
    not_one = rss(item().replace("</item>", '<guid isPermaLink="false">https://a.example/7</guid></item>'))
    assert (entry(not_one).id, entry(not_one).page_url) == ("https://a.example/7", None)
    assert entry(rss(item(link="/1", guid="x"))).page_url == "https://a.example/1"


def test_an_id_does_not_depend_on_where_the_feed_lay() -> None:
    moved = Provenance("https://b.example/other/", NOW, "feeds")
    (found,) = parse_feed(rss(item(guid="j1")), URL, "", moved).entries
    assert isinstance(found, FeedEntry)
    assert found.key == entry(rss(item(guid="j1"))).key


# Texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Tom &amp;amp; Jerry &amp;#8217;s", "Tom & Jerry \u2019s"),
        ("A &lt;b&gt;bold&lt;/b&gt; &lt;i class='x'&gt;word&lt;/i&gt;", "A bold word"),
        ("<![CDATA[A &amp; B <i>c</i>]]>", "A & B c"),
        ("one&lt;br&gt;two", "one two"),
        ("a &lt; b and vector&lt;int&gt;", "a < b and vector<int>"),
        ("How to use &amp;lt;div&amp;gt;", "How to use <div>"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;", "<script>alert(1)</script>"),
        ("a&#x1e;b&#8;c", "a bc"),
        ("AT&T and R&D", "AT&T and R&D"),
        ("&lt;br&gt;", "<br>"),
        ("cr&ecirc;pe", "cr\u00eape"),
    ],
)
def test_markup_and_entities_of_a_title_are_read(title: str, text: str) -> None:
    assert entry(rss(item(title, category=title, author=title))).title == text
    assert entry(rss(item(title, category=title))).categories == (text,)


@pytest.mark.parametrize("title", ["&lt;img src='x.png' onload='a()'&gt;", "&lt;b class='x'&gt;&lt;/b&gt;"])
def test_a_title_without_a_word_is_none(title: str) -> None:
    assert entry(rss(item(title, guid="1"))).title is None
    assert entry(atom(f'<id>urn:1</id><title type="html">{title}</title>')).title is None


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ('type="html">A &lt;img alt="c&lt;br/&gt;d" src="x"&gt; b', "A b"),
        ('type="html">AT&amp;amp;T &lt;em&gt;x&lt;/em&gt;', "AT&T x"),
        ('type="html">How to use &amp;lt;div&amp;gt;', "How to use <div>"),
        ('type="html">The &lt;custom-tag&gt;word', "The word"),
        ('type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">A <b>b</b> &lt; c</div>', "A b < c"),
        ('type="text">AT&amp;amp;T &lt;em&gt;', "AT&amp;T <em>"),
        (">1 &lt; 2 &amp; 3", "1 < 2 & 3"),
    ],
)
def test_a_title_of_atom_is_what_its_type_says(title: str, text: str) -> None:
    assert entry(atom(f"<id>urn:1</id><title {title}</title>")).title == text
    feed = atom().replace(b"<title>F</title>", f"<title {title}</title>".encode())
    assert read(feed).feed.title == text


def test_titles_and_tags_of_json_feed_hold_no_entities() -> None:
    found = entry(
        json_feed({"id": "1", "title": "It&#8217;s <b>A &amp; B</b>", "tags": ["R&amp;D"], "content_html": "<p>"})
    )
    assert (found.title, found.categories, found.content) == ("It\u2019s A & B", ("R&D",), "<p>")


def test_control_characters_and_lone_surrogates_cost_themselves() -> None:
    found = entries(rss(item("a\x1eb\x08c", guid="1", description="x\x00y\x0bz"), item("d", guid="2")))
    assert [each.title for each in found] == ["a bc", "d"]
    assert "\x00" not in (found[0].summary or "")
    one, other = entries(
        json_feed({"id": "1", "title": "x\ud83dy", "content_text": "z\ud800"}, {"id": "2", "title": "\x01 u"})
    )
    assert (one.title, one.content, other.title) == ("x\ufffdy", "z\ufffd", "u")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "cp1251", "koi8-r"])
def test_a_feed_is_read_in_its_encoding(encoding: str) -> None:
    named = encoding.removesuffix("-sig")
    body = rss(item("Привет", guid="1"), head=f'<?xml version="1.0" encoding="{named}"?>').decode()
    assert entry(body.encode(encoding), "text/xml").title == "Привет"
    assert (
        entry(body.replace(named, "utf-8").encode(encoding), f"application/rss+xml; charset={named}").title == "Привет"
    )


def test_json_feed_is_read_with_a_mark_and_in_utf_16() -> None:
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le"):
        assert entry(json_feed({"id": "1", "title": "Zürich"}).decode().encode(encoding)).title == "Zürich"
    assert entry(json_feed({"id": "1"}).replace(b"https://jsonfeed", b"http://jsonfeed")).id == "1"


def test_an_odd_byte_costs_its_character() -> None:
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    latin = rss(item("Zürich", guid="1"), head=head).decode().encode("latin-1")
    assert entry(latin).title == "Zürich", "all of it is Latin-1, whatever it says"
    for odd in (head, ""):
        body = rss(item("Привет – Zürich", guid="1"), item("xy", guid="2"), head=odd).replace(b"xy", b"x\xd0")
        assert [each.title for each in entries(body)] == ["Привет – Zürich", "x\ufffd"]


# Dates ------------------------------------------------------------------------------------------------------

AT = datetime(2024, 1, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Tue, 02 Jan 2024 09:00:00 GMT", AT),
        ("mar., 02 janv. 2024 10:00:00 +0100", AT),
        ("Di, 2 Jan 2024 10:00 +0100", AT),
        ("Tue, 02 Jan 2024 11:00:00 CEST", AT),
        ("Tue, 02 Jan 2024 10:00:00 GMT+0100", AT),
        ("January 2nd, 2024 4:00 AM EST", AT),
        ("2024-01-02T14:30:00+05:30", AT),
        ("Tue Jan  2 01:00:00 PST 2024", AT),
        ("2024年1月2日", AT.replace(hour=0)),
        ("2024-01-01T24:00:00Z", AT.replace(hour=0)),
        ("Sat, 31 Dec 2016 23:59:60 GMT", datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("Tue, 2 Jan 24 09:00 GMT", AT),
        ("2024-01-02T09:00:00.123456789Z", AT.replace(microsecond=123_456)),
    ],
)
def test_dates_are_read_in_the_forms_that_feeds_use(text: str, at: datetime) -> None:
    assert read_date(text, NOW) == (at, "")
    found = entry(rss(item(guid="1", pubDate=text)))
    assert (found.published_at, found.withheld) == (at, {})


@pytest.mark.parametrize(
    "text",
    [
        "Tue,",
        "2024-02-30T10:00:00Z",
        "Fri, 31 Jun 2024 10:00:00 GMT",
        "Mon, 01 Jan 0001 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "1970-01-01T00:00:00Z",
        "2024-01-02 10:00:00",
        "Tue, 02 Jan 2024 10:00:00 IST",
        "Tue, 02 Jan 2024 10:00:00 -2500",
        "1704189600",
        "02/01/2024 10:00",
        "2024-W01-2",
        "yesterday",
        "x" * 5000,
    ],
)
def test_a_date_that_cannot_be_told_is_withheld_with_what_stood_there(text: str) -> None:
    for body in (
        rss(item(guid="1", pubDate=text)),
        atom(f"<id>1</id><published>{text}</published>"),
        json_feed({"id": "1", "date_published": text}),
    ):
        found = entry(body)
        assert found.published_at is None
        assert text[:100] in found.withheld["published_at"]
    listed = entry(f"<urlset><url><loc>https://a.example/</loc><lastmod>{text}</lastmod></url></urlset>".encode())
    assert listed.updated_at is None
    assert text[:100] in listed.withheld["updated_at"]


# Files ------------------------------------------------------------------------------------------------------

FEEDS = [rss(item(guid="1")), atom("<id>1</id>"), json_feed({"id": "1"})]


@pytest.mark.parametrize("body", FEEDS, ids=["rss", "atom", "json"])
@pytest.mark.parametrize("kind", ["application/gzip", "application/rss+xml", "text/html", ""])
def test_a_feed_that_is_a_gzip_file_is_read(body: bytes, kind: str) -> None:
    packed = gzip.compress(body[:20]) + gzip.compress(body[20:])
    assert not is_page(packed, kind)
    assert (entry(packed, kind).id, read(packed).cut) == ("1", "")
    assert read(packed).feed.form == read(body).feed.form


def test_a_feed_that_is_cut_tells_so_and_leaves_out_what_stands_at_the_cut() -> None:
    body = rss(*(item(f"T{n}", guid=str(n), link=f"https://a.example/{n}00") for n in range(50)))
    packed = gzip.compress(body)
    for cut in (body[: len(body) // 2], packed[: len(packed) // 2]):
        found = entries(cut)
        assert read(cut).cut
        assert 0 < len(found) < 50
        assert all(each.page_url == f"https://a.example/{each.id}00" for each in found)
    assert read(atom("<id>1</id>", "<id>2</id>")[:-8]).cut
    assert not read(body).cut
    assert not read(body + b"\n<!-- made in 3 s -->").cut


def test_users_and_passwords_of_addresses_are_not_kept() -> None:
    links = {"link": "https://u:secret@a.example/1", "guid": "1"}
    files = '<enclosure url="https://u:secret@a.example/s.mp3" type="audio/mpeg"/></item>'
    found = parse_feed(rss(item(**links).replace("</item>", files)), "https://u:secret@a.example/feed", "", PAGE)
    assert b"secret" not in found.feed.raw
    assert all(isinstance(each, FeedEntry) and b"secret" not in each.raw for each in found.entries)
    page = b'<html><link rel=alternate type=application/rss+xml href="https://u:secret@a.example/f">'
    assert feeds_of_page(page, URL) == ["https://a.example/f"]


def test_a_page_is_read_in_its_encoding() -> None:
    page = '<!DOCTYPE html><html><head><link rel=alternate type=application/rss+xml href="/ü"></head></html>'
    for encoding in ("utf-8", "utf-16", "utf-16-be"):
        assert is_page(page.encode(encoding), "")
        assert feeds_of_page(page.encode(encoding), URL) == ["https://a.example/ü"]


def test_what_a_server_wrote_before_the_feed_costs_nothing() -> None:
    warning = "<br />\n<b>Warning</b>: Undefined variable in <b>/x.php</b> on line <b>3</b><br />\n"
    assert entry(warning.encode() + rss(item(guid="1"))).id == "1"
    assert entry(b"\n\n  " + rss(item(guid="1"), head='<?xml version="1.0"?>')).id == "1"
