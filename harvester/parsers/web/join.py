"""Joins addresses as browsers do (WHATWG URL). Python's `urljoin` follows RFC 3986, and sites are made for browsers."""

import re
from urllib.parse import urljoin, urlsplit

_EDGES = "".join(map(chr, range(0x21)))
_controls = re.compile(r"[\t\n\r]").sub
_ending = re.compile(r"[?#]").search
_scheme = re.compile(r"(https?):(.*)", re.IGNORECASE | re.DOTALL).fullmatch


def browser_join(base: str, address: str) -> str:
    r"""Returns where `address` leads from the page `base`, which is of http or https. Raises ValueError.

    White space and control characters around it and line breaks within it are left out, a backslash before the query
    is a slash (`\\host\path` leads to another host), and so are three slashes two.
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
