"""Text is read in the encoding that its mark, its server or the document names; no byte costs the document."""

import codecs
import json
from pathlib import Path

import pytest

from harvester.decoding import as_utf8, decode_text, encoding_of
from harvester.parsers.counties.html import read_page
from harvester.parsers.hashtags.rows import object_of
from harvester.spiders.counties.socrata import parser as socrata
from harvester.spiders.counties.vgsi import parser as vgsi
from harvester.spiders.seeds import Seeds

WORDS = "Привет, 日本 – “Müller” €"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("declared", ["", "text/html; charset=windows-1251", "application/json; charset=utf-8"])
@pytest.mark.parametrize("prefers_utf8", [True, False])
def test_a_byte_order_mark_decides_before_what_is_declared(encoding: str, declared: str, prefers_utf8: bool) -> None:
    body = WORDS.encode(encoding)
    assert decode_text(body, declared, prefers_utf8=prefers_utf8) == WORDS
    assert as_utf8(body, declared, prefers_utf8=prefers_utf8) == WORDS.encode()


@pytest.mark.parametrize(("mark", "encoding"), [(codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF16_LE, "utf-16-le")])
def test_utf16_of_either_byte_order_is_read_with_and_without_a_mark(mark: bytes, encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="utf-16"?><a>{WORDS}</a>'
    assert decode_text(mark + text.encode(encoding)) == text
    assert decode_text(text.encode(encoding)) == text
    assert decode_text(text.encode(encoding), "text/xml; charset=utf-16", prefers_utf8=True) == text


@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [
        ("text/html; charset=windows-1251", "cp1251", "Привет"),
        ('text/xml; charset="KOI8-R"', "koi8-r", "Привет"),
        ("text/csv; charset=Shift_JIS", "cp932", "日本①"),
        ("text/html; charset=gb2312", "gb18030", "朱镕基囧"),
        ("text/html; charset=iso-8859-1", "cp1252", "“quoted” €"),
        ("text/plain; charset=iso-2022-jp", "iso2022_jp", "日本"),
        ("text/plain; charset=utf-16le", "utf-16-le", "日本 a"),
        ("text/plain; charset=utf-16", "utf-16-le", "日本 a"),
    ],
)
def test_the_charset_of_content_type_is_honoured(declared: str, encoding: str, text: str) -> None:
    assert decode_text(text.encode(encoding), declared) == text
    assert decode_text(text.encode(encoding), declared, prefers_utf8=True) == text


@pytest.mark.parametrize(
    "form", ['<?xml version="1.0" encoding="{}"?><a>{}</a>', "<html><head><meta charset={}><title>{}</title></head>"]
)
def test_the_documents_own_declaration_is_honoured_where_the_server_names_none(form: str) -> None:
    text = form.format("windows-1251", "Привет")
    assert decode_text(text.encode("cp1251"), "text/xml") == text
    assert decode_text(text.encode("cp1251"), "text/xml; charset=none") == text
    of_utf16 = form.format("utf-16", "Привет")
    assert decode_text(of_utf16.encode(), "text/xml") == of_utf16


def test_undeclared_text_is_utf8_if_it_can_be_else_windows_1252() -> None:
    assert decode_text("Müller €".encode()) == "Müller €"
    assert decode_text("Müller €".encode("cp1252")) == "Müller €"
    assert decode_text(b"") == ""


def test_a_kind_that_is_utf8_by_its_standard_is_not_misread_by_a_servers_default_charset() -> None:
    body = '{"name": "Müller"}'.encode()
    assert decode_text(body, "application/json; charset=iso-8859-1", prefers_utf8=True) == '{"name": "Müller"}'
    assert decode_text(body, "text/plain; charset=utf-16", prefers_utf8=True) == '{"name": "Müller"}'
    latin = '{"name": "Müller"}'.encode("latin-1")
    assert decode_text(latin, "application/json; charset=iso-8859-1", prefers_utf8=True) == '{"name": "Müller"}'


@pytest.mark.parametrize(
    "label", ["base64", "hex", "rot13", "zip", "idna", "punycode", "undefined", "unicode_escape", "utf-7", "none", "\\"]
)
def test_a_charset_that_is_none_is_not_taken(label: str) -> None:
    assert decode_text("Müller +ADw-".encode(), f"text/html; charset={label}") == "Müller +ADw-"
    page = f"<meta charset={label}>Müller \\x41"
    assert decode_text(page.encode()) == page


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "gb18030"])
def test_an_odd_byte_costs_one_character(encoding: str) -> None:
    body = "one".encode(encoding) + b"\xff" + "two".encode(encoding)[-1:]
    text = decode_text(body, f"text/plain; charset={encoding}")
    assert text.startswith("one")
    assert "\ufffd" in text or encoding != "utf-8-sig"
    assert as_utf8(body, f"text/plain; charset={encoding}") == text.encode()


def test_names_are_those_of_python() -> None:
    assert encoding_of(b"a", "text/html; charset=latin1") == "cp1252"
    assert encoding_of(b"\xff\xfea\0") == "utf-16-le"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_parsers_of_json_read_each_encoding(encoding: str) -> None:
    assert socrata.parse_count('[{"count":"12"}]'.encode(encoding)) == 12
    said = json.dumps({"d": [{"id": "7", "value": "1 MÜLLER ST"}]}, ensure_ascii=False).encode(encoding)
    assert vgsi.parse_suggestions(said) == [("7", "1 MÜLLER ST")]
    assert object_of('{"name": "Müller"}'.encode(encoding)) == {"name": "Müller"}
    assert read_page("<p>1 MÜLLER ST</p>".encode(encoding)).text_content() == "1 MÜLLER ST"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
def test_files_of_seeds_are_read_in_each_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("alice.test\r\n# Müller\r\nbob.test\r\n", encoding)
    assert list(Seeds(f"@{tmp_path / 'seeds.txt'}")) == ["alice.test", "bob.test"]
