"""`harvester feed` reads lines, whatever is between them."""

import tracemalloc
from io import BufferedReader, BytesIO
from typing import Any, cast

import pytest

from harvester.cli.feed import MOST_LINE_BYTES, _as_utf8, _Lines


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_lines_are_read_in_their_encoding(encoding: str) -> None:
    source = BufferedReader(cast(Any, BytesIO("alice.test\r\nbob.test\r\n".encode(encoding))))
    lines = _Lines("bluesky", _as_utf8(source))
    assert list(map(bytes.decode, lines)) == ["alice.test", "bob.test"]
    assert lines.bad == 0


@pytest.mark.parametrize("end", [b"\nbob.test\n", b"\nbob.test", b""])
def test_a_line_that_is_too_long_is_left_out_and_takes_no_more_memory_than_one_that_is_not(
    end: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    source = BytesIO(b"alice.test\n" + b"x" * (32 * MOST_LINE_BYTES) + end)
    lines = _Lines("bluesky", source)
    tracemalloc.start()
    try:
        assert list(lines) == [b"alice.test", *([b"bob.test"] if end else [])]
        assert tracemalloc.get_traced_memory()[1] < 8 * MOST_LINE_BYTES
    finally:
        tracemalloc.stop()
    assert lines.bad == 1
    assert "Line 2, 'xxx" in (said := capsys.readouterr().err)
    assert f"{MOST_LINE_BYTES:,}" in said
