"""One entry of the registry."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from harvester.hosts import ascii_netloc
from harvester.outcomes.outcome import Outcome
from harvester.outcomes.policies import Policy
from harvester.sites.agreements import with_agreement
from harvester.sites.breaker import SiteBreaker
from harvester.sites.browser import RenderOptions
from harvester.sites.http import SiteHttp
from harvester.sites.identities import Identities
from harvester.sites.outcomes import SiteOutcomes
from harvester.sites.part import Part
from harvester.sites.politeness import Politeness
from harvester.sites.property import PlatformName, PropertyRecords
from harvester.sites.proxy import SiteProxy

MOST_NAME = 260
"""Maximum characters of a site's name: a host name and its port have no more."""
USUAL_PORTS = {"http": "80", "https": "443"}
"""Ports of addresses without one."""
_is_host = re.compile(r"(?:\*\.)?(?:[\w-]+\.)*[\w-]+(?::\d{1,5})?|\[[0-9a-f:]+\](?::\d{1,5})?").fullmatch
_is_wildcard_with_port = re.compile(r"\*.*:\d+").fullmatch
_host_in = re.compile(r"(?:\w+:)?//(?:[^/@]*@)?([^/?#]+)|([^/?#]+)[/?#]").match
"""Finds the host in an address, with a scheme or without."""


def _host(value: str) -> str:
    """Returns the host as addresses write it: in lower case, an international name in its ASCII form."""
    if found := _host_in(value):
        raise ValueError(f"{value!r} is an address; name its host alone: {(found[1] or found[2])!r}")
    host = value.lower()
    if not _is_host(host):
        raise ValueError(f"{value!r} is no host; give one like 'example.org', 'example.org:8080' or '*.example.org'")
    if _is_wildcard_with_port(host):
        raise ValueError(f"{value!r}: leave the port out; a host with * is meant with every port")
    return ascii_netloc(host)


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Host = Annotated[str, AfterValidator(_host)]


class Site(Part):
    """A county, a network or an API. Missing tables have their defaults."""

    name: str = Field(min_length=1, max_length=MOST_NAME)
    """Key in the frontier, the throttle, the breaker and in stats. For an unregistered host: the host."""
    hosts: Annotated[tuple[Host, ...], BeforeValidator(_listed)] = ()
    """`example.org`, `example.org:8080`, or `*.example.org` for all subdomains. A jurisdiction has none if its host
    serves others too."""
    politeness: Politeness = Politeness()
    breaker: SiteBreaker = SiteBreaker()
    outcomes: SiteOutcomes = SiteOutcomes()
    identities: Identities = Identities()
    proxy: SiteProxy = SiteProxy()
    browser: RenderOptions = RenderOptions()
    http: SiteHttp = SiteHttp()
    property: PropertyRecords | None = None
    platform: PlatformName | None = None
    """Software of a vendor's host with many jurisdictions. For a single jurisdiction it stands in `property`."""
    recording: str = Field("", max_length=200)
    """File of a recorded flow, relative to HARVESTER_SITES_DIR. `scrapy crawl flow -a recording=<name>` runs it."""

    @model_validator(mode="before")
    @classmethod
    def _of_platform(cls, entry: Any) -> Any:
        return with_agreement(entry) if isinstance(entry, dict) else entry

    @model_validator(mode="after")
    def _has_hosts(self) -> Self:
        if self.property is None:
            if not self.hosts:
                raise ValueError("name the site's `hosts`; they may be left out only beside a table `property`")
            return self
        parts = urlsplit(self.property.base_url)
        if self.hosts and not {*patterns_of(parts.scheme, parts.netloc.lower())}.intersection(self.hosts):
            raise ValueError(
                f"base_url is at {parts.netloc}, and hosts are {', '.join(self.hosts)}: name it there, or leave hosts "
                "out where it serves other jurisdictions, too"
            )
        return self


def usual_host(scheme: str, host: str) -> str:
    """Returns the host as most addresses write it: without a final dot, and without the default port."""
    name, _, port = host.rpartition(":") if host.rpartition(":")[2].isdecimal() else (host, "", "")
    name = name.removesuffix(".")
    return name if port in ("", USUAL_PORTS.get(scheme)) else f"{name}:{port}"


def patterns_of(scheme: str, host: str) -> Iterator[str]:
    """Yields the values of `hosts` that match this host, the closest first. `host` is in lower case, maybe with a
    port."""
    bare = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    labels = bare.split(".")
    yield host if bare != host else f"{host}:{USUAL_PORTS.get(scheme, '')}"
    yield bare
    yield from ("*." + ".".join(labels[first:]) for first in range(1, len(labels)))


def policy_of(site: Site, outcome: Outcome) -> Policy:
    """Returns the policy for the outcome, with the changes in the site's entry."""
    return site.outcomes.policy_table[outcome]
