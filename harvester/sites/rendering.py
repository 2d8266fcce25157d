"""Whether and how a browser renders a site's pages."""

from harvester.sites.part import Part


class Rendering(Part):
    """The table `[<site>.rendering]`."""
