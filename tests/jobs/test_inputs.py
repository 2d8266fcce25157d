"""Inputs of jobs: what is accepted, what is refused and what is named then, and that nothing between is lost."""

import codecs
import gzip
import io
import random
import string
from pathlib import Path
from typing import Any

import pytest

from harvester.exceptions import UsageError
from harvester.items import Found
from harvester.jobs.inputs import MOST_LINE_BYTES, BadLine, InputFormat, InputLines, opened
from harvester.jobs.submission import BadLines


def lines_of(data: bytes, name: str = "x.csv", **how: Any) -> InputLines:
    return InputLines(io.BufferedReader(io.BytesIO(data)), name, "parcel", **how)


def read(data: bytes, name: str = "x.csv", **how: Any) -> list[Found | BadLine]:
    return list(lines_of(data, name, **how))


def item(line: int, key: str, given: dict[str, Any]) -> Found:
    return Found("parcel", key, given, depth=0, line=line)


def keys(data: bytes, name: str = "x.csv", **how: Any) -> list[str]:
    """Of the entries; of bad lines the number, as #3."""
    return [each.key if isinstance(each, Found) else f"#{each.line}" for each in read(data, name, **how)]


def reason(data: bytes, name: str, **how: Any) -> str:
    """Of the only bad line."""
    (bad,) = [each for each in read(data, name, **how) if isinstance(each, BadLine)]
    return bad.reason


def unnamed(said: str, named: list[str]) -> list[str]:
    """What of this is not in the message."""
    return [name for name in named if name not in said]


def refusal(data: bytes, name: str, **how: Any) -> str:
    with pytest.raises(UsageError) as raised:
        read(data, name, **how)
    assert raised.value.exit_code == 2
    return str(raised.value)


# What is accepted ------------------------------------------------------------------------------------------


def test_a_line_of_text_is_a_key() -> None:
    assert read(b"alice.test\n  bob.test \r\ncarol.test", "x.txt") == [
        item(1, "alice.test", {}),
        item(2, "bob.test", {}),
        item(3, "carol.test", {}),
    ]


def test_a_csv_record_has_its_columns_as_input_and_the_number_of_its_first_line() -> None:
    assert read(b'key,note\n1,"two\nlines, a comma"\n2,"a ""word"""\n') == [
        item(2, "1", {"key": "1", "note": "two\nlines, a comma"}),
        item(4, "2", {"key": "2", "note": 'a "word"'}),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_that_of_the_header(delimiter: str) -> None:
    data = 'parcel|owner\n1|"A, B; C"\n'.replace("|", delimiter)
    assert read(data.encode(), key="parcel") == [item(2, "1", {"parcel": "1", "owner": "A, B; C"})]


def test_the_only_column_is_the_key() -> None:
    assert keys(b"parcel\n12-3\n12-4\n") == ["12-3", "12-4"]
    assert keys(b"parcel\n12-3\n12-4\n", key="") == ["12-3", "12-4"]


def test_an_object_is_the_input_and_a_whole_number_may_be_its_key() -> None:
    assert read(b'{"key":"a","depth":[1,{"b":null}]}\n{"key": 7}\n', "x.jsonl") == [
        item(1, "a", {"key": "a", "depth": [1, {"b": None}]}),
        item(2, "7", {"key": 7}),
    ]


@pytest.mark.parametrize(
    ("name", "data", "form"),
    [
        ("a.csv", b"key\n1\n", InputFormat.CSV),
        ("a.TSV", b"key\n1\n", InputFormat.CSV),
        ("a.ndjson", b'{"key":"1"}\n', InputFormat.JSONL),
        ("a.txt", b'{"key":"1"}\n', InputFormat.TEXT),
        ("-", b' \n{"key":"1"}\n', InputFormat.JSONL),
        ("-", b"1\n", InputFormat.TEXT),
        ("accounts", codecs.BOM_UTF8 + b'{"key":"1"}\n', InputFormat.JSONL),
    ],
)
def test_the_format_is_known_by_the_ending_or_by_the_first_character(name: str, data: bytes, form: InputFormat) -> None:
    assert lines_of(data, name).form is form


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert keys(codecs.BOM_UTF8 + b"a\n" + codecs.BOM_UTF8 + b"b\n", "x.txt") == ["a", "b"]
    assert keys(codecs.BOM_UTF8 + b"key,b\n1,2\n") == ["1"]
    assert keys(codecs.BOM_UTF8 + b'{"key":"1"}\n', "x.jsonl") == ["1"]


def test_what_is_beyond_ascii_is_kept() -> None:
    assert keys("Zoë\n東京\n".encode(), "x.txt") == ["Zoë", "東京"]
    assert keys("key,Name\n1,Zoë\n".encode()) == ["1"]


# Empty lines -----------------------------------------------------------------------------------------------


def test_empty_lines_are_counted_and_are_no_items() -> None:
    for name, data in (
        ("x.txt", b"\n a\n \r\n\t\nb\n\n"),
        ("x.jsonl", b'\n{"key":"a"}\n \r\n\t\n{"key":"b"}\n\n'),
        ("x.csv", b"key,n\n\na,1\n,\n\nb,2\n\n"),
    ):
        lines = lines_of(data, name)
        assert [each.key for each in lines if isinstance(each, Found)] == ["a", "b"]
        assert lines.empty == 4, name


@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.jsonl"])
def test_a_hundred_thousand_empty_lines_are_no_items(name: str) -> None:
    lines = lines_of(b"\n" * 100_000, name)
    assert list(lines) == []
    assert lines.read == 100_000


@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.jsonl"])
def test_an_empty_file_has_no_entries(name: str) -> None:
    assert read(b"", name) == []


# Bad lines -------------------------------------------------------------------------------------------------


def test_an_unclosed_quotation_mark_costs_one_line() -> None:
    data = b'key,n\n1,a\n2,"open\n3,c\n4,d\n5,"e"\n6,f\n'
    assert keys(data) == ["1", "#3", "3", "4", "5", "6"]
    assert "quotation mark" in reason(data, "x.csv")


def test_an_unclosed_quotation_mark_that_a_later_one_closes_costs_one_line_too() -> None:
    data = b'key,n\n1,"open\n2,b\n3,"c"\n4,"d\n' + b"5,e\n" * 3
    assert keys(data) == ["#2", "2", "3", "#5", "5", "5", "5"]


def test_a_key_of_several_lines_is_an_unclosed_quotation_mark() -> None:
    assert keys(b'key,n\n"1,a\n2,b\n3,"c"\n') == ["#2", "2", "3"]
    assert keys(b'key,n\n"1,a\n2,b\n3",c\n4,d\n') == ["#2", "2", '3"', "4"]


def test_a_record_of_several_lines_without_a_key_is_one_bad_line() -> None:
    data = b'key,n\n,"Main Street 1\nAda, Ohio"\n2,b\n'
    assert keys(data) == ["#2", "2"]
    (bad, _) = read(data)
    assert isinstance(bad, BadLine)
    assert (bad.line, bad.text, "key" in bad.reason) == (2, data.decode()[6:-5], True)


def test_an_unclosed_quotation_mark_in_a_long_file_costs_one_line() -> None:
    rows = b"".join(b"%d,some words that make it longer\n" % number for number in range(60_000))
    found = keys(b'key,n\nx,"open\n' + rows)
    assert len(rows) > MOST_LINE_BYTES
    assert found == ["#2", *map(str, range(60_000))]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (b"1", ["1 field", "2"]),
        (b"1,2,3", ["3 field", "2"]),
        (b'"1"2,3', ["CSV", "',' expected"]),
        (b"1,2\r3,4", ["carriage return"]),
        (b",2", ["key"]),
        (b'"  ",2', ["key"]),
        (b"1\x002,3", ["NUL"]),
        (b"\x07,3", ["key", "'\\x07'"]),
        (b"1," + b"x" * 70_000, ["parcel", "input", "70,024", "65,536"]),
        (b"1," + b"x" * 200_000, ["field", "large"]),
        (b"1," + b"x" * MOST_LINE_BYTES, [f"{MOST_LINE_BYTES:,}"]),
    ],
)
def test_a_record_that_cannot_be_used_is_told_with_its_number(row: bytes, named: list[str]) -> None:
    data = b"key,n\n0,first\n" + row + b"\n9,last\n"
    assert unnamed(reason(data, "x.csv"), named) == []
    assert keys(data) == ["0", "#3", "9"]


def test_a_key_that_is_too_large_is_a_bad_line() -> None:
    most = 64 * 1024
    large = "\u00e9".encode() * 35_000
    assert keys(b"a\n" + large + b"\n" + b"x" * most + b"\n", "x.txt") == ["a", "#2", "x" * most]
    for data, name in ((large, "x.txt"), (b'"' + large + b'"', "x.jsonl")):
        assert unnamed(reason(data, name), ["parcel", "key", "70,000", "65,536"]) == []


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (b"{", ["JSON", "truncated"]),
        (b"[1]", ["JSON", "array"]),
        (b"plain", ["JSON", "malformed"]),
        (b'{"a":1}', ["'key'", "--key"]),
        (b'{"key":null}', ["'key'", "text", "number"]),
        (b'{"key":true}', ["'key'", "text", "number"]),
        (b'{"key":1.5}', ["'key'", "text", "number"]),
        (b'{"key":""}', ["key", "empty"]),
        (b'{"key":"a\\u0000"}', ["key", "'\\x00'"]),
        (b'{"key":"a","n":12345678901234567890123}', ["parcel", "MongoDB", "input"]),
        (b'{"key":"a","n":' + b"[" * 120 + b"]" * 120 + b"}", ["parcel", "input", "nested"]),
        (b'{"key":"a","n":"' + b"x" * 70_000 + b'"}', ["parcel", "input", "70,024", "65,536"]),
        (b'{"key":"caf\xe9"}', ["0xe9", "UTF-8", "'é'", "Windows-1252"]),
    ],
)
def test_an_object_that_cannot_be_used_is_told_with_its_number(row: bytes, named: list[str]) -> None:
    data = b'{"key":"0"}\n' + row + b'\n{"key":"9"}\n'
    assert unnamed(reason(data, "x.jsonl"), named) == []
    assert keys(data, "x.jsonl") == ["0", "#2", "9"]


def test_a_line_of_json_may_be_a_key_alone() -> None:
    assert read(b'{"key":"a"}\n"b"\n7\n', "x.jsonl")[1:] == [item(2, "b", {}), item(3, "7", {})]
    assert keys(b'{"key":"a"}\n""\n1.5\ntrue\nnull\n', "x.jsonl") == ["a", "#2", "#3", "#4", "#5"]


def test_nesting_that_no_parser_follows_is_a_bad_line() -> None:
    row = b'{"key":"a","n":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    assert keys(row + b'{"key":"9"}\n', "x.jsonl") == ["#1", "9"]


def test_names_that_mongodb_cannot_hold_are_a_bad_line() -> None:
    assert unnamed(reason(b'{"key":"a","n\\u0000":1}\n', "x.jsonl"), ["parcel", "MongoDB", "input"]) == []


def test_a_bad_line_is_told_with_what_is_in_it() -> None:
    (_, bad) = read(b"fine\ncaf\xe9\r\n", "x.txt")
    assert isinstance(bad, BadLine)
    assert (bad.line, bad.text) == (2, "caf�")
    assert unnamed(bad.reason, ["0xe9", "'é'", "iconv -f WINDOWS-1252 -t UTF-8"]) == []


def test_a_line_without_an_end_takes_no_memory() -> None:
    class Endless(io.RawIOBase):
        """Zeros: more than anybody has memory for would be one line."""

        left = 200 * MOST_LINE_BYTES

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            size = min(len(buffer), self.left)
            buffer[:size] = b"x" * size
            self.left -= size
            return size

    (bad,) = InputLines(io.BufferedReader(Endless()), "-", "line")
    assert isinstance(bad, BadLine)
    assert len(bad.text) == 1000


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_table_of_another_unicode_encoding_is_read(encoding: str, mark: str, delimiter: str) -> None:
    table = f"{mark}key{delimiter}owner\r\n1{delimiter}Zoë Ω\r\n2{delimiter}日本 😀\r\n"
    assert read(table.encode(encoding)) == [
        item(2, "1", {"key": "1", "owner": "Zoë Ω"}),
        item(3, "2", {"key": "2", "owner": "日本 😀"}),
    ]


def test_what_excel_saves_as_unicode_text_is_a_table_though_its_name_ends_with_txt() -> None:
    data = '\ufeffkey\tname\r\n007\t"a, b"\r\n'.encode("utf-16-le")
    assert read(data, "parcels.txt") == [item(2, "007", {"key": "007", "name": "a, b"})]
    assert keys(b"key\tname\n1\tx\n", "parcels.txt") == ["1"]
    assert keys("\ufeff007\r\n008\r\n".encode("utf-16"), "parcels.txt") == ["007", "008"]


def test_json_lines_of_utf_16_are_read() -> None:
    assert keys('{"key": "ü"}\n"ö"\n'.encode("utf-16"), "x.jsonl") == ["ü", "ö"]


def test_a_half_character_of_utf_16_costs_its_line_alone() -> None:
    lines = [f"key-{number}" for number in range(50_000)]  # longer than what is read together
    data = "\ufeff".encode("utf-16-le") + "\n".join(lines).encode("utf-16-le")
    at = len("\ufeff" + "\n".join(lines[:20_000])) * 2 - 2
    found = keys(data[:at] + b"\x00\xd8" + data[at + 2 :], "x.txt")
    assert len(found) == len(lines)
    assert [key for key, line in zip(found, lines, strict=True) if key != line] == ["#20000"]
    (bad,) = [line for line in read(data[:-1], "x.txt") if isinstance(line, BadLine)]
    assert (bad.line, "UTF-16-LE" in bad.reason) == (len(lines), True)


# What is refused as a whole --------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE"])
def test_utf_16_that_neither_mark_nor_beginning_tell_is_refused_by_name(encoding: str) -> None:
    data = "ключ,n\nkey-1,2\nkey-2,3\n".encode(encoding)
    assert f"iconv -f {encoding}" in refusal(data, "x.csv")


def test_a_file_in_windows_1252_is_refused_with_the_byte_and_what_it_may_be() -> None:
    said = refusal("key,n\n1,Müller\n2,Meier\n3,Grün\n".encode("cp1252"), "x.csv")
    assert unnamed(said, ["x.csv", "Line 2", "0xfc", "UTF-8", "'ü'", "iconv -f WINDOWS-1252"]) == []


def test_one_damaged_line_among_utf_8_is_only_a_bad_line() -> None:
    assert keys("Zoë\n".encode() + b"caf\xe9\n" * 3 + b"b\n", "x.txt") == ["Zoë", "#2", "#3", "#4", "b"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (gzip.compress(b"key\n1\n", mtime=0), "gzip"),
        (b"\x28\xb5\x2f\xfdrest", "zstd"),
        (b"PK\x03\x04rest", "Excel"),
        (b"PAR1rest", "Parquet"),
    ],
)
def test_a_file_that_is_no_text_is_refused_by_name(data: bytes, what: str) -> None:
    assert unnamed(refusal(data, "x.csv"), ["x.csv", what]) == []


@pytest.mark.parametrize(
    ("name", "form", "said"),
    [
        ("g.csv", None, "csv"),
        ("g.csv.gz", None, "csv"),
        ("g.v2.TSV.bz2", None, "csv"),
        ("g.ndjson.zst", None, "jsonl"),
        ("g.txt.xz", None, "text"),
        ("g.csv.gz", InputFormat.TEXT, "text"),
        ("g.gz", None, "FORMAT"),
        ("-", None, "FORMAT"),
    ],
)
def test_what_unpacks_a_file_says_its_format_too(name: str, form: InputFormat | None, said: str) -> None:
    for magic, program in (
        (b"\x1f\x8b", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
        (b"BZh", "bzcat"),
        (b"\xfd7zXZ\x00", "xzcat"),
    ):
        whole = f"{program} FILE | harvester jobs submit ... --format {said} --input -"
        assert whole in refusal(magic + b"rest", name, form=form)


@pytest.mark.parametrize(("name", "form"), [("x.csv", "csv"), ("x.txt", "text"), ("x.jsonl", "jsonl"), ("-", "FORMAT")])
def test_lines_that_end_as_on_old_macs_are_refused_with_what_converts_them(name: str, form: str) -> None:
    convert = f"tr '\\r' '\\n' < FILE | harvester jobs submit ... --format {form} --input -"
    for data in (b"key,name\rk1,a\r", b'"key","name"\r"k1","a"', b"k\r" * MOST_LINE_BYTES):
        assert unnamed(refusal(data, name), ["carriage returns", convert]) == []


def test_a_line_that_windows_ended_is_none_of_an_old_mac_though_its_end_comes_later() -> None:
    parts = [b"a\r", b"\nb\r\n"]

    class Slow(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            part = parts.pop(0) if parts else b""
            buffer[: len(part)] = part
            return len(part)

    assert list(InputLines(io.BufferedReader(Slow()), "-", "parcel")) == [item(1, "a", {}), item(2, "b", {})]


@pytest.mark.parametrize("name", ["arr.json", "arr", "-"])
@pytest.mark.parametrize(
    "data", [b'[{"key":"a"},\n{"key":"b"}]', b'\xef\xbb\xbf \n[\n  "a",\n  "b"\n]\n', b"[1]", b"[]"]
)
def test_a_json_array_is_refused_with_what_makes_lines_of_it(name: str, data: bytes) -> None:
    convert = "jq -c '.[]' FILE | harvester jobs submit ... --format jsonl --input -"
    assert unnamed(refusal(data, name), ["JSON array", convert]) == []


def test_lines_that_begin_as_an_array_are_keys_when_one_says_that_they_are_text() -> None:
    assert keys(b"[1] Main Street\nb\n", "keys", form=InputFormat.TEXT) == ["[1] Main Street", "b"]


def test_a_key_column_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert unnamed(refusal(b"a,b\n1,2\n", "x.csv"), ["x.csv", "`key`", "--key COLUMN", "a, b"]) == []
    assert unnamed(refusal(b"a,b\n1,2\n", "x.csv", key="c"), ["--key", "x.csv", "'c'", "a, b"]) == []


def test_text_has_no_key_column() -> None:
    assert unnamed(refusal(b"a\n", "x.txt", key="a"), ["--key", "columns"]) == []


@pytest.mark.parametrize("header", [b"key,,b", b"key,a,a", b"key,a,"])
def test_a_header_with_missing_or_repeated_names_is_refused(header: bytes) -> None:
    assert unnamed(refusal(header + b"\n1,2,3\n", "x.csv"), ["header", "names"]) == []


def test_a_header_that_is_no_csv_is_refused() -> None:
    assert unnamed(refusal(b'key,"n\n1,2\n', "x.csv"), ["header", "line 1", "quotation mark"]) == []


def test_what_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "none.csv", "No such file")):
        with pytest.raises(UsageError) as raised, opened(str(path)):
            pass
        assert unnamed(str(raised.value), [str(path), why]) == []


def test_what_can_be_read_no_further_is_refused_after_what_was_read() -> None:
    class Raw(io.RawIOBase):
        given = False

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            if self.given:
                raise OSError(5, "Input/output error")
            self.given = True
            buffer[:4] = b"a\nb\n"
            return 4

    lines = iter(InputLines(io.BufferedReader(Raw()), "x.txt", "parcel"))
    assert [next(lines), next(lines)] == [item(1, "a", {}), item(2, "b", {})]
    with pytest.raises(UsageError, match=r"x\.txt.*Input/output error"):
        next(lines)


# Whatever comes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_each_line_of_a_damaged_csv_is_in_a_record_a_bad_line_or_empty(seed: int) -> None:
    """Rows have 2 columns and no line breaks; marks and commas are put in at random."""
    dice = random.Random(seed)
    rows = []
    for number in range(400):
        row = f"{number},{''.join(dice.choices(string.ascii_letters, k=8))}"
        for _ in range(dice.choice([0, 0, 0, 1, 2])):
            at = dice.randrange(len(row))
            row = row[:at] + dice.choice('",\n\t') + row[at:]
        rows.append(row)
    data = ("key,n\n" + "\n".join(rows) + "\n").encode()
    lines = lines_of(data)
    found = list(lines)
    numbers = [each.line or 0 for each in found]
    assert numbers == sorted(set(numbers))
    physical = data.decode().split("\n")
    covered: set[int] = set()
    for number, each in zip(numbers, found, strict=True):
        text = "\n".join(each.input.values()) if isinstance(each, Found) else each.text
        covered.update(range(number, number + text.count("\n") + 1))
    assert [at for at in range(2, len(physical)) if at not in covered and physical[at - 1].strip("\t,")] == []
    assert lines.read == len(physical) - 1


@pytest.mark.parametrize("seed", range(20))
def test_no_bytes_make_it_fail(seed: int) -> None:
    dice = random.Random(seed)
    alphabet = [b"\n", b'"', b",", b"{", b"}", b'"key":', b"a", b"1", b"\xc3", b"\xa9", b"\x00", b"\\", b"\r", b" "]
    data = b"".join(dice.choices(alphabet, k=3000))
    for name in ("x.csv", "x.jsonl", "x.txt"):
        try:
            found = read(data, name)
        except UsageError:
            continue
        assert all(each.key if isinstance(each, Found) else each.reason for each in found)


def test_a_line_that_comes_after_the_end_of_its_submission_leaves_no_file_and_nothing_open(tmp_path: Path) -> None:
    """The thread that reads a submission goes on for a moment when that is cancelled."""
    bad_lines = BadLines(tmp_path / "bad-lines.jsonl")
    with bad_lines:
        pass
    bad_lines.add(BadLine(1, "x", "it is no key"))
    assert list(tmp_path.iterdir()) == []
