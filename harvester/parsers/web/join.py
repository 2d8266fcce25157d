"""Joins addresses as browsers do (WHATWG URL). Python's `urljoin` follows RFC 3986, but sites are made for browsers."""

import re
from urllib.parse import urljoin, urlsplit

_EDGES = "".join(map(chr, range(0x21)))
_controls = re.compile(r"[\t\n\r]").sub
_ending = re.compile(r"[?#]").search
_scheme = re.compile(r"(https?):(.*)", re.IGNORECASE | re.DOTALL).fullmatch


def browser_join(base: str, address: str) -> str:
    r"""Returns the target of `address` on the page `base`, which has an http or https address. Raises ValueError.

    Surrounding white space and control characters, and line breaks within, are removed. A backslash before the query
    counts as a slash (`\\host\path` leads to another host), and three slashes count as two.
    """
    address = _controls("", address.strip(_EDGES))
    found = _ending(address)
    end = found.start() if found else len(address)
    place, rest = address[:end].replace("\\", "/"), address[end:]
    if named := _scheme(place):
        scheme, where = named[1].lower(), named[2]
        is_relative = scheme == urlsplit(base).scheme and not where.startswith("//")
        place = where if is_relative else f"{scheme}://{where.lstrip('/')}"
    elif place.startswith("//"):
        place = f"//{place.lstrip('/')}"
    elif ":" in place.partition("/")[0] and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", place):
        place = f"./{place}"
    return urljoin(base, place + rest)
