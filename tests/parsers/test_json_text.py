"""JSON is read in its encoding, and one value that no JSON can hold costs itself alone."""

from typing import Any

import msgspec
import pytest

from harvester.exceptions import ParseError
from harvester.parsers.json_text import read_json, read_mended
from harvester.parsers.web.endpoint import EndpointDeclaration, read_rows
from harvester.parsers.web.rows import rows_at

ROWS = '{"items": [{"id": 1, "v": "Zürich"}, {"id": 2, "v": "日本"}]}'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_json_is_read_in_its_encoding(encoding: str) -> None:
    assert read_json(ROWS.encode(encoding))["items"][1] == {"id": 2, "v": "日本"}


def test_the_charset_of_the_server_counts_where_it_is_no_utf8() -> None:
    kind = "application/json; charset={}".format
    assert read_json('["Zürich"]'.encode("latin-1"), kind("iso-8859-1")) == ["Zürich"]
    assert read_json('["Привет"]'.encode("cp1251"), kind("windows-1251")) == ["Привет"]
    assert read_json('["Zürich"]'.encode(), kind("iso-8859-1")) == ["Zürich"]
    assert read_json('["Zürich"]'.encode("utf-16"), kind("utf-16")) == ["Zürich"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NaN", None),
        ("-Infinity", None),
        ("1e400", None),
        (r'"\ud83d lone"', "\ufffd lone"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        ('"a\x08b\tc"', "a\x08b\tc"),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("-0.0", 0.0),
    ],
)
def test_an_odd_value_costs_itself_and_not_its_row_or_document(text: str, value: Any) -> None:
    found = read_json(f'{{"items": [{{"id": 1, "v": {text}}}, {{"id": 2, "v": 0.1}}]}}'.encode())
    assert rows_at("items", found) == [{"id": 1, "v": value}, {"id": 2, "v": 0.1}]


def test_an_odd_byte_costs_its_character() -> None:
    assert read_json('["Zürich Привет", "x'.encode() + b'\xd0"]') == ["Zürich Привет", "x\ufffd"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1,]", b'{"a":1', b"[" * 100_000, b"callback([1]);", b"\xff"])
def test_what_is_no_json_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(ParseError, match="JSON"):
        read_json(body)


def test_rows_that_share_a_key_take_nobodys_place() -> None:
    body = b'[{"id": "1", "v": 1}, {"id": 1, "v": 2}, {"id": "1", "v": 1}, {"id": 2}]'
    rows = read_rows(body, "", EndpointDeclaration(rows="@", key=("id",)), "").rows
    assert [(row.key, bool(row.problem)) for row in rows] == [("1", False), ("", True), ("1", False), ("2", False)]
    assert all(not row.problem for row in read_rows(body, "", EndpointDeclaration(rows="@"), "").rows), (
        "without a key each is one"
    )


def test_decoders_of_one_type_read_odd_values_too() -> None:
    body = rb'{"a": [NaN, -Infinity, "NaN \" Infinity", 1], "b": "x\ud83d"}'
    assert read_mended(msgspec.json.decode, body) == {"a": [None, None, 'NaN " Infinity', 1], "b": "x\ufffd"}
