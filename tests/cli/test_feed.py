"""`harvester feed` reads lines, whatever is between them."""

import tracemalloc
from io import BytesIO

import pytest

from harvester.cli.feed import MOST_LINE_BYTES, _Lines


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
    assert "it is longer than 1,048,576 bytes." in said
