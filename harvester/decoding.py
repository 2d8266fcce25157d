"""Decides the encoding of texts that arrive as bytes, for all kinds of documents."""

import codecs
from functools import lru_cache
from io import RawIOBase
from typing import Any

from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom, to_unicode

UTF8 = "utf-8"
_ANSI = "cp1252"
"""Windows calls it ANSI: the encoding of old servers and programs that declare none."""
_ZEROS = (
    (b"\0\0\0.", "utf-32-be"),
    (b".\0\0\0", "utf-32-le"),
    (b"\0.\0.", "utf-16-be"),
    (b".\0.\0", "utf-16-le"),
)
"""Positions of the zero bytes among the first ASCII characters (XML, appendix F.1)."""
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"})
"""Codecs of Python that a server can name, but that are not charsets."""


def encoding_of(body: bytes, content_type: str = "", *, prefers_utf8: bool = False) -> str:
    """Returns Python's name of the encoding of a text.

    A byte order mark decides, then the charset of the response's Content-Type, then the document's own XML
    declaration or meta element, as in browsers. Without these the text is UTF-8 if it is valid UTF-8, else
    Windows-1252. A text that is declared as UTF-8 but contains none is Windows-1252; mostly valid UTF-8 stays UTF-8.
    `prefers_utf8` is for kinds that are UTF-8 by their standard, like JSON and robots.txt, and for servers with wrong
    declarations: valid UTF-8 then counts as UTF-8, whatever is declared.
    """
    if certain := certain_encoding(body):
        return certain
    declared = _charset(http_content_type_encoding(content_type))
    if declared and declared.startswith(("utf-16", "utf-32")):  # the text has no mark, and may have another encoding
        declared = (declared if declared[6:] else f"{declared}-le") if b"\0" in body else UTF8
    # A declaration that is readable as ASCII proves that the text is not UTF-16.
    elif not declared and (declared := _charset(html_body_declared_encoding(body))):
        declared = UTF8 if declared.startswith(("utf-16", "utf-32")) else declared
    is_decided = declared not in (None, UTF8) and (not prefers_utf8 or declared.startswith(("iso2022", "hz")))
    if declared and is_decided:
        return declared
    is_utf8 = _is_mostly_utf8(body)
    return UTF8 if is_utf8 else (_ANSI if declared in (None, UTF8) else declared)


def decode_text(body: bytes, content_type: str = "", *, prefers_utf8: bool = False) -> str:
    """Returns the text without its byte order mark. Unreadable bytes become U+FFFD."""
    return to_unicode(body, encoding_of(body, content_type, prefers_utf8=prefers_utf8)).removeprefix("\ufeff")


def as_utf8(body: bytes, content_type: str = "", *, prefers_utf8: bool = False) -> bytes:
    """Returns the text as UTF-8, for parsers of bytes. An XML or HTML parser must be given the encoding, too."""
    encoding = encoding_of(body, content_type, prefers_utf8=prefers_utf8)
    if encoding == UTF8 and _is_utf8(body):
        return body.removeprefix(codecs.BOM_UTF8)
    return to_unicode(body, encoding).removeprefix("\ufeff").encode()


class ReadAsUtf8(RawIOBase):
    """Reads a file of another encoding as UTF-8, in pieces.

    Invalid bytes become invalid UTF-8, so that only their line is bad.
    """

    def __init__(self, source: Any, encoding: str) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)(_KEPT_BAD)
        self._ready = b""
        self._is_first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            piece = self._source.read1(_PIECE_BYTES)
            text = self._decoder.decode(piece, final=not piece)
            if self._is_first and text:
                self._is_first, text = False, text.removeprefix("\ufeff")
            self._ready = text.encode(errors="surrogatepass")
            if not piece:
                break
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size


_PIECE_BYTES = 64 * 1024
_KEPT_BAD = "harvester-kept-bad"


def _keep_bad(error: UnicodeError) -> tuple[str, int]:
    """Replaces bad bytes by a character that is invalid in UTF-8."""
    assert isinstance(error, UnicodeDecodeError)
    return "\udfff", error.end


codecs.register_error(_KEPT_BAD, _keep_bad)

_ZERO_OR_DOT = b"\0" + b"." * 255


def certain_encoding(start: bytes) -> str | None:
    """Returns the encoding if the first four bytes decide it: by a mark, or by the zeros of UTF-16 and UTF-32."""
    pattern = start[:4].translate(_ZERO_OR_DOT)
    return read_bom(start)[0] or next((encoding for zeros, encoding in _ZEROS if zeros == pattern), None)


@lru_cache(maxsize=256)
def _charset(encoding: str | None) -> str | None:
    """Returns the encoding, or None if Python's codec does not decode bytes to text, like base64."""
    if encoding is None or encoding in _NO_CHARSETS:
        return None
    try:
        b"a".decode(encoding, "replace")
    except LookupError:
        return None
    return encoding


def _is_mostly_utf8(body: bytes) -> bool:
    """Returns True if most non-ASCII characters are valid UTF-8: a cut or odd character does not change the rest."""
    if _is_utf8(body):
        return True
    text = body.decode("utf-8", "replace")
    odd = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) > 2 * odd


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
