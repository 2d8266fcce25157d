"""The registry of sites: an entry for each known site, from TOML files, and the defaults for all others."""

from harvester.sites.registry import Registry, load_sites
from harvester.sites.site import Site, policy_of

__all__ = ["Registry", "Site", "load_sites", "policy_of"]
