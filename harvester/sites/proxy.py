"""The settings of a site's proxies."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harvester.sites.part import Part
from harvester.sites.proxy_spec import MOST_SESSION_MINUTES, Geo, ProxySpec, Tier, Vendor


class Price(Part):
    """The price of a tier."""

    usd_per_gb: float = Field(0.0, ge=0)
    usd_per_request: float = Field(0.0, ge=0)


class Prices(Part):
    """The prices by tier."""

    datacenter: Price | None = None
    isp: Price | None = None
    residential: Price | None = None
    mobile: Price | None = None

    def of(self, tier: Tier) -> Price | None:
        """Returns the price of a tier, None without one."""
        price: Price | None = None if tier is Tier.NONE else getattr(self, tier)
        return price


class TierPlaces(Part):
    """Locations of the exits by tier, for tiers that differ from the others."""

    datacenter: Geo | None = None
    isp: Geo | None = None
    residential: Geo | None = None
    mobile: Geo | None = None

    def of(self, tier: Tier) -> Geo | None:
        """Returns the location of a tier, None without one."""
        place: Geo | None = None if tier is Tier.NONE else getattr(self, tier)
        return place


class ProxyBudget(Part):
    """The limits for all workers together in a day (UTC), over all tiers except `none`. None means no limit."""

    requests: int | None = Field(None, ge=0)
    megabytes: float | None = Field(None, ge=0)
    """Megabytes received, counted on the wire."""
    usd: float | None = Field(None, ge=0)
    """Needs prices."""


class SiteProxy(Part):
    """The table `[<site>.proxy]`."""

    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)] = (Tier.NONE,)
    """Tiers, the cheapest first. A request moves to the next one when the policy for its outcome says `escalate`."""
    vendor: Vendor | None = None
    """The vendor of the proxies."""
    country: str = ""
    """Country such as `us`; empty for any."""
    state: str = ""
    city: str = ""
    zip: str = ""
    places: TierPlaces = TierPlaces()
    """Tier -> its own country, state, city and zip, in place of those above."""
    sticky: Literal["none", "chain", "account"] = "none"
    """Requests that keep one address: none, those in a chain, or all of an account."""
    session_minutes: int | None = Field(None, ge=1, le=MOST_SESSION_MINUTES)
    """Minutes that the vendor keeps the address, for vendors with that option."""
    strict: bool = False
    """True if a sticky request fails rather than leave by another address."""
    budget: ProxyBudget = ProxyBudget()
    prices: Prices = Prices()
    cheaper_again_s: float = Field(3600.0, gt=0)
    """Seconds that a more expensive tier is used before one request tries the cheaper one again."""

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if list(self.tiers) != sorted(set(self.tiers), key=list(Tier).index):
            raise ValueError("tiers go from the cheapest to the dearest: none, datacenter, isp, residential, mobile")
        unused = [tier for tier in Tier if self.places.of(tier) and tier not in self.tiers]
        if unused:
            raise ValueError(f"places names a tier that is not among the tiers: {', '.join(unused)}")
        if not self.is_proxied:
            return self
        if self.vendor is None:
            raise ValueError("tiers beside none need a vendor: list, brightdata, oxylabs or zyte")
        if self.sticky == "none" and (self.strict or self.session_minutes):
            raise ValueError("strict and session_minutes need sticky")
        paid = [tier for tier in self.tiers if tier is not Tier.NONE]
        if self.budget.usd is not None and not all(map(self.prices.of, paid)):
            raise ValueError("a budget in usd needs the price of each tier")
        for tier in paid:
            self.spec(tier, "" if self.sticky == "none" else "any")
        return self

    @property
    def is_proxied(self) -> bool:
        """True if any request goes through a proxy."""
        return self.tiers != (Tier.NONE,)

    def place(self, tier: Tier) -> Geo:
        """Returns the location of a tier's exits."""
        return self.places.of(tier) or Geo(country=self.country, state=self.state, city=self.city, zip=self.zip)

    def spec(self, tier: Tier, session_id: str = "") -> ProxySpec:
        """Returns the request to the vendor. Raises ValueError when the vendor cannot fulfil it."""
        assert self.vendor is not None
        return ProxySpec(
            vendor=self.vendor,
            tier=tier,
            geo=self.place(tier),
            session_id=session_id,
            session_ttl=self.session_minutes if session_id else None,
            strict=self.strict and bool(session_id),
        )
