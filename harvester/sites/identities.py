"""Who asks a site: logins, pools of identities, heartbeats."""

from harvester.sites.part import Part


class Identities(Part):
    """The table `[<site>.identities]`."""
