"""Whatever bytes a record was read from come back from disk as they were."""

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from harvester.items import Reject
from harvester.items.raw import members, read_back
from harvester.pipelines.staging import staged_line
from harvester.stores.rejects import rejected_line
from harvester.stores.staging import SegmentWriter, iter_records, read_segment
from tests.items.test_base import volume

HTML = '<!DOCTYPE html>\n<p class="a">caf\u00e9 &amp; \u2028 "\\n" \ufeff \U0001f98b\r\n</p>\t'
JSON = [
    b"{}",
    b"[]",
    b'{"a": 1.0, "a": [null, 1e5], "b": "\\u00e9\xc3\xa9 \xe2\x80\xa8"}',
    b"[" * 500 + b"]" * 500,
    b'{"number":123456789012345678901234567890}',
]
TEXT = [
    HTML.encode(),
    b"<html>" + b"\0" * 10 + b"</html>",
    bytes(range(128)),
    b" ",
    b"null",
    b"123",
    b'"a string"',
    b'{"a":1}\n',
    b'{\r\n  "indented": true\r\n}',
    b' {"a":1}',
    b'{"a":1}trailing',
    b'{"a":"\\ud800"}',
    b'{"a":1e999}',
    b'{"a":NaN}',
    b'{"a":"\0"}',
    b"{'a': 1}",
    b"[" * 100_000,
    b"[" * 900 + b"]" * 900,
    b"\xef\xbb\xbf{}",
    b'","raw":"x',
]
BYTES = [
    HTML.encode("utf-16"),
    "caf\u00e9".encode("latin-1"),
    "\u8868\u793a".encode("shift-jis"),
    "\ud800".encode("utf-8", "surrogatepass"),
    b'{"a":"\xff"}',
    b"{\xff}",
    bytes(range(256)),
    b"%PDF-1.7\n\x80\x81" + Random(7).randbytes(10_000),
]
RAW = [*JSON, *TEXT, *BYTES]


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: repr(raw[:20]))
def test_raw_comes_back_as_it_was(raw: bytes) -> None:
    line = staged_line(volume(raw=raw))
    assert b"\n" not in line
    assert b"\r" not in line
    assert read_back(line) == raw
    assert json.loads(line).keys() == msgspec.json.decode(line).keys()
    assert json.loads(line)["key"] == "a 7"


def _shown(raw: bytes) -> Any:
    """`raw` as a reader of lines meets it."""
    return msgspec.json.decode(staged_line(volume(raw=raw)))["raw"]


def test_json_is_json_text_is_text_and_other_bytes_are_characters() -> None:
    assert [_shown(raw) for raw in JSON] == [msgspec.json.decode(raw) for raw in JSON]
    assert [_shown(raw) for raw in TEXT] == [raw.decode() for raw in TEXT]
    assert [_shown(raw).encode("latin-1") for raw in BYTES] == BYTES


def test_random_bytes_come_back() -> None:
    random = Random(11)
    alphabet = [b'"', b"\\", b"{", b"}", b"[", b"]", b"\n", b"\0", b"\xc3", b"\xa9", b"\xed\xa0\x80", b"a", b"1", b","]
    for _ in range(3_000):
        raw = b"".join(random.choices(alphabet, k=random.randint(1, 12)))
        assert read_back(b"{%b}" % members(raw)) == raw


def test_a_page_of_five_megabytes_goes_through_a_segment_and_back(tmp_path: Path) -> None:
    page = (HTML * (5 * 1024 * 1024 // len(HTML.encode()) + 1)).encode()
    odd = Random(3).randbytes(5 * 1024 * 1024)
    writer = SegmentWriter(tmp_path / "staging" / "books")
    writer.write("volume", [staged_line(volume(raw=page)), staged_line(volume(number=8, raw=odd))])
    writer.write("volume", [staged_line(volume(number=9, raw=b"<p>after</p>"))])
    writer.close()
    (segment,) = (tmp_path / "staging").rglob("*.zst")
    assert [read_back(line) for line in read_segment(segment)] == [page, odd, b"<p>after</p>"]
    assert [line["key"] for line in iter_records(tmp_path, "books", "volume")] == ["a 7", "a 8", "a 9"]


@pytest.mark.parametrize("raw", [*TEXT, *BYTES], ids=lambda raw: repr(raw[:20]))
def test_what_is_rejected_comes_back_too(raw: bytes) -> None:
    line = rejected_line(Reject("volume", "a reason", "a 7", raw, "https://books.example/"))
    assert b"\n" not in line
    given = read_back(line)
    assert given == raw or json.loads(given) == json.loads(raw)  # JSON loses its white space


def test_what_is_no_bytes_at_all_is_rejected_as_it_is_written_in_python() -> None:
    reject: Any = Reject("volume", "a reason", "a 7", {"no": "bytes"}, "https://books.example/")  # type: ignore[arg-type]
    assert read_back(rejected_line(reject)) == b"{'no': 'bytes'}"
