"""Converts the ampersands in XML as sites send it into valid references. Pure."""

import re
import sys
from html import unescape
from html.entities import html5

_PROLOG_BYTES = 10_000
_declared = re.compile(rb"<!ENTITY\s+([\w.-]+)\s").findall
_ampersands = re.compile(
    rb"<!\[CDATA\[(?:.*?\]\]>|.*)|"
    rb"&(?!(?:amp|lt|gt|quot|apos);)(?:#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?|([A-Za-z][A-Za-z0-9.-]{0,40});)?",
    re.DOTALL,
).sub


def with_references(text: bytes) -> bytes:
    """Returns XML in UTF-8 whose ampersands all begin a reference, read as browsers would read it.

    A lone ampersand becomes `&amp;`, HTML's entities become their characters, and a number without a character becomes
    U+FFFD. Entities that the document declares stay, and so does CDATA.
    """
    if b"&" not in text:
        return text
    declared = frozenset(_declared(text[:_PROLOG_BYTES]))

    def reference(found: re.Match[bytes]) -> bytes:
        hexadecimal, decimal, name = found.groups()
        if hexadecimal or decimal:
            return b"&#%d;" % (_number(hexadecimal, 16) if hexadecimal else _number(decimal, 10))
        if found[0].startswith(b"<") or (name and name in declared):
            return found[0]
        if name and f"{name.decode()};" in html5:
            return "".join(f"&#{ord(each)};" for each in unescape(found[0].decode())).encode()
        return b"&amp;" + found[0][1:]

    return _ampersands(reference, text)


def _number(digits: bytes, base: int) -> int:
    digits = digits.lstrip(b"0") or b"0"
    number = int(digits, base) if len(digits) < 8 else sys.maxunicode + 1
    return 0xFFFD if number > sys.maxunicode or 0xD800 <= number < 0xE000 else number
