"""The platforms of property records: harvester's own, and those that installed packages add.

A package adds one by an entry point in the group `harvester.platforms`: the name of the platform, and its spider.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, get_args

from harvester.validation import did_you_mean

Platform = Literal[
    "arcgis", "beacon", "devnet", "eagleweb", "esearch", "iasworld", "pacs", "patriot", "socrata", "vgsi"
]
"""The platforms that harvester itself reads."""
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "arcgis": ("parcel_id_field", "where"),
    "beacon": ("App", "AppID", "LayerID", "PageID"),
    "devnet": (),
    "eagleweb": (),
    "esearch": (),
    "iasworld": ("jur", "sjur"),
    "pacs": ("cid",),
    "patriot": (),
    "socrata": ("parcel_id_field", "where"),
    "vgsi": (),
}
"""Names of the parameters that an entry may give a platform, spelt as in the platform's own addresses."""
GROUP = "harvester.platforms"


@cache
def added_platforms() -> Mapping[str, EntryPoint]:
    """Returns the platforms of installed packages, by name, without any that has the name of harvester's own."""
    return {each.name: each for each in entry_points(group=GROUP) if each.name not in PARAMETERS}


def platform_names() -> list[str]:
    """Returns the names of all platforms, harvester's own first."""
    return [*get_args(Platform), *sorted(added_platforms())]


def check_platform(name: str) -> str:
    """Returns the name. Raises ValueError when no spider for such a platform is installed."""
    if name not in PARAMETERS and name not in added_platforms():
        known = platform_names()
        there_are = f"; there are {', '.join(known)}, and those of packages with an entry point in {GROUP}"
        raise ValueError(f"{name!r} is no platform{did_you_mean(name, known) or there_are}")
    return name


def get_parameters(name: str) -> tuple[str, ...]:
    """Returns the names of a platform's parameters. A package's spider has them in `PARAMETERS`."""
    if name in PARAMETERS:
        return PARAMETERS[name]
    return tuple(getattr(added_platforms()[name].load(), "PARAMETERS", ()))
