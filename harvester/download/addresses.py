"""Decides which addresses can be requested, and which may be: an address in a private network may not."""

import ipaddress
import re
import socket
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from scrapy.exceptions import IgnoreRequest

from harvester.config import Config
from harvester.hosts import ascii_host

MOST_NAME, MOST_LABEL = 253, 63
"""Maximum characters of a host name, and of a part between its dots (RFC 1035)."""
MOST_SHOWN = 80


class Refused(IgnoreRequest):
    """Raised for a request that must not be sent: robots.txt, a purge or its address forbids it.

    A request that a project's own middleware ignores is different: nothing counts as its cause.
    """


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_is_host = re.compile(r"[a-z0-9_.:-]+", re.IGNORECASE).fullmatch
_has_odd_character = re.compile(r"[\s\\\x00-\x1f\x7f]").search
_PRIVATE_SUFFIXES = (".localhost", ".local", ".localdomain", ".internal", ".home.arpa", ".intranet", ".lan")
_ENDING_IN_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
"""IPv4-compatible, SIIT and NAT64 addresses: their last four bytes are an IPv4 address."""
_LOCAL: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = (
    *map(ipaddress.IPv6Network, ("fec0::/10", "64:ff9b:1::/48")),
    *map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24")),
)
"""Networks that Python before 3.12.4 calls global: site-local addresses, NAT64 within a network (RFC 8215), protocols,
and relays for 6to4 (RFC 6890, 7526)."""


def host_of(url: str) -> str:
    """Returns host and port of an address for logs and stats: without user and password, and limited in length."""
    return urlsplit(url).netloc.rpartition("@")[2][:MOST_NAME]


def origin_of(url: str) -> str:
    """Returns scheme, host and port of an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}"


@lru_cache(maxsize=4096)
def fault_of(netloc: str) -> str | None:
    """Returns the reason why no server can be at this host and port. None if one can be there, which only the network
    shows."""
    try:
        parts = urlsplit(f"//{netloc}")
        host, _ = parts.hostname or "", parts.port
        if not host:
            return "the address names no host"
        if "[" in netloc:
            ipaddress.ip_address(host)
            return None
        name = ascii_host(host).removesuffix(".")
    except ValueError as error:
        return f"{netloc.rpartition('@')[2][:MOST_SHOWN]} is no host: {error}"[: 2 * MOST_SHOWN]
    if len(name) > MOST_NAME:
        return f"the host name {name[:MOST_SHOWN]}... has {len(name)} characters; at most {MOST_NAME} are possible"
    for label in name.split("."):
        if not 0 < len(label) <= MOST_LABEL:
            said = f"a part of {len(label)} characters; 1 to {MOST_LABEL} are possible"
            return f"the host name {name[:MOST_SHOWN]} has {said}"
    return None if _is_host(name) else f"the host name {name[:MOST_SHOWN]!r} holds a character that none can have"


def unusable(url: str) -> str | None:
    """Returns the reason why `url` cannot be requested over http or https, None if it can."""
    if _has_odd_character(url):
        return "the address holds white space, a backslash or a control character"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return f"not an address: {error}"[: 2 * MOST_SHOWN]
    if parts.scheme not in ("http", "https"):
        return f"only http and https are asked, not {parts.scheme[:MOST_SHOWN] or 'an address without a scheme'}"
    return fault_of(parts.netloc)


def refuse_private(url: str, config: Config) -> str | None:
    """Returns the reason why `url` must not be requested, None if it may be.

    It refuses unusable addresses, and (unless the settings permit it) this machine and private networks, as far as the
    name shows. The target of a public name is checked when a connection is made: see `permitted`.
    """
    if fault := unusable(url):
        return fault
    parts = urlsplit(url)
    host = parts.hostname or ""
    # ascii_host: full-width digits, ideographic full stops and escapes cannot hide an address
    host = (host if ":" in host else ascii_host(host)).rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not host:
        return "the address names no host"
    return _refusal(host, host) if _is_private(host) and not _is_own(host, port, config) else None


def is_of_others(url: str, config: Config) -> bool:
    """Returns True if a usable address leads beyond this machine and private networks, as far as the name shows."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return not _is_private(host) and not _is_named(host, parts.port, config)


def permitted(host: str, port: int, addresses: Sequence[str], config: Config) -> list[str]:
    """Returns the addresses of a host that may be connected to. Raises Refused if all are forbidden."""
    if _is_own(host.rstrip(".").lower(), port, config):
        return list(addresses)
    public = [address for address in addresses if not _is_private(address)]
    if addresses and not public:
        raise Refused(_refusal(host[:MOST_SHOWN], addresses[0]))
    return public


def _refusal(host: str, address: str) -> str:
    where = host if host == address else f"{host} leads to {address}, which"
    return f"{where} is this machine or in a private network (HARVESTER_PRIVATE_HOSTS permits a host)"


def _is_own(host: str, port: int, config: Config) -> bool:
    """Returns True if the settings permit the host to be in a private network."""
    return config.allow_private_hosts or _is_named(host, port, config)


def _is_named(host: str, port: int | None, config: Config) -> bool:
    """Returns True if HARVESTER_PRIVATE_HOSTS names the host."""
    shown = f"[{host}]" if ":" in host else host
    return not {shown, f"{shown}:{port}"}.isdisjoint(_named(config.private_hosts))


@lru_cache(maxsize=16)
def _named(hosts: str) -> frozenset[str]:
    return frozenset(host.strip().lower() for host in hosts.split(","))


@lru_cache(maxsize=4096)
def _is_private(host: str) -> bool:
    address = _literal(host)
    if address is not None:
        addresses = (address, *_embedded(address))
        return any(not a.is_global or a.is_multicast or _is_in(a, _LOCAL) for a in addresses)
    if host.isascii() and not _is_host(host):
        return True  # percent-encoded or otherwise disguised
    return "." not in host or host.endswith(_PRIVATE_SUFFIXES)


def _literal(host: str) -> _Address | None:
    """Returns the IP address that `host` is, also in the short, octal and hexadecimal forms that resolvers accept."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeEncodeError):
        return None


def _embedded(address: _Address) -> list[ipaddress.IPv4Address]:
    """Returns the IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if _is_in(address, _ENDING_IN_IPV4):
        found.append(ipaddress.IPv4Address(address.packed[-4:]))
    return [embedded for embedded in found if embedded is not None]


def _is_in(address: _Address, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    return any(address in network for network in networks)
