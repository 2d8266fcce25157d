"""What a site's answers mean, where it differs from others."""

from harvester.sites.part import Part


class Judging(Part):
    """The table `[<site>.judging]`."""
