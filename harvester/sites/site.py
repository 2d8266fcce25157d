"""One entry of the registry."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from harvester.outcomes.outcome import Outcome
from harvester.outcomes.policies import Policy
from harvester.sites.breaker import SiteBreaker
from harvester.sites.browser import RenderOptions
from harvester.sites.http import SiteHttp
from harvester.sites.identities import Identities
from harvester.sites.outcomes import SiteOutcomes
from harvester.sites.part import Part
from harvester.sites.politeness import Politeness
from harvester.sites.proxy import SiteProxy

MOST_NAME = 260
"""Characters of a site's name: a host name and its port have no more."""
_is_host = re.compile(r"(?:\*\.)?(?:[\w-]+\.)*[\w-]+(?::\d{1,5})?|\[[0-9a-f:]+\](?::\d{1,5})?").fullmatch
_is_wildcard_with_port = re.compile(r"\*.*:\d+").fullmatch
_host_in = re.compile(r"(?:\w+:)?//(?:[^/@]*@)?([^/?#]+)|([^/?#]+)[/?#]").match
"""Of an address, with a scheme or without: its host."""


def _host(value: str) -> str:
    """As addresses name it: in small letters, an international name in its ASCII form."""
    if found := _host_in(value):
        raise ValueError(f"{value!r} is an address; name its host alone: {(found[1] or found[2])!r}")
    host = value.lower()
    if not _is_host(host):
        raise ValueError(f"{value!r} is no host; give one like 'example.org', 'example.org:8080' or '*.example.org'")
    if _is_wildcard_with_port(host):
        raise ValueError(f"{value!r}: leave the port out; a host with * is meant with every port")
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Host = Annotated[str, AfterValidator(_host)]


class Site(Part):
    """A county, a network, an API. All that is not written in its entry has the default of its table."""

    name: str = Field(min_length=1, max_length=MOST_NAME)
    """Its key in the frontier, the throttle, the breaker and in stats. Of an unregistered host: the host."""
    hosts: Annotated[tuple[Host, ...], BeforeValidator(_listed)] = Field(min_length=1)
    """`example.org`, `example.org:8080`, or `*.example.org` for all hosts below it."""
    politeness: Politeness = Politeness()
    breaker: SiteBreaker = SiteBreaker()
    outcomes: SiteOutcomes = SiteOutcomes()
    identities: Identities = Identities()
    proxy: SiteProxy = SiteProxy()
    browser: RenderOptions = RenderOptions()
    http: SiteHttp = SiteHttp()


def policy_of(site: Site, outcome: Outcome) -> Policy:
    """The row of the common table, with what the site's entry says otherwise."""
    return site.outcomes.policy_table[outcome]
