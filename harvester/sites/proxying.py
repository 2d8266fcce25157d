"""From where a site is asked."""

from harvester.sites.part import Part


class Proxying(Part):
    """The table `[<site>.proxying]`."""
