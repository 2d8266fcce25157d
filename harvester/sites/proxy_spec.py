"""The specification of a proxy, independent of a vendor."""

import re
from enum import StrEnum
from hashlib import blake2s
from ipaddress import IPv4Address
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_SESSION_MINUTES = 1440
_US_STATE = re.compile(r"[a-z]{2}").fullmatch


class Tier(StrEnum):
    """A kind of exit. The order is by price, from the cheapest."""

    NONE = "none"
    DATACENTER = "datacenter"
    ISP = "isp"
    RESIDENTIAL = "residential"
    MOBILE = "mobile"


class Vendor(StrEnum):
    """A vendor of proxies, or one's own list."""

    LIST = "list"
    BRIGHTDATA = "brightdata"
    OXYLABS = "oxylabs"
    ZYTE = "zyte"

    @property
    def opens_tls(self) -> bool:
        """True if it may answer https requests in its own name; the others open a tunnel and cannot see the content."""
        return self in (Vendor.BRIGHTDATA, Vendor.ZYTE)


class Geo(BaseModel):
    """The location of an exit. Lower case; words of a name are joined by `_`, as in `new_york`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    country: str = Field("", pattern=r"^([a-z]{2})?$")
    """ISO 3166; `eu` is a group at Bright Data."""
    state: str = Field("", pattern=r"^([a-z]+(_[a-z]+)*)?$")
    """State in the vendor's spelling: `ny` at Bright Data, `new_york` at Oxylabs."""
    city: str = Field("", pattern=r"^([a-z]+(_[a-z]+)*)?$")
    zip: str = Field("", pattern=r"^([0-9]{5})?$")

    @model_validator(mode="after")
    def _in_a_country(self) -> Self:
        if (self.state or self.city or self.zip) and not self.country:
            raise ValueError("state, city and zip need a country")
        return self


class ProxySpec(BaseModel):
    """The request to a vendor. An impossible one is refused here, before anything is sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vendor: Vendor
    tier: Tier
    geo: Geo = Geo()
    session_id: str = Field("", pattern=r"^([a-z0-9]{1,32}|\d{1,3}(\.\d{1,3}){3})?$")
    """Requests with the same id leave by one address. For Bright Data with `strict`: that address."""
    session_ttl: int | None = Field(None, ge=1, le=MOST_SESSION_MINUTES)
    """Minutes."""
    strict: bool = False
    """True if a request fails rather than leave by another address."""

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if self.tier is not Tier.NONE:
            if (self.strict or self.session_ttl) and not self.session_id:
                raise ValueError("strict and session_ttl need a session_id")
            problem = _PROBLEMS[self.vendor](self)
            if problem:
                raise ValueError(problem)
        return self


def _brightdata(spec: ProxySpec) -> str:
    geo = spec.geo
    if (geo.state or geo.zip) and spec.tier is not Tier.RESIDENTIAL:
        return "Bright Data knows state and zip for residential proxies only"
    if geo.state and not _US_STATE(geo.state):
        return "Bright Data knows a state by two letters"
    if spec.session_ttl:
        return "Bright Data has no session time"
    if spec.strict != ("." in spec.session_id):
        return "Bright Data pins an address: strict goes with an address as session_id, and only then"
    if spec.strict:
        IPv4Address(spec.session_id)
    return ""


def _oxylabs(spec: ProxySpec) -> str:
    if spec.geo.zip:
        return "Oxylabs knows no zip"
    if spec.geo.state and spec.geo.country != "us":
        return "Oxylabs knows states of the us only"
    return _no_address(spec)


def _zyte(spec: ProxySpec) -> str:
    if spec.tier not in (Tier.DATACENTER, Tier.RESIDENTIAL):
        return "Zyte API has datacenter and residential addresses"
    if spec.geo.state or spec.geo.city or spec.geo.zip:
        return "Zyte API knows countries only"
    if spec.session_ttl or spec.strict:
        return "Zyte API knows neither a session time nor strict sessions"
    return _no_address(spec)


def _list(spec: ProxySpec) -> str:
    if spec.geo.state or spec.geo.city or spec.geo.zip:
        return "a list knows countries only"
    if spec.session_ttl:
        return "a list has no session time"
    return _no_address(spec)


def _no_address(spec: ProxySpec) -> str:
    return "a session_id is letters and digits" if "." in spec.session_id else ""


_PROBLEMS = {Vendor.BRIGHTDATA: _brightdata, Vendor.OXYLABS: _oxylabs, Vendor.ZYTE: _zyte, Vendor.LIST: _list}


def session_id(spider: str, who: str, shard: int) -> str:
    """Returns the id of a session, for an account or a chain of requests (`who`). Another shard gives another
    address."""
    return blake2s(f"{spider}\0{who}\0{shard}".encode(), digest_size=8).hexdigest()
