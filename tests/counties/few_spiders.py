"""Settings of a project that reads fewer platforms than the registry knows."""

from harvester.settings import *  # noqa: F403

SPIDER_MODULES = [f"harvester.spiders.counties.{platform}" for platform in ("arcgis", "iasworld", "vgsi")]
