"""Addresses found in data: which of them may be asked without leading into a private network."""

import ipaddress
import re
import socket
import unicodedata
from functools import lru_cache
from urllib.parse import urlsplit

from yarl import URL

from harvester.config import Config

MOST_NAME, MOST_LABEL = 253, 63
"""Characters of a host name, and of what stands between its dots (RFC 1035)."""
MOST_SHOWN = 80

_is_host = re.compile(r"[a-z0-9_.:-]+", re.IGNORECASE).fullmatch
_has_odd_character = re.compile(r"[\s\\\x00-\x1f\x7f]").search
_PRIVATE_SUFFIXES = (".localhost", ".local", ".localdomain", ".internal", ".home.arpa", ".intranet", ".lan")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def host_of(url: str) -> str:
    """Host and port of a request's address, as logs and stats may show them: no user, no password, no endless name."""
    return urlsplit(url).netloc.rpartition("@")[2][:MOST_NAME]


@lru_cache(maxsize=4096)
def fault_of(netloc: str) -> str | None:
    """Why no server can be at this host and port, or None when one can: there, the network is asked."""
    try:
        parts = urlsplit(f"//{netloc}")
        host, _ = parts.hostname or "", parts.port
        if not host:
            return "the address names no host"
        if "[" in netloc:
            ipaddress.ip_address(host)
            return None
        name = (host if host.isascii() else URL.build(scheme="http", host=host).raw_host or "").removesuffix(".")
    except ValueError as error:
        return f"{netloc.rpartition('@')[2][:MOST_SHOWN]} is no host: {error}"[: 2 * MOST_SHOWN]
    if len(name) > MOST_NAME:
        return f"the host name {name[:MOST_SHOWN]}... has {len(name)} characters; at most {MOST_NAME} are possible"
    for label in name.split("."):
        if not 0 < len(label) <= MOST_LABEL:
            said = f"a part of {len(label)} characters; 1 to {MOST_LABEL} are possible"
            return f"the host name {name[:MOST_SHOWN]} has {said}"
    return None if _is_host(name) else f"the host name {name[:MOST_SHOWN]!r} holds a character that none can have"


def refuse_private(url: str, config: Config) -> str | None:
    """Why `url` must not be asked, or None when it may be.

    Refused are schemes other than http and https, addresses that libraries read in different ways, and (unless
    `allow_private_hosts`) this machine and private networks. A public name that resolves to a private address
    is not seen here: nothing is looked up.
    """
    if _has_odd_character(url):
        return "the address holds white space, a backslash or a control character"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"not an address: {error}"
    if parts.scheme not in ("http", "https"):
        return f"only http and https are asked, not {parts.scheme or 'an address without a scheme'}"
    # As resolvers do, so that full-width digits and ideographic full stops cannot hide an address.
    host = unicodedata.normalize("NFKC", host or "").replace("。", ".").rstrip(".")
    if not host:
        return "the address names no host"
    if not config.allow_private_hosts and _is_private(host.lower()):
        return f"{host} is this machine or in a private network (HARVESTER_ALLOW_PRIVATE_HOSTS permits it)"
    return None


def _is_private(host: str) -> bool:
    address = _literal(host)
    if address is not None:
        return any(not a.is_global or a.is_multicast for a in (address, *_embedded(address)))
    if host.isascii() and not _is_host(host):
        return True  # percent-encoded or otherwise disguised
    return "." not in host or host.endswith(_PRIVATE_SUFFIXES)


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that `host` is, also in the short, octal and hexadecimal forms that resolvers accept."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeEncodeError):
        return None


def _embedded(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(address.packed[-4:]))
    return [embedded for embedded in found if embedded is not None]
