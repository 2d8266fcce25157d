"""The input and the result of a policy: visits and due times, and the part of the visits that is saved."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from harvester.wire import OnTheWire

DAY_S = 86_400.0

HISTORY = 31
"""Number of an item's visits that policies read: thirty, and one more as the start of the oldest interval."""


class Look(msgspec.Struct, OnTheWire, frozen=True):
    """One visit of an item, as its history stores it."""

    at: float
    """Unix seconds."""
    found: int | None
    """Number of new things; None for a failed visit, which proves nothing about the item."""
    changed: bool | None = None
    """True or False for an item that shows only whether it changed; `found` is then not read."""
    cost: float = 1.0
    """Cost in requests. A response without a body (304) costs a site less."""

    @property
    def failed(self) -> bool:
        return self.found is None and self.changed is None

    @property
    def new(self) -> bool:
        """Returns True if the visit found anything new."""
        return bool(self.found) if self.changed is None else self.changed


def kept(looks: Sequence[Look]) -> list[Look]:
    """Returns the visits to save: the last ones that did not fail, and the last one in any case."""
    last = [look for look in looks if not look.failed or look is looks[-1]]
    return last[-HISTORY - last[-1].failed :] if last else []


class Due(NamedTuple):
    """The time of an item's next visit, in Unix seconds, and the reason in a sentence for a person."""

    at: float
    why: str


class VisitPolicy(Protocol):
    """Decides when an item is due. A job's document stores the policy as its `str`, and `read_policy` reads that
    text."""

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        """Returns the next visit of `key` after these visits, the latest last. Without visits `now` counts."""
        ...
