"""What is read from saved pages of sources of trends is what is written beside them, and all of it can be kept."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.exceptions import ParseError
from harvester.items import RECORDS, Found
from harvester.items.base import Record
from harvester.items.raw import read_back
from harvester.items.trend import look_of, normal_tag
from harvester.parsers.hashtags import bluesky, instagram, mastodon, tiktok, youtube
from harvester.parsers.hashtags.rows import number_of, tags_in, volume_of
from harvester.parsers.hashtags.staged import read_staged
from harvester.spiders.hashtags.arguments import problem_of_tag
from harvester.spiders.hashtags.spider import HashtagsSpider
from tests.hashtags import cases
from tests.hashtags.cases import PAGES, READERS, SEEN, expected_file, page, written


def test_every_saved_page_is_read() -> None:
    assert {path.name for path in PAGES.iterdir() if ".expected" not in path.name} == READERS.keys()


@pytest.mark.parametrize("name", READERS)
def test_page_reads_as_written_down(name: str) -> None:
    assert written(name) == expected_file(name).read_text("utf-8")


def records(name: str) -> list[Record]:
    found = READERS[name](page(name)).records
    assert found
    return found


@pytest.mark.parametrize("name", READERS)
def test_every_record_can_be_stored_and_comes_back_from_its_staged_line(name: str) -> None:
    observed = b'"url":"https://x.example","fetched_at":"2026-11-25T08:30:00Z"'
    for record in records(name):
        bson.encode(record.to_document())
        assert record.problem() is None
        raw = read_back(record.line(observed))
        again = read_staged(record.KIND, record.key, raw, SEEN)
        assert again is not None
        assert (again.key, again.to_document(), again.raw) == (record.key, record.to_document(), record.raw)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "html": lambda body: b"<!DOCTYPE html><html><body>Bad Gateway<br></body></html>",
    "not utf-8": lambda body: b"\xff\xfe" + body,
    "null": lambda body: b"null",
    "another answer": lambda body: b'{"unexpected":[]}',
    "nested without end": lambda body: b"[" * 100_000,
}


@pytest.mark.parametrize("damage", BROKEN)
@pytest.mark.parametrize("name", [name for name in READERS if name != "tiktok_page.html"])
def test_answer_that_is_no_such_page_is_a_parse_error(name: str, damage: str) -> None:
    with pytest.raises(ParseError, match="answer"):
        READERS[name](BROKEN[damage](page(name)))


def test_a_page_of_tiktok_that_holds_no_data_has_no_rows_and_broken_data_is_a_parse_error() -> None:
    body = page("tiktok_page.html")
    for other in (
        b"",
        b"<html>",
        body.replace(b"__NEXT_DATA__", b"__DATA__"),
        body.replace(b"dehydratedState", b"state"),
    ):
        assert READERS["tiktok_page.html"](other).rows == 0
    with pytest.raises(ParseError, match="JSON"):
        READERS["tiktok_page.html"](body.replace(b'{"props"', b"{props"))


ODD: list[object] = [None, 5, -1, True, "", [], {}, [5], 1e308, "9" * 5000, [[]], "\0"]
"""What may stand anywhere in an answer."""


def _in_place(document: Any, odd: object) -> Iterator[Any]:
    """The document with this in place of each part of it, of a list of the first."""
    yield odd
    if isinstance(document, dict):
        for name, part in document.items():
            yield from ({**document, name: changed} for changed in _in_place(part, odd))
    elif isinstance(document, list) and document:
        yield from ([changed, *document[1:]] for changed in _in_place(document[0], odd))


@pytest.mark.parametrize("name", [name for name in READERS if name.endswith(".json")])
def test_an_odd_value_anywhere_costs_a_row_at_most_or_is_a_parse_error(name: str) -> None:
    document = msgspec.json.decode(page(name))
    for odd in ODD:
        for changed in _in_place(document, odd):
            with suppress(ParseError):
                READERS[name](msgspec.json.encode(changed))


def test_odd_values_in_the_data_of_a_page_of_tiktok_cost_no_more() -> None:
    whole = page("tiktok_page.html")
    begin = whole.index(b'{"props"')
    end = whole.index(b"</script>", begin)
    document = msgspec.json.decode(whole[begin:end])
    for odd in ODD:
        for changed in _in_place(document, odd):
            with suppress(ParseError):
                READERS["tiktok_page.html"](whole[:begin] + msgspec.json.encode(changed) + whole[end:])


def test_a_number_of_endless_digits_is_none() -> None:
    digits = "9" * 5000
    assert youtube.rest_of(msgspec.json.encode({"pageInfo": {"totalResults": digits}})).total is None
    assert bluesky.parse_hits(msgspec.json.encode({"hitsTotal": digits})).total is None
    assert number_of(str(2**63 - 1)) == 2**63 - 1


def test_a_refusal_of_tiktok_is_no_empty_list() -> None:
    look = cases.look("tiktok", "US", "7d")
    refused = tiktok.parse_list(b'{"code":40101,"msg":"no permission"}', look)
    assert (refused.code, refused.said, refused.read.rows) == (40101, "no permission", 0)
    body = b'{"code":0,"msg":"OK","data":{"list":[],"pagination":{"has_more":true}}}'
    empty = tiktok.parse_list(body, look)
    assert (empty.code, empty.read.rows, empty.has_more) == (0, 0, True)


def test_pages_say_what_follows_and_never_with_a_token() -> None:
    assert instagram.after(page("instagram_media.json")) == "QVFI"
    assert (
        instagram.after(b'{"data":[],"paging":{"cursors":{"after":"last"}}}') == instagram.after(b'{"data":[]}') == ""
    )
    assert youtube.rest_of(page("youtube_popular.json")) == ("CAUQAA", 200)
    assert youtube.rest_of(page("youtube_search.json")) == ("", 1_000_000)
    assert bluesky.parse_hits(b'{"posts":[],"cursor":"25","hitsTotal":70}') == ("25", 70)
    assert bluesky.parse_hits(b'{"posts":[]}') == ("", None)


def test_a_feed_can_name_no_entities_of_its_own() -> None:
    bomb = b'<!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><rss><channel><item><title>&b;</title>'
    read = READERS["google.xml"](bomb + b"</item></channel></rss>")
    assert ["title" in reject.reason for reject in read.rejects] == [True]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("20K+", 20_000), ("1,000+", 1_000), ("200+", 200), ("1.5M", 1_500_000), ("2 m +", 2_000_000)),
        *(("12", 12), ("1,234,567", 1_234_567), ("3B", 3_000_000_000), ("0", 0), ("1.9", 1)),
        *((text, None) for text in ("", "+", "many", "1,00", "K", "-5", "9" * 30, "1e9", "²", "１２", "5 Mio", None)),
    ],
)
def test_volumes_are_read_as_people_write_them(text: str | None, number: int | None) -> None:
    assert volume_of(text) == number


def test_a_volume_with_blanks_without_end_is_none_at_once() -> None:
    """It would take an hour where time grows with their square."""
    assert volume_of(f"1{' ' * 500_000}x") is None


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        *(("#Cats", "cats"), ("ＣＡＴＳ", "cats"), ("Fußball", "fussball"), (" # two\n words ", "two words")),
        *(("##x", "x"), ("İ", "i̇"), ("#", ""), ("ﬁre", "fire"), ("＃wide", "wide")),
    ],
)
def test_two_ways_to_write_a_tag_are_one(text: str, normal: str) -> None:
    assert normal_tag(text) == normal
    assert normal_tag(normal) == normal


@given(st.text())
def test_the_normal_form_of_a_tag_is_its_own(text: str) -> None:
    normal = normal_tag(text)
    assert normal == normal.strip()
    assert "\n" not in normal


def test_hashtags_in_texts_are_found_and_parts_of_addresses_are_none() -> None:
    text = "#Cats and #2030goals, #42 (#café)! a#b https://x.example/#top &#39; #音楽 #snake_case"
    assert tags_in(text) == ["Cats", "2030goals", "café", "音楽", "snake_case"]


SCRIPTS = [
    "हिन्दी",
    "กรุงเทพ",
    "தமிழ்",
    "বাংলা",
    "می\u200cخواهم",
    "עִבְרִית",
    "cafe\u0301",
    "日本語",
    "ジョン・レノン",
    "col·lega",
]
"""Hashtags in scripts whose letters have signs above, below or beside them, and with what joins words."""


@pytest.mark.parametrize("tag", SCRIPTS)
def test_a_hashtag_of_any_script_is_one_and_is_found_whole(tag: str) -> None:
    assert problem_of_tag(tag) == ""
    assert tags_in(f"x #{tag} y #{tag}, #{tag}! #{tag}❤️ #1️⃣") == [tag] * 4
    assert HashtagsSpider.check_item(Found("tag", f"mastodon a.example #{tag}")).input == {"tag": tag}


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from([timedelta(hours=1), timedelta(days=1)]))
def test_looks_within_one_period_are_one_look(at: datetime, every: timedelta) -> None:
    look = look_of(at, every)
    assert look <= at < look + every
    assert look_of(look, every) == look


@pytest.mark.parametrize(
    ("said", "access"),
    [
        ({"hashtag_feeds": {"local": "public", "remote": "authenticated"}}, "public"),
        ({"hashtag_feeds": {"local": "disabled", "remote": "disabled"}}, "disabled"),
        ({"hashtag_feeds": {"local": "authenticated", "remote": "disabled"}}, "authenticated"),
        ({"hashtag_feeds": "disabled"}, "disabled"),
        ({"hashtag_feeds": {"local": "later"}}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_an_instance_says_to_whom_it_shows_timelines(said: object, access: str) -> None:
    body = msgspec.json.encode({"configuration": {"timelines_access": said}})
    assert mastodon.feeds_access(body) == access


def test_records_of_trends_name_no_account_of_another_family() -> None:
    for kind in ("trend", "hashtag", "tagged_post"):
        assert "did" not in RECORDS[kind].__struct_fields__
