"""Estimates the work that parsing a body causes in a spider. Pure functions, for a bounded process."""

import json
from contextlib import suppress

from lxml import etree

_XML = b"<?xml"
_BLANKS = b"\xef\xbb\xbf \t\r\n\0"
"""Bytes before the first significant byte of a body."""


def may_be_json(body: bytes) -> bool:
    """Tells whether a body begins like JSON."""
    return body[:200].lstrip(_BLANKS)[:1] in (b"{", b"[")


def count_elements(body: bytes, encoding: str) -> int:
    """Parses a body as Scrapy's responses do. Returns the number of elements; 0 for JSON or text."""
    start = body.lstrip(_BLANKS)[:5]
    if start.startswith(b"<"):
        kind = etree.XMLParser if start == _XML else etree.HTMLParser
        with suppress(etree.XMLSyntaxError):
            root = etree.fromstring(body, kind(recover=True, huge_tree=True, encoding=encoding))
            return int(root.xpath("count(//*)")) if root is not None else 0
    elif start[:1] in (b"{", b"["):
        with suppress(ValueError, RecursionError):
            json.loads(body)
    return 0
