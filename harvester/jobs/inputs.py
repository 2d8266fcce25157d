"""Reads inputs of jobs: CSV with a header, JSON lines or plain text, from a file or from standard input.

Inputs are read line by line, so a million lines take no more memory than ten. A line that cannot be used is
reported with its number and the reason, and the others are used. An input that is wrong as a whole (another
encoding, a compressed file, a missing key column) is refused before anything is used.
"""

import codecs
import csv
import hashlib
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

import msgspec

from harvester.decoding import UTF8, ReadAsUtf8, certain_encoding
from harvester.exceptions import InvalidRecordError, UsageError
from harvester.hosts import without_user
from harvester.items import Found

Source: TypeAlias = "BufferedReader[Any]"

STANDARD_INPUT = "-"
MOST_LINE_BYTES = 1024 * 1024
"""Maximum bytes of a line, and of a CSV record with all its lines: more than any item needs, however it is escaped."""
SHOWN_BYTES = 1000
"""Bytes that are shown of a line that is too long."""
SAMPLE_BYTES = 64 * 1024
"""Bytes that are checked before the first line is used."""
MOST_NAMED = 5
"""Maximum number of bad lines of a file that are shown."""
SHOWN = 80
"""Characters of a bad line that are shown."""
MOST_PACKED = 10_000
"""Maximum number of items that are sent together."""
CHUNK_BYTES = 1 << 20
"""Bytes of a file that are read together."""

_DELIMITERS = ",;\t"
_EDGES = " \t\r\n\ufeff\u200b"
"""Characters that are stripped from keys. Byte order marks stay inside files that were concatenated."""
_control = re.compile(r"[\x00-\x1f\x7f]").search
_decode_given = msgspec.json.Decoder(dict[str, Any] | str | int).decode
_LineNumber = Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]
_decode_packed = msgspec.json.Decoder(tuple[_LineNumber | None, str, dict[str, Any]]).decode
_encode = msgspec.json.Encoder().encode

_PIPED = "FILE | harvester jobs submit ... --format {} --input -"
_OTHER_FILES = (
    (b"\x1f\x8b", "compressed with gzip", f"zcat {_PIPED}"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", f"zstdcat {_PIPED}"),
    (b"BZh", "compressed with bzip2", f"bzcat {_PIPED}"),
    (b"\xfd7zXZ\x00", "compressed with xz", f"xzcat {_PIPED}"),
    (b"PK\x03\x04", "a ZIP archive or an Excel workbook", "unpack it, or save it as CSV (UTF-8)"),
    (b"PAR1", "a Parquet file", "save it as CSV or as JSON lines"),
)


class InputFormat(StrEnum):
    """The format of an input."""

    CSV = "csv"
    JSONL = "jsonl"
    TEXT = "text"


ENDINGS = {
    ".csv": InputFormat.CSV,
    ".tsv": InputFormat.CSV,
    ".jsonl": InputFormat.JSONL,
    ".ndjson": InputFormat.JSONL,
    ".txt": InputFormat.TEXT,
}


class Input(NamedTuple):
    """A source of items."""

    path: str
    """The path of the file. `-` is standard input."""
    form: InputFormat | None = None
    """The format. None: guessed from the file's name or its beginning."""
    key: str = ""
    """Column or field with the key of an item. Empty: the usual name."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be used."""

    line: int
    """Number of the line, from 1. For a CSV record, the number of its first line."""
    text: str
    reason: str


@contextmanager
def opened(path: str) -> Iterator[Source]:
    """Opens the file, or standard input for `-`. Raises UsageError when it cannot be opened."""
    if path == STANDARD_INPUT and sys.stdin is None:
        raise UsageError("There is no standard input.")
    try:
        if path == STANDARD_INPUT:
            file = BufferedReader(FileIO(0, closefd=False), SAMPLE_BYTES)
        else:
            file = BufferedReader(FileIO(path), SAMPLE_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None
    with file:
        yield file


def named(path: str) -> str:
    """Returns the name of the input for messages."""
    return "Standard input" if path == STANDARD_INPUT else f"The file {path}"


def items_of_file(
    path: str,
    argument: str,
    kind: str,
    key: str,
    usual: Sequence[str],
    problem_of: Callable[[Found], str] = lambda found: "",
) -> Iterator[Found]:
    """Yields the items of a file that an argument of a spider names. `problem_of` returns the reason why an item
    cannot be used, or an empty text.

    Raises UsageError for a file that cannot be read or used, and after the last item for the bad lines.
    """
    bad: list[BadLine] = []
    number = 0
    with opened(path) as source:
        for line in InputLines(source, path, kind, key=key, usual=usual, option="-a column=COLUMN"):
            reason = line.reason if isinstance(line, BadLine) else problem_of(line)
            if not reason and isinstance(line, Found):
                yield line
                continue
            number += 1
            if number <= MOST_NAMED:
                bad.append(BadLine(line.line or 0, line.text if isinstance(line, BadLine) else line.key, reason))
    if bad:
        shown = "".join(f"\n  Line {line.line}, {without_user(line.text)[:SHOWN]!r}: {line.reason}." for line in bad)
        more = f"\n  ... and {number - len(bad):,} more lines" if number > len(bad) else ""
        raise UsageError(
            f"-a {argument}=@{path}: these lines name no {kind}:{shown}{more}\n"
            "`harvester jobs submit` takes the others, and writes the bad ones into a file."
        )


def digest_of(path: str) -> str:
    """Returns a hash of the file's content. Raises UsageError."""
    digest = hashlib.sha256()
    with opened(path) as source:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()[:32]


def keys_as_items(keys: Iterable[str], kind: str) -> Iterator[Found | BadLine]:
    """Yields items that have only a key, numbered from 1 like lines."""
    for number, key in enumerate(keys, 1):
        try:
            yield Found(kind, key)
        except InvalidRecordError as error:
            yield BadLine(number, key, str(error))


PACKED = "application/vnd.harvester.items+jsonl"
"""Media type of the lines that `packed` returns."""


def packed(item: Found) -> bytes:
    """Returns an item that was read on this machine as a line of JSON, to be sent to another."""
    return _encode((item.line, item.key, item.input)) + b"\n"


def unpacked(file: Source, kind: str) -> Iterator[Found | BadLine]:
    """Yields the items of lines that `packed` returned. Raises UsageError for more than MOST_PACKED."""
    for number, raw in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES + 1), b""), 1):
        if number > MOST_PACKED:
            raise UsageError(f"More than {MOST_PACKED:,} items were sent together.")
        try:
            line, key, given = _decode_packed(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            yield BadLine(number, "", f"it is no item as harvester sends it: {error}")
            continue
        try:
            yield Found(kind, key, given, depth=0, line=line)
        except InvalidRecordError as error:
            yield BadLine(line or number, key, str(error))


class InputLines:
    """Yields the items and bad lines of an input, in their order. It can be iterated once.

    The input of an item is its CSV record (column -> text) or its JSON object; a line of plain text is only a key.
    `key` names the column or field with the key. When `key` is empty, the key is the first name in `usual` that
    exists, or the only column. `option` is the command line option that names the column. Without `form` the ending
    of the file's name gives the format, else the first character. Raises UsageError for an input that is wrong as a
    whole, from the constructor or before the first item, and later for one that becomes unreadable.
    """

    def __init__(
        self,
        source: Source,
        path: str,
        kind: str,
        form: InputFormat | None = None,
        key: str = "",
        usual: Sequence[str] = ("key",),
        option: str = "--key COLUMN",
    ) -> None:
        self.read = 0
        """Number of lines so far."""
        self.empty = 0
        """Number of empty lines among them."""
        self._file = self._source = source
        self._encoding = UTF8
        """The encoding. Excel's "Unicode Text" is not UTF-8."""
        self._size = size_of(source)
        self._path = path
        self._name = named(path)
        self._kind = kind
        self._key = key
        self._usual = usual
        self._option = option
        """The command line option that names the column: `--key COLUMN`."""
        sample = self._sample()
        if (encoding := certain_encoding(sample)) not in (None, UTF8):
            self._encoding = encoding
            self._source = BufferedReader(cast(Any, ReadAsUtf8(source, encoding)), SAMPLE_BYTES)
            sample = self._sample()
        self._refuse_other_files(sample, form)
        self.form = form or _form_by_name(path, sample) or self._guessed(sample)
        if key and self.form is InputFormat.TEXT:
            raise UsageError(f"{self._named_by}: plain text has no columns; each line is a key.")

    def __iter__(self) -> Iterator[Found | BadLine]:
        if self.form is InputFormat.CSV:
            return self._of_csv()
        return map(self._of_object if self.form is InputFormat.JSONL else self._of_text, self._lines_with_something())

    @property
    def _named_by(self) -> str:
        return self._option.removesuffix("COLUMN").rstrip(" =")

    def _of_text(self, line: "_Line") -> Found | BadLine:
        return line.bad(line.problem) if line.problem else self._item(line, line.text, {})

    def _of_object(self, line: "_Line") -> Found | BadLine:
        if line.problem:
            return line.bad(line.problem)
        try:
            given = _decode_given(line.text)
        except (msgspec.DecodeError, RecursionError) as error:
            return line.bad(f"it is no JSON object and no key: {error}")
        if not isinstance(given, dict):
            return self._item(line, str(given), {})
        name = self._key or next((name for name in self._usual if name in given), self._usual[0])
        key = given.get(name)
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        if not isinstance(key, str):
            return line.bad(f"its {name!r} is neither text nor a whole number" if name in given else _lacks(name))
        return self._item(line, key, given)

    def _of_csv(self) -> Iterator[Found | BadLine]:
        records = _Records(self._lines())
        header = records.header()
        if header is None:
            return
        index = records.key = self._key_index(header)
        for record in records:
            if isinstance(record, BadLine):
                yield record
            elif not any(record.fields):
                self.empty += 1
            else:
                yield self._item(record.line, record.fields[index], dict(zip(header, record.fields, strict=True)))

    def _item(self, line: "_Line", key: str, given: dict[str, Any]) -> Found | BadLine:
        key = key.strip(_EDGES)
        if not key:
            return line.bad("its key is empty")
        if control := _control(key):
            return line.bad(f"its key holds the character {control[0]!a}")
        try:
            return Found(self._kind, key, given, depth=0, line=line.number)
        except InvalidRecordError as error:
            return line.bad(str(error))

    def _key_index(self, header: list[str]) -> int:
        """Returns the index of the key column. Raises UsageError."""
        columns = ", ".join(header)
        if not all(header) or len(set(header)) < len(header):
            raise UsageError(f"{self._name} begins with a header in which names are missing or come twice: {columns}.")
        if not self._key and len(header) == 1:
            return 0
        for name in (self._key,) if self._key else self._usual:
            if name in header:
                return header.index(name)
        if self._key:
            raise UsageError(f"{self._named_by}: {self._name} has no column {self._key!r}; its columns are {columns}.")
        raise UsageError(
            f"{self._name} has no column `{self._usual[0]}`: say which is the key ({self._option}) of {columns}."
        )

    def _lines_with_something(self) -> Iterator["_Line"]:
        for line in self._lines():
            if line.text.strip(_EDGES):
                yield line
            else:
                self.empty += 1

    def _lines(self) -> Iterator["_Line"]:
        """Yields the lines with their line ends. A line that is too long is cut to its beginning."""
        while raw := self._readline():
            self.read += 1
            if self.read == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if len(raw) <= MOST_LINE_BYTES:
                yield _decoded(self.read, raw, self._encoding)
                continue
            rest = raw
            while rest and not rest.endswith(b"\n"):
                rest = self._readline()
            beginning = raw[:SHOWN_BYTES].decode(errors="replace")
            yield _Line(self.read, beginning, f"it is longer than {MOST_LINE_BYTES:,} bytes")
        if self._size and self._file.tell() < self._size:
            raise UsageError(
                f"{self._name} has become shorter while it was read: what was behind its new end is not known."
            )

    def _sample(self) -> bytes:
        """Returns the beginning, which is read again as lines. Raises UsageError."""
        try:
            return self._source.peek(SAMPLE_BYTES)
        except OSError as error:
            raise _unreadable(self._path, error) from None

    def _readline(self) -> bytes:
        """Returns a line, or just the part that shows that it is too long. Raises UsageError."""
        try:
            return self._source.readline(MOST_LINE_BYTES + 1)
        except OSError as error:
            raise _unreadable(self._path, error) from None

    def _refuse_other_files(self, sample: bytes, form: InputFormat | None) -> None:
        """Raises UsageError unless the input may be UTF-8."""
        for magic, what, remedy in _OTHER_FILES:
            if sample.startswith(magic):
                remedy = remedy.format(_form_of(self._path, form))
                raise UsageError(f"{self._name} is {what}, and inputs are plain text. Instead: {remedy}.")
        if b"\r" in sample[:-1] and b"\n" not in sample:
            raise UsageError(
                f"{self._name} has carriage returns and no line ends, as files of old Macs. "
                "Convert it: tr '\\r' '\\n' < FILE | harvester jobs submit ... --format "
                f"{_form_of(self._path, form)} --input -."
            )
        pairs = len(sample) // 2
        for encoding, first in (("UTF-16LE", 1), ("UTF-16BE", 0)):
            if pairs > 1 and sample[first::2].count(0) > pairs / 2 and sample[1 - first :: 2].count(0) < pairs / 2:
                remedy = f"Convert it: iconv -f {encoding} -t UTF-8"
                raise UsageError(f"{self._name} is {encoding} without a byte order mark. {remedy}.")
        beyond = [(number, line) for number, line in _whole_lines(sample) if not line.isascii()]
        problems = [_decoded(number, line, self._encoding) for number, line in beyond]
        if len(problems) > 1 and all(each.problem for each in problems):
            line, _, problem = problems[0]
            raise UsageError(f"{self._name} is not {self._encoding.upper()}. Line {line}: {problem}.")

    def _guessed(self, sample: bytes) -> InputFormat:
        """Returns the format for the first character. Raises UsageError for an array, since its lines are not keys."""
        first = sample.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        if first == b"[":
            raise UsageError(
                f"{self._name} is a JSON array; give JSON lines, one object a line: "
                "jq -c '.[]' FILE | harvester jobs submit ... --format jsonl --input -. "
                "If it is none, and each line is a key: --format text."
            )
        return InputFormat.JSONL if first == b"{" else InputFormat.TEXT


class _Line(NamedTuple):
    number: int
    text: str
    """The readable part of the text."""
    problem: str
    """The reason why the line cannot be used. Empty when it can."""

    def bad(self, reason: str) -> BadLine:
        return BadLine(self.number, self.text.rstrip("\r\n"), reason)


class _Record(NamedTuple):
    line: _Line
    """All lines of the record as one, with the number of the first."""
    fields: list[str]


_NOT_CLOSED = "it opens a quotation mark that is not closed"


class _UnusableRecord(Exception):
    """A record with a line that cannot be used, or one that is too long."""


class _Records:
    """Yields the records of a CSV file after its header, and the bad lines.

    A record with an unclosed quotation mark swallows the following lines, up to the next mark or to the end. So
    when a record of several lines is bad, or its key has several lines, only its first line is bad, and the others
    are read again as their own records.
    """

    def __init__(self, lines: Iterator[_Line]) -> None:
        self._lines = lines
        self._again: deque[_Line] = deque()
        self._taken: list[_Line] = []
        self._size = 0
        """Number of characters in the taken lines."""
        self._delimiter = ","
        self._width = 0
        self.key: int | None = None
        """Index of the key field."""

    def header(self) -> list[str] | None:
        """Returns the names of the columns. None for an empty file. Raises UsageError."""
        for line in self._lines:
            if line.text.strip(_EDGES):
                self._again.append(line)
                self._delimiter = max(_DELIMITERS, key=line.text.count)
                break
        for record in self:
            if isinstance(record, BadLine):
                raise UsageError(f"The header (line {record.line}) cannot be used: {record.reason}.")
            self._width = len(record.fields)
            return [name.strip(_EDGES) for name in record.fields]
        return None

    def __iter__(self) -> Iterator[_Record | BadLine]:
        rows = self._rows()
        while True:
            self._taken.clear()
            self._size = 0
            problem = ""
            try:
                fields = next(rows)
            except StopIteration:
                return
            except _UnusableRecord as error:
                problem = str(error)
            except csv.Error as error:
                problem = self._said(f"it is no CSV: {error}")
            else:
                if self._width and fields and len(fields) != self._width:
                    problem = self._said(f"it has {len(fields)} fields, and the header has {self._width}")
                elif self.key is not None and fields and "\n" in fields[self.key]:
                    problem = _NOT_CLOSED
            first = self._taken[0]
            if not problem:
                yield _Record(first._replace(text="".join(each.text for each in self._taken)), fields)
                continue
            self._again.extendleft(reversed(self._taken[1:]))
            rows = self._rows()
            yield first.bad(problem)

    def _said(self, problem: str) -> str:
        if len(self._taken) > 1 or "unexpected end" in problem:
            return _NOT_CLOSED
        if "new-line character" in problem:
            return "it holds a carriage return that ends no line"
        return "it has a field that is too large" if "field limit" in problem else problem

    def _rows(self) -> Iterator[list[str]]:
        return csv.reader(self._fed(), delimiter=self._delimiter, strict=True)

    def _fed(self) -> Iterator[str]:
        """Yields the lines of the next record, and adds them to the taken lines."""
        while line := self._again.popleft() if self._again else next(self._lines, None):
            self._taken.append(line)
            self._size += len(line.text)
            if self._size > MOST_LINE_BYTES:
                raise _UnusableRecord(_NOT_CLOSED)
            if line.problem and len(self._taken) == 1:
                raise _UnusableRecord(line.problem)
            if line.problem:
                raise _UnusableRecord(f"its quotation mark is not closed before line {line.number}: {line.problem}")
            yield line.text


def size_of(source: Source) -> int:
    """Returns the bytes of a file. 0 for a source without a size, such as a pipe."""
    try:
        found = os.fstat(source.fileno())
    except OSError:  # the source is not a file but has a file's methods
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _unreadable(path: str, error: OSError) -> UsageError:
    return UsageError(f"{named(path)} cannot be read: {error.strerror or error}.")


def _form_of(path: str, form: InputFormat | None) -> str:
    """Returns the format for a `--format` hint. For a compressed file it is the ending before the last."""
    return form or next((ENDINGS[each] for each in map(str.lower, Path(path).suffixes) if each in ENDINGS), "FORMAT")


def _whole_lines(sample: bytes) -> Iterable[tuple[int, bytes]]:
    """Yields the numbered lines, except the last, which may be cut."""
    return enumerate(sample.split(b"\n")[:-1], 1)


def _form_by_name(path: str, sample: bytes) -> InputFormat | None:
    """Returns the format for the ending of a file's name. A text with tabs is a table, like Excel's "Unicode Text"."""
    form = ENDINGS.get(Path(path).suffix.lower())
    first = sample.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n").partition(b"\n")[0]
    return InputFormat.CSV if form is InputFormat.TEXT and b"\t" in first.strip() else form


def _decoded(number: int, raw: bytes, encoding: str) -> _Line:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        if encoding != UTF8:
            return _Line(number, raw.decode(errors="replace"), f"it holds what is no {encoding.upper()}")
        byte = raw[error.start]
        meant = bytes([byte]).decode("cp1252", "replace")
        problem = (
            f"byte 0x{byte:02x} is not UTF-8; if it should be {meant!r}, convert the input from Windows-1252: "
            "iconv -f WINDOWS-1252 -t UTF-8"
        )
        return _Line(number, raw.decode(errors="replace"), problem)
    return _Line(number, text, "it holds a NUL byte" if "\0" in text else "")


def _lacks(name: str) -> str:
    return f"it has no {name!r}; --key names the field that is the key"
