"""The registry of sites: what harvester knows of each, from TOML files, and what it assumes of all others."""

from harvester.sites.registry import Registry, load_sites
from harvester.sites.site import Site, policy_of

__all__ = ["Registry", "Site", "load_sites", "policy_of"]
