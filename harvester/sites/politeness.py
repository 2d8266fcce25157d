"""How fast a site may be asked, and what it says of that."""

from harvester.sites.part import Part


class Politeness(Part):
    """The table `[<site>.politeness]`."""
