"""One entry of the registry."""

from pydantic import Field

from harvester.sites.breaker import Breaking
from harvester.sites.browser import Rendering
from harvester.sites.http import Transport
from harvester.sites.identities import Identities
from harvester.sites.outcomes import Judging
from harvester.sites.part import Part
from harvester.sites.politeness import Politeness
from harvester.sites.proxy import Proxying

MOST_NAME = 260
"""Characters of a site's name: a host name and its port have no more."""


class Site(Part):
    """A county, a network, an API. All that is not written in its entry has the default of its table."""

    name: str = Field(min_length=1, max_length=MOST_NAME)
    """Its key in the frontier, the throttle, the breaker and in stats. Of an unregistered host: the host."""
    hosts: tuple[str, ...] = Field(min_length=1)
    """`example.org`, `example.org:8080`, or `*.example.org` for all hosts below it."""
    politeness: Politeness = Politeness()
    breaking: Breaking = Breaking()
    judging: Judging = Judging()
    identities: Identities = Identities()
    proxying: Proxying = Proxying()
    rendering: Rendering = Rendering()
    transport: Transport = Transport()
