"""How a site is spoken to: the version of HTTP."""

from harvester.sites.part import Part


class Transport(Part):
    """The table `[<site>.transport]`."""
