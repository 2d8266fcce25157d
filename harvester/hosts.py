"""Host names in one canonical form for requests, comparison and counting: the form that browsers use."""

import re
import socket
import unicodedata
from functools import lru_cache
from ipaddress import IPv4Address
from urllib.parse import unquote_to_bytes

import idna
from w3lib import _url

_FORBIDDEN = frozenset(map(chr, [*range(0x21), 0x7F, *b'"#%/:<>?@[\\]^|'])) - {'"'}
"""Characters that a host cannot hold (WHATWG URL, forbidden domain code points)."""


_authority = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)").match


@lru_cache(maxsize=8192)
def ascii_host(host: str) -> str:
    """Returns the ASCII form of a host, except an IPv6 address. Raises UnicodeError for an invalid host.

    Names are processed by UTS 46 without transition and without a limit of length (WHATWG URL, domain to ASCII): `ß`
    does not become `ss`, which is another host, and emoji are allowed. A name that ends in a number is an IPv4
    address in any of its forms.
    """
    if "%" in host:
        host = unquote_to_bytes(host).decode()
    if not host.isascii():  # an ASCII name is used unchanged, even if it decodes to an invalid name
        try:
            labels = idna.uts46_remap(host, std3_rules=False, transitional=False).split(".")
            decoded = [_decoded(label) for label in labels]
            is_bidi = any(unicodedata.bidirectional(each) in ("R", "AL", "AN") for label in decoded for each in label)
            host = ".".join(_checked(label, is_bidi=is_bidi) for label in decoded)
        except (ValueError, IndexError, OverflowError) as error:  # IDNAError is a ValueError
            raise UnicodeError(f"it is no name: {error}") from None
    host = host.lower()
    if not _FORBIDDEN.isdisjoint(host):
        raise UnicodeError("it holds a character that no host can have")
    return _as_ipv4(host) if _ends_in_number(host) else host


def ascii_netloc(netloc: str) -> str:
    """Returns the ASCII form of a host with or without a port, and without a user. Raises UnicodeError."""
    netloc = netloc.rpartition("@")[2]
    if netloc.startswith("["):
        return netloc.lower()
    host, colon, port = netloc.partition(":")
    return ascii_host(host) + colon + port


def without_user(url: str) -> str:
    """Returns a URL without its user and password, as it may be stored and shown."""
    user = user_of(url)
    return url.replace(f"{user}@", "", 1) if user else url


def user_of(url: str) -> str:
    """Returns the literal `user:password` of a URL; empty without one."""
    found = _authority(url) if "@" in url else None
    return found[1].rpartition("@")[0] if found else ""


def _decoded(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    decoded = label[4:].encode("ascii").decode("punycode")
    if decoded.isascii() or idna.uts46_remap(decoded, std3_rules=False, transitional=False) != decoded:
        raise UnicodeError(f"{label} encodes no name")
    return decoded


def _checked(label: str, *, is_bidi: bool) -> str:
    """Returns a label in ASCII after the checks that browsers make: joiners, directions, initial marks."""
    if not label.isascii():
        idna.check_initial_combiner(label)
        for at, each in enumerate(label):
            if each in "\u200c\u200d" and not idna.valid_contextj(label, at):
                raise UnicodeError(f"a joiner stands where none can in {label!r}")
    if is_bidi and label:
        idna.check_bidi(label, check_ltr=True)
    return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


def _ends_in_number(host: str) -> bool:
    last = host.removesuffix(".").rpartition(".")[2]
    return last.isdecimal() or (last.startswith("0x") and all(each in "0123456789abcdef" for each in last[2:]))


def _as_ipv4(host: str) -> str:
    """Reads the short, octal and hexadecimal forms, like 127.1 and 0x7f000001."""
    try:
        return str(IPv4Address(socket.inet_aton(host.removesuffix("."))))
    except OSError:
        raise UnicodeError("it ends in a number and is no IPv4 address") from None


def _for_w3lib(host: str) -> tuple[bytes, str]:
    found = ascii_host(host)
    return found.encode(), found


_url._idna = _for_w3lib  # type: ignore[assignment]  # w3lib, and so Scrapy, follows the standard of 2003
