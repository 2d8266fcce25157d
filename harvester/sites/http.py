"""The version of HTTP that a site is requested with."""

from harvester.sites.part import Part


class SiteHttp(Part):
    """The table `[<site>.http]`."""

    http2: bool = False
    """True if https addresses are requested by HTTP/2. A server with only HTTP/1.1 is requested by that."""
