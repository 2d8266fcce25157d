"""Shared helpers of the parsers here: rows to records, and numbers as people write them."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from harvester.decoding import as_utf8
from harvester.exceptions import InvalidRecordError, ParseError
from harvester.items import Provenance, Record, Reject
from harvester.items.trend import Hashtag, Trend, is_of_tag, normal_tag
from harvester.parsers.json_text import read_mended
from harvester.parsers.json_values import MOST_INT

BAD = (InvalidRecordError, ParseError, msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError)
"""Exceptions that turn a row of a response into a Reject."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}
_is_number = re.compile(
    r"((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,30})(?:\.[0-9]{1,30})?)(?:\s*([KMB]))?\s*\+?", re.IGNORECASE
).fullmatch
_begun_like_tags = re.compile(r"(?<![\w&/])#([\w\x80-\U0010ffff]+)").findall


class VisitContext(NamedTuple):
    """The values that all rows of a visit share."""

    source: str
    region: str
    period: str
    looked_at: datetime
    provenance: Provenance


class ParsedTrends(NamedTuple):
    """The records and rejects of a response."""

    records: list[Record]
    rejects: list[Reject]
    rows: int
    """Number of all rows: records, rejects, and rows that were left out."""


Row = dict[str, Any]
Build = Callable[[Row, bytes, int], Iterable[Record]]
"""Makes the records of a row from its value, its bytes, and its number from 1."""


def each(rows: Iterable[Raw], provenance: Provenance, kind: type[Record], build: Build, first: int = 1) -> ParsedTrends:
    """Makes the records of all rows. A bad row becomes a reject of that kind of record, and costs no other row."""
    read = ParsedTrends([], [], 0)
    number = 0
    for number, row in enumerate(rows, 1):
        raw = bytes(row)
        try:
            read.records.extend(build(msgspec.json.decode(raw, type=Row), raw, first + number - 1))
        except BAD as error:
            read.rejects.append(Reject(kind.KIND, str(error), "", raw, provenance.url))
    return read._replace(rows=number)


def rows_of(body: bytes, *path: str) -> list[Raw]:
    """Returns the list at this path of a JSON response, each row as its bytes. Raises ParseError."""

    def read(answer: bytes) -> list[Raw]:
        value: Any = answer
        for name in path:
            value = msgspec.json.decode(value, type=dict[str, Raw])[name]
        return msgspec.json.decode(value, type=list[Raw])

    try:
        return read_mended(read, as_utf8(body, prefers_utf8=True))
    except KeyError as error:
        raise ParseError(f"the answer has no {error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"the answer is no such JSON: {error}") from None


def object_of(body: bytes) -> Row:
    """Returns a JSON response that is an object. Raises ParseError."""
    try:
        return read_mended(msgspec.json.Decoder(Row).decode, as_utf8(body, prefers_utf8=True))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"the answer is no such JSON: {error}") from None


def needed(row: Row, name: str) -> str:
    """Returns a text that each row must have. Raises ParseError."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ParseError(f"it has no {name}")
    return value


def trend(look: VisitContext, name: str, rank: int | None, raw: bytes, *, tag: str = "", **told: Any) -> Trend:
    """Makes the trend of a tag or topic at a visit.

    `raw`: the row. `tag`: the tag, if it is not made from the name. `told`: further fields of the record.
    """
    source, region, period, looked_at, provenance = look
    return Trend(
        source=source,
        region=region,
        period=period,
        looked_at=looked_at,
        tag=tag or normal_tag(name),
        name=name.strip(),
        rank=rank,
        provenance=provenance,
        raw=ranked(rank, raw),
        **told,
    )


def hashtag(look: VisitContext, name: str, raw: bytes, **told: Any) -> Hashtag:
    """Makes the hashtag of a visit, regardless of the rank."""
    return Hashtag(
        source=look.source, tag=normal_tag(name), name=name.strip(), provenance=look.provenance, raw=raw, **told
    )


def ranked(rank: int | None, raw: bytes) -> bytes:
    """Returns the raw part of a Trend: the row, and its rank in the response."""
    return b'{"rank":%b,"row":%b}' % (msgspec.json.encode(rank), raw)


def volume_of(text: str | None) -> int | None:
    """Returns the number in `20K+`, `1,000+`, `1.5M`, `200`, which is a lower bound. None for any other text."""
    found = _is_number((text or "").strip())
    if not found:
        return None
    number = int(Decimal(found[1].replace(",", "")) * _UNITS[(found[2] or "").upper()])
    return number if number <= MOST_INT else None


def number_of(value: Any) -> int | None:
    """Returns a count given as a number or as a text of digits. APIs write numbers as text that exceed a double."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST_INT else None


def epoch(value: Any) -> datetime | None:
    """Returns a point in time from seconds of the epoch, given as number or text."""
    seconds = number_of(value)
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def tags_in(text: str) -> list[str]:
    """Returns the hashtags in a text without `#`: letters, digits and _, but not digits alone."""
    found = ("".join(takewhile(is_of_tag, each)) for each in _begun_like_tags(text))
    return [each for each in found if any(map(str.isalpha, each))]


def web(*values: Any) -> str | None:
    """Returns the first web address among the values."""
    return next((each for each in values if isinstance(each, str) and each.startswith(("https://", "http://"))), None)


def webs(values: Sequence[Any]) -> tuple[str, ...]:
    """Returns the web addresses among the values, each once."""
    return tuple(dict.fromkeys(each for each in values if web(each)))
