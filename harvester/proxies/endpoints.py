"""Encodes a ProxySpec for a proxy: one encoder for each vendor. Pure."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from uuid import UUID

from harvester.masking import mask
from harvester.sites.proxy_spec import ProxySpec, Tier, Vendor


@dataclass(frozen=True, slots=True)
class ProxyAccount:
    """An account at a vendor's gateway, or at one proxy of a list. Its repr shows no credentials."""

    address: str
    """Address such as `http://pr.oxylabs.io:7777`."""
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        mask.add(self.user, self.password)


@dataclass(frozen=True, slots=True)
class ProxyEndpoint:
    """A proxy with its credentials. Its repr shows none, because user names hold customer ids."""

    address: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of the request, which the vendor removes."""

    @property
    def authorization(self) -> str:
        """The value of Proxy-Authorization; empty for a proxy without credentials."""
        if not self.user:
            return ""
        return "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")


def endpoint_of(spec: ProxySpec, account: ProxyAccount) -> ProxyEndpoint:
    """Returns the endpoint that fulfils the spec with the vendor's account. `spec.tier` is not Tier.NONE."""
    assert spec.tier is not Tier.NONE
    user, headers = _ENCODERS[spec.vendor](spec, account.user)
    return ProxyEndpoint(account.address, user, account.password, headers)


def _brightdata(spec: ProxySpec, user: str) -> tuple[str, dict[str, str]]:
    """Builds `brd-customer-<id>-zone-<zone>-country-us-state-ny-city-newyork-zip-10001-session-<id>`."""
    geo = spec.geo
    options = {"country": geo.country, "state": geo.state, "city": geo.city.replace("_", ""), "zip": geo.zip}
    options["ip" if spec.strict else "session"] = spec.session_id
    return _with_options(user, options), {}


def _oxylabs(spec: ProxySpec, user: str) -> tuple[str, dict[str, str]]:
    """Builds `customer-<user>-cc-US-st-us_new_york-city-new_york-sessid-<id>-sesstime-<minutes>`."""
    geo = spec.geo
    options = {"cc": geo.country.upper(), "st": f"{geo.country}_{geo.state}" if geo.state else "", "city": geo.city}
    options["sessid_oneip" if spec.strict else "sessid"] = spec.session_id
    options["sesstime"] = str(spec.session_ttl or "")
    return _with_options(user, options), {}


def _zyte(spec: ProxySpec, user: str) -> tuple[str, dict[str, str]]:
    """Returns the API key as the user, with an empty password, and the options as headers."""
    headers = {"Zyte-IPType": spec.tier.value}
    if spec.geo.country:
        headers["Zyte-Geolocation"] = spec.geo.country.upper()
    if spec.session_id:  # Zyte wants a UUID
        digest = blake2s(spec.session_id.encode(), digest_size=16).digest()
        headers["Zyte-Session-ID"] = str(UUID(bytes=digest, version=4))
    return user, headers


def _list(spec: ProxySpec, user: str) -> tuple[str, dict[str, str]]:
    return user, {}


_ENCODERS = {Vendor.BRIGHTDATA: _brightdata, Vendor.OXYLABS: _oxylabs, Vendor.ZYTE: _zyte, Vendor.LIST: _list}


def _with_options(user: str, options: Mapping[str, str]) -> str:
    return "-".join([user, *(f"{name}-{value}" for name, value in options.items() if value)])
