"""One entry of the registry."""

from pydantic import Field

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


class Site(Part):
    """A county, a network, an API. All that is not written in its entry has the default of its table."""

    name: str = Field(min_length=1, max_length=MOST_NAME)
    """Its key in the frontier, the throttle, the breaker and in stats. Of an unregistered host: the host."""
    hosts: tuple[str, ...] = Field(min_length=1)
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
