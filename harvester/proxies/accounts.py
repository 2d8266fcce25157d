"""The proxies of this installation, from HARVESTER_* variables: gateways of vendors, and lists of single proxies."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.proxies.endpoints import ProxyAccount
from harvester.sites.proxy_spec import Tier, Vendor

BRIGHTDATA = "brd.superproxy.io:33335"
OXYLABS = {Tier.RESIDENTIAL: "pr.oxylabs.io:7777", Tier.MOBILE: "pr.oxylabs.io:7777"}
"""Other products have a host of their own."""
ZYTE = "api.zyte.com:8011"
_SCHEMES = ("http", "https")
_FORM = "not like http://user:password@host:port, tier, country; / ? # and % of a password are written %2F %3F %23 %25."
_ACCESS = re.compile(
    r"(?P<tier>[a-z]+)=(?P<user>[^:\s]+):(?P<password>\S+?)(?:@(?P<host>[A-Za-z0-9.-]+:\d+))?"
).fullmatch


class Proxy(NamedTuple):
    """A gateway with many exits, or one proxy of a list, with one exit."""

    name: str
    """Name for people, without credentials. It is unique for each account, because refusals and rests are stored by
    it."""
    account: ProxyAccount
    country: str = ""
    """Country of a listed proxy, if the list has it."""


def proxies_of(config: Config, vendor: Vendor, tier: Tier) -> tuple[Proxy, ...]:
    """Returns the proxies for a tier. Raises UsageError that names the variable or the line if it finds none."""
    if vendor is Vendor.LIST:
        return _listed(config.proxies_file, tier)
    if vendor is Vendor.ZYTE:
        key = _secret(config.zyte_api_key, "HARVESTER_ZYTE_API_KEY", vendor)
        return (Proxy("zyte", ProxyAccount(f"http://{ZYTE}", key)),)
    if vendor is Vendor.BRIGHTDATA:
        customer = _secret(config.brightdata_customer, "HARVESTER_BRIGHTDATA_CUSTOMER", vendor)
        zones, variable = config.brightdata_zones, "HARVESTER_BRIGHTDATA_ZONES"
        before, host = f"brd-customer-{customer}-zone-", BRIGHTDATA
    else:
        zones, variable = config.oxylabs_users, "HARVESTER_OXYLABS_USERS"
        before, host = "customer-", OXYLABS.get(tier, "")
    for access in _accesses(_secret(zones, variable, vendor), variable):
        if access["tier"] == tier:
            address = access["host"] or host
            if not address:
                raise UsageError(f"{variable}: the access of the tier {tier} needs an @host:port at its end.")
            user, password = unquote(access["user"]), unquote(access["password"])
            return (Proxy(f"{vendor}-{tier}", ProxyAccount(f"http://{address}", before + user, password)),)
    raise UsageError(f"{variable} has no access of the tier {tier}, which a site's entry wants.")


def _accesses(text: str, variable: str) -> Iterator[dict[str, str]]:
    for number, word in enumerate(text.split(), 1):
        match = _ACCESS(word)
        if match is None or match["tier"] not in set(Tier) - {Tier.NONE}:
            raise UsageError(
                f"{variable}: entry {number} is not like tier=user:password or tier=user:password@host:port."
            )
        yield match.groupdict(default="")


def _secret(secret: SecretStr | None, variable: str, vendor: Vendor) -> str:
    value = secret.get_secret_value().strip() if secret else ""
    if not value:
        raise UsageError(f"A site's entry wants proxies of {vendor}. Set {variable}.")
    return value


def _listed(path: Path | None, tier: Tier) -> tuple[Proxy, ...]:
    if path is None:
        raise UsageError("A site's entry wants proxies of a list. Set HARVESTER_PROXIES_FILE.")
    found: dict[ProxyAccount, Proxy] = {}
    for of_tier, proxy in read_list(path):
        if of_tier is tier:
            found.setdefault(proxy.account, proxy)
    if not found:
        raise UsageError(f"{path} has no proxy of the tier {tier}, which a site's entry wants.")
    return tuple(found.values())


def read_list(path: Path) -> list[tuple[Tier, Proxy]]:
    """Reads the lines of a list. Raises UsageError that names a line that is invalid."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # editors on Windows write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"HARVESTER_PROXIES_FILE: {path} cannot be read: {error}.") from None
    names: dict[ProxyAccount, str] = {}
    found: list[tuple[Tier, Proxy]] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            tier, proxy = _read(words, f"{path}, line {number}")
            if proxy.account not in names:  # one address may have several users; one user is one proxy in every tier
                taken = proxy.name in names.values()
                names[proxy.account] = f"{proxy.name}#{number}" if taken else proxy.name
            found.append((tier, proxy._replace(name=names[proxy.account])))
    return found


def _read(words: list[str], place: str) -> tuple[Tier, Proxy]:
    """Parses the words of a line. No message shows them, because any word may hold the password."""
    address, of_tier, country = (*words, *("", "")[: max(0, 3 - len(words))])[:3]
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:  # the error's text may hold the password
        raise UsageError(f"{place}: {_FORM}") from None
    if parts.scheme not in _SCHEMES:
        raise UsageError(f"{place}: proxies are spoken to by http or https, by nothing else.")
    if not host or not port or parts.path.strip("/") or parts.query or parts.fragment or len(words) > 3:
        raise UsageError(f"{place}: {_FORM}")
    if of_tier not in ("", *(set(Tier) - {Tier.NONE})):
        raise UsageError(f"{place}: the second word is none of the tiers datacenter, isp, residential, mobile.")
    if not re.fullmatch(r"([a-z]{2})?", country):
        raise UsageError(f"{place}: a country has two small letters.")
    host = f"[{host}]" if ":" in host else host
    account = ProxyAccount(
        f"{parts.scheme}://{host}:{port}", unquote(parts.username or ""), unquote(parts.password or "")
    )
    return Tier(of_tier or Tier.DATACENTER), Proxy(f"{host}:{port}", account, country)
