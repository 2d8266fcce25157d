"""An answer is classified in its own charset, whichever says what it is: header, page or byte order mark."""

import pytest
from scrapy.http import Response

from harvester.outcomes import Outcome, classify
from harvester.outcomes.answer import Answer

TITLE = "Zugriff verweigert: für Café Ñandú"
PAGE = "<html><head>{}<title>{}</title></head><body><p>{}</p></body></html>"


def answer(body: bytes, content_type: str = "text/html", status: int = 200) -> Answer:
    return Answer(Response("https://site.example/", status, {"Content-Type": content_type}, body))


@pytest.mark.parametrize(
    ("charset", "declared"),
    [
        ("latin-1", "text/html; charset=iso-8859-1"),
        ("cp1252", "text/html"),  # nobody says it
        ("cp1252", "text/html; charset=utf-8"),  # what is said is wrong
        ("utf-16", "text/html"),
        ("utf-16-le", "text/html; charset=utf-16"),
        ("utf-32", "text/html"),
        ("utf-8-sig", "text/html; charset=iso-8859-1"),
    ],
)
def test_title_and_excerpt_are_read_in_the_pages_charset(charset: str, declared: str) -> None:
    found = answer(PAGE.format("", TITLE, "Für heute zu viel: 5 £").encode(charset), declared)
    assert found.title == TITLE.lower()
    assert found.excerpt() == f"{TITLE} Für heute zu viel: 5 £"


@pytest.mark.parametrize("declared", ["text/html; charset=shift_jis", "text/html"])
def test_words_of_a_rule_are_found_in_a_page_of_shift_jis(declared: str) -> None:
    meta = "" if "shift" in declared else '<meta charset="Shift_JIS">'
    found = answer(PAGE.format(meta, "メンテナンス", "現在メンテナンス中です。表示").encode("shift_jis"), declared)
    assert "現在メンテナンス中です。表示" in found.text
    assert found.title == "メンテナンス"


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-be", "utf-32"])
def test_a_page_of_another_unicode_encoding_is_judged_as_the_same_page_in_utf_8_is(charset: str) -> None:
    page = PAGE.format("", "Maintenance", "The site is down for maintenance. Please check back later.")
    plain, wide = (
        classify(Response("https://site.example/", 503, {"Content-Type": "text/html"}, page.encode(encoding)))
        for encoding in ("utf-8", charset)
    )
    assert plain.outcome is Outcome.MAINTENANCE
    assert wide == plain


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_an_error_in_json_is_read_in_any_unicode_encoding(charset: str) -> None:
    found = answer('{"error": "InvalidToken", "message": "für später"}'.encode(charset), "application/json", 400)
    assert (found.kind, found.error) == ("json", ("InvalidToken", "für später"))
    assert not found.cut_short


def test_a_picture_is_never_taken_for_text_of_utf_16() -> None:
    body = b"\xff\xfe\x00\x00" + bytes(100)
    assert answer(body, "image/x-icon").body is body
