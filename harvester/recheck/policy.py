"""What a policy of re-checks is asked, and what it answers."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

DAY_S = 86_400.0

HISTORY = 30
"""No policy reads more than so many of an item's last looks: older ones need not be kept."""


class Look(msgspec.Struct, frozen=True):
    """One look at an item, as its history keeps it."""

    at: float
    """Unix seconds."""
    found: int | None
    """How many new things; None when the look failed, which says when, and nothing of what is there."""
    changed: bool | None = None
    """Of things that tell only whether they changed: `found` is then not read."""
    cost: float = 1.0
    """In requests. An answer without a body (304) costs a site less."""


class Due(NamedTuple):
    """When an item is looked at next, in Unix seconds, and why then, in a sentence for a person."""

    at: float
    why: str


class Policy(Protocol):
    """When an item is due. `str` gives the text that `read_policy` reads, which is how a job's document keeps it."""

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        """When `key` is looked at next, after these looks, the latest last; without any `now` is what counts."""
        ...
