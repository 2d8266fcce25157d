"""When a site is left alone because its answers are bad."""

from harvester.sites.part import Part


class Breaking(Part):
    """The table `[<site>.breaking]`."""
