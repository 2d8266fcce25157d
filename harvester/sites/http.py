"""How a site is spoken to: the version of HTTP."""

from harvester.sites.part import Part


class SiteHttp(Part):
    """The table `[<site>.transport]`."""

    http2: bool = False
    """Whether its https addresses are asked by HTTP/2. Where the server knows only HTTP/1.1, they are asked by that."""
