"""An answer must be UTF-8 in all its parts, also in those that no record is read from."""

import pytest

from harvester.exceptions import ParseError
from harvester.parsers.bluesky.wire import PIECE_BYTES, decode_posts_page, read_page


def answer(skipped: bytes) -> bytes:
    """A page without posts, and `skipped` in a field that nobody reads."""
    return b'{"posts":[],"skipped":"' + skipped + b'"}'


@pytest.mark.parametrize("character", ["é", "日", "😀"])
@pytest.mark.parametrize("before", range(4))
def test_character_on_the_edge_of_two_pieces_is_read(character: str, before: int) -> None:
    start = len(b'{"posts":[],"skipped":"')
    body = answer(b"x" * (PIECE_BYTES - start - before) + character.encode() * PIECE_BYTES)
    assert read_page(decode_posts_page, body).posts == []


@pytest.mark.parametrize("at", [0, 1, PIECE_BYTES - 30, PIECE_BYTES, 3 * PIECE_BYTES + 7])
@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xe6\x97", b"\xf0\x9f\x98"])
def test_bad_byte_anywhere_is_a_parse_error_that_says_where(at: int, bad: bytes) -> None:
    body = answer(b"x" * at + bad + b"y" * PIECE_BYTES)
    with pytest.raises(UnicodeDecodeError) as wanted:
        str(body, "utf-8")
    with pytest.raises(ParseError) as told:
        read_page(decode_posts_page, body)
    assert str(wanted.value) in str(told.value)


@pytest.mark.parametrize("size", [1, PIECE_BYTES, PIECE_BYTES + 3, 2 * PIECE_BYTES])
def test_answer_that_ends_within_a_character_is_a_parse_error(size: int) -> None:
    with pytest.raises(ParseError, match="unexpected end of data"):
        read_page(decode_posts_page, b"x" * (size - 1) + "日".encode()[:1])
