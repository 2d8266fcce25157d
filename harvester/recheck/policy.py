"""What a policy of re-checks is told of earlier looks, what it answers, and what of them is kept for it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from harvester.wire import OnTheWire

DAY_S = 86_400.0

HISTORY = 31
"""Looks of an item that policies read: thirty, and the one before, from which the oldest of them is measured."""


class Look(msgspec.Struct, OnTheWire, frozen=True):
    """One look at an item, as its history keeps it."""

    at: float
    """Unix seconds."""
    found: int | None
    """How many new things; None when the look failed, which says when, and nothing of what is there."""
    changed: bool | None = None
    """Of things that tell only whether they changed: `found` is then not read."""
    cost: float = 1.0
    """In requests. An answer without a body (304) costs a site less."""

    @property
    def failed(self) -> bool:
        return self.found is None and self.changed is None

    @property
    def new(self) -> bool:
        """Whether it found anything new."""
        return bool(self.found) if self.changed is None else self.changed


def kept(looks: Sequence[Look]) -> list[Look]:
    """What the history of an item keeps: the last looks that did not fail, and the last one."""
    last = [look for look in looks if not look.failed or look is looks[-1]]
    return last[-HISTORY - last[-1].failed :] if last else []


class Due(NamedTuple):
    """When an item is looked at next, in Unix seconds, and why then, in a sentence for a person."""

    at: float
    why: str


class VisitPolicy(Protocol):
    """When an item is due. `str` gives the text that `read_policy` reads, which is how a job's document keeps it."""

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        """When `key` is looked at next, after these looks, the latest last; without any `now` is what counts."""
        ...
