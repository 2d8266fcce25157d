"""How much work a body is to whoever parses it as spiders do. Pure functions, for a process that has bounds."""

import json
from contextlib import suppress

from lxml import etree

_XML = b"<?xml"
_BLANKS = b"\xef\xbb\xbf \t\r\n\0"
"""Before what a body begins with."""


def may_be_json(body: bytes) -> bool:
    """Tells whether a body begins as JSON does."""
    return body[:200].lstrip(_BLANKS)[:1] in (b"{", b"[")


def count_elements(body: bytes, encoding: str) -> int:
    """Parses a body as Scrapy's responses do, and returns the number of its elements; 0 when it is JSON, or text."""
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
