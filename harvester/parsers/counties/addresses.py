"""Takes addresses apart, with the package usaddress (the extra `addresses`). Without it they stay as they are shown."""

from functools import cache
from types import ModuleType

STREET = "Street Address"
"""What usaddress calls an address that has a street; of others it makes no parts that mean something."""


def parts_of(address: str) -> dict[str, str]:
    """Its parts by the names of usaddress: AddressNumber, StreetName, OccupancyIdentifier. Empty: it is not clear."""
    package = _usaddress()
    if package is None:
        return {}
    try:
        parts, kind = package.tag(address)
    except package.RepeatedLabelError:
        return {}
    return dict(parts) if kind == STREET else {}


@cache
def _usaddress() -> ModuleType | None:
    try:
        import usaddress
    except ImportError:
        return None
    module: ModuleType = usaddress
    return module
