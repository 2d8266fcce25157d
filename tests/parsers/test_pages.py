"""What is read from the saved pages is what is written beside them, and all of it can be kept."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions

from harvester.exceptions import ParseError
from tests.parsers.cases import PAGES, READERS, expected_file, found, page, written

AWARE: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True)
SECRET = "not to be kept"


def parts(value: Any) -> Iterator[Any]:
    """A JSON value and everything in it."""
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(part)


def test_every_saved_page_is_read() -> None:
    saved = {path.name.partition(".")[0] for path in PAGES.iterdir()}
    assert saved == READERS.keys()


@pytest.mark.parametrize("name", READERS)
def test_page_reads_as_written_down(name: str) -> None:
    assert written(name) == expected_file(name).read_text("utf-8")


@pytest.mark.parametrize("name", READERS)
def test_every_record_comes_back_from_bson_as_it_was(name: str) -> None:
    for record in found(name).records:
        document = record.to_document()
        assert bson.decode(bson.encode(document), AWARE) == _in_milliseconds(document)


def _in_milliseconds(value: Any) -> Any:
    """As MongoDB keeps it."""
    if isinstance(value, dict):
        return {key: _in_milliseconds(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_milliseconds(part) for part in value]
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return value


@pytest.mark.parametrize("name", READERS)
def test_raw_is_the_part_of_the_page_that_the_record_was_read_from(name: str) -> None:
    in_page = list(parts(json.loads(page(name))))
    records = found(name).records
    assert records
    for record in records:
        raw = json.loads(record.raw)
        assert raw in in_page or b'"purged":true' in record.raw


@pytest.mark.parametrize("name", ["followers", "profiles", "quotes", "list"])
def test_what_opted_out_accounts_wrote_is_in_no_other_account_s_records(name: str) -> None:
    assert SECRET in page(name).decode().lower()
    for record in found(name).records:
        if not record.opted_out:
            assert SECRET not in str(record.to_document()).lower()
            assert SECRET not in record.raw.decode().lower()
            assert "/bafyshy" not in record.raw.decode()


def test_what_was_reposted_is_an_edge_and_no_post() -> None:
    by_kind = {(record.KIND, record.key) for record in found("feed").records}
    assert ("repost", "did:plc:ann at://did:plc:ben/app.bsky.feed.post/shared") in by_kind
    assert all(record.belongs_to == "did:plc:ann" for record in found("feed").records)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda body: body[: len(body) // 2],
    "truncated by one byte": lambda body: body.rstrip()[:-1],
    "empty": lambda body: b"",
    "html": lambda body: b"<!DOCTYPE html><html><body>Bad Gateway</body></html>",
    "not utf-8": lambda body: b"\xff\xfe" + body,
    "utf-16": lambda body: body.decode().encode("utf-16"),
    "null": lambda body: b"null",
    "a list": lambda body: b"[" + body + b"]",
    "another answer": lambda body: b'{"unexpected":[]}',
    "text after it": lambda body: body + b"<script>",
    "nested without end": lambda body: b'{"x":' * 100_000,
}


@pytest.mark.parametrize("damage", BROKEN)
@pytest.mark.parametrize("name", [name for name in READERS if name != "profile"])
def test_answer_that_is_no_such_page_is_a_parse_error(name: str, damage: str) -> None:
    with pytest.raises(ParseError, match="answer"):
        READERS[name](BROKEN[damage](page(name)))


@pytest.mark.parametrize("damage", BROKEN)
def test_profile_that_is_none_is_a_parse_error_or_a_reject(damage: str) -> None:
    """A single profile is the whole answer: JSON that is no profile is a Reject of it."""
    body = BROKEN[damage](page("profile"))
    if damage in ("null", "a list", "another answer"):
        read = READERS["profile"](body)
        assert not read.records
        assert [reject.raw for reject in read.rejects] == [body]
    else:
        with pytest.raises(ParseError):
            READERS["profile"](body)
